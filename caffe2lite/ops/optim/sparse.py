"""Optimizers of the rows of a parameter that a sparse gradient names, all in place.

A row that comes several times is stepped several times, in order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from caffe2lite.ops.kit.arguments import fields_of
from caffe2lite.ops.kit.compiled import compiled, loop
from caffe2lite.ops.kit.cuda_kernels import usable
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.rows import check_indices, gradient_rows, sweeps
from caffe2lite.ops.kit.shapes import one
from caffe2lite.ops.optim import cuda
from caffe2lite.ops.optim.adaptive import storm_rates
from caffe2lite.ops.optim.dense import adadelta_step, adam_correction, ftrl_alpha, ftrl_step

INDICES = "int32 int64"
F = np.float32  # of the compiled loops
AHEAD, LINE = 16, 16  # rows to fetch ahead; floats in a line of the cache


def rows_to_step(param: Any, indices: Any, grad: Any, *moments: Any, by_kernel: bool = False) -> tuple[Any, ...]:
    """(indices, gradient rows, parameter rows, moment rows ...), views of the same memory; a kernel checks indices itself."""
    ids = indices.reshape(-1) if by_kernel else check_indices(indices, param.shape[0] if param.ndim else 0)
    g = gradient_rows(param, indices, grad)
    for m in moments:
        if m.size != param.size:
            raise ValueError(
                f"a moment {list(m.shape)} must have as many elements as the parameter {list(param.shape)}"
            )
    width = g.shape[1]
    return (ids, g, *(a.reshape(-1, width) if a.size else a.reshape(param.shape[0], width) for a in (param, *moments)))


def row_moment(moment: Any, param: Any) -> Any:
    if moment.size != param.shape[0]:
        raise ValueError(
            f"the moment {list(moment.shape)} must have one value a row of the parameter {list(param.shape)}"
        )
    return moment.reshape(-1)


def rate_of(lr: Any) -> Any:
    return one(lr, "lr")[()]


@operator(
    "grad_out moment_out param_out",
    inplace=[(0, 0)],
    mutates=[(1, 1), (3, 2)],
    types={"grad": "float32", "moment": "=grad", "lr": "float32", "param": "=grad", "indices": INDICES},
    gradient=FORBID_GRADIENT,
    infer=like(0, 1, 3),
)
def SparseMomentumSGDUpdate(
    xp, grad, moment, lr, param, indices, *, momentum: float = 0.0, nesterov: bool = False, out
):
    """MomentumSGDUpdate of the rows in `indices`.

    grad [n, ...], moment and param [N, ...], indices [n], lr [1]; float32, indices int32 or int64.  ValueError where
    an index is no row or a size differs.
    """
    kernel = usable(xp)
    ids, g, p, m = rows_to_step(param, indices, grad, moment, by_kernel=kernel)
    mu, rate = grad.dtype.type(momentum), one(lr, "lr")
    steps = out[0](grad.shape, grad.dtype)
    s = steps.reshape(g.shape)
    if kernel:
        cuda.step_rows(xp, cuda.SPARSE_MOMENTUM, p, m, g, ids, rate, s, mu, nesterov)
        return steps, moment, param
    for at in sweeps(xp, ids):
        rows = ids[at]
        old = m[rows] * mu
        new = old + g[at] * rate
        step = new * (1 + mu) - old if nesterov else new
        m[rows] = new
        p[rows] -= step
        s[at] = step
    return steps, moment, param


@compiled(SparseMomentumSGDUpdate)
def _sparse_momentum_compiled(
    xp, grad, moment, lr, param, indices, *, momentum: float = 0.0, nesterov: bool = False, out
):
    ids, g, p, m = rows_to_step(param, indices, grad, moment)
    steps = out[0](grad.shape, grad.dtype)
    _sparse_momentum_loop(ids, g, p, m, steps.reshape(g.shape), rate_of(lr), F(momentum), nesterov)
    return steps, moment, param


@loop
def _sparse_momentum_loop(ids, G, P, M, steps, lr, mu, nesterov):
    ahead = F(1) + mu
    for k in range(ids.size):
        p, m, g, step = P[ids[k]], M[ids[k]], G[k], steps[k]
        for j in range(g.size):
            old = m[j] * mu
            new = old + g[j] * lr
            m[j] = new
            step[j] = new * ahead - old if nesterov else new
            p[j] -= step[j]


class Adam(NamedTuple):
    """The arguments of SparseAdam and RowWiseSparseAdam."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-5
    enableRAdam: bool = False  # noqa: N815 - Caffe2's name

    @property
    def numbers(self) -> tuple[float, ...]:
        """What a step needs beside the correction: shares of what was and of what comes, and epsilon."""
        return self.beta1, self.beta2, 1 - self.beta1, 1 - self.beta2, self.epsilon


fields_of(Adam)
_ADAM_TYPES = {
    "param": "float32",
    "moment1": "=param",
    "moment2": "=param",
    "indices": INDICES,
    "grad": "=param",
    "lr": "float32",
    "iter": "int64",
}


@operator(
    "param_out moment1_out moment2_out grad_out?",
    mutates=[(0, 0), (1, 1), (2, 2)],
    types=_ADAM_TYPES,
    host="iter",
    gradient=FORBID_GRADIENT,
)
def SparseAdam(
    xp,
    param,
    moment1,
    moment2,
    indices,
    grad,
    lr,
    iter,
    *,
    adam: Adam,
    out,
):
    """Adam of the rows in `indices`; the fourth output are the steps without lr.

    enableRAdam rectifies the step (Liu et al., On the Variance of the Adaptive Learning Rate and Beyond, 2020).

    param and moments [N, ...], grad and grad_out [n, ...], indices [n], lr [1], iter [1]; float32, indices int32 or
    int64, iter int64.  ValueError where an index is no row or a size differs.
    """
    kernel = usable(xp)
    ids, g, p, m, v = rows_to_step(param, indices, grad, moment1, moment2, by_kernel=kernel)
    correction, adapt = adam_correction(iter, adam.beta1, adam.beta2), True
    if adam.enableRAdam:
        correction, adapt = _radam(int(one(iter, "iter")) + 1, adam.beta1, adam.beta2)
    kind = grad.dtype.type
    c, rate = kind(correction), one(lr, "lr")
    beta1, beta2, fresh1, fresh2, epsilon = map(kind, adam.numbers)
    steps = out[3](grad.shape, grad.dtype) if len(out) > 3 else None
    if kernel:
        cuda.step_rows(xp, cuda.SPARSE_ADAM, p, m, g, ids, rate, v, steps, *adam.numbers, correction, adapt)
        return param, moment1, moment2, steps
    for at in sweeps(xp, ids):
        rows = ids[at]
        m[rows] = m[rows] * beta1 + g[at] * fresh1
        v[rows] = v[rows] * beta2 + g[at] * g[at] * fresh2
        step = c * m[rows] / (xp.sqrt(v[rows]) + epsilon) if adapt else c * m[rows]
        p[rows] += rate * step
        if steps is not None:
            steps.reshape(g.shape)[at] = step
    return param, moment1, moment2, steps


def _radam(t: int, beta1: float, beta2: float) -> tuple[float, bool]:
    """Rectified Adam: (factor of the step, whether the second moment adapts it)."""
    beta1, beta2 = np.float64(beta1), np.float64(beta2)  # beyond its limits inf or NaN, as in C
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * t * beta2**t / (1 - beta2**t)
    if length < 5:
        return 1 / (1 - beta1**t), False
    rectify = np.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))
    return rectify * np.sqrt(1 - beta2**t) / (1 - beta1**t), True


@compiled(SparseAdam)
def _sparse_adam_compiled(
    xp,
    param,
    moment1,
    moment2,
    indices,
    grad,
    lr,
    iter,
    *,
    adam: Adam,
    out,
):
    if adam.enableRAdam or len(out) > 3:
        return SparseAdam(xp, param, moment1, moment2, indices, grad, lr, iter, adam=adam, out=out)
    ids, g, p, m, v = rows_to_step(param, indices, grad, moment1, moment2)
    numbers = (*adam.numbers, adam_correction(iter, adam.beta1, adam.beta2))
    _sparse_adam_loop(ids, g, p, m, v, rate_of(lr), *map(F, numbers))
    return param, moment1, moment2


@loop
def _sparse_adam_loop(ids, G, P, M, V, lr, b1, b2, c1, c2, epsilon, correction):
    for k in range(ids.size):
        g, p, m, v = G[k], P[ids[k]], M[ids[k]], V[ids[k]]
        for j in range(g.size):
            m[j] = m[j] * b1 + g[j] * c1
            v[j] = v[j] * b2 + g[j] * g[j] * c2
            p[j] += lr * (correction * m[j] / (np.sqrt(v[j]) + epsilon))


@operator(
    "param_out moment1_out moment2_out grad_out?",
    mutates=[(0, 0), (1, 1), (2, 2)],
    types=_ADAM_TYPES,
    host="iter",
    gradient=FORBID_GRADIENT,
)
def RowWiseSparseAdam(
    xp,
    param,
    moment1,
    moment2,
    indices,
    grad,
    lr,
    iter,
    *,
    adam: Adam,
    out,
):
    """SparseAdam with one second moment a row, of the mean square of its gradient; enableRAdam changes nothing.

    param and moment1 [N, ...], moment2 [N], grad and grad_out [n, ...], indices [n], lr [1], iter [1]; float32,
    indices int32 or int64, iter int64.  ValueError where an index is no row or a size differs.
    """
    kernel = usable(xp)
    ids, g, p, m = rows_to_step(param, indices, grad, moment1, by_kernel=kernel)
    v = row_moment(moment2, param)[:, None]
    kind = grad.dtype.type
    c, rate = kind(adam_correction(iter, adam.beta1, adam.beta2)), one(lr, "lr")
    beta1, beta2, fresh1, fresh2, epsilon = map(kind, adam.numbers)
    steps = out[3](grad.shape, grad.dtype) if len(out) > 3 else None
    if kernel:
        cuda.step_rows(xp, cuda.ROW_WISE_ADAM, p, m, g, ids, rate, v, steps, *adam.numbers, c)
        return param, moment1, moment2, steps
    for at in sweeps(xp, ids):
        rows = ids[at]
        m[rows] = m[rows] * beta1 + g[at] * fresh1
        v[rows] = v[rows] * beta2 + (g[at] * g[at]).mean(axis=1, keepdims=True) * fresh2
        step = c * m[rows] / (xp.sqrt(v[rows]) + epsilon)
        p[rows] += rate * step
        if steps is not None:
            steps.reshape(g.shape)[at] = step
    return param, moment1, moment2, steps


@compiled(RowWiseSparseAdam)
def _row_wise_sparse_adam_compiled(
    xp,
    param,
    moment1,
    moment2,
    indices,
    grad,
    lr,
    iter,
    *,
    adam: Adam,
    out,
):
    if adam.enableRAdam or len(out) > 3:
        return RowWiseSparseAdam(xp, param, moment1, moment2, indices, grad, lr, iter, adam=adam, out=out)
    ids, g, p, m = rows_to_step(param, indices, grad, moment1)
    v = row_moment(moment2, param)
    numbers = (*adam.numbers, adam_correction(iter, adam.beta1, adam.beta2))
    _row_wise_adam_loop(ids, g, p, m, v, rate_of(lr), *map(F, numbers))
    return param, moment1, moment2


@loop(reorder=True)
def _row_wise_adam_loop(ids, G, P, M, V, lr, b1, b2, c1, c2, epsilon, correction):
    for k in range(ids.size):
        g, p, m = G[k], P[ids[k]], M[ids[k]]
        total = F(0)
        for j in range(g.size):
            total += g[j] * g[j]
        V[ids[k]] = V[ids[k]] * b2 + total / F(g.size) * c2
        scale = correction / (np.sqrt(V[ids[k]]) + epsilon)
        for j in range(g.size):
            m[j] = m[j] * b1 + g[j] * c1
            p[j] += lr * (scale * m[j])


@operator(
    "param_out moment1_out moment2_out last_seen_out",
    mutates=[(0, 0), (1, 1), (2, 2), (3, 3)],
    types={
        "param": "float32",
        "moment1": "=param",
        "moment2": "=param",
        "last_seen": "int64",
        "indices": INDICES,
        "grad": "=param",
        "lr": "float32",
        "iter": "int64",
    },
    host="iter",
)
def SmartDecaySparseAdam(
    xp,
    param,
    moment1,
    moment2,
    last_seen,
    indices,
    grad,
    lr,
    iter,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-5,
):
    """SparseAdam that makes up for the iterations in which a row was not seen, as if its gradient had been 0.

    param and moments [N, ...], last_seen [N], grad [n, ...], indices [n], lr [1], iter [1]; float32, indices int32 or
    int64, last_seen and iter int64.  ValueError where an index is no row or a size differs.
    """
    ids, g, p, m, v = rows_to_step(param, indices, grad, moment1, moment2)
    seen = row_moment(last_seen, param)
    kind = grad.dtype.type
    now, rate, b1, b2 = one(iter, "iter") + 1, one(lr, "lr"), kind(beta1), kind(beta2)
    for at in sweeps(xp, ids):
        rows = ids[at]
        missed = (now - seen[rows]).astype(grad.dtype)[:, None]
        # The sum of the moments of the steps that were missed; a row that is given twice has missed none.
        caught_up = m[rows] * (b1 - xp.power(b1, xp.maximum(missed, 1))) / (1 - b1)
        m[rows] = m[rows] * xp.power(b1, missed) + g[at] * (1 - b1)
        v[rows] = v[rows] * xp.power(b2, missed) + g[at] * g[at] * (1 - b2)
        seen[rows] = now
        p[rows] += rate * (m[rows] + caught_up) / (xp.sqrt(v[rows]) + kind(epsilon))
    return param, moment1, moment2, last_seen


@operator(
    "param_out moment_out delta_out",
    mutates=[(0, 0), (1, 1), (2, 2)],
    types={
        "param": "float32",
        "moment": "=param",
        "delta": "=param",
        "indices": INDICES,
        "grad": "=param",
        "lr": "float32",
    },
    gradient=FORBID_GRADIENT,
    limits="epsilon >= 0, decay > 0, decay < 1",
)
def SparseAdadelta(xp, param, moment, delta, indices, grad, lr, *, epsilon: float = 1e-5, decay: float = 0.95):
    """Adadelta of the rows in `indices`.

    param, moment and delta [N, ...], grad [n, ...], indices [n], lr [1]; float32, indices int32 or int64.  ValueError
    where an index is no row, a size differs, epsilon is below 0, or decay is not between 0 and 1.
    """
    ids, g, p, m, d = rows_to_step(param, indices, grad, moment, delta)
    rate = one(lr, "lr")
    for at in sweeps(xp, ids):
        rows = ids[at]
        m[rows], d[rows], step = adadelta_step(xp, m[rows], d[rows], g[at], epsilon, decay)
        p[rows] += rate * step
    return param, moment, delta


@operator(
    "param_out n_z_out",
    mutates=[(0, 0), (1, 1)],
    types={"param": "float32", "n_z": "=param", "indices": INDICES, "grad": "=param", "alpha_in": "float32"},
    gradient=FORBID_GRADIENT,
)
def SparseFtrl(
    xp,
    param,
    n_z,
    indices,
    grad,
    alpha_in=None,
    *,
    alpha: float | None = None,
    beta: float = 1.0,
    lambda1: float = 0.001,
    lambda2: float = 0.001,
):
    """FTRL of the rows in `indices`.

    param [N, ...], n_z [N, ..., 2], grad [n, ...], indices [n], alpha_in [1]; float32, indices int32 or int64.
    ValueError where an index is no row, a size differs, or alpha is given twice.
    """
    if n_z.size != 2 * param.size:
        raise ValueError(f"n_z {list(n_z.shape)} must hold two values for each of the parameter {list(param.shape)}")
    ids, g, p = rows_to_step(param, indices, grad)
    nz = n_z.reshape(*p.shape, 2)
    a = ftrl_alpha(param, alpha, alpha_in)
    for at in sweeps(xp, ids):
        rows = ids[at]
        p[rows], nz[rows] = ftrl_step(xp, p[rows], nz[rows], g[at], a, beta, lambda1, lambda2)
    return param, n_z


@operator(
    "param_out moment_out grad_sq_sum_out",
    mutates=[(0, 0), (1, 1), (2, 2)],
    types={
        "param": "float32",
        "moment": "=param",
        "grad_sq_sum": "=param",
        "grad": "=param",
        "indices": INDICES,
        "lr": "float32",
    },
    gradient=FORBID_GRADIENT,
)
def SparseStorm(xp, param, moment, grad_sq_sum, grad, indices, lr, *, momentum: float = 10.0, beta: float = 0.1):
    """STORM of the rows in `indices`.

    param and moment [N, ...], grad_sq_sum [1], grad [n, ...], indices [n], lr [1]; float32, indices int32 or int64.
    ValueError where an index is no row or a size differs.
    """
    ids, g, p, m = rows_to_step(param, indices, grad, moment)
    total, rate, keep = storm_rates(xp, one(grad_sq_sum, "grad_sq_sum"), grad, one(lr, "lr"), momentum, beta)
    for at in sweeps(xp, ids):
        rows = ids[at]
        m[rows] = g[at] + keep * (m[rows] - g[at])
        p[rows] += rate * m[rows]
    grad_sq_sum[...] = total
    return param, moment, grad_sq_sum


@operator(
    "param_out seq_b_out",
    mutates=[(0, 0), (1, 1)],
    types={"param": "float32", "seq_b": "=param", "indices": INDICES, "grad": "=param", "lr": "float32"},
    gradient=FORBID_GRADIENT,
)
def SparseWngrad(xp, param, seq_b, indices, grad, lr, *, epsilon: float = 1e-5):
    """WNGrad of the rows in `indices`.

    As in Caffe2 b grows by |g|^2 / b, without epsilon.  param [N, ...], seq_b [1], grad [n, ...], indices [n], lr
    [1]; float32, indices int32 or int64.  ValueError where an index is no row or a size differs.
    """
    ids, g, p = rows_to_step(param, indices, grad)
    b, kind = one(seq_b, "seq_b"), param.dtype.type
    rate = one(lr, "lr") / (b + kind(epsilon))
    growth = xp.vdot(grad, grad) / b
    for at in sweeps(xp, ids):
        p[ids[at]] += rate * g[at]
    seq_b += growth
    return param, seq_b
