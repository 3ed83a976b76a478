"""Layers: parts of a LayerModelHelper that know their records and parameters, and add their operators to its nets."""

from __future__ import annotations

import contextlib
import logging
from collections import namedtuple

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, schema, scope, utils, workspace
from caffe2lite.python.layers.tags import TagContext, Tags

logger = logging.getLogger(__name__)

IdList = schema.List(np.int64)
IdScoreList = schema.Map(np.int64, np.float32)
IdListWithEvicted = schema.ListWithEvicted(np.int64)
IdScoreListWithEvicted = schema.MapWithEvicted(np.int64, np.float32)


def almost_equal_schemas(
    record, original_schema, check_field_names=True, check_field_types=True, check_field_metas=False
):
    """Return whether two schemas agree; one of the IdList kinds also agrees with its form with evicted ids."""
    pairs = {id(IdList): IdListWithEvicted, id(IdScoreList): IdScoreListWithEvicted}
    alternatives = [original_schema, *filter(None, [pairs.get(id(original_schema))])]
    return any(
        schema.equal_schemas(
            record,
            alternative,
            check_field_names=check_field_names,
            check_field_types=check_field_types,
            check_field_metas=check_field_metas,
        )
        for alternative in alternatives
    )


def get_key(record):
    """Return the field with the ids of an id list or an id score list."""
    if almost_equal_schemas(record, IdList):
        name = "values"
    elif almost_equal_schemas(record, IdScoreList, check_field_types=False):
        name = "values:keys"
    else:
        raise NotImplementedError(f"Not implemented for {record!r}")
    if record[name].metadata is None:
        raise AssertionError(f"Blob {record[name]()} doesn't have metadata")
    return record[name]


def get_categorical_limit(record):
    """Return how many ids there are: the categorical limit in the metadata of the ids."""
    return get_key(record).metadata.categorical_limit


def get_avg_length(record):
    """Return how many ids a row is expected to have: from the metadata of the lengths."""
    return record["lengths"].metadata.expected_value


def set_request_only(field):
    """Mark every column as belonging to the request, not to its items."""
    for column in field.all_scalars():
        given = column.metadata or schema.Metadata(None, None, None)
        specs = given.feature_specs or schema.FeatureSpec()
        column.set_metadata(given._replace(feature_specs=specs._replace(feature_is_request_only=True)))


def is_request_only_scalar(scalar):
    """Return whether set_request_only marked this column."""
    specs = scalar.metadata and scalar.metadata.feature_specs
    return bool(specs and specs.feature_is_request_only)


class InstantiationContext:
    """What a net is made for."""

    EVAL = "eval"
    PREDICTION = "prediction"
    TRAINING = "training"
    ACCUMULATE_PRED = "accumulate_pred"


_LAYER_REGISTRY = {}


def register_layer(name, layer):
    """Let `model.NAME(…)` make this layer."""
    if name in _LAYER_REGISTRY:
        raise AssertionError(f"{name} already exists")
    _LAYER_REGISTRY[name] = layer


def layer_exists(name):
    """Return whether a layer of this name is registered."""
    return name in _LAYER_REGISTRY


def get_layer_class(name):
    """Return the class registered under this name; KeyError if there is none."""
    return _LAYER_REGISTRY[name]


def create_layer(layer_name, *args, **kwargs):
    """Return a new layer of a registered name."""
    return _LAYER_REGISTRY[layer_name](*args, **kwargs)


LayerPsParam = namedtuple("LayerPsParam", ["sparse_key", "average_length"])
LayerPsParam.__doc__ = "What a parameter server needs: the blob of ids, and how many of them a row has on average."

AccessedFeatures = namedtuple("AccessedFeatures", ["type", "ids"])
AccessedFeatures.__doc__ = "The ids of the features of one type that a layer reads."


class LayerParameter:
    """A parameter: its blob, the operator that makes it, its optimizer and regularizer."""

    def __init__(self, parameter=None, optimizer=None, initializer=None, ps_param=None, regularizer=None):
        if not isinstance(parameter, core.BlobReference):
            raise AssertionError(f"expect {parameter} to be a blob reference")
        self.parameter, self.ps_param = parameter, ps_param
        self.optimizer, self.regularizer = optimizer, regularizer
        self._shape = None  # until the initializer tells
        self.initializer = initializer

    @property
    def initializer(self):
        """The operator that makes the parameter."""
        return self._initializer

    @initializer.setter
    def initializer(self, op):
        if op is not None and not core.IsOperator(op.type):
            raise AssertionError(f"{op.type} is not an operator")
        self._initializer = op
        if op is not None:
            self.shape = self._infer_shape_from_initializer()

    @property
    def shape(self):
        """The shape that the initializer gives, None if it gives no tensor."""
        return self._shape

    @shape.setter
    def shape(self, shape):
        if self._shape is not None and self._shape != shape:
            raise AssertionError(f"parameter {self.parameter} has shape {self._shape} and shape {shape}")
        self._shape = shape

    def _infer_shape_from_initializer(self):
        for arg in self._initializer.arg:
            if arg.name == "shape":
                return list(arg.ints)
        with workspace.WorkspaceGuard("model_init_by_layer"):
            try:
                workspace.RunOperatorOnce(self._initializer)
                value = workspace.FetchBlob(self.parameter)
            except RuntimeError as e:
                kind = self._initializer.type
                logger.warning("Cannot infer the shape of blob %s from operator %s: %s", self.parameter, kind, e)
                return None
            finally:
                workspace.ResetWorkspace()
        return list(value.shape) if isinstance(value, np.ndarray) else None


class ModelLayer:
    """The base of layers.

    A subclass makes its parameters (create_param) and sets output_schema in its constructor; `model` names it after
    `prefix`.  Its add_ops adds operators to a net; add_train_ops and add_eval_ops where these differ.
    """

    def __init__(self, model, prefix, input_record, predict_input_record_fields=None, tags=None, **kwargs):
        self.name = model.next_layer_name(prefix)
        self.model = model
        self.kwargs = kwargs
        self._input_record = input_record
        self._predict_input_record = None
        if predict_input_record_fields:
            fields = predict_input_record_fields
            self._predict_input_record = input_record[fields if isinstance(fields, list) else [fields]]
        columns = input_record.all_scalars()
        self.request_only = bool(columns) and all(map(is_request_only_scalar, columns))
        self.precomputation_request_only = False
        self.precomputation_object_only = False
        self._output_schema = None
        self._predict_output_schema = None
        self.eval_output_schema = None
        self.tags = {*(tags or []), *TagContext.current().tags}
        self.params = []
        self._export_output_for_metrics = False
        self._export_params_for_metrics = False

    def get_type(self):
        """Return the name of the class."""
        return type(self).__name__

    @property
    def predict_input_record(self):
        """What of the input a prediction needs."""
        return self._predict_input_record or self._input_record

    @property
    def input_record(self):
        """The record that the layer reads."""
        return self._input_record

    @property
    def predict_output_schema(self):
        """The output of a prediction: output_schema if nothing else is set."""
        return self._predict_output_schema or self._output_schema

    @predict_output_schema.setter
    def predict_output_schema(self, output_schema):
        if self._predict_output_schema is not None:
            raise AssertionError(f"the prediction's output schema of {self.name} is set already")
        self._predict_output_schema = output_schema

    @property
    def output_schema(self):
        """The output; AssertionError before it is set."""
        if self._output_schema is None:
            raise AssertionError(f"layer {self.name} has no output yet")
        return self._output_schema

    @output_schema.setter
    def output_schema(self, output_schema):
        if self._output_schema is not None:
            raise AssertionError(f"the output schema of {self.name} is set already")
        self._output_schema = output_schema
        if self.request_only:
            set_request_only(output_schema)

    def get_parameters(self):
        """Return its LayerParameters."""
        return self.params

    def get_fp16_compatible_parameters(self):
        """Return parameters whose half-precision form serves predictions as well."""
        return []

    def get_memory_usage(self):
        """Return the bytes that the parameters need, where the layer knows."""
        return 0

    def get_accessed_features(self):
        """Return {column: [AccessedFeatures]} of the input that the layer reads."""
        return {}

    def add_init_params(self, init_net):
        """Add the operators that make the parameters; one that the net has already is not added again."""
        device = scope.CurrentDeviceScope()
        for param in self.params:
            op = param.initializer
            if op is None:
                continue
            if device is not None and not op.HasField("device_option"):
                op = caffe2_pb2.OperatorDef.FromString(op.SerializeToString())
                op.device_option.CopyFrom(device)
            if not any(utils.OpAlmostEqual(made, op, "debug_info") for made in init_net.Proto().op):
                init_net.Proto().op.extend([op])

    def create_param(self, param_name, shape, initializer, optimizer, ps_param=None, regularizer=None):
        """Return the blob of a new parameter; `initializer` is a pair of an operator's type and its arguments."""
        with scope.NameScope(self.name, reset=True):
            made = {"shape": shape, "initializer": initializer}
            learned = {"optimizer": optimizer, "regularizer": regularizer, "ps_param": ps_param}
            param = self.model.create_param(param_name=param_name, **made, **learned)
        if any(param.parameter == p.parameter for p in self.params):
            raise AssertionError(f"layer {self.name} has a parameter {param.parameter} already")
        self.params.append(param)
        return param.parameter

    def get_next_blob_reference(self, name):
        """Return a new blob in the layer's scope."""
        with scope.NameScope(self.name, reset=True):
            return self.model.net.NextScopedBlob(name)

    def add_operators(self, net, init_net=None, context=InstantiationContext.TRAINING):
        """Add the operators for `context`, and to `init_net` those that make the parameters."""
        adders = {
            InstantiationContext.TRAINING: self.add_train_ops,
            InstantiationContext.EVAL: self.add_eval_ops,
            InstantiationContext.ACCUMULATE_PRED: self.add_ops_to_accumulate_pred,
            InstantiationContext.PREDICTION: self.add_ops,
        }
        if context == InstantiationContext.TRAINING and not init_net:
            raise AssertionError(f"layer {self.name} needs an init_net for training")
        with scope.NameScope(self.name), self._device_scope():
            if init_net:
                self.add_init_params(init_net)
            adders[context](net)
            measured = context in (InstantiationContext.TRAINING, InstantiationContext.EVAL)
            if measured and self._export_params_for_metrics:
                self.add_param_copy_operators(net)

    def _device_scope(self):
        extra = [tag[len(Tags.EXTRA_INFO) :] for tag in sorted(self.tags) if tag.startswith(Tags.EXTRA_INFO)]
        if not extra:
            return contextlib.nullcontext()
        return scope.DeviceScope(core.DeviceOption(caffe2_pb2.CPU, extra_info=extra))

    def add_ops(self, net):
        """Add the operators, for a prediction and wherever nothing else is said."""
        raise NotImplementedError(f"{self.get_type()} has no add_ops")

    def add_eval_ops(self, net):
        """Add the operators of an evaluation."""
        self.add_ops(net)

    def add_train_ops(self, net):
        """Add the operators of a training."""
        self.add_ops(net)

    def add_ops_to_accumulate_pred(self, net):
        """Add the operators that collect predictions."""
        self.add_eval_ops(net)

    def add_param_copy_operators(self, net):
        """Copy the parameters to the blobs that export_params_for_metrics names."""
        for param in self.params:
            copy = self.model.metrics_schema[str(param.parameter)]
            net.Copy(param.parameter, copy.field_blobs())

    def export_output_for_metrics(self):
        """Make the output a metric of the model."""
        self._export_output_for_metrics = True
        self.model.add_metric_field(f"{self.name}/output", self.output_schema)

    def export_params_for_metrics(self):
        """Make copies of the parameters metrics of the model."""
        self._export_params_for_metrics = True
        for param in self.params:
            name = str(param.parameter)
            copy = self.get_next_blob_reference(name + "_copy")
            self.model.add_metric_field(name, schema.Scalar((np.float32, tuple(param.shape or ())), copy))
