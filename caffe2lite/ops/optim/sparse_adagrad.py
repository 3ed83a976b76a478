"""Adagrad of the rows of a parameter that a sparse gradient names, in place, as in `sparse`."""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, loop, prefetch
from caffe2lite.ops.kit.cuda_kernels import usable
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.rows import sweeps
from caffe2lite.ops.kit.shapes import one
from caffe2lite.ops.optim import cuda
from caffe2lite.ops.optim.sparse import AHEAD, INDICES, LINE, F, rate_of, row_moment, rows_to_step


@operator(
    "param_out moment_out",
    mutates=[(0, 0), (1, 1)],
    types={
        "param": "float32 float16",
        "moment": "float32 float16",
        "indices": INDICES,
        "grad": "float32",
        "lr": "float32",
    },
    gradient=FORBID_GRADIENT,
)
def SparseAdagrad(xp, param, moment, indices, grad, lr, *, epsilon: float = 1e-5, weight_decay: float = 0.0):
    """Adagrad of the rows in `indices`.

    g = grad + weight_decay * row, moment = moment + g^2, row = row + lr * g / (sqrt(moment) + epsilon).

    param and moment [N, ...], grad [n, ...], indices [n], lr [1]; float32, param and moment float16 too, indices
    int32 or int64.  ValueError where an index is no row or a size differs.
    """
    kernel = usable(xp, param, moment)
    ids, g, p, m = rows_to_step(param, indices, grad, moment, by_kernel=kernel)
    rate, kind = one(lr, "lr"), grad.dtype.type
    if kernel:
        cuda.step_rows(xp, cuda.SPARSE_ADAGRAD, p, m, g, ids, rate, epsilon, weight_decay)
        return param, moment
    for at in sweeps(xp, ids):
        rows = ids[at]
        decayed = g[at] + kind(weight_decay) * p[rows]
        m[rows] += decayed * decayed
        p[rows] += rate * decayed / (xp.sqrt(m[rows]) + kind(epsilon))
    return param, moment


@compiled(SparseAdagrad)
def _sparse_adagrad_compiled(xp, param, moment, indices, grad, lr, *, epsilon: float = 1e-5, weight_decay: float = 0.0):
    ids, g, p, m = rows_to_step(param, indices, grad, moment)
    adagrad_rows(ids, g, np.arange(ids.size), p, m, rate_of(lr), epsilon, weight_decay)
    return param, moment


def adagrad_rows(ids, grads, which, param, moment, rate, epsilon, weight_decay):
    """The compiled step of the rows `ids`, each with the row of `grads` that `which` says; moments of rows or elements."""
    step = _sparse_adagrad_loop if moment.size == param.size and moment.ndim > 1 else _row_wise_adagrad_loop
    step(ids, grads, which, param, moment, rate, F(epsilon), F(weight_decay))


@loop
def _sparse_adagrad_loop(ids, G, which, P, M, lr, epsilon, weight_decay):
    width = G.shape[1]
    flat, moments = P.reshape(-1), M.reshape(-1)
    for k in range(ids.size):
        soon = ids[min(k + AHEAD, ids.size - 1)] * width
        for j in range(soon, soon + width, LINE):
            prefetch(flat, j)
            prefetch(moments, j)
        begin = ids[k] * width
        g, p, m = G[which[k]], flat[begin : begin + width], moments[begin : begin + width]
        for j in range(width):
            decayed = g[j] + weight_decay * p[j]
            m[j] += decayed * decayed
            p[j] += lr * decayed / (np.sqrt(m[j]) + epsilon)


def _check_counter(param, moment, indices, grad, lr, counter=None, *, counter_halflife=-1):
    if counter_halflife <= 0:
        return
    if counter is None:
        raise ValueError(
            f"counter_halflife={counter_halflife} needs the sixth input, the counter of updates of each row"
        )
    if param.ndim and counter.size < param.shape[0]:
        raise ValueError(f"the counter {list(counter.shape)} must have a value for each of {param.shape[0]} rows")


@operator(
    "param_out moment_out",
    mutates=[(0, 0), (1, 1)],
    types={"param": "float32 float16", "moment": "float32", "indices": INDICES, "grad": "float32", "lr": "float32"},
    check=_check_counter,
    gradient=FORBID_GRADIENT,
)
def RowWiseSparseAdagrad(
    xp,
    param,
    moment,
    indices,
    grad,
    lr,
    counter=None,
    *,
    epsilon: float = 1e-5,
    weight_decay: float = 0.0,
    counter_halflife: int = -1,
):
    """SparseAdagrad with one moment a row, of the mean square of its gradient; a counter of rows scales the decay.

    param [N, ...], moment [N], grad [n, ...], indices [n], lr [1], counter [N]; float32, param float16 too, indices
    int32 or int64.  ValueError where an index is no row, a size differs, or counter_halflife is above 0 without a
    counter.
    """
    kernel = usable(xp, param) and (counter is None or counter_halflife <= 0)
    ids, g, p = rows_to_step(param, indices, grad, by_kernel=kernel)
    m = row_moment(moment, param)
    rate, kind = one(lr, "lr"), grad.dtype.type
    if kernel:
        cuda.step_rows(xp, cuda.ROW_WISE_ADAGRAD, p, m, g, ids, rate, epsilon, weight_decay)
        return param, moment
    for at in sweeps(xp, ids):
        rows = ids[at]
        decay = kind(weight_decay)
        if counter is not None and counter_halflife > 0:
            count = counter.reshape(-1)[rows]
            decay = decay * xp.where(count > 0, counter_halflife / count, 1)[:, None].astype(grad.dtype)
        decayed = g[at] + decay * p[rows]
        m[rows] += (decayed * decayed).mean(axis=1)
        p[rows] += (rate / (xp.sqrt(m[rows]) + kind(epsilon)))[:, None] * decayed
    return param, moment


@compiled(RowWiseSparseAdagrad)
def _row_wise_sparse_adagrad_compiled(
    xp,
    param,
    moment,
    indices,
    grad,
    lr,
    counter=None,
    *,
    epsilon: float = 1e-5,
    weight_decay: float = 0.0,
    counter_halflife: int = -1,
):
    ids, g, p = rows_to_step(param, indices, grad)
    m = row_moment(moment, param)
    if counter is not None and counter_halflife > 0:
        options = {"epsilon": epsilon, "weight_decay": weight_decay, "counter_halflife": counter_halflife}
        return RowWiseSparseAdagrad(xp, param, moment, indices, grad, lr, counter, **options)
    adagrad_rows(ids, g, np.arange(ids.size), p, m, rate_of(lr), epsilon, weight_decay)
    return param, moment


@loop(reorder=True)
def _row_wise_adagrad_loop(ids, G, which, P, M, lr, epsilon, weight_decay):
    width = G.shape[1]
    flat = P.reshape(-1)
    for k in range(ids.size):
        soon = ids[min(k + AHEAD, ids.size - 1)]
        prefetch(M, soon)
        for j in range(0, width, LINE):
            prefetch(flat, soon * width + j)
        row = ids[k]
        g, p = G[which[k]], flat[row * width : (row + 1) * width]
        total = F(0)
        for j in range(width):
            decayed = g[j] + weight_decay * p[j]
            total += decayed * decayed
        moment = M[row] + total / F(width)
        M[row] = moment
        step = lr / (np.sqrt(moment) + epsilon)
        for j in range(width):
            p[j] += step * (g[j] + weight_decay * p[j])
