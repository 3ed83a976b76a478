"""Sparse optimizers in compiled loops, row by row as Caffe2 does."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, loop, plain, prefetch
from caffe2lite.ops.optim import sparse
from caffe2lite.ops.optim.dense import adam_correction, one

_F = np.float32
_AHEAD, _LINE = 16, 16  # rows to fetch ahead; floats in a line of the cache


def _rate(lr: Any) -> Any:
    return one(lr, "lr")[()]


@compiled("SparseMomentumSGDUpdate")
def sparse_momentum(xp, grad, moment, lr, param, indices, *, momentum: float, nesterov: bool = False, out):
    ids, g, p, m = sparse._rows(param, indices, grad, moment)
    steps = out[0](grad.shape, grad.dtype)
    _sparse_momentum(ids, g, p, m, steps.reshape(g.shape), _rate(lr), _F(momentum), nesterov)
    return steps, moment, param


@loop
def _sparse_momentum(ids, G, P, M, steps, lr, mu, nesterov):
    ahead = _F(1) + mu
    for k in range(ids.size):
        p, m, g, step = P[ids[k]], M[ids[k]], G[k], steps[k]
        for j in range(g.size):
            old = m[j] * mu
            new = old + g[j] * lr
            m[j] = new
            step[j] = new * ahead - old if nesterov else new
            p[j] -= step[j]


@compiled("SparseAdam")
def sparse_adam(
    xp, param, moment1, moment2, indices, grad, lr, iter,
    *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-5, enableRAdam: bool = False, out,
):  # fmt: skip
    if enableRAdam or len(out) > 3:
        options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "enableRAdam": enableRAdam, "out": out}
        return plain("SparseAdam")(xp, param, moment1, moment2, indices, grad, lr, iter, **options)
    ids, g, p, m, v = sparse._rows(param, indices, grad, moment1, moment2)
    numbers = (beta1, beta2, 1 - beta1, 1 - beta2, epsilon, adam_correction(iter, beta1, beta2))
    _sparse_adam(ids, g, p, m, v, _rate(lr), *map(_F, numbers))
    return param, moment1, moment2


@loop
def _sparse_adam(ids, G, P, M, V, lr, b1, b2, c1, c2, epsilon, correction):
    for k in range(ids.size):
        g, p, m, v = G[k], P[ids[k]], M[ids[k]], V[ids[k]]
        for j in range(g.size):
            m[j] = m[j] * b1 + g[j] * c1
            v[j] = v[j] * b2 + g[j] * g[j] * c2
            p[j] += lr * (correction * m[j] / (np.sqrt(v[j]) + epsilon))


@compiled("SparseAdagrad")
def sparse_adagrad(xp, param, moment, indices, grad, lr, *, epsilon: float = 1e-5, weight_decay: float = 0.0):
    ids, g, p, m = sparse._rows(param, indices, grad, moment)
    _sparse_adagrad(ids, g, p, m, _rate(lr), _F(epsilon), _F(weight_decay))
    return param, moment


@loop
def _sparse_adagrad(ids, G, P, M, lr, epsilon, weight_decay):
    width = G.shape[1]
    flat, moments = P.reshape(-1), M.reshape(-1)
    for k in range(ids.size):
        soon = ids[min(k + _AHEAD, ids.size - 1)] * width
        for j in range(soon, soon + width, _LINE):
            prefetch(flat, j)
            prefetch(moments, j)
        begin = ids[k] * width
        g, p, m = G[k], flat[begin : begin + width], moments[begin : begin + width]
        for j in range(width):
            slope = g[j] + weight_decay * p[j]
            m[j] += slope * slope
            p[j] += lr * slope / (np.sqrt(m[j]) + epsilon)


@compiled("RowWiseSparseAdagrad")
def row_wise_sparse_adagrad(
    xp, param, moment, indices, grad, lr, counter=None,
    *, epsilon: float = 1e-5, weight_decay: float = 0.0, counter_halflife: int = -1,
):  # fmt: skip
    ids, g, p = sparse._rows(param, indices, grad)
    m = sparse._row_moment(moment, param)
    if counter is not None and counter_halflife > 0:
        options = {"epsilon": epsilon, "weight_decay": weight_decay, "counter_halflife": counter_halflife}
        return plain("RowWiseSparseAdagrad")(xp, param, moment, indices, grad, lr, counter, **options)
    _row_wise_adagrad(ids, g, p, m, _rate(lr), _F(epsilon), _F(weight_decay))
    return param, moment


@loop(reorder=True)
def _row_wise_adagrad(ids, G, P, M, lr, epsilon, weight_decay):
    width = G.shape[1]
    flat = P.reshape(-1)
    for k in range(ids.size):
        soon = ids[min(k + _AHEAD, ids.size - 1)]
        prefetch(M, soon)
        for j in range(0, width, _LINE):
            prefetch(flat, soon * width + j)
        row = ids[k]
        g, p = G[k], flat[row * width : (row + 1) * width]
        total = _F(0)
        for j in range(width):
            slope = g[j] + weight_decay * p[j]
            total += slope * slope
        moment = M[row] + total / _F(width)
        M[row] = moment
        step = lr / (np.sqrt(moment) + epsilon)
        for j in range(width):
            p[j] += step * (g[j] + weight_decay * p[j])


@compiled("RowWiseSparseAdam")
def row_wise_sparse_adam(
    xp, param, moment1, moment2, indices, grad, lr, iter,
    *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-5, enableRAdam: bool = False, out,
):  # fmt: skip
    if enableRAdam or len(out) > 3:
        options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "enableRAdam": enableRAdam, "out": out}
        return plain("RowWiseSparseAdam")(xp, param, moment1, moment2, indices, grad, lr, iter, **options)
    ids, g, p, m = sparse._rows(param, indices, grad, moment1)
    v = sparse._row_moment(moment2, param)
    numbers = (beta1, beta2, 1 - beta1, 1 - beta2, epsilon, adam_correction(iter, beta1, beta2))
    _row_wise_adam(ids, g, p, m, v, _rate(lr), *map(_F, numbers))
    return param, moment1, moment2


@loop(reorder=True)
def _row_wise_adam(ids, G, P, M, V, lr, b1, b2, c1, c2, epsilon, correction):
    for k in range(ids.size):
        g, p, m = G[k], P[ids[k]], M[ids[k]]
        total = _F(0)
        for j in range(g.size):
            total += g[j] * g[j]
        V[ids[k]] = V[ids[k]] * b2 + total / _F(g.size) * c2
        scale = correction / (np.sqrt(V[ids[k]]) + epsilon)
        for j in range(g.size):
            m[j] = m[j] * b1 + g[j] * c1
            p[j] += lr * (scale * m[j])
