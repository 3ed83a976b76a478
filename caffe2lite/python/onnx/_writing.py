"""Caffe2 operators as ONNX nodes, of operator set 9.

A rule takes (op, context) and returns nodes; what it needs of constants it adds to the context.  Operators without a
rule become a node of their own type, their arguments its attributes: ONNX's checker refuses those that it does not know,
our backend reads them back.  Source: the ONNX operator specifications.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from caffe2lite.ops.kit import arguments, registry, windows
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python.onnx._types import ONNX_TYPES, DummyNames
from caffe2lite.python.onnx.error import Unsupported

_SAME = [
    "Abs", "And", "Cos", "Sin", "Tan", "Acos", "Asin", "Atan", "Cosh", "Sinh", "Exp", "Log", "Not", "Or", "Xor",
    "Relu", "Sigmoid", "Sign", "Softplus", "Softsign", "Sqrt", "Tanh", "Sum", "Max", "Min", "Floor", "Ceil", "Div",
    "Mul", "Add", "Sub", "Elu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Shape", "Erf", "ReduceSum",
    "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ArgMax", "ArgMin", "BatchNormalization",
]  # fmt: skip
TYPES = {
    **{name: name for name in _SAME},
    "Negative": "Neg", "Copy": "Identity", "StopGradient": "Identity", "CopyCPUToGPU": "Identity", "Mean": "Mean",
    "CopyGPUToCPU": "Identity", "EnsureCPUOutput": "Identity", "Conditional": "Where", "GT": "Greater", "LT": "Less",
    "EQ": "Equal", "SpatialBN": "BatchNormalization", "Selu": "Selu", "InstanceNorm": "InstanceNormalization",
}  # fmt: skip
ARGUMENTS = {"Selu": {"scale": "gamma"}}
# Arguments that say how Caffe2 is to run an operator, not what it computes.
_NOT_MEANT = {
    "order", "shared_buffer", "cudnn_exhaustive_search", "exhaustive_search", "use_cudnn", "is_test", "broadcast",
    "axis_str", "ws_nbytes_limit", "allow_broadcast_fastpath", "enable_tensor_core", "use_nnpack", "convolution_precision",
    "init_params", "transposed_weights", "training_mode", "convolution_transform_strategy", "float16_compute",
}  # fmt: skip


@dataclass
class Context:
    """Shapes of the blobs, and the constants (ONNX tensors) that rules add."""

    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    constants: list[TensorProto] = field(default_factory=list)
    dummies: DummyNames = field(default_factory=DummyNames)

    def shape(self, op, blob):
        """Return the shape of a blob, which the conversion of `op` needs."""
        if blob not in self.shapes:
            raise Unsupported(f"operator {op.type}: the shape of {blob!r} is not known; give it in value_info")
        return tuple(self.shapes[blob])

    def constant(self, values, dtype=np.int64):
        """Return the name of a constant that holds `values`."""
        name = self.dummies.new_dummy_name()
        self.constants.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def new(self):
        """Return a new name."""
        return self.dummies.new_dummy_name()


def convert(op, context):
    """Return the ONNX nodes of an OperatorDef."""
    rule = RULES.get(op.type)
    nodes = rule(op, context) if rule else [_plain(op, TYPES.get(op.type, op.type))]
    if len(nodes) == 1:
        nodes[0].name = op.name
    return nodes


def node(kind, inputs, outputs, **attributes):
    """Return a NodeProto."""
    return helper.make_node(kind, inputs, outputs, **{k: v for k, v in attributes.items() if v is not None})


def attributes_of(op):
    """Return the arguments that mean something to ONNX, under ONNX's names."""
    renamed = ARGUMENTS.get(op.type, {})
    attributes = {}
    for argument in op.arg:
        value = argument_value(argument)
        if argument.name == "order" and op.type not in TYPES and value == b"NHWC":
            attributes["order"] = "NHWC"
        elif argument.name not in _NOT_MEANT:
            attributes[renamed.get(argument.name, argument.name)] = value
    return attributes


def argument_value(argument):
    """Return what an Argument holds: a number, bytes, or a list."""
    for name in ("f", "i", "s"):
        if argument.HasField(name):
            return getattr(argument, name)
    for name in ("floats", "ints", "strings"):
        if getattr(argument, name):
            return list(getattr(argument, name))
    raise Unsupported(f"argument {argument.name!r} has no form as an ONNX attribute")


def _plain(op, kind):
    return node(kind, op.input, op.output, **attributes_of(op))


def _parsed(op):
    """Return all arguments, defaults included, as the kernel gets them."""
    declared = registry.find(op.type).args
    return {**{name: arg.default for name, arg in declared.items()}, **arguments.parse(op.type, declared, op.arg)}


def _order_is_nchw(op):
    if any(a.name == "order" and a.s == b"NHWC" for a in op.arg):
        raise Unsupported(f"operator {op.type}: ONNX has no order=NHWC; transpose the net to NCHW first")


# Rules


def _stated_window(op):
    return {a.name: argument_value(a) for a in op.arg if a.name in windows.WINDOW_ARGS and a.name != "order"}


def _window(op, context):
    """Return the attributes that the window of a convolution or a pool has in ONNX: those that the operator states.

    Padding that follows from the sizes (legacy_pad) is stated: ONNX has no other form for most of it.
    """
    stated = _stated_window(op)
    window = windows.parse(stated)
    pads = window.pads
    if window.legacy_pad:
        size = context.shape(op, op.input[0])[2:]
        place = windows.place(windows.first_dimensions(window, len(size)), size)
        pads = (*place.heads, *place.tails)

    def if_stated(word, values):
        return list(values) if any(name.startswith(word) for name in stated) else None

    return {
        "kernel_shape": list(window.kernel),
        "strides": if_stated("stride", window.stride),
        "dilations": if_stated("dilation", window.dilation),
        "pads": list(pads) if any(pads) else None,
    }


def _convolution(op, context):
    _order_is_nchw(op)
    if op.type.startswith("ConvTranspose"):
        kind, more = "ConvTranspose", {"output_padding": _adjustment(op)}
    else:
        kind, more = "Conv", {}
    group = next((a.i for a in op.arg if a.name == "group"), None)
    return [node(kind, op.input, op.output, **_window(op, context), **more, group=group)]


def _adjustment(op):
    """Return the pixels that a ConvTranspose adds at the far ends, or None."""
    given = {a.name: argument_value(a) for a in op.arg if a.name.startswith("adj")}
    if "adjs" in given:
        return given["adjs"]
    if "adj" in given:
        return [given["adj"]] * 2
    return [given["adj_h"], given["adj_w"]] if {"adj_h", "adj_w"} <= given.keys() else None


def _pool(op, context):
    _order_is_nchw(op)
    given = {a.name: argument_value(a) for a in op.arg}
    kind = "AveragePool" if op.type.startswith("Average") else "MaxPool"
    if given.get("global_pooling", 0):
        return [node("Global" + kind, op.input, op.output[:1])]
    if kind == "AveragePool":
        more = {"count_include_pad": given.get("count_include_pad")}
    else:
        more = {}
    window = _window(op, context)
    window["strides"] = window["strides"] or [1] * len(window["kernel_shape"])
    del window["dilations"]  # Caffe2's pools have none
    return [node(kind, op.input, op.output[:1], **window, **more)]


def _fc(op, context):
    """Gemm, between Reshapes where the operands have more than two dimensions."""
    x, w, b = op.input
    args = _parsed(op)
    axis, axis_w = args.get("axis", 1), args.get("axis_w", 1)
    shape, shape_w = context.shape(op, x), context.shape(op, w)
    transposed = op.type == "FCTransposed"
    nodes = []
    if len(shape) != 2 or axis != 1:
        inner = int(np.prod(shape[axis:]))
        flat = context.new()
        nodes.append(node("Reshape", [x, context.constant([-1, inner])], [flat]))
        x = flat
    if len(shape_w) != 2 or axis_w != 1:
        rows = int(np.prod(shape_w[:axis_w]))
        flat = context.new()
        nodes.append(node("Reshape", [w, context.constant([rows, int(np.prod(shape_w[axis_w:]))])], [flat]))
        w = flat
    if axis == 1:
        return [*nodes, node("Gemm", [x, w, b], op.output, transB=None if transposed else 1)]
    flat, dims, lead, whole = (context.new() for _ in range(4))
    return [
        *nodes,
        node("Gemm", [x, w, b], [flat], transB=None if transposed else 1),
        node("Shape", [op.input[0]], [dims]),
        node("Slice", [dims], [lead], starts=[0], ends=[axis]),
        node("Concat", [lead, context.constant([-1])], [whole], axis=0),
        node("Reshape", [flat, whole], op.output),
    ]


def _mat_mul(op, context):
    """MatMul after Transposes of the last two axes."""
    args, nodes, names = _parsed(op), [], []
    for name, turned in zip(op.input, (args.get("trans_a", 0), args.get("trans_b", 0))):
        if turned:
            rank = len(context.shape(op, name))
            turn = context.new()
            nodes.append(node("Transpose", [name], [turn], perm=[*range(rank - 2), rank - 1, rank - 2]))
            name = turn
        names.append(name)
    return [*nodes, node("MatMul", names, op.output)]


def _elementwise(op, context):
    """NumPy's broadcasting, which ONNX has too; Caffe2's older kind by appending axes of size 1."""
    args = {a.name: argument_value(a) for a in op.arg if a.name in ("broadcast", "axis")}
    kind = TYPES[op.type]
    axis = args.get("axis", -1)
    if not args.get("broadcast", 0) or axis == -1:
        return [node(kind, op.input, op.output)]
    a, b = (len(context.shape(op, name)) for name in op.input)
    missing = a - axis - b
    if not missing:
        return [node(kind, op.input, op.output)]
    wide = context.new()
    return [
        node("Unsqueeze", [op.input[1]], [wide], axes=list(range(b, b + missing))),
        node(kind, [op.input[0], wide], op.output),
    ]


def _spatial_bn(op, context):
    _order_is_nchw(op)
    args = _parsed(op)
    if len(op.output) > 1 and not args.get("is_test", 0):
        raise Unsupported("operator SpatialBN in training mode: export the net for inference (is_test=1)")
    return [node("BatchNormalization", op.input, op.output[:1], epsilon=args["epsilon"])]


def _lrn(op, context):
    _order_is_nchw(op)
    args = _parsed(op)
    return [node("LRN", op.input, op.output[:1], **{k: args[k] for k in ("size", "alpha", "beta", "bias")})]


def _softmax(op, context):
    return [node("Softmax", op.input, op.output, axis=_parsed(op).get("axis", 1))]


def _dropout(op, context):
    return [node("Dropout", op.input, op.output[:1], ratio=float(_parsed(op)["ratio"]))]


def _concat(op, context):
    args = _parsed(op)
    x = op.input[0]
    axis, add_axis = args.get("axis", -1), args.get("add_axis", 0)
    if not any(a.name == "axis" for a in op.arg):
        axis = 1
    rank = len(context.shape(op, x)) + (1 if add_axis else 0)
    axis %= rank
    info = [1] * len(op.input) if add_axis else [context.shape(op, name)[axis] for name in op.input]
    nodes, names = [], list(op.input)
    if add_axis:
        names = [context.new() for _ in op.input]
        nodes = [node("Unsqueeze", [name], [wide], axes=[axis]) for name, wide in zip(op.input, names)]
    nodes.append(node("Concat", names, op.output[:1], axis=axis))
    if len(op.output) > 1:
        sizes = numpy_helper.from_array(np.array(info, np.int32), "split_info")
        nodes.append(node("Constant", [], op.output[1:], value=sizes))
    return nodes


def _split(op, context):
    args = _parsed(op)
    axis = args.get("axis", -1)
    if not any(a.name == "axis" for a in op.arg):
        axis = 1
    split = list(args.get("split") or ())
    return [node("Split", op.input[:1], op.output, axis=axis, split=split or None)]


def _reshape(op, context):
    shape = list(_parsed(op).get("shape") or ())
    target = op.input[1] if len(op.input) > 1 else context.constant(shape)
    nodes = [node("Reshape", [op.input[0], target], op.output[:1])]
    if len(op.output) > 1:
        nodes.append(node("Shape", op.input[:1], op.output[1:]))
    return nodes


def _transpose(op, context):
    return [node("Transpose", op.input, op.output, perm=list(_parsed(op).get("axes") or ()) or None)]


def _slice(op, context):
    if len(op.input) > 1:
        raise Unsupported(
            f"operator Slice: ONNX Slice operator does not support dynamic slice, from {', '.join(op.input[1:])}"
        )
    args = _parsed(op)
    shape = context.shape(op, op.input[0])
    starts, ends = (
        [v if v >= 0 else size + 1 + v for v, size in zip(args[name], shape)] for name in ("starts", "ends")
    )
    return [node("Slice", op.input, op.output, starts=starts, ends=ends, axes=list(range(len(starts))))]


def _dims(kind):
    return lambda op, context: [node(kind, op.input, op.output, axes=list(_parsed(op)["dims"]))]


def _flatten(op, context):
    return [node("Flatten", op.input, op.output, axis=_parsed(op).get("axis", 1))]


def _cast(op, context):
    to = argument_value(next(a for a in op.arg if a.name == "to"))
    kind = caffe2_pb2.TensorProto.DataType.Value(to.decode().upper()) if isinstance(to, bytes) else int(to)
    if kind not in ONNX_TYPES:
        raise Unsupported(f"Casting to {to!r} dtype is not supported")
    return [node("Cast", op.input, op.output, to=ONNX_TYPES[kind])]


def _prelu(op, context):
    """ONNX broadcasts the slopes as NumPy does: they get axes of size 1 after the channels."""
    _order_is_nchw(op)
    rank = len(context.shape(op, op.input[0]))
    if rank <= 2 or context.shape(op, op.input[1]) == (1,):
        return [node("PRelu", op.input, op.output)]
    wide = context.new()
    return [
        node("Unsqueeze", [op.input[1]], [wide], axes=list(range(1, rank - 1))),
        node("PRelu", [op.input[0], wide], op.output),
    ]


def _clip(op, context):
    given = {a.name: argument_value(a) for a in op.arg}
    return [node("Clip", op.input, op.output, min=given.get("min"), max=given.get("max"))]


def _tile(op, context):
    args = _parsed(op)
    if len(op.input) > 1:
        raise Unsupported("operator Tile with tiles from a blob has no form in ONNX")
    rank = len(context.shape(op, op.input[0]))
    repeats = [1] * rank
    repeats[args.get("axis", 0) % rank] = args.get("tiles", 1)
    return [node("Tile", [op.input[0], context.constant(repeats)], op.output)]


def _numpy_tile(op, context):
    wide = context.new()
    return [
        node("Cast", [op.input[1]], [wide], to=TensorProto.INT64),
        node("Tile", [op.input[0], wide], op.output),
    ]


def _reduce_ends(front):
    def rule(op, context):
        count = _parsed(op).get("num_reduce_dim", 1)
        rank = len(context.shape(op, op.input[0]))
        axes = list(range(count)) if front else list(range(rank - count, rank))
        kind = "Reduce" + op.type[len("ReduceFront" if front else "ReduceBack") :]
        return [node(kind, op.input, op.output, axes=axes, keepdims=0)]

    return rule


def _resize_nearest(op, context):
    _order_is_nchw(op)
    args = _parsed(op)
    scales = context.constant([1, 1, args["height_scale"], args["width_scale"]], np.float32)
    return [node("Upsample", [op.input[0], scales], op.output, mode="nearest")]


def _elementwise_linear(op, context):
    x, w, b = op.input
    axis = _parsed(op).get("axis", 1)
    flat, scaled, moved, dims = (context.new() for _ in range(4))
    inner = int(np.prod(context.shape(op, x)[axis:]))
    return [
        node("Reshape", [x, context.constant([-1, inner])], [flat]),
        node("Mul", [flat, w], [scaled]),
        node("Add", [scaled, b], [moved]),
        node("Shape", [x], [dims]),
        node("Reshape", [moved, dims], op.output),
    ]


def _merge_dim(op, context):
    shape = context.shape(op, op.input[0])
    return [node("Reshape", [op.input[0], context.constant([-1, *shape[2:]])], op.output)]


def _channel_shuffle(op, context):
    _order_is_nchw(op)
    n, c, *rest = context.shape(op, op.input[0])
    group = _parsed(op)["group"]
    split, turned = context.new(), context.new()
    return [
        node("Reshape", [op.input[0], context.constant([n, group, c // group, *rest])], [split]),
        node("Transpose", [split], [turned], perm=[0, 2, 1, *range(3, 3 + len(rest))]),
        node("Reshape", [turned, context.constant([n, c, *rest])], op.output),
    ]


def _scale(op, context):
    return [node("Mul", [op.input[0], context.constant(_parsed(op).get("scale", 1.0), np.float32)], op.output)]


def _sqr(op, context):
    return [node("Mul", [op.input[0], op.input[0]], op.output)]


def _log1p(op, context):
    more = context.new()
    return [
        node("Add", [op.input[0], context.constant(1.0, np.float32)], [more]),
        node("Log", [more], op.output),
    ]


def _affine_channel(op, context):
    """x * scale + bias by channel."""
    _order_is_nchw(op)
    x, scale, bias = op.input
    axes = list(range(1, len(context.shape(op, x)) - 1))
    wide_scale, wide_bias, scaled = (context.new() for _ in range(3))
    return [
        node("Unsqueeze", [scale], [wide_scale], axes=axes),
        node("Unsqueeze", [bias], [wide_bias], axes=axes),
        node("Mul", [x, wide_scale], [scaled]),
        node("Add", [scaled, wide_bias], op.output),
    ]


def _pad_image(op, context):
    _order_is_nchw(op)
    args = _parsed(op)
    top, left, bottom, right = windows.parse({"kernel": 1, **_stated_window(op)}).pads
    mode = args.get("mode", "constant")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    return [
        node(
            "Pad",
            op.input,
            op.output,
            pads=[0, 0, top, left, 0, 0, bottom, right],
            mode=mode,
            value=float(args.get("value", 0.0)),
        )
    ]


def _gather(op, context):
    return [node("Gather", op.input, op.output, axis=_parsed(op).get("axis") or None)]


def _batch_gather(op, context):
    return [node("Gather", op.input, op.output, axis=1)]


def _many(kinds, rule):
    return dict.fromkeys(kinds.split(), rule)


RULES = {
    **_many("Conv Conv1D Conv2D Conv3D ConvTranspose ConvTranspose1D ConvTranspose2D ConvTranspose3D", _convolution),
    **_many("MaxPool MaxPool1D MaxPool2D MaxPool3D AveragePool AveragePool1D AveragePool2D AveragePool3D", _pool),
    **_many("Add Sub Mul Div And Or Xor LT GT EQ", _elementwise),
    **_many("FC FCTransposed", _fc), **_many("MatMul BatchMatMul", _mat_mul), **_many("Squeeze", _dims("Squeeze")),
    "ExpandDims": _dims("Unsqueeze"), "SpatialBN": _spatial_bn, "LRN": _lrn, "Softmax": _softmax, "Dropout": _dropout,
    "Concat": _concat, "DepthConcat": _concat, "Split": _split, "Reshape": _reshape, "Transpose": _transpose,
    "Slice": _slice, "Flatten": _flatten, "Cast": _cast, "PRelu": _prelu, "Clip": _clip, "Tile": _tile,
    "NumpyTile": _numpy_tile, "ResizeNearest": _resize_nearest, "ElementwiseLinear": _elementwise_linear,
    "MergeDim": _merge_dim, "ChannelShuffle": _channel_shuffle, "Scale": _scale, "Sqr": _sqr, "Log1p": _log1p,
    "AffineChannel": _affine_channel, "PadImage": _pad_image, "Gather": _gather, "BatchGather": _batch_gather,
    **_many("ReduceFrontMean ReduceFrontSum ReduceFrontMax", _reduce_ends(front=True)),
    **_many("ReduceBackMean ReduceBackSum ReduceBackMax", _reduce_ends(front=False)),
}  # fmt: skip
