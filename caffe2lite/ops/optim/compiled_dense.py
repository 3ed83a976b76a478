"""Optimizers of dense parameters in compiled loops, over memory once.

The loops work in place: with further arrays for the results there would be more pairs that might overlap than the
compiler checks, and it would make them scalar.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, loop, plain
from caffe2lite.ops.optim.dense import adam_correction, check_sizes, one

_F = np.float32


def _placed(out: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """The outputs, holding the inputs' values."""
    made = [o(a.shape, a.dtype) for o, a in zip(out, inputs)]
    for target, a in zip(made, inputs):
        if target is not a:
            np.copyto(target, a)
    return made


@compiled("MomentumSGDUpdate")
def momentum_update(xp, grad, moment, lr, param, *, momentum: float = 0.0, nesterov: bool = False, out):
    check_sizes(grad=grad, moment=moment, param=param)
    g, m, p = _placed(out, (grad, moment, param))
    _momentum_update(*(a.reshape(-1) for a in (g, m, p)), one(lr, "lr")[()], _F(momentum), bool(nesterov))
    return g, m, p


@loop
def _momentum_update(G, M, P, lr, mu, nesterov):
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


@compiled("Adam")
def adam(
    xp, param, moment1, moment2, grad, lr, iter,
    *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-5, out,
):  # fmt: skip
    if len(out) > 3:
        options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "out": out}
        return plain("Adam")(xp, param, moment1, moment2, grad, lr, iter, **options)
    check_sizes(param=param, moment1=moment1, moment2=moment2, grad=grad)
    rate = one(lr, "lr")[()]
    p, m, v = _placed(out, (param, moment1, moment2))
    numbers = (beta1, beta2, 1 - beta1, 1 - beta2, epsilon, adam_correction(iter, beta1, beta2))
    _adam(*(a.reshape(-1) for a in (p, m, v, grad)), rate, *map(_F, numbers))
    return p, m, v


@loop
def _adam(P, M, V, G, lr, b1, b2, c1, c2, epsilon, correction):
    for j in range(G.size):
        g = G[j]
        m = M[j] * b1 + g * c1
        v = V[j] * b2 + g * g * c2
        M[j] = m
        V[j] = v
        P[j] += lr * (correction * (m / (np.sqrt(v) + epsilon)))


@compiled("Adagrad")
def adagrad(xp, param, moment, grad, lr, *, epsilon: float = 1e-5, decay: float = 1.0, weight_decay: float = 0.0, out):
    if len(out) > 2:
        options = {"epsilon": epsilon, "decay": decay, "weight_decay": weight_decay, "out": out}
        return plain("Adagrad")(xp, param, moment, grad, lr, **options)
    check_sizes(param=param, moment=moment, grad=grad)
    rate = one(lr, "lr")[()]
    p, m = _placed(out, (param, moment))
    _adagrad(*(a.reshape(-1) for a in (p, m, grad)), rate, *map(_F, (epsilon, decay, weight_decay)))
    return p, m


@loop
def _adagrad(P, M, G, lr, epsilon, decay, weight_decay):
    for j in range(G.size):
        g = weight_decay * P[j] + G[j]
        m = M[j] * decay + g * g
        M[j] = m
        P[j] += lr / (np.sqrt(m) + epsilon) * g
