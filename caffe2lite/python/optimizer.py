"""Optimizers and the functions that put one on every parameter of a model: `build_sgd(model, 0.1, momentum=0.9)`.

Of the `build_*` functions, `max_gradient_norm` clips the gradients by their global norm, and `allow_lr_injection` lets
`set_lr_injection` scale the learning rate of a running net.  Further keywords go to the optimizer, or, as `stepsize`
and `gamma`, to the policy of its operator LearningRate.
"""

from __future__ import annotations

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core
from caffe2lite.python._optimizers.adagrad import (
    FP16_ENGINES,
    AdagradOptimizer,
    DecayAdagradOptimizer,
    StormOptimizer,
    WngradOptimizer,
)
from caffe2lite.python._optimizers.adam import (
    AdadeltaOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    GFtrlOptimizer,
    YellowFinOptimizer,
)
from caffe2lite.python._optimizers.base import LEARNING_RATE_INJECTION as _LEARNING_RATE_INJECTION
from caffe2lite.python._optimizers.base import (
    AuxOptimizerParams,
    Optimizer,
    get_lr_injection,
    get_param_device,
    is_sparse,
    reset_optimizer_instance_count,
    set_lr_injection,
)
from caffe2lite.python._optimizers.base import (
    optimizer_instance_count as _optimizer_instance_count,  # noqa: F401 - Caffe2's tests read it here
)
from caffe2lite.python._optimizers.sgd import (
    FP16SgdOptimizer,
    MultiPrecisionSgdOptimizer,
    RmsPropOptimizer,
    SgdOptimizer,
    WeightDecayBuilder,
)

__all__ = [
    "FP16_ENGINES", "AdadeltaOptimizer", "AdagradOptimizer", "AdamOptimizer", "AuxOptimizerParams",
    "DecayAdagradOptimizer", "FP16SgdOptimizer", "FtrlOptimizer", "GFtrlOptimizer", "MultiPrecisionSgdOptimizer",
    "Optimizer", "RmsPropOptimizer", "SgdOptimizer", "StormOptimizer", "WeightDecayBuilder", "WngradOptimizer",
    "YellowFinOptimizer", "add_weight_decay", "build_adadelta", "build_adagrad", "build_adam", "build_decay_adagrad",
    "build_fp16_sgd", "build_ftrl", "build_gftrl", "build_multi_precision_sgd", "build_rms_prop", "build_sgd",
    "build_storm", "build_wngrad", "build_yellowfin", "get_lr_injection", "get_param_device",
    "reset_optimizer_instance_count", "set_lr_injection",
]  # fmt: skip


def _get_param_to_device(model):
    """Blob name -> device, as the operators of both nets tell it."""
    devices = core.InferBlobDevices(model.net)
    devices.update(core.InferBlobDevices(model.param_init_net))
    return devices


def _build(
    model, optimizer, weights_only=False, use_param_info_optim=True, max_gradient_norm=None, allow_lr_injection=False
):
    """Put `optimizer` (or the one that a parameter was made with) on every parameter that has a gradient."""
    param_to_device = _get_param_to_device(model)
    model.Validate()
    params = [p for p in model.GetOptimizationParamInfo() if not weights_only or p.blob in model.weights]

    lr_multiplier = None
    if max_gradient_norm is not None:
        lr_multiplier = _calc_norm_ratio(model, params, "norm_clipped_grad_update", param_to_device, max_gradient_norm)
    if allow_lr_injection:
        injection = _LEARNING_RATE_INJECTION
        if not model.net.BlobIsDefined(injection):
            injection = model.param_init_net.ConstantFill([], injection, shape=[1], value=1.0)
        if lr_multiplier is None:
            lr_multiplier = injection
        else:
            lr_multiplier = model.net.Mul([lr_multiplier, injection], "lr_multiplier", broadcast=1)
    optimizer.add_lr_multiplier(lr_multiplier)

    for info in params:
        with core.DeviceScope(get_param_device(info.name, info.grad, param_to_device)):
            update = info.optimizer if use_param_info_optim and info.optimizer else optimizer
            update(model.net, model.param_init_net, info)
    return optimizer


def _calc_norm_ratio(model, params, name_scope, param_to_device, max_gradient_norm):
    """max / max(max, global norm of all gradients), a scalar on the CPU: what the rates are multiplied by."""
    with core.NameScope(name_scope):
        squares = []
        for i, info in enumerate(params):
            with core.DeviceScope(get_param_device(info.name, info.grad, param_to_device)):
                grad = info.grad.values if is_sparse(info.grad) else info.grad
                square = model.net.SumSqrElements(grad, f"grad_{i}_squared_sum")
                squares.append(model.net.EnsureCPUOutput(square))
        with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
            total = model.net.Sum(squares, "grad_squared_full_sum")
            norm = model.net.Pow(total, "global_norm", exponent=0.5)
            limit = model.param_init_net.ConstantFill([], "clip_norm", shape=[], value=float(max_gradient_norm))
            return model.net.Div([limit, model.net.Max([norm, limit], "max_norm")], "norm_ratio")


def add_weight_decay(model, weight_decay):
    """Add weight_decay * w to the gradient of every weight w (not of biases); call it before the optimizer's build."""
    _build(model, WeightDecayBuilder(weight_decay=weight_decay), weights_only=True, use_param_info_optim=False)


def build_sgd(model, base_learning_rate, max_gradient_norm=None, allow_lr_injection=False, **kwargs):
    """Gradient descent: momentum, nesterov, lars, policy, sparse_dedup_aggregator."""
    optimizer = SgdOptimizer(base_learning_rate, **kwargs)
    return _build(model, optimizer, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_multi_precision_sgd(model, base_learning_rate, max_gradient_norm=None, allow_lr_injection=False, **kwargs):
    """Gradient descent on the float32 copies of float16 parameters."""
    optimizer = MultiPrecisionSgdOptimizer(base_learning_rate, **kwargs)
    return _build(model, optimizer, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_fp16_sgd(model, base_learning_rate, **kwargs):
    """Gradient descent in float16, with weight_decay."""
    return _build(model, FP16SgdOptimizer(base_learning_rate, **kwargs))


def build_ftrl(model, engine="SIMD", **kwargs):
    """Follow the regularized leader: alpha, beta, lambda1, lambda2."""
    return _build(model, FtrlOptimizer(engine=engine, **kwargs))


def build_gftrl(model, engine="", **kwargs):
    """Follow the regularized leader with group lasso."""
    return _build(model, GFtrlOptimizer(engine=engine, **kwargs))


def build_adagrad(
    model, base_learning_rate, parameters=None, max_gradient_norm=None, allow_lr_injection=False, **kwargs
):
    """Adagrad; `parameters` is there for older scripts: all are updated."""
    optimizer = AdagradOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, optimizer, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_wngrad(
    model, base_learning_rate, parameters=None, max_gradient_norm=None, allow_lr_injection=False, **kwargs
):
    """WNGrad; `parameters` is there for older scripts: all are updated."""
    optimizer = WngradOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, optimizer, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_storm(model, base_learning_rate, parameters=None, max_gradient_norm=None, allow_lr_injection=False, **kwargs):
    """STORM; `parameters` is there for older scripts: all are updated."""
    optimizer = StormOptimizer(lr=base_learning_rate, **kwargs)
    return _build(model, optimizer, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_adadelta(
    model, base_learning_rate, parameters=None, max_gradient_norm=None, allow_lr_injection=False, **kwargs
):
    """Adadelta; `parameters` is there for older scripts: all are updated."""
    optimizer = AdadeltaOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, optimizer, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_adam(model, base_learning_rate, max_gradient_norm=None, allow_lr_injection=False, **kwargs):
    """Adam: beta1, beta2, epsilon, rowWise, enableRAdam, use_lr_adaption …."""
    optimizer = AdamOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, optimizer, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_decay_adagrad(model, base_learning_rate, max_gradient_norm=None, allow_lr_injection=False, **kwargs):
    """Adagrad with fading sums: beta1, beta2, epsilon, weight_decay."""
    optimizer = DecayAdagradOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, optimizer, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_yellowfin(model, base_learning_rate=0.1, **kwargs):
    """YellowFin, which tunes itself from `base_learning_rate` on."""
    return _build(model, YellowFinOptimizer(alpha=base_learning_rate, **kwargs))


def build_rms_prop(model, base_learning_rate, max_gradient_norm=None, allow_lr_injection=False, **kwargs):
    """RMSProp: decay, momentum, epsilon."""
    optimizer = RmsPropOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, optimizer, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)
