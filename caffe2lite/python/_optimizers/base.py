"""What every optimizer has: its learning rate, its multipliers and the blobs it keeps."""

from __future__ import annotations

import collections
import copy

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, scope, utils, workspace
from caffe2lite.python.modeling import parameter_info

LEARNING_RATE_INJECTION = "lr_injection"
optimizer_instance_count = collections.defaultdict(int)

# local: blobs of one parameter each (momentum …); shared: blobs that all parameters use.
AuxOptimizerParams = collections.namedtuple("AuxOptimizerParams", ["local", "shared"])


def reset_optimizer_instance_count():
    """Start the numbers in the optimizers' blob names (`SgdOptimizer_0_lr_cpu`) from 0 again."""
    optimizer_instance_count.clear()


def get_lr_injection():
    """Return the value of blob lr_injection in the current workspace, which scales every learning rate."""
    return workspace.FetchBlob(LEARNING_RATE_INJECTION)


def set_lr_injection(lr_injection_value):
    """Set the value by which an optimizer built with `allow_lr_injection` scales its learning rate."""
    workspace.FeedBlob(LEARNING_RATE_INJECTION, np.array([float(lr_injection_value)], dtype=np.float32))


def get_param_device(param_name, grad, param_to_device=None, default_device=None):
    """Return the device of a parameter, or else of its gradient, or `default_device`; AssertionError when none is known."""
    known = param_to_device or {}
    if isinstance(grad, core.GradientSlice):
        candidates = (param_name, grad.values, grad.indices)
    else:
        candidates = (param_name, grad)
    device = next((known[str(c)] for c in candidates if str(c) in known), default_device)
    if device is None:
        raise AssertionError(f"Cannot infer device for {param_name}: no op creates it")
    return device


def is_sparse(grad):
    """Return whether a gradient comes as rows and their indices."""
    return isinstance(grad, core.GradientSlice)


def current_device():
    """Return the DeviceOption of the current scope, the CPU outside of any."""
    return scope.CurrentDeviceScope() or core.DeviceOption(caffe2_pb2.CPU)


def on_gpu():
    """Return whether the current device scope is a GPU."""
    device = scope.CurrentDeviceScope()
    return device is not None and core.IsGPUDeviceType(device.device_type)


def zeros_like(init_net, param, name):
    """Return the zeros of the parameter's shape.

    As everywhere, a name that is a string gets the current scope put before it, and one that is a reference does not:
    which of the two an optimizer uses shows in its blobs' names, and those of Caffe2 are kept.
    """
    return init_net.ConstantFill([param], name, value=0.0)


def inferred_shape(init_net, param):
    """Return the shape of a parameter as far as the initializing net tells it, else None."""
    shapes, _ = workspace.InferShapesAndTypes([init_net])
    return shapes.get(str(param))


class Optimizer:
    """Adds the operators that update a parameter: `optimizer(net, param_init_net, ParameterInfo)`.

    A subclass writes `_run(net, param_init_net, param_info)` and `scale_learning_rate`.  In the formulas of the
    optimizers w is a parameter, g its gradient, t the number of the step from 1, and lr the learning rate: `alpha`, `lr`
    or `base_learning_rate` as `policy` changes it.  Products and roots are of elements, |g| is the norm.
    """

    def __init__(self):
        self._aux_params = AuxOptimizerParams(local=[], shared=[])
        self._instance_num = optimizer_instance_count[type(self).__name__]
        optimizer_instance_count[type(self).__name__] += 1
        self._lr_multiplier = None
        self._local_lr_multiplier = None
        self._local_lr_multiplier_on_gpu = False

    def __call__(self, net, param_init_net, param, grad=None):
        """Update `param`, a ParameterInfo that knows its gradient, or a blob with `grad` given."""
        if grad is None:
            if not isinstance(param, parameter_info.ParameterInfo):
                raise AssertionError(f"Expected parameter to be of type ParameterInfo, got {param}")
            if param.grad is None:
                raise AssertionError(f"parameter {param} has no gradient")
        else:
            if isinstance(param, str):
                param = core.BlobReference(param)
            param = parameter_info.ParameterInfo(param_id=None, param=param, grad=grad)
        self._run(net, param_init_net, param)

    def _run(self, net, param_init_net, param_info):
        raise NotImplementedError(f"{type(self).__name__} does not say how it updates a parameter")

    # Names

    def get_cpu_blob_name(self, base_str, node_name=""):
        """Return the name of a blob of this optimizer on the CPU."""
        return f"{type(self).__name__}_{self._instance_num}_{base_str}{node_name}_cpu"

    def get_gpu_blob_name(self, base_str, gpu_id, node_name):
        """Return the name of a blob of this optimizer on a GPU."""
        return f"{type(self).__name__}_{self._instance_num}_{base_str}{node_name}_gpu{gpu_id}"

    @property
    def attributes(self):
        """A copy of the settings, which is all but the instance's number."""
        return copy.deepcopy({k: v for k, v in self.__dict__.items() if k != "_instance_num"})

    def make_unique_blob_name(self, base_str):
        """Return a name of this optimizer's own on the current device."""
        device = scope.CurrentDeviceScope()
        if device is None:
            return self.get_cpu_blob_name(base_str)
        if core.IsGPUDeviceType(device.device_type):
            return self.get_gpu_blob_name(base_str, device.device_id, device.node_name)
        return self.get_cpu_blob_name(base_str, device.node_name)

    # Learning rate

    def build_lr(
        self, net, param_init_net, base_learning_rate, learning_rate_blob=None, policy="fixed", iter_val=0, **kwargs
    ):
        """Return (learning rate blob, iteration blob); the rate is negative, since updates add it times the gradient."""
        if learning_rate_blob is None:
            learning_rate_blob = self.make_unique_blob_name("lr")
        iteration = utils.BuildUniqueMutexIter(param_init_net, net, iter_val=iter_val)
        if net.BlobIsDefined(learning_rate_blob):
            lr = net.GetBlobRef(learning_rate_blob)
        else:
            lr = net.LearningRate([iteration], learning_rate_blob, base_lr=-base_learning_rate, policy=policy, **kwargs)
        if self._lr_multiplier is not None:
            multiplier = net.CopyFromCPUInput(self._lr_multiplier, self.make_unique_blob_name("lr_multiplier"))
            lr = net.Mul([lr, multiplier], self.make_unique_blob_name("scaled_lr"), broadcast=1)
        if self._local_lr_multiplier is not None:
            multiplier = self._local_lr_multiplier
            if on_gpu() and not self._local_lr_multiplier_on_gpu:
                multiplier = net.CopyFromCPUInput(multiplier, self.make_unique_blob_name("local_lr_multiplier"))
            lr = net.Mul([lr, multiplier], self.make_unique_blob_name("local_scaled_lr"), broadcast=1)
        return lr, iteration

    def add_lr_multiplier(self, lr_multiplier):
        """Scale the learning rate of all parameters by a blob on the CPU; replace the one before."""
        self._lr_multiplier = lr_multiplier

    def _add_local_lr_multiplier(self, local_lr_multiplier, is_gpu_blob=False):
        self._local_lr_multiplier = local_lr_multiplier
        self._local_lr_multiplier_on_gpu = is_gpu_blob

    def _clear_local_lr_multiplier(self):
        self._local_lr_multiplier = None
        self._local_lr_multiplier_on_gpu = False

    def create_lars_inputs(self, param_init_net, weight_decay, trust, lr_max):
        """Return the three scalar blobs that operator Lars takes."""
        return tuple(
            param_init_net.ConstantFill([], name, shape=[1], value=value)
            for name, value in (("weight_decay", weight_decay), ("trust", trust), ("lr_max", lr_max))
        )

    def _apply_lars(self, net, param_init_net, param, grad, lars):
        """Scale the rate of one dense parameter by the ratio of its norm to its gradient's, if `lars` is set."""
        self._clear_local_lr_multiplier()
        if lars is None or is_sparse(grad):
            return
        if lars < 0:
            raise AssertionError(f"Lars offset must be nonnegative, got {lars}")
        limits = self.create_lars_inputs(param_init_net, 0.0, 1.0, 3.4028234663852886e38)  # the largest float32
        name = self.make_unique_blob_name(f"{param}_lars")
        multiplier = net.Lars([param, grad, *limits], name, offset=lars, lr_min=0.0)
        self._add_local_lr_multiplier(multiplier, is_gpu_blob=on_gpu())

    @staticmethod
    def dedup(net, sparse_dedup_aggregator, grad):
        """Return a sparse gradient with each row once, rows of one index put together by "sum" or "mean" (None: as it is)."""
        if not is_sparse(grad):
            raise AssertionError(f"Dedup only works for sparse gradient, got {grad}")
        if not sparse_dedup_aggregator:
            return grad
        return net.DeduplicateGradientSlices(grad, aggregator=sparse_dedup_aggregator)

    def get_auxiliary_parameters(self):
        """Return the blobs the optimizer keeps between steps: AuxOptimizerParams(local, shared)."""
        return self._aux_params

    def scale_learning_rate(self, *args, **kwargs):
        """Multiply the base learning rate by `scale`."""
        raise NotImplementedError(f"{type(self).__name__} has no scale_learning_rate")
