"""Optimizers of dense parameters.

They go through memory once: on the CPU in blocks that stay in the cache, with working memory that is kept.  The
learning rate and other one-element operands stay on their device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, loop
from caffe2lite.ops.kit.cuda_kernels import usable
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.memory import blocks
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.shapes import check_sizes, fitted, one
from caffe2lite.ops.optim import cuda

_F = np.float32  # of the compiled loops


def over_blocks(xp: Any, step: Callable[..., None], arrays: Sequence[Any]) -> None:
    """Call `step(xp, *parts)` on block after block of the flat arrays."""
    flat = [a.reshape(-1) for a in arrays]
    for part in blocks(xp, flat[0].size):
        step(xp, *[a[part] for a in flat])


def _placed(out: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """The outputs, holding the inputs' values: the compiled loops work in place.

    With further arrays for the results there would be more pairs that might overlap than the compiler checks, and it
    would make the loops scalar.
    """
    made = [o(a.shape, a.dtype) for o, a in zip(out, inputs)]
    for target, a in zip(made, inputs):
        if target is not a:
            np.copyto(target, a)
    return made


# ---- momentum ----------------------------------------------------------------------------------------------------


def _momentum(xp: Any, grad: Any, moment: Any, lr: Any, momentum: float, nesterov: bool, outs: Any, param: Any) -> None:
    """outs: gradient, moment and, with a parameter, parameter."""
    mu = grad.dtype.type(momentum)
    if usable(xp, grad):
        new_p = outs[2] if param is not None else None
        cuda.MOMENTUM(xp, grad.size, *outs[:2], new_p, grad, moment, param, lr, mu, nesterov)
        return

    def step(xp: Any, g: Any, m: Any, new_g: Any, new_m: Any, p: Any = None, new_p: Any = None) -> None:
        t = xp.empty(g.shape, g.dtype)
        xp.multiply(g, lr, new_g)
        if not nesterov:
            xp.multiply(m, mu, new_m)
            xp.add(new_m, new_g, new_m)
            xp.copyto(new_g, new_m)
        else:
            xp.multiply(m, mu, t)  # the old moment's share, for both
            xp.add(t, new_g, new_m)
            xp.multiply(new_m, 1 + mu, new_g)
            xp.subtract(new_g, t, new_g)
        if p is not None:
            xp.subtract(p, new_g, new_p)

    over_blocks(xp, step, [grad, moment, *outs[:2], *([param, outs[2]] if param is not None else [])])


@operator(
    "grad_out moment_out",
    inplace={0: 0, 1: 1},
    types={"grad": "float32", "moment": "=grad", "lr": "float32"},
    infer=like(0, 1),
    gradient=FORBID_GRADIENT,
)
def MomentumSGD(xp, grad, moment, lr, *, momentum: float = 0.0, nesterov: bool = False, out):
    """moment = momentum * moment + lr * grad; the step to subtract comes out in the place of the gradient.

    Polyak, Some Methods of Speeding up the Convergence of Iteration Methods, 1964.  The step is moment; nesterov
    (Nesterov, 1983) takes (1 + momentum) * moment - momentum * the old moment.

    grad [...], moment of its size, lr [1]; float32.  ValueError where a size differs.
    """
    check_sizes(grad=grad, moment=moment)
    outs = out[0](grad.shape, grad.dtype), out[1](moment.shape, moment.dtype)
    _momentum(xp, grad, moment, one(lr, "lr"), momentum, nesterov, outs, None)
    return outs


@operator(
    "grad_out moment_out param_out",
    inplace=[(0, 0), (1, 1), (3, 2)],
    types={"grad": "float32", "moment": "=grad", "lr": "float32", "param": "=grad"},
    infer=like(0, 1, 3),
    gradient=FORBID_GRADIENT,
)
def MomentumSGDUpdate(xp, grad, moment, lr, param, *, momentum: float = 0.0, nesterov: bool = False, out):
    """moment = momentum * moment + lr * grad; param = param - the step.

    The step is that of MomentumSGD.  grad [...], moment and param of its size, lr [1]; float32.  ValueError where a
    size differs.
    """
    check_sizes(grad=grad, moment=moment, param=param)
    outs = tuple(o(a.shape, a.dtype) for o, a in zip(out, (grad, moment, param)))
    _momentum(xp, grad, moment, one(lr, "lr"), momentum, nesterov, outs, param)
    return outs


@compiled(MomentumSGDUpdate)
def _momentum_update_compiled(xp, grad, moment, lr, param, *, momentum: float = 0.0, nesterov: bool = False, out):
    check_sizes(grad=grad, moment=moment, param=param)
    g, m, p = _placed(out, (grad, moment, param))
    _momentum_update_loop(*(a.reshape(-1) for a in (g, m, p)), one(lr, "lr")[()], _F(momentum), bool(nesterov))
    return g, m, p


@loop
def _momentum_update_loop(G, M, P, lr, mu, nesterov):
    if nesterov:
        ahead = _F(1) + mu
        for j in range(G.size):
            old = M[j] * mu
            new = old + G[j] * lr
            step = new * ahead - old
            G[j] = step
            M[j] = new
            P[j] -= step
    else:
        for j in range(G.size):
            new = M[j] * mu + G[j] * lr
            G[j] = new
            M[j] = new
            P[j] -= new


def _half_momentum(xp, grad, moment, lr, param, momentum, nesterov, weight_decay, out):
    if not grad.shape == moment.shape == param.shape:
        raise ValueError(
            f"grad {list(grad.shape)}, moment {list(moment.shape)} and param {list(param.shape)} must have one shape"
        )
    outs = tuple(o(a.shape, a.dtype) for o, a in zip(out, (grad, moment, param)))
    g = grad.astype("float32") + param.astype("float32") * weight_decay
    old = moment.astype("float32") * momentum
    new = old + g * one(lr, "lr")
    update = new * (1 + momentum) - old if nesterov else new
    outs[1][...] = new
    outs[0][...] = update
    outs[2][...] = param.astype("float32") - update
    return outs


@operator(
    "grad_out moment_out param_out",
    inplace=[(0, 0), (1, 1), (3, 2)],
    types={"grad": "float16", "moment": "float16", "lr": "float32", "param": "float16"},
    infer=like(0, 1, 3),
)
def FP16MomentumSGDUpdate(
    xp, grad, moment, lr, param, *, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0, out
):
    """MomentumSGDUpdate of half precision, computed in single, with weight decay.

    g = grad + weight_decay * param.  grad [...], moment and param of its size, lr [1]; float16, lr float32.
    ValueError where a size differs.
    """
    return _half_momentum(xp, grad, moment, lr, param, momentum, nesterov, weight_decay, out)


@operator(
    "grad_out moment_out param_out",
    inplace=[(0, 0), (1, 1), (3, 2)],
    types={"grad": "float32", "moment": "float32", "lr": "float32", "param": "float32"},
    infer=like(0, 1, 3),
)
def FP32MomentumSGDUpdate(
    xp, grad, moment, lr, param, *, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0, out
):
    """MomentumSGDUpdate with weight decay.

    g = grad + weight_decay * param.  grad [...], moment and param of its size, lr [1]; float32.  ValueError where a
    size differs.
    """
    return _half_momentum(xp, grad, moment, lr, param, momentum, nesterov, weight_decay, out)


# ---- Adam and its kin --------------------------------------------------------------------------------------------


def adam_correction(iteration: Any, beta1: float, beta2: float) -> float:
    """The factor that corrects the bias of the first steps."""
    t = int(one(iteration, "iter")) + 1
    return np.sqrt(1 - np.float64(beta2) ** t) / (1 - np.float64(beta1) ** t)  # beyond its limits inf or NaN, as in C


@operator(
    "param_out moment1_out moment2_out grad_out?",
    inplace={0: 0, 1: 1, 2: 2},
    types={
        "param": "float32",
        "moment1": "=param",
        "moment2": "=param",
        "grad": "=param",
        "lr": "float32",
        "iter": "int64",
    },
    host="iter",
    infer=like(0, 1, 2, 3),
    gradient=FORBID_GRADIENT,
)
def Adam(
    xp, param, moment1, moment2, grad, lr, iter, *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-5, out
):
    """param = param + lr * c * moment1 / (sqrt(moment2) + epsilon); the fourth output is the step without lr.

    Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015.  moment1 = beta1 * moment1 + (1 - beta1) * g,
    moment2 likewise of g^2, c = sqrt(1 - beta2^t) / (1 - beta1^t) for t = iter + 1.

    param [...], moments and grad of its size, lr [1], iter [1]; float32, iter int64.  ValueError where a size
    differs.
    """
    check_sizes(param=param, moment1=moment1, moment2=moment2, grad=grad)
    kind = param.dtype.type
    b1, b2, c1, c2, eps = kind(beta1), kind(beta2), kind(1 - beta1), kind(1 - beta2), kind(epsilon)
    correction = kind(adam_correction(iter, beta1, beta2))
    rate = one(lr, "lr")
    outs = tuple(o(a.shape, a.dtype) for o, a in zip(out, (param, moment1, moment2, grad)))
    if usable(xp, param):
        targets = (*outs, None)[:4]
        cuda.ADAM(xp, param.size, *targets, param, moment1, moment2, grad, rate, b1, b2, c1, c2, eps, correction)
        return outs

    def step(xp, p, m, v, g, new_p, new_m, new_v, step_out=None):
        t = xp.empty(p.shape, p.dtype)
        xp.multiply(g, g, t)
        xp.multiply(t, c2, t)
        xp.multiply(v, b2, new_v)
        xp.add(new_v, t, new_v)
        xp.multiply(g, c1, t)
        xp.multiply(m, b1, new_m)
        xp.add(new_m, t, new_m)
        xp.sqrt(new_v, t)
        xp.add(t, eps, t)
        xp.divide(new_m, t, t)
        xp.multiply(t, correction, t)
        if step_out is not None:
            xp.copyto(step_out, t)
        xp.multiply(t, rate, t)
        xp.add(p, t, new_p)

    over_blocks(xp, step, [param, moment1, moment2, grad, *outs])
    return outs


@compiled(Adam)
def _adam_compiled(
    xp, param, moment1, moment2, grad, lr, iter, *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-5, out
):
    if len(out) > 3:
        options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "out": out}
        return Adam(xp, param, moment1, moment2, grad, lr, iter, **options)
    check_sizes(param=param, moment1=moment1, moment2=moment2, grad=grad)
    rate = one(lr, "lr")[()]
    p, m, v = _placed(out, (param, moment1, moment2))
    numbers = (beta1, beta2, 1 - beta1, 1 - beta2, epsilon, adam_correction(iter, beta1, beta2))
    _adam_loop(*(a.reshape(-1) for a in (p, m, v, grad)), rate, *map(_F, numbers))
    return p, m, v


@loop
def _adam_loop(P, M, V, G, lr, b1, b2, c1, c2, epsilon, correction):
    for j in range(G.size):
        g = G[j]
        m = M[j] * b1 + g * c1
        v = V[j] * b2 + g * g * c2
        M[j] = m
        V[j] = v
        P[j] += lr * (correction * (m / (np.sqrt(v) + epsilon)))


@operator(
    "param_out moment_out effective_lr? update?",
    inplace={0: 0, 1: 1},
    types={"param": "float32", "moment": "=param", "grad": "=param", "lr": "float32"},
    infer=like(0, 1, 0, 0),
    gradient=FORBID_GRADIENT,
)
def Adagrad(xp, param, moment, grad, lr, *, epsilon: float = 1e-5, decay: float = 1.0, weight_decay: float = 0.0, out):
    """moment = decay * moment + g^2; param = param + lr * g / (sqrt(moment) + epsilon); g includes weight decay.

    Duchi et al., Adaptive Subgradient Methods for Online Learning, 2011.  g = grad + weight_decay * param.

    param [...], moment and grad of its size, lr [1], effective_lr (lr / (sqrt(moment) + epsilon)) and update (that
    times g) as param; float32.  ValueError where a size differs.
    """
    check_sizes(param=param, moment=moment, grad=grad)
    kind = param.dtype.type
    rate, eps, keep, pull = one(lr, "lr"), kind(epsilon), kind(decay), kind(weight_decay)
    outs = tuple(o(a.shape, a.dtype) for o, a in zip(out, (param, moment, grad, grad)))
    if usable(xp, param):
        targets = (*outs, None, None)[:4]
        cuda.ADAGRAD(xp, param.size, *targets, param, moment, grad, rate, eps, keep, pull)
        return outs

    def step(xp, p, m, g, new_p, new_m, lr_out=None, update_out=None):
        t = xp.empty(p.shape, p.dtype)
        if weight_decay or not bool(xp.isfinite(p.sum())):  # 0 times an infinite parameter is NaN, as in Caffe2
            decayed = xp.empty(p.shape, p.dtype)
            xp.multiply(p, pull, decayed)
            g = xp.add(decayed, g, decayed)
        xp.multiply(g, g, t)
        xp.multiply(m, keep, new_m)
        xp.add(new_m, t, new_m)
        xp.sqrt(new_m, t)
        xp.add(t, eps, t)
        xp.divide(rate, t, t)
        if lr_out is not None:
            xp.copyto(lr_out, t)
        xp.multiply(t, g, t)
        if update_out is not None:
            xp.copyto(update_out, t)
        xp.add(p, t, new_p)

    over_blocks(xp, step, [param, moment, grad, *outs])
    return outs


@compiled(Adagrad)
def _adagrad_compiled(
    xp, param, moment, grad, lr, *, epsilon: float = 1e-5, decay: float = 1.0, weight_decay: float = 0.0, out
):
    if len(out) > 2:
        options = {"epsilon": epsilon, "decay": decay, "weight_decay": weight_decay, "out": out}
        return Adagrad(xp, param, moment, grad, lr, **options)
    check_sizes(param=param, moment=moment, grad=grad)
    rate = one(lr, "lr")[()]
    p, m = _placed(out, (param, moment))
    _adagrad_loop(*(a.reshape(-1) for a in (p, m, grad)), rate, *map(_F, (epsilon, decay, weight_decay)))
    return p, m


@loop
def _adagrad_loop(P, M, G, lr, epsilon, decay, weight_decay):
    for j in range(G.size):
        g = weight_decay * P[j] + G[j]
        m = M[j] * decay + g * g
        M[j] = m
        P[j] += lr / (np.sqrt(m) + epsilon) * g


@operator(
    "param_out moment1_out moment2_out",
    inplace={0: 0, 1: 1, 2: 2},
    types={
        "param": "float32",
        "moment1": "=param",
        "moment2": "=param",
        "grad": "=param",
        "lr": "float32",
        "iter": "int64",
    },
    host="iter",
    infer=like(0, 1, 2),
    gradient=FORBID_GRADIENT,
)
def DecayAdagrad(
    xp,
    param,
    moment1,
    moment2,
    grad,
    lr,
    iter,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-5,
    weight_decay: float = 0.0,
    bias_correction_first: bool = True,
    out,
):
    """Adagrad of an averaged gradient: param = param + lr * (c * moment1 / (sqrt(moment2) + epsilon) + weight_decay
    * param).

    moment1 = beta1 * moment1 + (1 - beta1) * g, moment2 = moment2 + g^2, c = 1 / (1 - beta1^t) for t = iter + 1, or 1
    without bias_correction_first.

    param [...], moments and grad of its size, lr [1], iter [1]; float32, iter int64.  ValueError where a shape
    differs.
    """
    if not param.shape == moment1.shape == moment2.shape == grad.shape:
        shapes = [list(a.shape) for a in (param, moment1, moment2, grad)]
        raise ValueError(f"param, moment1, moment2 and grad must have one shape, found {shapes}")
    kind = param.dtype.type
    t = int(one(iter, "iter")) + 1
    with np.errstate(all="ignore"):
        correction = kind(1 / (1 - np.float64(beta1) ** t))
    first = correction if bias_correction_first else kind(1)
    outs = tuple(o(a.shape, a.dtype) for o, a in zip(out, (param, moment1, moment2)))
    m = moment1 * kind(beta1) + grad * kind(1 - beta1)
    v = moment2 + grad * grad
    step = m * first / (xp.sqrt(v) + kind(epsilon)) + param * kind(weight_decay)
    xp.add(param, step * one(lr, "lr"), outs[0])
    xp.copyto(outs[1], m)
    xp.copyto(outs[2], v)
    return outs


@operator(
    "param_out moment_out delta_out",
    inplace={0: 0, 1: 1, 2: 2},
    types={"param": "float32", "moment": "=param", "delta": "=param", "grad": "=param", "lr": "float32"},
    infer=like(0, 1, 2),
    gradient=FORBID_GRADIENT,
    limits="epsilon >= 0, decay > 0, decay < 1",
)
def Adadelta(xp, param, moment, delta, grad, lr, *, epsilon: float = 1e-5, decay: float = 0.95, out):
    """Steps of the size of earlier steps: grad * sqrt(delta + epsilon) / sqrt(moment + epsilon), times lr.

    Zeiler, ADADELTA: An Adaptive Learning Rate Method, 2012.  moment = decay * moment + (1 - decay) * g^2, delta
    likewise of the step's square; param = param + lr * step.

    param [...], moment, delta and grad of its size, lr [1]; float32.  ValueError where a size differs, epsilon is
    below 0, or decay is not between 0 and 1.
    """
    check_sizes(param=param, moment=moment, delta=delta, grad=grad)
    outs = tuple(o(a.shape, a.dtype) for o, a in zip(out, (param, moment, delta)))
    m, d, step = adadelta_step(xp, *(a.reshape(param.shape) for a in (moment, delta, grad)), epsilon, decay)
    xp.add(param, step * one(lr, "lr"), outs[0])
    xp.copyto(outs[1], m.reshape(moment.shape))
    xp.copyto(outs[2], d.reshape(delta.shape))
    return outs


def adadelta_step(xp: Any, moment: Any, delta: Any, grad: Any, epsilon: float, decay: float) -> tuple[Any, Any, Any]:
    """(new moment, new delta, step)."""
    kind = grad.dtype.type
    keep, new, eps = kind(decay), kind(1 - decay), kind(epsilon)
    m = moment * keep + grad * grad * new
    step = xp.sqrt(delta + eps) / xp.sqrt(m + eps) * grad
    return m, delta * keep + step * step * new, step


@operator(
    "grad_out mean_square_out moment_out",
    inplace={0: 0, 1: 1, 2: 2},
    types={"grad": "float32", "mean_square": "=grad", "moment": "=grad", "lr": "float32"},
    infer=like(0, 1, 2),
    gradient=FORBID_GRADIENT,
)
def RmsProp(
    xp, grad, mean_square, moment, lr, *, decay: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-5, out
):
    """moment = momentum * moment + lr * grad / sqrt(epsilon + mean square): the step, in the gradient's place.

    Tieleman and Hinton, Lecture 6.5 - RMSProp, 2012.  mean_square = mean_square + (1 - decay) * (grad^2 -
    mean_square).

    grad [...], mean_square and moment of its size, lr [1]; float32.  ValueError where a size differs.
    """
    check_sizes(grad=grad, mean_square=mean_square, moment=moment)
    kind = grad.dtype.type
    outs = tuple(o(a.shape, a.dtype) for o, a in zip(out, (grad, mean_square, moment)))
    rate, mu, eps, share = one(lr, "lr"), kind(momentum), kind(epsilon), kind(1 - decay)

    def step(xp, g, s, m, new_g, new_s, new_m):
        t = xp.empty(g.shape, g.dtype)
        xp.multiply(g, g, t)
        xp.subtract(t, s, t)
        xp.multiply(t, share, t)
        xp.add(s, t, new_s)
        xp.add(new_s, eps, t)
        xp.sqrt(t, t)
        xp.divide(g, t, t)
        xp.multiply(t, rate, t)
        xp.multiply(m, mu, new_m)
        xp.add(new_m, t, new_m)
        xp.copyto(new_g, new_m)

    over_blocks(xp, step, [grad, mean_square, moment, *outs])
    return outs


# ---- FTRL --------------------------------------------------------------------------------------------------------


def ftrl_step(
    xp: Any, param: Any, nz: Any, grad: Any, alpha: Any, beta: float, lambda1: float, lambda2: float
) -> tuple[Any, Any]:
    """(new parameter, new n and z), where n and z lie side by side in the last dimension of nz."""
    kind = param.dtype.type
    n, z = nz[..., 0], nz[..., 1]
    new_n = n + grad * grad
    sigma = (xp.sqrt(new_n) - xp.sqrt(n)) / alpha
    new_z = z + grad - sigma * param
    l1 = kind(lambda1)
    curvature = (kind(beta) + xp.sqrt(new_n)) / alpha + kind(lambda2)
    new = xp.where(abs(new_z) > l1, (xp.sign(new_z) * l1 - new_z) / curvature, 0)
    return new, xp.stack([new_n, new_z], axis=-1)


def check_ftrl(param: Any, nz: Any, grad: Any) -> None:
    """ValueError where the sizes do not fit."""
    if nz.size != 2 * param.size or grad.size > param.size:
        raise ValueError(
            f"n_z {list(nz.shape)} must hold two values, and grad {list(grad.shape)} one, for each parameter "
            f"{list(param.shape)}"
        )


_FTRL_TYPES = {"param": "float32", "n_z": "=param", "grad": "=param", "alpha_in": "float32"}


def ftrl_alpha(param: Any, alpha: float | None, alpha_in: Any) -> Any:
    """The step size, by argument or by input."""
    if alpha_in is None:
        return param.dtype.type(0.005 if alpha is None else alpha)
    if alpha is not None:
        raise ValueError(f"alpha comes as argument ({alpha}) or as input, not as both")
    return one(alpha_in, "alpha")


@operator("param_out n_z_out", inplace={0: 0, 1: 1}, types=_FTRL_TYPES, infer=like(0, 1), gradient=FORBID_GRADIENT)
def Ftrl(
    xp,
    param,
    n_z,
    grad,
    alpha_in=None,
    *,
    alpha: float | None = None,
    beta: float = 1.0,
    lambda1: float = 0.001,
    lambda2: float = 0.001,
    out,
):
    """Follow the regularized leader; the step size alpha may come as fourth input.

    McMahan et al., Ad Click Prediction: a View from the Trenches, 2013.  z = z + g - (sqrt(n + g^2) - sqrt(n)) /
    alpha * param, n = n + g^2; param = 0 where |z| <= lambda1, else (sign(z) * lambda1 - z) / ((beta + sqrt(n)) /
    alpha + lambda2).

    param [...], n_z [..., 2], grad of param's size, alpha_in [1]; float32.  ValueError where a size differs or alpha
    is given twice.
    """
    check_ftrl(param, n_z, grad)
    a = ftrl_alpha(param, alpha, alpha_in)
    nz = n_z.reshape(*param.shape, 2)
    new, new_nz = ftrl_step(xp, param, nz, fitted(grad, param.shape, "grad"), a, beta, lambda1, lambda2)
    outs = out[0](param.shape, param.dtype), out[1](n_z.shape, n_z.dtype)
    outs[0][...] = new
    outs[1][...] = new_nz.reshape(n_z.shape)
    return outs


@operator("param_out n_z_out", inplace={0: 0, 1: 1}, types=_FTRL_TYPES, infer=like(0, 1), gradient=FORBID_GRADIENT)
def GFtrl(
    xp,
    param,
    n_z,
    grad,
    alpha_in=None,
    *,
    alpha: float = 0.005,
    beta: float = 1.0,
    lambda1: float = 0.001,
    lambda2: float = 0.001,
    out,
):
    """FTRL with the first penalty on the norm of each input's weights: param is outputs by inputs.

    Ni et al., Feature Selection for Facebook Feed Ranking System via a Group-Sparsity-Regularized Training Algorithm,
    2019.

    param [M, K], n_z [M, K, 2], grad [M, K], alpha_in [1]; float32.  ValueError where a size differs.
    """
    check_ftrl(param, n_z, grad)
    a = param.dtype.type(alpha) if alpha_in is None else one(alpha_in, "alpha")
    kind = param.dtype.type
    outputs = param.shape[0] if param.ndim else 1
    nz = n_z.reshape(*param.shape, 2)
    n, z, g = nz[..., 0], nz[..., 1], fitted(grad, param.shape, "grad")
    new_n = n + g * g
    new_z = z + g - (xp.sqrt(new_n) - xp.sqrt(n)) / a * param
    norm = xp.sqrt((new_z * new_z).sum(axis=0, keepdims=True))
    limit = kind(lambda1 * math.sqrt(outputs))
    curvature = (kind(beta) + xp.sqrt(new_n)) / a + kind(lambda2)
    new = xp.where(norm > limit, new_z * (limit / norm - 1) / curvature, 0)
    outs = out[0](param.shape, param.dtype), out[1](n_z.shape, n_z.dtype)
    outs[0][...] = new
    outs[1][...] = xp.stack([new_n, new_z], axis=-1).reshape(n_z.shape)
    return outs
