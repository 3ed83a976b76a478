"""Models in a database, for prediction: `save_to_db`, then `prepare_prediction_net` in another process.

The database holds a MetaNetDef, with the nets and the names of parameters, inputs and outputs, and the parameters.
"""

from __future__ import annotations

import collections

from caffe2lite.proto import caffe2_pb2, metanet_pb2
from caffe2lite.python import core, scope, workspace
from caffe2lite.python.predictor import predictor_py_utils as utils
from caffe2lite.python.predictor import serde
from caffe2lite.python.predictor_constants import predictor_constants


def get_predictor_exporter_helper(submodelNetName):
    """Return the meta data of a submodel: an empty net and names that end in its name."""
    return PredictorExportMeta(
        predict_net=core.Net(submodelNetName).Proto(), parameters=[], inputs=[], outputs=[], name=submodelNetName
    )


class PredictorExportMeta(
    collections.namedtuple(
        "PredictorExportMeta",
        "predict_net, parameters, inputs, outputs, shapes, name, extra_init_net, global_init_net, net_type, "
        "num_workers, trainer_prefix",
    )
):
    """What to export.

    predict_net: Net, Plan or their message; parameters, inputs, outputs: blob names; shapes: blob -> shape of inputs
    and outputs that are not in the workspace; name: a suffix for all keys, for several models in one database;
    extra_init_net, global_init_net: run with the net that makes inputs and outputs, and with the one that loads the
    parameters; net_type, num_workers: of the predict net.
    """

    def __new__(
        cls,
        predict_net,
        parameters,
        inputs,
        outputs,
        shapes=None,
        name="",
        extra_init_net=None,
        global_init_net=None,
        net_type=None,
        num_workers=None,
        trainer_prefix=None,
    ):
        inputs = [str(i) for i in inputs]
        if len(set(inputs)) != len(inputs):
            raise AssertionError(f"an input is named twice: {inputs}")
        parameters = [str(p) for p in parameters]
        outputs = [str(o) for o in outputs]
        for kind, blobs in (("inputs", inputs), ("outputs", outputs)):
            both = set(parameters).intersection(blobs)
            if both:
                raise AssertionError(f"Parameters and {kind} are required to be disjoint. Intersection: {both}")
        if isinstance(predict_net, (core.Net, core.Plan)):
            predict_net = predict_net.Proto()
        if not isinstance(predict_net, (caffe2_pb2.NetDef, caffe2_pb2.PlanDef)):
            raise AssertionError(f"predict_net is a Net, a Plan or their message, not {type(predict_net).__name__}")
        return super().__new__(
            cls,
            predict_net,
            parameters,
            inputs,
            outputs,
            shapes or {},
            name,
            extra_init_net,
            global_init_net,
            net_type,
            num_workers,
            trainer_prefix,
        )

    def _key(self, kind):
        return utils.get_comp_name(kind, self.name)

    def inputs_name(self):
        """Return the key of the inputs' names."""
        return self._key(predictor_constants.INPUTS_BLOB_TYPE)

    def outputs_name(self):
        """Return the key of the outputs' names."""
        return self._key(predictor_constants.OUTPUTS_BLOB_TYPE)

    def parameters_name(self):
        """Return the key of the parameters' names."""
        return self._key(predictor_constants.PARAMETERS_BLOB_TYPE)

    def global_init_name(self):
        """Return the key of the net that loads the parameters."""
        return self._key(predictor_constants.GLOBAL_INIT_NET_TYPE)

    def predict_init_name(self):
        """Return the key of the net that makes inputs and outputs."""
        return self._key(predictor_constants.PREDICT_INIT_NET_TYPE)

    def predict_net_name(self):
        """Return the key of the net that predicts."""
        return self._key(predictor_constants.PREDICT_NET_TYPE)

    def _train_key(self, kind):
        return self._key(f"{self.trainer_prefix}_{kind}" if self.trainer_prefix else kind)

    def train_init_plan_name(self):
        """Return the key of the plan that initializes training."""
        return self._train_key(predictor_constants.TRAIN_INIT_PLAN_TYPE)

    def train_plan_name(self):
        """Return the key of the plan that trains."""
        return self._train_key(predictor_constants.TRAIN_PLAN_TYPE)


def prepare_prediction_net(filename, db_type, device_option=None):
    """Load an exported model into the workspace, parameters and all; return its Net, ready to run."""
    meta = load_from_db(filename, db_type, device_option)
    workspace.RunNetOnce(utils.GetNet(meta, predictor_constants.GLOBAL_INIT_NET_TYPE))
    workspace.RunNetOnce(utils.GetNet(meta, predictor_constants.PREDICT_INIT_NET_TYPE))
    net = core.Net(utils.GetNet(meta, predictor_constants.PREDICT_NET_TYPE))
    workspace.CreateNet(net)
    return net


def _global_init_net(predictor_export_meta, db_type):
    """Return the NetDef that loads the parameters from the reader of the database."""
    reader, parameters = predictor_constants.PREDICTOR_DBREADER, predictor_export_meta.parameters
    net = core.Net("global-init")
    net.Load([reader], parameters)
    more = predictor_export_meta.global_init_net
    proto = net.Proto()
    proto.external_input.append(reader)
    proto.external_output.extend(parameters)
    if more:
        net.AppendNet(more)
    utils.AddModelIdArg(predictor_export_meta, proto)
    return proto


def get_meta_net_def(predictor_export_meta, ws=None, db_type=None):
    """Return the MetaNetDef to export; shapes that are not given are those in workspace `ws` (default: the current one)."""
    meta = predictor_export_meta
    ws = ws or workspace.C.Workspace.current
    meta_net_def = metanet_pb2.MetaNetDef()
    utils.AddNet(meta_net_def, meta.predict_init_name(), utils.create_predict_init_net(ws, meta))
    utils.AddNet(meta_net_def, meta.global_init_name(), _global_init_net(meta, db_type))
    utils.AddNet(meta_net_def, meta.predict_net_name(), utils.create_predict_net(meta))
    utils.AddBlobs(meta_net_def, meta.parameters_name(), meta.parameters)
    utils.AddBlobs(meta_net_def, meta.inputs_name(), meta.inputs)
    utils.AddBlobs(meta_net_def, meta.outputs_name(), meta.outputs)
    return meta_net_def


def set_model_info(meta_net_def, project_str, model_class_str, version):
    """Write project, class and version of the model into a MetaNetDef."""
    if not isinstance(meta_net_def, metanet_pb2.MetaNetDef):
        raise AssertionError(f"expected a MetaNetDef, got {type(meta_net_def).__name__}")
    meta_net_def.modelInfo.project = project_str
    meta_net_def.modelInfo.modelClass = model_class_str
    meta_net_def.modelInfo.version = version


def save_to_db(db_type, db_destination, predictor_export_meta, use_ideep=False, *args, **kwargs):
    """Save a model, with its parameters as they are in the workspace, to the database `db_destination`."""
    meta_net_def = get_meta_net_def(predictor_export_meta, db_type=db_type)
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
        workspace.FeedBlob(predictor_constants.META_NET_DEF, serde.serialize_protobuf_struct(meta_net_def))
    save = core.CreateOperator(
        "Save",
        [predictor_constants.META_NET_DEF, *predictor_export_meta.parameters],
        [],
        device_option=core.DeviceOption(caffe2_pb2.IDEEP if use_ideep else caffe2_pb2.CPU),
        absolute_path=True,
        db=db_destination,
        db_type=db_type,
        **kwargs,
    )
    workspace.RunOperatorOnce(save)


def load_from_db(filename, db_type, device_option=None, *args, **kwargs):
    """Return the MetaNetDef of a database, which stays open for the net that loads the parameters.

    All operators of its nets are put on `device_option` (default: that of the scope, if any).
    """
    reader = core.BlobReference(predictor_constants.PREDICTOR_DBREADER)
    meta_blob = core.BlobReference(predictor_constants.META_NET_DEF)
    create = core.CreateOperator("CreateDB", [], [reader], db=filename, db_type=db_type)
    if not workspace.RunOperatorOnce(create):
        raise AssertionError(f"Failed to create db {filename}")
    if not workspace.RunOperatorOnce(core.CreateOperator("Load", [reader], [meta_blob])):
        raise AssertionError(f"{filename} holds no exported model")
    content = workspace.FetchBlob(meta_blob)
    if not isinstance(content, bytes):
        content = str(content).encode("utf-8")
    meta_net_def = serde.deserialize_protobuf_struct(content, metanet_pb2.MetaNetDef)
    if device_option is None:
        device_option = scope.CurrentDeviceScope()
    if device_option is not None:
        for item in meta_net_def.nets:
            for op in item.value.op:
                op.device_option.CopyFrom(device_option)
    return meta_net_def
