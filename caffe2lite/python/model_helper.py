"""`ModelHelper`: a training net, the net that initializes its parameters, and the list of them."""

from __future__ import annotations

import collections
import logging

from caffe2lite.python import core, scope, workspace
from caffe2lite.python._core.shown import Pictured
from caffe2lite.python.helpers.db_input import db_input
from caffe2lite.python.modeling import parameter_info
from caffe2lite.python.modeling.parameter_sharing import parameter_sharing_context
from caffe2lite.python.optimizer_context import DEFAULT_OPTIM, OptimizerContext
from caffe2lite.python.regularizer_context import RegularizerContext

log = logging.getLogger(__name__)
_INIT_MARK = "/param_init_net"  # at the end of debug_info, so that a complete net can be taken apart again
# Operators that `ModelHelper` takes as methods without a word of warning.
_known_working_ops = frozenset(
    """
    Accuracy Adadelta Adagrad Adam Add AveragedLoss Cast Checkpoint ConstantFill Copy CopyCPUToGPU CopyGPUToCPU
    DequeueBlobs EnsureCPUOutput ExpandDims Flatten FlattenToVec LabelCrossEntropy LearningRate MakeTwoClass MatMul
    NCCLAllreduce NHWC2NCHW PackSegments PRelu Print ReduceFrontSum Scale ScatterWeightedSum Sigmoid Snapshot Softmax
    SoftmaxWithLoss SortedSegmentSum SparseAdadelta SparseAdagrad SquaredL2Distance Squeeze StopGradient Summarize
    Tanh Transpose UnpackSegments WeightedSum YellowFin
    """.split()  # noqa: SIM905
)


class ModelHelper(Pictured):
    """Builds `net` and `param_init_net` side by side; operators are methods: `model.Relu("x", "y")`.

    `param_model` shares its parameters with this model; with `init_params=False` parameters are only named;
    `arg_scope` holds default arguments of brew helpers.
    """

    def __init__(
        self,
        name=None,
        init_params=True,
        allow_not_known_ops=True,
        skip_sparse_optim=False,
        param_model=None,
        arg_scope=None,
    ):
        self.name = name or "model"
        self.net = core.Net(self.name)
        if param_model is None:
            self.param_init_net = core.Net(f"{self.name}_init")
            self.params, self._computed_params, self.param_to_grad, self._parameters_info = [], [], {}, {}
        else:  # the very objects: what one of the models adds the other has
            for shared in ("param_init_net", "params", "_computed_params", "param_to_grad", "_parameters_info"):
                setattr(self, shared, getattr(param_model, shared))
        self.weights, self.biases, self._devices, self._param_info_deprecated = [], [], [], []
        self.init_params, self.gradient_ops_added = init_params, False
        self.allow_not_known_ops, self.skip_sparse_optim = allow_not_known_ops, skip_sparse_optim
        self._arg_scope = {"order": "NCHW", "use_cudnn": True, "cudnn_exhaustive_search": False, **(arg_scope or {})}

    @property
    def arg_scope(self):
        """Default arguments of operators that brew adds to this model."""
        return self._arg_scope

    def get_name(self):
        """Return the name given to the model."""
        return self.name

    # Parameters

    @staticmethod
    def _normalize_tags(tags):
        return set(tags) if isinstance(tags, list) else {tags} if tags else set()

    def create_param(self, param_name, shape, initializer, tags=None):
        """Return the blob of a parameter, made by `initializer` on first sight.

        A plain string is put into the current name scope (and what `ParameterSharing` makes of it); a BlobReference
        is taken as it is.  The optimizer and regularizers in force are noted with it.
        """
        if isinstance(param_name, core.BlobReference):
            param_name = str(param_name)
        elif isinstance(param_name, str):
            param_name = parameter_sharing_context.get_parameter_name(param_name)
        else:
            raise TypeError(f"a parameter's name is a string or BlobReference, got {param_name!r}")

        info = self._parameters_info.get(param_name)
        if info is not None:
            if info.shape != shape:
                raise AssertionError(f"parameter {param_name} exists with shape {info.shape}, wanted {shape}")
            return info.blob

        info = initializer.create_param(
            param_name=core.BlobReference(param_name), init_net=self.param_init_net, shape=shape
        )
        optimizers = OptimizerContext.current()
        for tag in self._normalize_tags(tags):
            if optimizers.has_optimizer(tag):
                info.optimizer = optimizers.get_optimizer(tag)
        if not info.optimizer and optimizers.has_optimizer(DEFAULT_OPTIM):
            info.optimizer = optimizers.get_optimizer(DEFAULT_OPTIM)
        info.regularizer = RegularizerContext.current()
        self._parameters_info[param_name] = info
        self.AddParameter(info.blob, tags)
        return info.blob

    def AddParameter(self, param, tags=None):
        """Note an existing blob as a parameter."""
        if not isinstance(param, core.BlobReference):
            raise AssertionError(f"a parameter is given as a BlobReference, not as {param!r}")
        tags = self._normalize_tags(tags)
        computed = parameter_info.ParameterTags.COMPUTED_PARAM in tags
        (self._computed_params if computed else self.params).append(param)
        if parameter_info.ParameterTags.WEIGHT in tags:
            self.weights.append(param)
        if parameter_info.ParameterTags.BIAS in tags:
            self.biases.append(param)

    def get_param_info(self, param):
        """Return the ParameterInfo of a blob, or None."""
        if not isinstance(param, core.BlobReference):
            raise AssertionError(f"Param {param} is not a BlobReference")
        return self._parameters_info.get(param)

    def _infer_param_shape(self, param):
        for op in self.param_init_net.Proto().op:
            if str(param) in op.output:
                for arg in op.arg:
                    if arg.name == "shape":
                        return list(arg.ints)
        return None

    def _update_param_info_deprecated(self):
        known = len(self._param_info_deprecated)
        if known > len(self.params):
            raise AssertionError(
                f"{known} parameters had gradients, and only {len(self.params)} are left: params lost some of them"
            )
        for param in self.params[known:]:
            if not isinstance(param, core.BlobReference):
                raise ValueError(f"Param {param} must be a BlobReference!")
            self._param_info_deprecated.append(
                parameter_info.ParameterInfo(
                    param_id=len(self._param_info_deprecated), param=param, shape=self._infer_param_shape(param)
                )
            )
        for info in self._param_info_deprecated:
            info.grad = self.param_to_grad.get(info.name)

    def add_param_DEPRECATED(self, param, key=None, shape=None, length=None):
        """Call the older AddParameter; return the ParameterInfo."""
        log.warning("add_param is old: create_param names, shares and scopes the parameter")
        self._update_param_info_deprecated()
        self.AddParameter(param)
        record = self.net.input_record()
        if key is not None and record is not None:
            key = record.field_names()[record.field_blobs().index(key)]
        info = parameter_info.ParameterInfo(
            param_id=len(self._param_info_deprecated),
            param=param,
            shape=self._infer_param_shape(param) if shape is None else shape,
            key=key,
            length=length,
        )
        self._param_info_deprecated.append(info)
        return info

    @staticmethod
    def _NormalizeNamescope(namescope):
        if namescope is None:
            return scope.CurrentNameScope()
        separator = scope.NAMESCOPE_SEPARATOR
        return namescope if namescope == "" or namescope.endswith(separator) else namescope + separator

    def _in_scope(self, params, namescope):
        namescope = self._NormalizeNamescope(namescope)
        return [p for p in params if p.GetNameScope().startswith(namescope)]

    def GetParams(self, namescope=None, top_scope=False):
        """Return the trained parameters at or below `namescope` (default: the current one; "" for all)."""
        return self._in_scope(self.params, namescope)

    def GetComputedParams(self, namescope=None):
        """Return the parameters that are kept but not trained, e.g. running means."""
        return self._in_scope(self._computed_params, namescope)

    def GetAllParams(self, namescope=None):
        """Trained and computed parameters."""
        return self.GetParams(namescope) + self.GetComputedParams(namescope)

    def _Validate(self):
        """Return names given to more than one parameter."""
        counts = collections.Counter(str(p) for p in self.params)
        return [name for name, n in counts.items() if n > 1]

    def Validate(self):
        """Raise AssertionError when two parameters have the same name."""
        duplicates = self._Validate()
        if duplicates:
            raise AssertionError(f"Duplicate params: {duplicates}")

    # Gradients

    def AddGradientOperators(self, *args, **kwargs):
        """Add the backward pass to `net`, once, as `Net.AddGradientOperators` does; return the gradient map."""
        if self.gradient_ops_added:
            raise RuntimeError(f"model {self.name} has its gradient operators already")
        self.Validate()
        self.gradient_ops_added = True
        self.grad_map = self.net.AddGradientOperators(*args, **kwargs)
        self.param_to_grad = self.get_param_to_grad(self.params)
        for param, grad in self.param_to_grad.items():
            info = self.get_param_info(param)
            if info:
                info.grad = grad
            else:
                self._parameters_info[param] = parameter_info.ParameterInfo(param_id=None, param=param, grad=grad)
        return self.grad_map

    def get_param_to_grad(self, params):
        """Parameter -> gradient blob (or GradientSlice), for those of `params` that have one."""
        if not self.gradient_ops_added:
            raise RuntimeError(f"model {self.name} has no gradients yet: AddGradientOperators comes first")
        grads = ((p, self.grad_map.get(str(p))) for p in params)
        return {p: g for p, g in grads if g is not None}

    def GetOptimizationParamInfo(self, params=None):
        """ParameterInfo of every parameter (default: all) that has a gradient to update it with."""
        if not self.gradient_ops_added:
            raise RuntimeError(f"model {self.name} has no gradients yet: AddGradientOperators comes first")
        with_grads = self.get_param_to_grad(params) if params else self.param_to_grad
        return [
            self.get_param_info(param)
            for param, grad in with_grads.items()
            if not (self.skip_sparse_optim and isinstance(grad, core.GradientSlice))
        ]

    # Nets

    def Proto(self):
        """Return the NetDef of `net`."""
        return self.net.Proto()

    def InitProto(self):
        """Return the NetDef of `param_init_net`."""
        return self.param_init_net.Proto()

    def RunAllOnGPU(self, *args, **kwargs):
        """Put both nets on a GPU; arguments as for `Net.RunAllOnGPU`."""
        self.param_init_net.RunAllOnGPU(*args, **kwargs)
        self.net.RunAllOnGPU(*args, **kwargs)

    def CreateDB(self, blob_out, db, db_type, **kwargs):
        """Add the opening of a database to `param_init_net`."""
        return self.param_init_net.CreateDB([], blob_out, db=db, db_type=db_type, **kwargs)

    def TensorProtosDBInput(self, unused_blob_in, blob_out, batch_size, db, db_type, **kwargs):
        """Return batches from a database; the first argument is there for older scripts and must be empty."""
        if len(unused_blob_in) != 0:
            raise AssertionError(f"TensorProtosDBInput takes no input blobs: pass [], not {unused_blob_in!r}")
        return db_input(self, blob_out, batch_size, db, db_type)

    def GetDevices(self):
        """Return the device ids that `data_parallel_model` gave this model."""
        if len(self._devices) <= 0:
            raise AssertionError(f"model {self.name} has no devices: data_parallel_model.Parallelize gives it some")
        return self._devices

    def GetCompleteNet(self):
        """Return one net: the initialization followed by the training net."""
        complete = self.param_init_net.Clone(self.name + "_complete_net", keep_schema=True)
        for op in complete.Proto().op:
            op.debug_info += _INIT_MARK
        complete.AppendNet(self.net)
        if self.net.Proto().HasField("type"):
            complete.Proto().type = self.net.Proto().type
        return complete

    def ConstructInitTrainNetfromNet(self, net):
        """Take a net of `GetCompleteNet` apart into `param_init_net` and `net` of this model."""
        marked = [op.debug_info.endswith(_INIT_MARK) for op in net.Proto().op]

        def part(suffix, of_init):
            mask = [i for i, mark in enumerate(marked) if mark == of_init]
            return net.Clone(net.Name() + suffix, keep_schema=True, op_id_mask=mask, update_external_list=True)

        self.param_init_net = part("/generated_param_init_net", True)
        self.net = part("/generated_net", False)

    # Operators as methods

    def __getattr__(self, op_type):
        if op_type.startswith("__"):
            raise AttributeError(op_type)
        if not core.IsOperator(op_type):
            near = ",".join(workspace.C.nearby_opnames(op_type))
            raise AttributeError(f"Method {op_type} is not a registered operator. Did you mean: [{near}]")
        if op_type not in _known_working_ops:
            if not self.allow_not_known_ops:
                raise AttributeError(f"Operator {op_type} is not known to be safe")
            log.warning("You are creating an op that the ModelHelper does not recognize: %s.", op_type)
        return getattr(self.net, op_type)

    def __dir__(self):
        return sorted({*dir(type(self)), *self.__dict__, *_known_working_ops})


def ExtractPredictorNet(net_proto, input_blobs, output_blobs, device=None, renames=None, disabled_inputs=None):
    """Return the part of a net that leads from `input_blobs` to `output_blobs`: (Net, other external inputs, i.e. parameters).

    Operators with unknown inputs are left out; `device` moves those kept, `renames` maps old to new blob names,
    `disabled_inputs` are external inputs to do without.  `net_proto` is left as it was.
    """
    renames = renames or {}
    input_blobs = {str(b) for b in input_blobs}
    output_blobs = {str(b) for b in output_blobs}
    given = set(net_proto.external_input)
    results = set(net_proto.external_output)
    external_inputs, external_outputs = set(input_blobs), set(output_blobs)
    known = (given | input_blobs) - set(disabled_inputs or ())

    predict_net = core.Net(net_proto.name + "_predict")
    proto = predict_net.Proto()
    for source in _span(net_proto.op, input_blobs, output_blobs):
        if not known.issuperset(source.input):
            log.debug("Op %s had unknown inputs: %s", source.type, set(source.input) - known)
            continue
        _check_is_test(source)
        op = proto.op.add()
        op.CopyFrom(source)
        if op.type == "RecurrentNetwork":
            external_inputs |= given & _prepare_step_nets(op, renames, device)
        if device is not None:
            _move(op, device)
        known.update(op.output)
        external_inputs |= given.intersection(op.input)
        external_outputs |= results.intersection(op.output)
        _rename(op.input, renames)
        _rename(op.output, renames)

    def renamed(names):
        return [renames.get(n, n) for n in names]

    proto.external_input.extend(renamed(external_inputs))
    proto.external_output.extend(renamed(external_outputs))
    return predict_net, list(set(proto.external_input) - set(renamed(input_blobs)))


def _span(ops, input_blobs, output_blobs):
    """Return the operators from the first that reads an input to the last that writes an output."""
    first = [i for i, op in enumerate(ops) if input_blobs.intersection(op.input) and op.type != "StopGradient"]
    if not first:
        raise Exception(f"No ops with input={input_blobs}")
    last = [i for i, op in enumerate(ops) if output_blobs.intersection(op.output)]
    if not last:
        raise Exception(f"No ops with output={output_blobs}")
    return ops[first[0] : last[-1] + 1]


def _check_is_test(op):
    if any(arg.name == "is_test" and arg.i == 0 for arg in op.arg):
        raise Exception(
            "An operator had is_test=0, did you try to extract a predictor from a train model (instead of test model)?"
            f" Op was: {op}"
        )


def _rename(names, renames):
    for i, name in enumerate(names):
        names[i] = renames.get(name, name)


def _move(op, device):
    op.device_option.device_type = device.device_type
    op.device_option.device_id = device.device_id


def _prepare_step_nets(op, renames, device):
    """Prepare the nets inside a recurrent operator for prediction; return what the step net reads from outside."""
    reads = set()
    for arg in op.arg:
        if arg.name == "backward_step_net":
            arg.ClearField("n")
        elif arg.name == "step_net":
            for step in arg.n.op:
                _rename(step.input, renames)
                _rename(step.output, renames)
                if device is not None:
                    _move(step, device)
            _rename(arg.n.external_input, renames)
            _rename(arg.n.external_output, renames)
            reads.update(arg.n.external_input)
    return reads
