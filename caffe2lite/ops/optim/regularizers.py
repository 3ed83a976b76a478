"""Rows of a parameter, in place: normalized, shrunk."""

from __future__ import annotations

from typing import Any

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.rows import check_indices, sweeps
from caffe2lite.ops.kit.shapes import rows_of


def _rows(param: Any, indices: Any) -> tuple[Any, Any]:
    if not param.ndim:
        raise ValueError("the parameter must have rows, found a scalar")
    return rows_of(param), check_indices(indices, param.shape[0])


def _sparse_normalize(xp, param, indices, grad=None, *, use_max_norm: bool = True, norm: float = 1.0):
    rows, ids = _rows(param, indices)
    for at in sweeps(xp, ids):
        values = rows[ids[at]].astype("float32")
        length = xp.sqrt((values * values).sum(axis=1, keepdims=True))
        scale = norm / (length + 1e-12)
        if use_max_norm:
            scale = xp.where(length > norm, scale, 1)
        rows[ids[at]] = values * scale
    return param


for _name, _type in (("SparseNormalize", "float32"), ("Float16SparseNormalize", "float16")):
    operator(
        "param_out",
        name=_name,
        mutates={0: 0},
        types={"param": _type, "indices": "int32 int64"},
        limits="norm >= 0",
        gradient=FORBID_GRADIENT,
        doc=f"Scale the rows in `indices` to the length `norm`, or with use_max_norm only those that are longer.\n\n"
        f"param [N, ...] ({_type}), indices [n] (int32 or int64).  ValueError where an index is no row or norm is below 0.",
    )(_sparse_normalize)


@operator(
    "param_out",
    mutates={0: 0},
    types={"param": "float32 float16", "indices": "int32 int64"},
    limits="reg_lambda > 0, reg_lambda < 1",
)
def SparseLpRegularizer(xp, param, indices, grad=None, *, p: float = 2.0, reg_lambda: float = 1e-5):
    """Shrink the rows in `indices`: towards 0 by reg_lambda for p = 1, by its share for p = 2.

    param [N, ...] (float32 or float16), indices [n] (int32 or int64).  ValueError where an index is no row, p is
    neither 1 nor 2, or reg_lambda is not between 0 and 1.
    """
    if p not in (1.0, 2.0):
        raise ValueError(f"p must be 1.0 or 2.0, found {p}")
    rows, ids = _rows(param, indices)
    for at in sweeps(xp, ids):
        values = rows[ids[at]].astype("float32")
        if p == 2.0:
            values *= 1 - reg_lambda
        else:
            values = xp.sign(values) * xp.maximum(abs(values) - reg_lambda, 0)
        rows[ids[at]] = values
    return param
