"""Optimizers with one step size for all of a parameter, and helpers that change the step size."""

from __future__ import annotations

from typing import Any

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, NO_GRADIENT
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.shapes import check_sizes, one

_FOREVER = 2**63 - 1


@operator(
    "param_out moment_out grad_sq_sum_out",
    inplace={0: 0, 1: 1, 2: 2},
    types={"param": "float32", "moment": "=param", "grad_sq_sum": "=param", "grad": "=param", "lr": "float32"},
    infer=like(0, 1, 2),
    gradient=FORBID_GRADIENT,
)
def Storm(xp, param, moment, grad_sq_sum, grad, lr, *, momentum: float = 10.0, beta: float = 0.1, out):
    """STORM: momentum with a step size lr / cbrt(beta + sum of all squared gradients).

    Cutkosky and Orabona, Momentum-Based Variance Reduction in Non-Convex SGD, 2019.  s = s + |g|^2, rate = lr /
    cbrt(beta + s), moment = g + (1 - momentum * rate^2) * (moment - g), param = param + rate * moment.

    param [...], moment and grad of its size, grad_sq_sum [1], lr [1]; float32.  ValueError where a size differs.
    """
    check_sizes(param=param, moment=moment, grad=grad)
    total, rate, keep = storm_rates(xp, one(grad_sq_sum, "grad_sq_sum"), grad, one(lr, "lr"), momentum, beta)
    outs = tuple(o(a.shape, a.dtype) for o, a in zip(out, (param, moment, grad_sq_sum)))
    g = grad.reshape(moment.shape)
    m = g + keep * (moment - g)
    xp.add(param, (m * rate).reshape(param.shape), outs[0])
    xp.copyto(outs[1], m)
    outs[2][...] = total
    return outs


def storm_rates(xp: Any, before: Any, grad: Any, lr: Any, momentum: float, beta: float) -> tuple[Any, Any, Any]:
    """(sum of squared gradients, step size, share of the old moment)."""
    kind = grad.dtype.type
    total = before + xp.vdot(grad, grad)
    rate = lr * xp.power(kind(beta) + total, kind(-1 / 3))
    return total, rate, 1 - kind(momentum) * rate * rate


@operator(
    "param_out seq_b_out effective_lr? update?",
    inplace={0: 0, 1: 1},
    types={"param": "float32", "seq_b": "=param", "grad": "=param", "lr": "float32"},
    infer=lambda args, inputs: [inputs[0], inputs[1], inputs[1], inputs[0]],
    gradient=FORBID_GRADIENT,
)
def Wngrad(xp, param, seq_b, grad, lr, *, epsilon: float = 1e-5, out):
    """WNGrad: a step size lr / b, where b grows by the squared gradients over b.

    Wu et al., WNGrad: Learn the Learning Rate in Gradient Descent, 2018.  param = param + lr / (b + epsilon) * g, b =
    b + |g|^2 / (b + epsilon).

    param [...], grad of its size, seq_b [1], lr [1], effective_lr as seq_b, update as param; float32.  ValueError
    where a size differs.
    """
    check_sizes(param=param, grad=grad)
    b = one(seq_b, "seq_b")
    kind = param.dtype.type
    rate = one(lr, "lr") / (b + kind(epsilon))
    new_b = b + xp.vdot(grad, grad) / (b + kind(epsilon))
    update = grad.reshape(param.shape) * rate
    outs = tuple(o(a.shape, a.dtype) for o, a in zip(out, (param, seq_b, seq_b, param)))
    xp.add(param, update, outs[0])
    for target, value in zip(outs[1:], (new_b, rate, update)):
        target[...] = value
    return outs


def _norm(xp: Any, X: Any) -> Any:
    return xp.sqrt(xp.vdot(X, X))


@operator(
    "lr_rescaled",
    types={"X": "float32", "dX": "=X", "wd": "=X", "trust": "=X", "lr_max": "=X"},
    infer=lambda args, inputs: [Spec((1,), inputs[0].dtype)],
    gradient=FORBID_GRADIENT,
    limits="offset >= 0, lr_min >= 0",
)
def Lars(xp, X, dX, wd, trust, lr_max, *, offset: float = 0.5, lr_min: float = 0.02, out):
    """Layer-wise step size: trust / (|dX| / |X| + wd + offset), limited to [lr_min, lr_max].

    You et al., Large Batch Training of Convolutional Networks, 2017.  X [...], dX of its size, wd, trust, lr_max and
    lr_rescaled [1]; float32; 1 stands for the quotient where X is 0.  ValueError where a size differs or offset or
    lr_min is below 0.
    """
    check_sizes(X=X, dX=dX)
    Y = out((1,), X.dtype)
    norm_x, norm_dx = _norm(xp, X), _norm(xp, dX)
    rate = xp.where(norm_x > 0, one(trust, "trust") / (norm_dx / norm_x + one(wd, "wd") + X.dtype.type(offset)), 1)
    Y[...] = xp.maximum(xp.minimum(rate, one(lr_max, "lr_max")), X.dtype.type(lr_min))
    return Y


@operator(
    "lr_out",
    inplace={0: 0},
    types={"lr": "float32", "grad": "=lr", "effgrad": "=lr"},
    infer=like(0),
    gradient=NO_GRADIENT,
)
def LearningRateAdaption(xp, lr, grad, effgrad, *, lr_alpha: float = 0.01, normalized_lr_adaption: bool = True, out):
    """lr changed by how much the last step and the present gradient agree.

    Baydin et al., Online Learning Rate Adaptation with Hypergradient Descent, 2018.  lr = lr - lr_alpha * g * e,
    normalized lr * (1 - lr_alpha * g * e / (|g| * |e|)), of the gradient g and the effective gradient e.

    lr [1], grad [...], effgrad of its size; float32.  ValueError where a size differs.
    """
    check_sizes(grad=grad, effgrad=effgrad)
    rate = one(lr, "lr")
    kind = lr.dtype.type
    agree = xp.vdot(grad, effgrad)
    if normalized_lr_adaption:
        tiny = kind(1e-12)
        agree = rate * agree / (xp.maximum(_norm(xp, grad), tiny) * xp.maximum(_norm(xp, effgrad), tiny))
    new = rate - kind(lr_alpha) * agree
    Y = out(lr.shape, lr.dtype)
    Y[...] = new
    return Y


@operator(
    "Y", inplace={0: 0}, types={"w": "float32", "iter": "int64"}, host="iter", infer=like(0), gradient=FORBID_GRADIENT
)
def WeightScale(xp, w, iter, *, stepsize: int = _FOREVER, upper_bound_iter: int = _FOREVER, scale: float = 1.0, out):
    """Y = w * scale at each `stepsize`-th iteration before `upper_bound_iter`, else w.

    w [...], Y of its shape, iter [1]; float32, iter int64.  ValueError where iter is not one value or stepsize is 0.
    """
    if not stepsize:
        raise ValueError("the argument stepsize must not be 0")
    step = int(one(iter, "iter")) + 1
    due = step % stepsize == 0 and step < upper_bound_iter
    return xp.multiply(w, w.dtype.type(scale if due else 1.0), out(w.shape, w.dtype))
