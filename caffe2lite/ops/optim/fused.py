"""Adagrad straight from the gradient of a sum of rows: the gradient of each segment goes to all rows that it summed.

The names with Approx differ only in the gradient of the weights, which they take from rows that are stepped already.
"""

from __future__ import annotations

import math
from typing import Any

from caffe2lite.ops.kit.compiled import compiled
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.rows import check_indices, sweeps
from caffe2lite.ops.kit.shapes import one
from caffe2lite.ops.optim.sparse_adagrad import adagrad_rows


def _rows(xp: Any, param: Any, indices: Any, grad: Any, lengths: Any, mean: bool) -> tuple[Any, Any, Any, Any]:
    """(indices, gradients of the segments, segment of each index, parameter rows)."""
    if param.ndim < 1 or lengths.ndim != 1 or grad.shape[:1] != lengths.shape:
        raise ValueError(
            f"a gradient row for each of the {lengths.size} lengths is needed, found {list(grad.shape)}, for a "
            f"parameter {list(param.shape)}"
        )
    ids = check_indices(indices, param.shape[0])
    counts = lengths.tolist()
    if sum(counts) != ids.size or min(counts, default=0) < 0:
        raise ValueError(f"the lengths add up to {sum(counts)}, and there are {ids.size} indices")
    width = math.prod(param.shape[1:])
    rows = grad.reshape(len(counts), math.prod(grad.shape[1:]))
    if rows.shape[1] != width:
        raise ValueError(f"rows of the gradient have {rows.shape[1]} values, those of the parameter {width}")
    if mean:
        rows = rows / xp.asarray([[max(n, 1)] for n in counts], dtype=grad.dtype)
    return ids, rows, xp.repeat(xp.arange(len(counts)), counts), param.reshape(param.shape[0], width)


_OPERANDS = """param [N, D], moment of its shape (RowWise: [N]), indices [n], grad [segments, D], lr [1], lengths [segments];
float32, indices int32 or int64, lengths int32.  ValueError where an index is no row, the lengths do not add up to n, or
the moment or the gradient has another size."""


def _moments(param: Any, moment: Any, rows: Any, row_wise: bool) -> Any:
    if moment.size != (param.shape[0] if row_wise else param.size):
        raise ValueError(
            f"the moment {list(moment.shape)} must have one value for each {'row' if row_wise else 'element'} of the "
            f"parameter {list(param.shape)}"
        )
    return moment.reshape(param.shape[0], 1 if row_wise else rows.shape[1])


def _adagrad(
    xp: Any,
    m: Any,
    ids: Any,
    grads: Any,
    rows: Any,
    lr: Any,
    row_wise: bool,
    epsilon: float,
    weight_decay: float,
    weights: Any = None,
    aux: Any = None,
) -> None:
    rate, kind = one(lr, "lr"), grads.dtype.type
    for at in sweeps(xp, ids):
        which = ids[at]
        g = grads[at]
        values = rows[which].astype(grads.dtype)
        if weights is not None:
            if aux is not None:
                aux[at] = (values * g).sum(axis=1)
            g = g * weights[at][:, None]
        g = g + kind(weight_decay) * values
        square = g * g
        m[which] += square.mean(axis=1, keepdims=True) if row_wise else square
        rows[which] += rate * g / (xp.sqrt(m[which]) + kind(epsilon))


_TYPES = {
    "param": "float32",
    "moment": "float32",
    "indices": "int32 int64",
    "grad": "float32",
    "lr": "float32",
    "lengths": "int32",
}


def _adagrad_of(row_wise: bool) -> str:
    return "RowWiseSparseAdagrad" if row_wise else "SparseAdagrad"


def _fused(name: str, row_wise: bool, mean: bool) -> None:
    def kernel(xp, param, moment, indices, grad, lr, lengths, *, epsilon: float = 1e-5, weight_decay: float = 0.0):
        ids, grads, segments, rows = _rows(xp, param, indices, grad, lengths, mean)
        m = _moments(param, moment, rows, row_wise)
        _adagrad(xp, m, ids, grads[segments], rows, lr, row_wise, epsilon, weight_decay)
        return param, moment

    def in_a_loop(xp, param, moment, indices, grad, lr, lengths, *, epsilon: float = 1e-5, weight_decay: float = 0.0):
        ids, grads, segments, rows = _rows(xp, param, indices, grad, lengths, mean)
        m = _moments(param, moment, rows, row_wise)
        adagrad_rows(ids, grads, segments, rows, m[:, 0] if row_wise else m, one(lr, "lr")[()], epsilon, weight_decay)
        return param, moment

    plain = operator(
        "param_out moment_out",
        name=name,
        mutates=[(0, 0), (1, 1)],
        types=_TYPES,
        host="lengths",
        doc=f"{_adagrad_of(row_wise)} of the rows whose {'means' if mean else 'sums'} the gradient is of.\n\n{_OPERANDS}",
    )(kernel)
    compiled(plain)(in_a_loop)


def _fused_weighted(name: str, row_wise: bool, approximate: bool) -> None:
    def kernel(
        xp, param, moment, weights, indices, grad, lr, lengths, *, epsilon: float = 1e-5, weight_decay: float = 0.0, out
    ):
        ids, grads, segments, rows = _rows(xp, param, indices, grad, lengths, False)
        grads = grads[segments]
        if weights.size != ids.size:
            raise ValueError(f"one weight for each of {ids.size} indices is needed, found {list(weights.shape)}")
        aux = out[2]((ids.size,), weights.dtype)
        place = xp.asarray([k for n in lengths.tolist() for k in range(n)], dtype="int64")
        weights = weights.reshape(-1)[place]  # as Caffe2 does: each segment begins with the first weight again
        along = aux.reshape(-1)
        if not approximate:
            along[...] = (rows[ids] * grads).sum(axis=1)
            along = None
        _adagrad(
            xp,
            _moments(param, moment, rows, row_wise),
            ids,
            grads,
            rows,
            lr,
            row_wise,
            epsilon,
            weight_decay,
            weights,
            along,
        )
        return param, moment, aux

    operator(
        "param_out moment_out aux_grad",
        name=name,
        mutates=[(0, 0), (1, 1)],
        types={**_TYPES, "weights": "float32"},
        host="lengths",
        doc=f"{_adagrad_of(row_wise)} of the rows whose weighted sums the gradient is of; aux_grad is the gradient of weights "
        f"[n].\n\n{_OPERANDS}",
    )(kernel)


for _name, _row_wise, _mean in (
    ("SparseAdagradFusedWithSparseLengthsSumGradient", False, False),
    ("SparseAdagradFusedWithSparseLengthsSumGradientApprox", False, False),
    ("SparseAdagradFusedWithSparseLengthsMeanGradient", False, True),
    ("SparseAdagradFusedWithSparseLengthsMeanGradientApprox", False, True),
    ("RowWiseSparseAdagradFusedWithSparseLengthsSumGradient", True, False),
    ("RowWiseSparseAdagradFusedWithSparseLengthsSumGradientApprox", True, False),
    ("RowWiseSparseAdagradFusedWithSparseLengthsMeanGradient", True, True),
    ("RowWiseSparseAdagradFusedWithSparseLengthsMeanGradientApprox", True, True),
):
    _fused(_name, _row_wise, _mean)

for _name, _row_wise, _approximate in (
    ("SparseAdagradFusedWithSparseLengthsWeightedSumGradient", False, False),
    ("SparseAdagradFusedWithSparseLengthsWeightedSumGradientApprox", False, True),
    ("RowWiseSparseAdagradFusedWithSparseLengthsWeightedSumGradient", True, False),
    ("RowWiseSparseAdagradFusedWithSparseLengthsWeightedSumGradientApprox", True, True),
):
    _fused_weighted(_name, _row_wise, _approximate)


@operator(
    "prev_iter_out counter_out",
    mutates=[(0, 0), (1, 1)],
    types={"prev_iter": "int64", "counter": "float64", "indices": "int32 int64", "iter": "int64"},
    host="iter",
    gradient=FORBID_GRADIENT,
)
def RowWiseCounter(xp, prev_iter, counter, indices, iter, *, counter_halflife: int = -1):
    """Count the updates of rows, where older ones count less: half after counter_halflife iterations.

    prev_iter and counter [N], indices [n], iter [1]; int64, counter float64, indices int32 or int64.  ValueError
    where an index is no row or the sizes differ.
    """
    if prev_iter.size != counter.size:
        raise ValueError(f"prev_iter {list(prev_iter.shape)} and counter {list(counter.shape)} must have one size")
    ids = check_indices(indices, counter.size, "the counter")
    if counter_halflife > 0:
        now, last, count = int(one(iter, "iter")), prev_iter.reshape(-1), counter.reshape(-1)
        rate = math.log(2) / counter_halflife
        for at in sweeps(xp, ids):
            which = ids[at]
            passed = xp.maximum(now - last[which], 0)
            count[which] = 1 + xp.exp(-passed * rate) * count[which]
            last[which] = xp.maximum(now, last[which])
    return prev_iter, counter
