"""Rows quantized with random rounding, bytes with a range, and code books."""

from __future__ import annotations

from caffe2lite.ops.kit import segments
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.registry import MANY, NO_GRADIENT, operator
from caffe2lite.ops.kit.segments import check_indices

_RAND_HEAD = 10  # bits a value, unused places, minimum, maximum


@operator(
    "output",
    types="float32",
    stateful=True,
    infer=lambda args, inputs: [
        Spec((inputs[0].shape[0], _RAND_HEAD + -(-inputs[0].shape[1] * args["bitwidth"] // 8)), "uint8")
    ],
    gradient=NO_GRADIENT,
)
def FloatToFusedRandRowwiseQuantized(ctx, input, *, bitwidth: int = 8, random: bool = True, out):
    """Rows of [bits, unused places, minimum, maximum, data]; values round up or down at random, right on average.

    input [N, D] float32 -> output [N, 10 + D * bitwidth / 8, rounded up] uint8. ValueError where bitwidth is not 1, 2,
    4 or 8, or the input is no matrix.
    """
    xp = ctx.xp
    if bitwidth not in (1, 2, 4, 8):
        raise ValueError(f"bitwidth must be 1, 2, 4 or 8, got {bitwidth}")
    if input.ndim != 2:
        raise ValueError(f"the input must be a matrix, got shape {list(input.shape)}")
    n, width = input.shape
    per = 8 // bitwidth
    size = -(-width // per)
    if n and not width:
        raise ValueError(f"the rows must have values, got shape {list(input.shape)}")
    Y = out((n, _RAND_HEAD + size), "uint8")
    if not Y.size:
        return Y
    low, high = input.min(axis=1, keepdims=True), input.max(axis=1, keepdims=True)
    gap = (high - low) / xp.float32((1 << bitwidth) - 1) + xp.float32(1e-8)
    exact = (input - low) / gap
    values = xp.floor(exact + (ctx.rng.random(input.shape) if random else 0.5)).astype("uint8")
    places = xp.zeros((n, size * per), "uint8")
    places[:, :width] = xp.minimum(values, (1 << bitwidth) - 1)
    Y[:, 0], Y[:, 1] = bitwidth, size * per - width
    Y[:, 2:_RAND_HEAD] = xp.ascontiguousarray(xp.concatenate([low, high], axis=1)).view("uint8")
    data = Y[:, _RAND_HEAD:]
    data[...] = 0
    for k in range(per):  # the k-th part of the row is in the k-th bits of the bytes
        data |= places[:, k * size : (k + 1) * size] << (k * bitwidth)
    return Y


@operator("output", types="uint8", gradient=NO_GRADIENT)
def FusedRandRowwiseQuantizedToFloat(xp, input, *, out):
    """The values of FloatToFusedRandRowwiseQuantized's rows.

    input [N, 10 + bytes] uint8 -> output [N, D] float32. ValueError where the input has too few bytes, or says a
    bitwidth or a number of unused places that cannot be.
    """
    if input.ndim != 2 or (input.size and input.shape[1] < _RAND_HEAD):
        raise ValueError(f"the input must be rows of at least {_RAND_HEAD} bytes, got shape {list(input.shape)}")
    if not input.size:
        raise ValueError(f"there must be rows, got shape {list(input.shape)}")
    bits, tail = int(input[0, 0]), int(input[0, 1])
    if bits not in (1, 2, 4, 8):
        raise ValueError(f"the rows say {bits} bits a value; there are 1, 2, 4 and 8")
    per, size = 8 // bits, input.shape[1] - _RAND_HEAD
    width = size * per - tail
    if width < 0:
        raise ValueError(f"the rows say {tail} unused places and have {size * per}")
    bounds = xp.ascontiguousarray(input[:, 2:_RAND_HEAD]).view("float32")
    low, high = bounds[:, :1], bounds[:, 1:]
    gap = (high - low) / xp.float32((1 << bits) - 1) + xp.float32(1e-8)
    data = input[:, _RAND_HEAD:]
    parts = xp.concatenate([(data >> (k * bits)) & ((1 << bits) - 1) for k in range(per)], axis=1)
    Y = out((input.shape[0], width), "float32")
    Y[...] = low + parts[:, :width] * gap
    return Y


@operator("output", types="uint8")
def ByteWeightDequant(xp, input, *, min: float = -3.0, max: float = 3.0, shape: list[int] = (), out):
    """min + byte * (max - min) / 255, in the given shape.

    input [...] uint8 -> output of the shape [...] in the argument `shape`, float32. ValueError where that has another
    number of elements.
    """
    Y = out(tuple(shape), "float32")
    if Y.size > input.size or (input.size and not Y.size):
        raise ValueError(f"shape {list(shape)} has {Y.size} elements, and the input only {input.size}")
    Y.reshape(-1)[...] = input.reshape(-1)[: Y.size] * xp.float32((max - min) / 255) + xp.float32(min)
    return Y


def _decode_gradient(g):
    gradients = [g.GO(i) for i in range(g.num_outputs)]
    return g.single("QuantDecodeGradient", [*g.op.input, *gradients], [g.GI(0)])


_CODES = "uint8 uint16 int32"


@operator(
    "decoded*",
    num_inputs=(2, MANY),
    num_outputs=(1, MANY),
    counts=lambda n, m: m == n - 1,
    types={"codebook": "float32", "codes": _CODES},
    gradient=_decode_gradient,
)
def QuantDecode(xp, codebook, *codes, out):
    """For each tensor of codes the values of the code book.

    codebook [K] float32, codes [...] uint8, uint16 or int32 -> a tensor of each one's shape, float32. ValueError where
    the code book is no vector, the outputs are not as many as the codes, or a code is not in [0, K).
    """
    if len(out) != len(codes) or codebook.ndim != 1:
        raise ValueError(
            f"{len(codes)} tensors of codes are given for {len(out)} outputs and a code book of {list(codebook.shape)}"
        )
    made = []
    for code, target in zip(codes, out):
        check_indices(code.reshape(-1), codebook.shape[0])
        Y = target(code.shape, codebook.dtype)
        Y[...] = codebook[code]
        made.append(Y)
    return tuple(made)


@operator(
    "dcodebook", num_inputs=(3, MANY), counts=lambda n, m: n % 2 == 1, types={"codebook": "float32"}, infer=like(0)
)
def QuantDecodeGradient(xp, codebook, *rest, out):
    """The gradient by each value of the code book: the sum over its uses.

    codebook [K] float32, codes [...], as many gradients of their shapes -> dcodebook [K]. ValueError where the
    gradients are not as many as the codes, differ in size, or a code is not in [0, K).
    """
    if len(rest) % 2:
        raise ValueError(f"there must be as many gradients as tensors of codes, found {len(rest)} tensors together")
    total = out(codebook.shape, codebook.dtype)
    total[...] = 0
    half = len(rest) // 2
    for code, gradient in zip(rest[:half], rest[half:]):
        if code.size != gradient.size:
            raise ValueError(f"codes {list(code.shape)} have a gradient of {list(gradient.shape)}")
        if codebook.ndim != 1 or code.dtype.kind not in "iu" or gradient.dtype != "float32":
            raise ValueError(
                f"a code book [N], codes of integers and gradients of float32 are needed, found {list(codebook.shape)}, "
                f"{code.dtype} and {gradient.dtype}"
            )
        segments.check_indices(code.reshape(-1), codebook.shape[0])
        total += xp.bincount(code.reshape(-1), weights=gradient.reshape(-1), minlength=codebook.shape[0]).astype(
            "float32"
        )
    return total
