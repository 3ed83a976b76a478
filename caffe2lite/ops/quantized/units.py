"""Int8 operators that compute with real numbers and quantize again, and the choice of scale and zero point.

Caffe2 has the layers for its engine DNNLOWP only.  Without Y_scale the result's range is that of its values.
"""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.nn.normalization import GroupNorm
from caffe2lite.ops.nn.recurrent_units import LSTMUnit
from caffe2lite.ops.quantized.packed import by_range, quantize
from caffe2lite.ops.quantized.tensors import Int8Tensor, need


def _quantized(values: np.ndarray, scale: float, zero_point: int) -> Int8Tensor:
    return quantize(values, np.float32(scale), zero_point) if scale else by_range(values)


@operator("Y", infer=like(0, dtype="float32"))
def Int8DequantizeRowWise(xp, X):
    """The numbers that the bytes stand for, float32.

    X, an Int8 tensor [...] of uint8 -> Y of its shape. TypeError where X is none.
    """
    need(X)
    return X.real()


@operator("Y", infer=like(0))
def Int8Tanh(xp, X):
    """Y = tanh(X) in steps of 1/127; Y_scale and Y_zero_point have no effect, as in Caffe2.

    X, an Int8 tensor [...] of uint8 -> Y alike. TypeError where X is none.
    """
    need(X)
    return quantize(np.tanh(X.real()), np.float32(1 / 127), 128)


@operator("Y mean? inv_std?", types={"gamma": "float32", "beta": "float32"})
def Int8GroupNorm(
    xp,
    X,
    gamma,
    beta,
    *,
    group: int = 32,
    epsilon: float = 1e-5,
    order: str = "NCHW",
    Y_scale: float = 0.0,
    Y_zero_point: int = 0,
):
    """GroupNorm of what the bytes stand for.

    X, an Int8 tensor [N, C, ...] of uint8 (NHWC: channels last), gamma [C] float32, beta [C] -> Y of X's shape.
    ValueError where the channels are no multiple of `group`; TypeError where X is no Int8 tensor.

    Y. Wu, K. He, "Group normalization", 2018.
    """
    need(X)
    Y, *_ = GroupNorm(xp, X.real(), gamma, beta, group=group, epsilon=epsilon, order=order)
    return _quantized(Y, Y_scale, Y_zero_point)


@operator("H C", num_inputs=(4, 5), anywhere="lengths_and_timestep")
def Int8LSTMUnit(
    xp,
    H_prev,
    C_prev,
    X,
    *lengths_and_timestep,
    forget_bias: float = 0.0,
    sequence_lengths: bool = True,
    drop_states: bool = False,
    Y_scale: float = 0.0,
    Y_zero_point: int = 0,
):
    """LSTMUnit of what the bytes stand for; Y_scale is the scale of H.

    H_prev [1, N, D], C_prev alike, X [1, N, 4 D], Int8 tensors of uint8, lengths [N] and timestep [1] int32 -> H [1, N,
    D], C alike. ValueError where the shapes do not fit; TypeError where one is no Int8 tensor.

    S. Hochreiter, J. Schmidhuber, "Long short-term memory", 1997.
    """
    need(H_prev, C_prev, X)
    H, C = LSTMUnit(
        xp,
        H_prev.real(),
        C_prev.real(),
        X.real(),
        *lengths_and_timestep,
        forget_bias=forget_bias,
        sequence_lengths=sequence_lengths,
        drop_states=drop_states,
    )
    return _quantized(H, Y_scale, Y_zero_point), by_range(C)


# ---- scale and zero point by the data ----------------------------------------------------------------------------


class QuantScheme(Object):
    """How scale and zero point are chosen."""

    title = "a scheme of quantization (Int8QuantSchemeBlobFill makes one)"
    type_name = "std::unique_ptr<caffe2::Int8QuantSchemeBlob, std::default_delete<caffe2::Int8QuantSchemeBlob> >"
    operand = True

    def __init__(self, kind: str, preserve_sparsity: bool) -> None:
        self.kind, self.preserve_sparsity = kind, preserve_sparsity


class QuantParams(Object):
    """A scale and a zero point."""

    type_name = "std::unique_ptr<caffe2::Int8QuantParamsBlob, std::default_delete<caffe2::Int8QuantParamsBlob> >"
    operand = True

    def __init__(self, scale: float, zero_point: int) -> None:
        self.scale, self.zero_point = scale, zero_point


@operator("quant_scheme", traits="fill")
def Int8QuantSchemeBlobFill(xp, *, quantization_kind: str = "MIN_MAX_QUANTIZATION", preserve_sparsity: bool = False):
    """How Int8GenQuantParams is to choose: by the range of the data, or by that of 99 percent of them.

    quant_scheme; no tensors, for values of float32. ValueError where quantization_kind is neither MIN_MAX_QUANTIZATION
    nor P99_QUANTIZATION.
    """
    if quantization_kind not in ("MIN_MAX_QUANTIZATION", "P99_QUANTIZATION"):
        raise ValueError(
            f"quantization_kind must be MIN_MAX_QUANTIZATION or P99_QUANTIZATION here, got {quantization_kind!r}"
        )
    return QuantScheme(quantization_kind, preserve_sparsity)


@operator("quant_param", types={"X": "float32"})
def Int8GenQuantParams(xp, X, quant_scheme):
    """Scale and zero point for values like X; with preserve_sparsity the range is as far below 0 as above.

    X [...] float32, quant_scheme -> quant_param. TypeError where the second input is no scheme.
    """
    needed(QuantScheme, quant_scheme)
    values = X.reshape(-1)
    if quant_scheme.kind == "P99_QUANTIZATION" and values.size:
        values = np.percentile(values, [0.5, 99.5]).astype(np.float32)
    if quant_scheme.preserve_sparsity and values.size and values.min() < 0 < values.max():
        largest = np.abs(values).max()
        values = np.array([-largest, largest], np.float32)
    chosen = by_range(values)
    return QuantParams(chosen.scale, chosen.zero_point)
