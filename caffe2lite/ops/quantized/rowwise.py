"""Row-wise quantised tables of embeddings: 8, 4 and 2 bits, scale and bias fused into each row."""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, halves
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.ops.kit.registry import NO_GRADIENT, operator
from caffe2lite.ops.kit.segments import check_indices, column, lengths_to_starts, reduce_rows
from caffe2lite.ops.kit.shapes import rows_of
from caffe2lite.ops.quantized import forms
from caffe2lite.ops.quantized.forms import EIGHT, EIGHT_HALF, FOUR, FOUR_FAKE, TWO, TWO_FAKE

_INT = "int32 int64"


def _infer_packed(form):
    def infer(args, inputs):
        shape = inputs[0].shape
        return [Spec((*shape[:-1], shape[-1] // form.per_byte + form.tail), "uint8")]

    return infer


def _infer_values(form, dtype):
    def infer(args, inputs):
        shape = inputs[0].shape
        return [Spec((*shape[:-1], (shape[-1] - form.tail) * form.per_byte), dtype)]

    return infer


def _bytes(form):
    """Return the words for the size of a quantised row of D values."""
    return f"{'D' if form.per_byte == 1 else f'D / {form.per_byte}'} + {form.tail}"


_SEARCH = """The engine GREEDY narrows the range as long as the squared error falls.

        H. Guan et al., "Post-training 4-bit quantization on embedding tables", 2019.
        """


def _quantiser(form, search=False):
    def kernel(xp, input, *, out):
        if form in (FOUR_FAKE, TWO_FAKE) and input.ndim != 2:
            raise ValueError(f"the input must be a matrix, found the shape {list(input.shape)}")
        return forms.quantise(xp, input, form, out, search)

    return kernel


def _compiled_quantiser(form):
    def kernel(xp, input, *, out):
        if form is EIGHT or halves():
            return forms.quantise_compiled(input, form, out)
        return forms.quantise(xp, input, form, out)

    return kernel


for _name, _type, _form, _doc in (
    ("FloatToFused8BitRowwiseQuantized", "float32", EIGHT, "8 bits a value, then scale and bias as floats."),
    ("HalfFloatToFused8BitRowwiseQuantized", "float16", EIGHT, "8 bits a value, then scale and bias as floats."),
    ("FloatToFused8BitRowwiseQuantizedHalfScaleBias", "float32", EIGHT_HALF, "8 bits, scale and bias as half floats."),
    (
        "HalfFloatToFused8BitRowwiseQuantizedHalfScaleBias",
        "float16",
        EIGHT_HALF,
        "8 bits, scale and bias as half floats.",
    ),
    ("FloatToFused4BitRowwiseQuantized", "float32", FOUR, "4 bits a value, then scale and bias as half floats."),
    ("HalfToFused4BitRowwiseQuantized", "float16", FOUR, "4 bits a value, then scale and bias as half floats."),
    ("FloatToFused2BitRowwiseQuantized", "float32", TWO, "2 bits a value, then scale and bias as half floats."),
    ("HalfToFused2BitRowwiseQuantized", "float16", TWO, "2 bits a value, then scale and bias as half floats."),
    ("FloatToFused4BitFakeRowwiseQuantized", "float32", FOUR_FAKE, "4 bits of a byte a value, then scale and bias."),
    ("HalfToFused4BitFakeRowwiseQuantized", "float16", FOUR_FAKE, "4 bits of a byte a value, then scale and bias."),
    ("FloatToFused2BitFakeRowwiseQuantized", "float32", TWO_FAKE, "2 bits of a byte a value, then scale and bias."),
    ("HalfToFused2BitFakeRowwiseQuantized", "float16", TWO_FAKE, "2 bits of a byte a value, then scale and bias."),
):
    _record = operator(
        "output",
        name=_name,
        types=_type,
        infer=_infer_packed(_form),
        gradient=NO_GRADIENT,
        doc=f"""Quantise rows: {_doc}

        input [..., D] {_type} -> output [..., {_bytes(_form)}] uint8; each row of the last dimension has its own scale and
        bias, its minimum. ValueError where rows are empty{f", or D is no multiple of {_form.per_byte}" * (_form.per_byte > 1)}.
        {_SEARCH if _form.bits < 8 else ""}""",
    )(_quantiser(_form))
    if _form.bits < 8:
        _record.engine("GREEDY")(_quantiser(_form, search=True))
    if _type == "float32" and _form in (EIGHT, FOUR, TWO):
        compiled(_record)(_compiled_quantiser(_form))


def _dequantiser(form, dtype, loops=False):
    def kernel(xp, input, *, out):
        if input.ndim < 1:
            raise ValueError("the input must have rows, found a scalar")
        width = (input.shape[-1] - form.tail) * form.per_byte
        if width < 0:
            raise ValueError(f"rows have {input.shape[-1]} bytes, fewer than the {form.tail} of scale and bias")
        Y = out((*input.shape[:-1], width), dtype)
        if not Y.size:
            return Y
        rows = input.reshape(-1, input.shape[-1])
        if loops and (form is EIGHT or halves()):
            forms.dequantise_compiled(rows, form, Y.reshape(-1, width))
        else:
            Y.reshape(-1, width)[...] = forms.dequantise(xp, rows, form)
        return Y

    return kernel


for _name, _type, _form in (
    ("Fused8BitRowwiseQuantizedToFloat", "float32", EIGHT),
    ("Fused8BitRowwiseQuantizedToHalfFloat", "float16", EIGHT),
    ("Fused8BitRowwiseQuantizedHalfScaleBiasToFloat", "float32", EIGHT_HALF),
    ("Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat", "float32", EIGHT_HALF),  # as Caffe2 has it
    ("Fused4BitRowwiseQuantizedToFloat", "float32", FOUR),
    ("Fused4BitRowwiseQuantizedToHalf", "float16", FOUR),
    ("Fused2BitRowwiseQuantizedToFloat", "float32", TWO),
    ("Fused2BitRowwiseQuantizedToHalf", "float16", TWO),
):
    _record = operator(
        "output",
        name=_name,
        types="uint8",
        infer=_infer_values(_form, _type),
        gradient=NO_GRADIENT,
        doc=f"""The values of quantised rows: value * scale + bias.

        input [..., {_bytes(_form)}] uint8 -> output [..., D] {_type}. ValueError where rows have fewer bytes than scale and
        bias take.
        """,
    )(_dequantiser(_form, _type))
    if _type == "float32":
        compiled(_record, also="uint8")(_dequantiser(_form, _type, loops=True))


@operator(
    "output",
    types={"DATA": "uint8", "INDICES": _INT},
    infer=lambda args, inputs: [Spec((inputs[1].shape[0], inputs[0].shape[1] - 8))],
)
def GatherFused8BitRowwise(xp, DATA, INDICES, *, out):
    """The (dequantised) rows of the indices.

    DATA [N, D + 8] uint8, INDICES [M] int32 or int64 -> output [M, D] float32. ValueError where the shapes are others,
    or an index is not in [0, N).
    """
    width = _row_width(DATA, EIGHT)
    check_indices(INDICES, DATA.shape[0])
    Y = out((INDICES.shape[0], width), "float32")
    if Y.size:
        Y[...] = forms.dequantise(xp, DATA[INDICES], EIGHT)
    return Y


# ---- sums of rows ----------------------------------------------------------------------------------------------------


def _lookup(xp, decode, width, indices, lengths, out, weights=None, mean=False):
    """Return the sums of `decode(indices)` of each segment."""
    starts, counts = lengths_to_starts(xp, lengths, indices.shape[0], exact=True)
    Y = out((lengths.shape[0], width), "float32")
    if Y.size:
        table = decode(indices) if indices.size else xp.zeros((0, width), "float32")
        reduce_rows(xp, xp.add, table, starts, counts, Y, None, weights)
        if mean:
            xp.divide(Y, column(xp, xp.maximum(counts, 1).astype("float32"), Y), out=Y)
    return Y


def _row_width(DATA, form):
    """Return how many values a quantised row has."""
    if DATA.ndim != 2 or DATA.shape[1] < form.tail:
        raise ValueError(
            f"the data must be quantised rows [N, bytes], with {form.tail} bytes of scale and bias, got shape {list(DATA.shape)}"
        )
    return (DATA.shape[1] - form.tail) * form.per_byte


def _fused(xp, DATA, WEIGHTS, INDICES, LENGTHS, out, form, mean):
    width = _row_width(DATA, form)
    check_indices(INDICES, DATA.shape[0])
    _check_weights(WEIGHTS, INDICES)
    decode = lambda rows: forms.dequantise(xp, DATA[rows], form, WEIGHTS)
    return _lookup(xp, decode, width, INDICES, LENGTHS, out, None, mean)


def _check_weights(weights, indices):
    if weights is not None and weights.shape != indices.shape:
        raise ValueError(f"there must be one weight for each of {indices.shape[0]} indices, got {list(weights.shape)}")


def _fused_compiled(DATA, WEIGHTS, INDICES, LENGTHS, out, form, mean):
    if DATA.ndim != 2 or not DATA.size or LENGTHS.ndim != 1 or (form is not EIGHT and not halves()):
        return _fused(np, DATA, WEIGHTS, INDICES, LENGTHS, out, form, mean)
    check_indices(INDICES, DATA.shape[0])
    _check_weights(WEIGHTS, INDICES)
    lengths_to_starts(np, LENGTHS, INDICES.shape[0], exact=True)
    width = (DATA.shape[1] - form.tail) * form.per_byte
    Y = out((LENGTHS.shape[0], width), "float32")
    if Y.size:
        weights = np.zeros(0, np.float32) if WEIGHTS is None else WEIGHTS
        forms.sum_rows_compiled(DATA, weights, INDICES, LENGTHS, form, mean, Y)
    return Y


def _compiled_sum(form, mean, weighted):
    if weighted:
        return lambda xp, DATA, WEIGHTS, INDICES, LENGTHS, *, out: _fused_compiled(
            DATA, WEIGHTS, INDICES, LENGTHS, out, form, mean
        )
    return lambda xp, DATA, INDICES, LENGTHS, *, out: _fused_compiled(DATA, None, INDICES, LENGTHS, out, form, mean)


def _fused_sum(form, mean):
    return lambda xp, DATA, INDICES, LENGTHS, *, out: _fused(xp, DATA, None, INDICES, LENGTHS, out, form, mean)


def _fused_weighted(form, mean):
    return lambda xp, DATA, WEIGHTS, INDICES, LENGTHS, *, out: _fused(
        xp, DATA, WEIGHTS, INDICES, LENGTHS, out, form, mean
    )


def _pruned(xp, DATA, WEIGHTS, INDICES, LENGTHS, MAPPING, out, form, mean):
    """As `_fused`, where a mapping of indices (-1: pruned, a row of zeros) comes between."""
    if MAPPING.size == 1 and int(MAPPING.reshape(-1)[0]) == 0:  # no pruning
        return _fused(xp, DATA, WEIGHTS, INDICES, LENGTHS, out, form, mean)
    if MAPPING.ndim != 1 or DATA.ndim != 2:
        raise ValueError(
            f"DATA [N, bytes] and a mapping [M] are needed, found {list(DATA.shape)} and {list(MAPPING.shape)}"
        )
    check_indices(INDICES, MAPPING.shape[0])
    _check_weights(WEIGHTS, INDICES)
    rows = MAPPING[INDICES]
    there = rows != -1
    check_indices(rows[there], DATA.shape[0])
    width = _row_width(DATA, form)

    def decode(indices):
        values = xp.zeros((rows.shape[0], width), "float32")
        values[there] = forms.dequantise(xp, DATA[rows[there]], form)
        return values

    return _lookup(xp, decode, width, INDICES, LENGTHS, out, WEIGHTS, mean)


def _pruned_sum(form, mean):
    return lambda xp, DATA, INDICES, LENGTHS, MAPPING, *, out: _pruned(
        xp, DATA, None, INDICES, LENGTHS, MAPPING, out, form, mean
    )


def _pruned_weighted(form, mean):
    return lambda xp, DATA, WEIGHTS, INDICES, LENGTHS, MAPPING, *, out: _pruned(
        xp, DATA, WEIGHTS, INDICES, LENGTHS, MAPPING, out, form, mean
    )


def _infer_lookup(form, lengths):
    def infer(args, inputs):
        return [Spec((inputs[lengths].shape[0], (inputs[0].shape[1] - form.tail) * form.per_byte))]

    return infer


for _name, _form, _kernel, _mean in (
    ("SparseLengthsSumFused8BitRowwise", EIGHT, _fused_sum, False),
    ("SparseLengthsMeanFused8BitRowwise", EIGHT, _fused_sum, True),
    ("SparseLengthsWeightedSumFused8BitRowwise", EIGHT, _fused_weighted, False),
    ("SparseLengthsSumFused4BitRowwise", FOUR, _fused_sum, False),
    ("SparseLengthsMeanFused4BitRowwise", FOUR, _fused_sum, True),
    ("SparseLengthsWeightedSumFused4BitRowwise", FOUR, _fused_weighted, False),
    ("SparseLengthsSumFused2BitRowwise", TWO, _fused_sum, False),
    ("SparseLengthsMeanFused2BitRowwise", TWO, _fused_sum, True),
    ("SparseLengthsWeightedSumFused2BitRowwise", TWO, _fused_weighted, False),
    ("SparseLengthsSum8BitRowwiseSparse", EIGHT, _pruned_sum, False),
    ("SparseLengthsMean8BitRowwiseSparse", EIGHT, _pruned_sum, True),
    ("SparseLengthsWeightedSum8BitRowwiseSparse", EIGHT, _pruned_weighted, False),
    ("SparseLengthsSum4BitRowwiseSparse", FOUR, _pruned_sum, False),
    ("SparseLengthsMean4BitRowwiseSparse", FOUR, _pruned_sum, True),
    ("SparseLengthsWeightedSum4BitRowwiseSparse", FOUR, _pruned_weighted, False),
    ("SparseLengthsSum2BitRowwiseSparse", TWO, _pruned_sum, False),
    ("SparseLengthsMean2BitRowwiseSparse", TWO, _pruned_sum, True),
    ("SparseLengthsWeightedSum2BitRowwiseSparse", TWO, _pruned_weighted, False),
):
    _weighted = _kernel in (_fused_weighted, _pruned_weighted)
    _types = {"DATA": "uint8", "INDICES": _INT, "LENGTHS": "int32"}
    if _weighted:
        _types["WEIGHTS"] = "float32"
    _mapping, _size = "", "N"
    if _kernel in (_pruned_sum, _pruned_weighted):
        _types["MAPPING"] = "int32"
        _mapping, _size = ", MAPPING [K] int32 from indices to rows, -1 for those pruned", "K"
    _record = operator(
        "output",
        name=_name,
        types=_types,
        infer=_infer_lookup(_form, 3 if _weighted else 2),
        gradient=NO_GRADIENT,
        doc=f"""{"Mean" if _mean else "Sum"} of the dequantised rows of each segment's indices{", each times its weight" * _weighted}.

        DATA [N, {_bytes(_form)}] uint8, {"WEIGHTS [M] float32, " * _weighted}INDICES [M] int32 or int64, LENGTHS [S] int32{_mapping} ->
        output [S, D] float32. ValueError where the lengths do not sum to M, or an index is not in [0, {_size}).
        """,
    )(_kernel(_form, _mean))
    if "MAPPING" not in _types:
        compiled(_record, also="uint8")(_compiled_sum(_form, _mean, _weighted))


@operator(
    "output_indices output_lengths output_weights?",
    shapes="INDICES [I], LENGTHS [K], MAPPING [M], WEIGHTS [I]",
    types={"INDICES": _INT, "LENGTHS": "int32", "MAPPING": "int32", "WEIGHTS": "float32"},
    gradient=NO_GRADIENT,
)
def SparseLengthsSumSparseLookup(xp, INDICES, LENGTHS, MAPPING, WEIGHTS=None, *, out):
    """Indices into a pruned table, without those that were pruned; lengths and weights to match.

    INDICES [M] int32 or int64, LENGTHS [S] int32, MAPPING [N] int32, WEIGHTS [M] float32 -> output_indices [K] of
    INDICES' type, output_lengths [S] int32, output_weights [K]. ValueError where the lengths do not sum to M, an
    index is not in [0, N), or weights have no output.
    """
    if WEIGHTS is not None and len(out) < 3:
        raise ValueError("with weights a third output, output_weights, is needed")
    starts, counts = lengths_to_starts(xp, LENGTHS, INDICES.shape[0], exact=True)
    check_indices(INDICES, MAPPING.shape[0])
    rows = MAPPING[INDICES]
    there = rows != -1  # what was pruned
    kept = xp.concatenate([xp.zeros(1, "int64"), xp.cumsum(there)])
    indices, lengths = out[0]((int(kept[-1]),), INDICES.dtype), out[1](LENGTHS.shape, "int32")
    indices[...] = rows[there]
    lengths[...] = kept[starts + counts] - kept[starts]
    if WEIGHTS is None:
        return indices, lengths
    weights = out[2](indices.shape, "float32")
    weights[...] = WEIGHTS[there]
    return indices, lengths, weights


# ---- scale and bias in a tensor of their own -------------------------------------------------------------------------


@operator("quantized_input scale_bias", types="float32", gradient=NO_GRADIENT)
def FloatToRowwiseQuantized8Bits(xp, input, *, out):
    """Each row as bytes, and in a second tensor its scale and its minimum.

    input [N, ...] float32 -> quantized_input of its shape, uint8, scale_bias [N, 2] float32. ValueError where there are
    no rows, or no values in them.
    """
    if not input.ndim or not input.shape[0]:
        raise ValueError(f"the input must have rows, got shape {list(input.shape)}")
    if not input.size:
        raise ValueError(f"the rows must have values, got shape {list(input.shape)}")
    rows = rows_of(input)
    low = rows.min(axis=1, keepdims=True)
    scale = (rows.max(axis=1, keepdims=True) - low) / xp.float32(255)
    scale = xp.where(scale < 1e-8, xp.float32(1), scale)
    Y, pair = out[0](input.shape, "uint8"), out[1]((input.shape[0], 2), "float32")
    Y.reshape(rows.shape)[...] = xp.rint((rows - low) / scale)
    pair[:, :1], pair[:, 1:] = scale, low
    return Y, pair


@operator("output", types={"quantized_input": "uint8", "scale_bias": "float32"}, gradient=NO_GRADIENT)
def Rowwise8BitQuantizedToFloat(xp, quantized_input, scale_bias, *, out):
    """The values of FloatToRowwiseQuantized8Bits' rows.

    quantized_input [N, ...] uint8, scale_bias [N, 2] float32 -> output of the input's shape, float32. ValueError where
    there is not a scale and a bias for each row.
    """
    _check_pairs(quantized_input, scale_bias)
    Y = out(quantized_input.shape, "float32")
    rows = rows_of(quantized_input)
    Y.reshape(rows.shape)[...] = rows * scale_bias[:, :1] + scale_bias[:, 1:]
    return Y


def _check_pairs(data, pairs):
    if data.ndim < 1 or pairs.shape != (data.shape[0], 2):
        raise ValueError(f"there must be a scale and a bias for each row: {list(data.shape)} and {list(pairs.shape)}")


def _pairs_lookup(xp, DATA, SCALARS, INDICES, LENGTHS, scale_bias, out, mean):
    _check_pairs(DATA, scale_bias)
    check_indices(INDICES, DATA.shape[0])
    _check_weights(SCALARS, INDICES)
    flat = rows_of(DATA)
    decode = lambda rows: flat[rows] * scale_bias[rows][:, :1] + scale_bias[rows][:, 1:]
    shaped = lambda shape, dtype: out((shape[0], *DATA.shape[1:]), dtype)
    starts, counts = lengths_to_starts(xp, LENGTHS, INDICES.shape[0], exact=True)
    Y = shaped((LENGTHS.shape[0],), "float32")
    if Y.size:
        reduce_rows(xp, xp.add, decode(INDICES), starts, counts, Y.reshape(Y.shape[0], -1), None, SCALARS)
        if mean:
            xp.divide(Y, column(xp, xp.maximum(counts, 1).astype("float32"), Y), out=Y)
    return Y


_PAIRS = {"DATA": "uint8", "INDICES": _INT, "LENGTHS": "int32", "scale_bias": "float32"}


@operator("output", types=_PAIRS, gradient=NO_GRADIENT)
def SparseLengthsSum8BitsRowwise(xp, DATA, INDICES, LENGTHS, scale_bias, *, out):
    """Sum of the dequantised rows of the indices of each segment.

    DATA [N, ...] uint8, INDICES [M] int32 or int64, LENGTHS [S] int32, scale_bias [N, 2] float32 -> output [S, ...]
    float32. ValueError where the lengths do not sum to M, an index is not in [0, N), or a row has no scale and bias.
    """
    return _pairs_lookup(xp, DATA, None, INDICES, LENGTHS, scale_bias, out, False)


@operator("output", types=_PAIRS, gradient=NO_GRADIENT)
def SparseLengthsMean8BitsRowwise(xp, DATA, INDICES, LENGTHS, scale_bias, *, out):
    """Mean of the dequantised rows of the indices of each segment.

    DATA [N, ...] uint8, INDICES [M] int32 or int64, LENGTHS [S] int32, scale_bias [N, 2] float32 -> output [S, ...]
    float32. ValueError where the lengths do not sum to M, an index is not in [0, N), or a row has no scale and bias.
    """
    return _pairs_lookup(xp, DATA, None, INDICES, LENGTHS, scale_bias, out, True)


@operator("output", types={**_PAIRS, "SCALARS": "float32"}, gradient=NO_GRADIENT)
def SparseLengthsWeightedSum8BitsRowwise(xp, DATA, SCALARS, INDICES, LENGTHS, scale_bias, *, out):
    """Sum of weight * dequantised row over the indices of each segment.

    DATA [N, ...] uint8, SCALARS [M] float32, INDICES [M] int32 or int64, LENGTHS [S] int32, scale_bias [N, 2] float32
    -> output [S, ...] float32. ValueError where the lengths or weights are not M, an index is not in [0, N), or a row
    has no scale and bias.
    """
    return _pairs_lookup(xp, DATA, SCALARS, INDICES, LENGTHS, scale_bias, out, False)


@operator("output", types={**_PAIRS, "SCALARS": "float32"}, gradient=NO_GRADIENT)
def SparseLengthsWeightedMean8BitsRowwise(xp, DATA, SCALARS, INDICES, LENGTHS, scale_bias, *, out):
    """Mean of weight * dequantised row over the indices of each segment.

    DATA [N, ...] uint8, SCALARS [M] float32, INDICES [M] int32 or int64, LENGTHS [S] int32, scale_bias [N, 2] float32
    -> output [S, ...] float32. ValueError where the lengths or weights are not M, an index is not in [0, N), or a row
    has no scale and bias.
    """
    return _pairs_lookup(xp, DATA, SCALARS, INDICES, LENGTHS, scale_bias, out, True)
