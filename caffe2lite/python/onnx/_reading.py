"""ONNX nodes as Caffe2 operators.

A rule takes (node, context) and returns operators; nodes without a rule become the operator of the same or of a renamed
type, their attributes its arguments.  What newer operator sets moved from attributes to inputs is read from the
constants of the graph.  Source: the ONNX operator specifications, versions 1 to 21.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from onnx import AttributeProto, TensorProto, helper

from caffe2lite.ops.kit import registry, windows
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python.onnx._types import DummyNames, array_of, caffe2_type, fill, fill_array
from caffe2lite.python.onnx.error import Unsupported
from caffe2lite.python.utils import MakeArgument

TYPES = {
    "Equal": "EQ", "Greater": "GT", "GreaterOrEqual": "GE", "Less": "LT", "LessOrEqual": "LE", "Neg": "Negative",
    "Identity": "Copy", "BatchNormalization": "SpatialBN", "InstanceNormalization": "InstanceNorm",
    "Unsqueeze": "ExpandDims", "Tile": "NumpyTile", "RandomNormal": "GaussianFill", "RandomUniform": "UniformFill",
}  # fmt: skip
ARGUMENTS = {
    "": {"kernel_shape": "kernels", "output_padding": "adjs"},
    "Squeeze": {"axes": "dims"},
    "Unsqueeze": {"axes": "dims"},
    "Transpose": {"perm": "axes"},
    "Selu": {"gamma": "scale"},
    "RandomNormal": {"scale": "std"},
    "RandomUniform": {"low": "min", "high": "max"},
}
# Attributes that became inputs, in the order of the inputs after the first.
_INPUTS = {
    "Squeeze": ["axes"], "Unsqueeze": ["axes"], "ReduceSum": ["axes"], "ReduceMean": ["axes"], "ReduceMax": ["axes"],
    "ReduceMin": ["axes"], "ReduceL1": ["axes"], "ReduceL2": ["axes"], "ReduceProd": ["axes"], "Split": ["split"],
    "Clip": ["min", "max"], "Pad": ["pads", "value", "axes"], "TopK": ["k"], "Dropout": ["ratio", "training_mode"],
}  # fmt: skip
# Arguments that rules and kernels read, beyond those that the registry names.
_KNOWN = {"order", "engine", "auto_pad", "is_test"}


@dataclass
class Context:
    """What is known of the graph around a node: `constants` and `shapes` by blob."""

    opset: int = 9
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dummies: DummyNames = field(default_factory=DummyNames)


class Node:
    """A node with its attributes as a dict."""

    def __init__(self, proto):
        self.type = proto.op_type
        self.name = proto.name
        self.inputs = list(proto.input)
        self.outputs = list(proto.output)
        self.attrs = {a.name: attribute_value(a) for a in proto.attribute}

    def axes_from_inputs(self, context):
        """Turn inputs that hold attributes into attributes."""
        for i, name in enumerate(_INPUTS.get(self.type, ()), 1):
            if i < len(self.inputs) and self.inputs[i]:
                value = _constant(self, self.inputs[i], context)
                self.attrs[name] = value.tolist() if value.ndim else value.item()
        if self.type in _INPUTS:
            del self.inputs[1:]
            if self.type == "TopK" and isinstance(self.attrs.get("k"), list):
                self.attrs["k"] = self.attrs["k"][0]


def attribute_value(attribute):
    if attribute.type == AttributeProto.UNDEFINED:
        raise Unsupported(f"attribute {attribute.name!r} has no type")
    value = helper.get_attribute_value(attribute)
    return (
        list(value) if attribute.type in (AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS) else value
    )


def _constant(node, name, context):
    value = context.constants.get(name)
    if value is None:
        raise Unsupported(
            f"node {node.name or node.type}: input {name!r} of {node.type} must be a constant or an initializer: "
            "Caffe2's operator takes it as an argument"
        )
    return value


def operator(kind, inputs, outputs, **arguments):
    """Return an OperatorDef."""
    op = caffe2_pb2.OperatorDef(type=kind, input=inputs, output=outputs)
    op.arg.extend(MakeArgument(k, v) for k, v in arguments.items() if v is not None)
    return op


def convert(proto, context):
    """Return the Caffe2 operators of an ONNX node; Unsupported, a RuntimeError, where there are none."""
    node = Node(proto)
    node.axes_from_inputs(context)
    rule = RULES.get(node.type)
    ops = rule(node, context) if rule else [_plain(node)]
    for op in ops:
        if len(ops) == 1:
            op.name = node.name
        _check_arguments(op)
    return ops


def has_form(kind):
    """Return whether nodes of a type have operators in Caffe2."""
    return kind in RULES or registry.get(TYPES.get(kind, kind)) is not None


def _plain(node, kind=None, **more):
    kind = kind or TYPES.get(node.type, node.type)
    renamed = {**ARGUMENTS[""], **ARGUMENTS.get(node.type, {})}
    arguments = {renamed.get(k, k): v for k, v in node.attrs.items()}
    return operator(kind, node.inputs, node.outputs, **{**arguments, **more})


def _check_arguments(op):
    try:
        record = registry.find(op.type)
    except LookupError as e:
        raise Unsupported(f"Don't know how to translate op {op.type}: {e}") from None
    for argument in op.arg:
        if argument.name not in record.args and argument.name not in _KNOWN:
            raise Unsupported(
                f"Don't know how to map unexpected argument {argument.name} (from operator {op.type}): it takes "
                f"{', '.join(sorted(record.args)) or 'none'}"
            )


# Rules


def _constant_node(node, context):
    for name, value in node.attrs.items():
        if name == "value":
            context.constants[node.outputs[0]] = array_of(value)
            return [fill(value, node.outputs[0])]
        if name in ("value_float", "value_floats", "value_int", "value_ints"):
            array = np.array(value, np.float32 if "float" in name else np.int64)
            context.constants[node.outputs[0]] = array
            return [fill_array(array, node.outputs[0])]
    raise Unsupported(f"node {node.name or 'Constant'}: only dense tensors and numbers can be constants")


def _constant_of_shape(node, context):
    value = array_of(node.attrs["value"]) if "value" in node.attrs else np.zeros(1, np.float32)
    number = value.ravel()[0].item()
    kind = caffe2_type(helper.np_dtype_to_tensor_dtype(value.dtype))
    return [operator("ConstantFill", node.inputs, node.outputs, value=number, input_as_shape=1, dtype=kind)]


def _cast(node, context):
    to = node.attrs["to"]
    if isinstance(to, bytes):
        to = TensorProto.DataType.Value(to.decode())
    return [operator("Cast", node.inputs, node.outputs, to=caffe2_type(to))]


def _reshape(node, context):
    node.attrs.pop("allowzero", None)
    node.outputs = [node.outputs[0], context.dummies.new_dummy_name()]
    return [_plain(node, "Reshape")]


def _concat(node, context):
    node.outputs = [node.outputs[0], context.dummies.new_dummy_name()]
    return [_plain(node, "Concat")]


def _split(node, context):
    node.attrs.pop("num_outputs", None)
    return [_plain(node, "Split", axis=node.attrs.get("axis", 0))]


def _gemm(node, context):
    """alpha A B + beta C: FC where C is known to be a vector as long as a row, MatMul and Add elsewhere."""
    a, b, *rest = node.inputs
    alpha, beta = node.attrs.get("alpha", 1.0), node.attrs.get("beta", 1.0)
    trans_a, trans_b = node.attrs.get("transA", 0), node.attrs.get("transB", 0)
    broadcast = bool(node.attrs.get("broadcast", 0))
    ops = []

    def scaled(name, factor):
        if factor == 1.0:
            return name
        made = context.dummies.new_dummy_name()
        ops.append(operator("Scale", [name], [made], scale=factor))
        return made

    a = scaled(a, alpha)
    if not rest or not rest[0]:
        return [*ops, operator("MatMul", [a, b], node.outputs, trans_a=trans_a, trans_b=trans_b)]
    c = scaled(rest[0], beta)
    shape_c, shape_b = context.shapes.get(rest[0]), context.shapes.get(b)
    row = None if shape_b is None or len(shape_b) != 2 else shape_b[0 if trans_b else 1]
    is_row = shape_c is not None and len(shape_c) == 1 and (shape_c[0] != 1 or row == 1)
    if not trans_a and is_row and (context.opset >= 7 or broadcast):
        return [*ops, operator("FC" if trans_b else "FCTransposed", [a, b, c], node.outputs)]
    product = context.dummies.new_dummy_name()
    ops.append(operator("MatMul", [a, b], [product], trans_a=trans_a, trans_b=trans_b))
    ops.append(operator("Add", [product, c], node.outputs, broadcast=1 if broadcast and context.opset < 7 else None))
    return ops


def _mat_mul(node, context):
    return [operator("BatchMatMul", node.inputs, node.outputs, broadcast=1)]


def _batch_norm(node, context):
    if node.attrs.pop("spatial", 1) == 0:
        raise Unsupported("BatchNormalization with spatial=0 has no operator in Caffe2")
    if node.attrs.pop("training_mode", 0) or len(node.outputs) > 1 and context.opset >= 7:
        raise Unsupported("BatchNormalization in training mode cannot be imported: export the model for inference")
    node.attrs.pop("consumed_inputs", None)
    if context.opset >= 7:
        node.attrs["is_test"] = 1
    return [_plain(node)]


def _pool(kind):
    def rule(node, context):
        attrs = node.attrs
        attrs.pop("storage_order", None)
        if attrs.pop("ceil_mode", 0):
            raise Unsupported(f"{node.type} with ceil_mode=1 has no form in Caffe2")
        if any(d != 1 for d in attrs.pop("dilations", ())):
            raise Unsupported(f"{node.type} with dilations has no form in Caffe2")
        if kind == "MaxPool" and len(node.outputs) > 1:
            raise Unsupported("the second output of MaxPool counts in another way in Caffe2")
        _resolve_auto_pad(node)
        return [_plain(node, kind)]

    return rule


def _resolve_auto_pad(node):
    """Turn auto_pad into what Caffe2 knows: SAME_UPPER is legacy_pad SAME, VALID is no padding."""
    mode = node.attrs.pop("auto_pad", b"NOTSET")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        if mode == "SAME_LOWER":
            raise Unsupported(f"{node.type} with auto_pad=SAME_LOWER has no form in Caffe2")
        node.attrs["legacy_pad"] = windows.SAME


def _conv(node, context):
    if "kernel_shape" not in node.attrs:
        shape = context.shapes.get(node.inputs[1])
        if shape is None:
            raise Unsupported(f"node {node.name or node.type}: the kernel's shape is not known: state kernel_shape")
        node.attrs["kernel_shape"] = list(shape[2:])
    if node.type == "ConvTranspose" and any(d != 1 for d in node.attrs.get("dilations", ())):
        raise Unsupported("ConvTranspose with dilations has no form in Caffe2, whose operator ignores them")
    if node.type == "ConvTranspose" and "output_shape" in node.attrs:
        upper = node.attrs.pop("auto_pad", b"NOTSET") == b"SAME_UPPER"
        _resolve_output_shape(node, context, upper)
        return [_plain(node)]
    _resolve_auto_pad(node)
    return [_plain(node)]


def _resolve_output_shape(node, context, upper):
    """Turn output_shape into pads; `upper`: an odd pixel goes to the end."""
    sizes = context.shapes.get(node.inputs[0], ())[2:]
    if not sizes or min(sizes) < 0:
        raise Unsupported(
            f"node {node.name or node.type}: ConvTranspose with output_shape becomes pads, which follow from the shape of "
            f"{node.inputs[0]!r}: state it in the model's inputs or value_info"
        )
    attrs, ones, zeros = node.attrs, [1] * len(sizes), [0] * len(sizes)
    wanted = attrs.pop("output_shape")[-len(sizes) :]
    columns = sizes, wanted, attrs["kernel_shape"], *(attrs.get(n, ones) for n in ("strides", "dilations"))
    whole = [s * (size - 1) + (k - 1) * d + 1 for size, _, k, s, d in zip(*columns)]
    adjusted = attrs.setdefault("output_padding", list(zeros))
    surplus = [w + a - o for w, a, o in zip(whole, adjusted, wanted)]
    if min(surplus) < 0:  # the rest of the pixels is added at the end
        attrs["output_padding"] = [a + max(0, -n) for a, n in zip(adjusted, surplus)]
        surplus = [max(0, n) for n in surplus]
    small, large = [n // 2 for n in surplus], [n - n // 2 for n in surplus]
    attrs["pads"] = [*small, *large] if upper else [*large, *small]


def _global_pool(kind):
    return lambda node, context: [operator(kind, node.inputs, node.outputs, global_pooling=1)]


def _pad(node, context):
    pads = list(node.attrs.get("pads", node.attrs.get("paddings", ())))
    mode = node.attrs.get("mode", b"constant")
    axes = node.attrs.get("axes")
    if axes is not None:
        whole = [0] * 8
        for i, axis in enumerate(axes):
            whole[axis % 4], whole[axis % 4 + 4] = pads[i], pads[i + len(axes)]
        pads = whole
    if len(pads) != 8 or any(pads[:2]) or any(pads[4:6]):
        raise Unsupported(f"Caffe2 only supports padding 2D Tensor, whereas padding is {pads}")
    value = node.attrs.get("value", 0.0)
    value = value[0] if isinstance(value, list) else value
    return [
        operator(
            "PadImage", node.inputs, node.outputs, pads=[*pads[2:4], *pads[6:8]], mode=mode, value=float(value or 0.0)
        )
    ]


def _slice(node, context):
    """Slice along given axes: as arguments where the rank is known, as tensors elsewhere.

    Caffe2 cuts one axis at a time, and counts from behind in another way: -1 is the end of the axis, -2 the last element.
    """
    names = ("starts", "ends", "axes", "steps")
    given = {n: node.attrs[n] for n in names if n in node.attrs}
    if any(name and name not in context.constants for name in node.inputs[1:]):
        return _dynamic_slice(node, context)
    for name, blob in zip(names, node.inputs[1:]):
        if blob:
            given[name] = context.constants[blob].tolist()
    x = node.inputs[0]
    starts = [s - 1 if s < 0 else s for s in given["starts"]]
    ends = [-1 if e >= 2**31 - 1 else e - 1 if e < 0 else e for e in given["ends"]]
    axes = given.get("axes", list(range(len(starts))))
    if any(step != 1 for step in given.get("steps", ())):
        raise Unsupported("Slice with steps other than 1 has no form in Caffe2")
    new = context.dummies.new_dummy_name
    cuts = list(zip(axes, starts, ends))
    blobs = [x, *(new() for _ in cuts[1:]), *node.outputs]
    if x in context.shapes:
        rank = len(context.shapes[x])
        made = []
        for (axis, start, end), source, target in zip(cuts, blobs, blobs[1:]):
            begin, stop = [0] * rank, [-1] * rank
            begin[axis], stop[axis] = start, end
            made.append(operator("Slice", [source], [target], starts=begin, ends=stop))
        return made
    if min(axes) < 0:
        raise Unsupported(f"node {node.name or 'Slice'}: negative axes of {x!r}, whose rank is not known")
    made = []
    for (axis, start, end), source, target in zip(cuts, blobs, blobs[1:]):
        where, some_start, some_end = new(), new(), new()
        made += [
            fill_array(np.array([axis], np.int32), where),
            fill_array(np.array([start], np.int64), some_start),
            fill_array(np.array([end], np.int64), some_end),
            *_slice_along(source, some_start, some_end, where, [target], new),
        ]
    return made


def _slice_along(x, starts, ends, axes, outputs, new):
    """Return the operators that slice `x` along the axes in a tensor, and leave the others whole."""
    shape = new()
    ops, bounds = [operator("Shape", [x], [shape])], []
    for values, rest in ((starts, 0), (ends, -1)):
        whole = new()
        ops.append(operator("ConstantFill", [shape], [whole], dtype=caffe2_pb2.TensorProto.INT64, value=rest))
        ops.append(operator("ScatterAssign", [whole, axes, values], [whole]))
        bounds.append(whole)
    return [*ops, operator("Slice", [x, *bounds], outputs)]


def _dynamic_slice(node, context):
    """Bounds, and axes where there are four inputs, from tensors; negative bounds count one further in Caffe2."""
    x, *bounds = node.inputs[:3]
    if len(node.inputs) > 4:
        raise Unsupported("Slice with steps from a tensor has no form in Caffe2")
    new, int64 = context.dummies.new_dummy_name, caffe2_pb2.TensorProto.INT64
    zero, one = new(), new()
    ops = [fill_array(np.array([0]), zero), fill_array(np.array([1]), one)]
    shifted = []
    for bound in bounds:
        wide, negative, less, result = new(), new(), new(), new()
        ops += [
            operator("Cast", [bound], [wide], to=int64),
            operator("LT", [wide, zero], [negative], broadcast=1),
            operator("Sub", [wide, one], [less], broadcast=1),
            operator("Conditional", [negative, less, wide], [result]),
        ]
        shifted.append(result)
    if len(node.inputs) < 4:
        return [*ops, operator("Slice", [x, *shifted], node.outputs)]
    return [*ops, *_slice_along(x, *shifted, node.inputs[3], node.outputs, new)]


def _softmax(node, context):
    """Before version 13 the axes from `axis` on were one; since then Softmax is along one axis, by default the last."""
    axis = node.attrs.get("axis")
    x = node.inputs[0]
    if context.opset >= 13:
        axis = -1 if axis is None else axis
        shape = context.shapes.get(x)
        if axis != -1 and (shape is None or axis % len(shape) != len(shape) - 1):
            raise Unsupported(f"{node.type} along an axis other than the last has no form in Caffe2")
        if shape is None:
            raise Unsupported(f"node {node.name or node.type}: the rank of {x!r} is not known")
        axis = len(shape) - 1
    if node.type == "Softmax":
        return [operator("Softmax", [x], node.outputs, axis=axis)]
    middle = context.dummies.new_dummy_name()
    return [
        operator("Softmax", [x], [middle], axis=1 if axis is None else axis),
        operator("Log", [middle], node.outputs),
    ]


def _dropout(node, context):
    if node.attrs.pop("training_mode", False):
        raise Unsupported("Dropout in training mode cannot be imported: export the model for inference")
    node.attrs.pop("seed", None)
    node.attrs.pop("consumed_inputs", None)
    if context.opset >= 7:
        node.attrs["is_test"] = 1
    return [_plain(node, is_test=node.attrs.get("is_test", 1))]


def _clip(node, context):
    node.attrs = {k: v for k, v in node.attrs.items() if k in ("min", "max")}
    return [_plain(node)]


def _prelu(node, context):
    """Slopes of shape (channels, 1, 1) are a vector to Caffe2."""
    x, slope = node.inputs
    if len(context.shapes.get(slope, ())) < 2:
        return [operator("PRelu", node.inputs, node.outputs)]
    flat, old = context.dummies.new_dummy_name(), context.dummies.new_dummy_name()
    return [
        operator("Reshape", [slope], [flat, old], shape=[-1]),
        operator("PRelu", [x, flat], node.outputs),
    ]


def _lrn(node, context):
    attrs = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0, **node.attrs}
    return [operator("LRN", node.inputs, node.outputs, **attrs)]


def _gather(node, context):
    axis = node.attrs.get("axis", 0)
    if axis == 0:
        return [operator("Gather", node.inputs, node.outputs)]
    return [operator("Gather", node.inputs, node.outputs, axis=axis)]


def _upsample(node, context):
    scales = node.attrs.pop("scales", None)
    if len(node.inputs) > 1:
        known = context.constants.get(node.inputs[-1])
        if known is None:
            part = context.dummies.new_dummy_name()
            return [
                operator("Slice", [node.inputs[1]], [part], starts=[2], ends=[-1]),
                operator("ResizeNearest", [node.inputs[0], part], node.outputs),
            ]
        scales = known.tolist()
    mode = node.attrs.pop("mode", b"nearest")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode not in ("nearest", "linear", "bilinear"):
        raise Unsupported(f"{node.type} with mode={mode} has no form in Caffe2")
    if scales is not None:
        if len(scales) != 4 or scales[0] != 1 or scales[1] != 1:
            raise Unsupported(f"{node.type}: only height and width of images can be scaled, not by {scales}")
        node.attrs = {"height_scale": float(scales[2]), "width_scale": float(scales[3])}
    kind = "ResizeNearest" if mode == "nearest" else "UpsampleBilinear"
    return [operator(kind, node.inputs[:1], node.outputs, **node.attrs)]


def _resize(node, context):
    """Resize by constant scales with the asymmetric, rounding-down nearest rule, which is Caffe2's."""
    rule = node.attrs.get("coordinate_transformation_mode", b"half_pixel")
    if context.opset >= 11 and (rule != b"asymmetric" or node.attrs.get("nearest_mode", b"") != b"floor"):
        raise Unsupported(
            "Resize has a form in Caffe2 with coordinate_transformation_mode=asymmetric and nearest_mode=floor only"
        )
    node.attrs = {"mode": node.attrs.get("mode", b"nearest")}
    scales = node.inputs[2] if len(node.inputs) > 2 else node.inputs[-1]
    _constant(node, scales, context)
    node.inputs = [node.inputs[0], scales]
    return _upsample(node, context)


def _reciprocal(node, context):
    return [operator("Pow", node.inputs, node.outputs, exponent=-1.0)]


def _pow(node, context):
    """From operator set 7 on exponents of another shape lie on the base without being told to."""
    return [_plain(node, broadcast=1) if context.opset >= 7 and len(node.inputs) == 2 else _plain(node)]


def _a_ten(name):
    return lambda node, context: [operator("ATen", node.inputs, node.outputs, operator=name)]


def _non_zero(node, context):
    middle = context.dummies.new_dummy_name()
    return [
        operator("ATen", node.inputs, [middle], operator="nonzero"),
        operator("Transpose", [middle], node.outputs),
    ]


def _arg_extreme(node, context):
    if node.attrs.pop("select_last_index", 0):
        raise Unsupported(f"{node.type} with select_last_index=1 has no form in Caffe2")
    return [_plain(node)]


def _reduce(node, context):
    if node.attrs.pop("noop_with_empty_axes", 0) and not node.attrs.get("axes"):
        return [operator("Copy", node.inputs, node.outputs)]
    return [_plain(node)]


def _top_k(node, context):
    shape = context.shapes.get(node.inputs[0])
    axis = node.attrs.pop("axis", -1)
    if not node.attrs.pop("largest", 1):
        raise Unsupported("TopK of the smallest has no form in Caffe2")
    if axis != -1 and not (shape is not None and axis == len(shape) - 1):
        node.attrs["axis"] = axis
    node.attrs.pop("sorted", None)
    return [_plain(node)]


RULES = {
    "Constant": _constant_node, "ConstantOfShape": _constant_of_shape, "Cast": _cast, "Reshape": _reshape,
    "Concat": _concat, "Split": _split, "Gemm": _gemm, "MatMul": _mat_mul, "BatchNormalization": _batch_norm,
    "MaxPool": _pool("MaxPool"), "AveragePool": _pool("AveragePool"), "Conv": _conv, "ConvTranspose": _conv,
    "GlobalAveragePool": _global_pool("AveragePool"), "GlobalMaxPool": _global_pool("MaxPool"), "Pad": _pad,
    "Slice": _slice, "DynamicSlice": _dynamic_slice, "Softmax": _softmax, "LogSoftmax": _softmax, "Dropout": _dropout,
    "Clip": _clip, "LRN": _lrn, "PRelu": _prelu, "Gather": _gather, "Upsample": _upsample, "Resize": _resize,
    "Reciprocal": _reciprocal, "Pow": _pow, "Where": _a_ten("where"), "NonZero": _non_zero, "ArgMax": _arg_extreme,
    "ArgMin": _arg_extreme, "ReduceSum": _reduce, "ReduceMean": _reduce, "ReduceMax": _reduce, "ReduceMin": _reduce,
    "ReduceL1": _reduce, "ReduceL2": _reduce, "TopK": _top_k,
}  # fmt: skip
