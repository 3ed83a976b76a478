"""Models of Caffe 1 as Caffe2 nets.

    python -m caffe2.python.caffe_translator deploy.prototxt model.caffemodel --init_net init_net.pb \
        --predict_net predict_net.pb

A translator takes (layer, blobs, is_test) and returns (operators, parameters); `@TranslatorRegistry.Register("Type")`
adds one of your own.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np

from caffe2lite.ops.kit import windows
from caffe2lite.proto import caffe2_pb2, caffe_pb2
from caffe2lite.proto.text import ParseError, parse
from caffe2lite.python import core, utils, workspace

log = logging.getLogger("caffe_translator")

_DATA_LAYERS = {
    "Data", "ImageData", "HDF5Data", "HDF5Output", "MemoryData", "WindowData", "DummyData", "Input", "Silence", "Python",
    "AnnotatedData",
}  # fmt: skip
_V1_TYPES = {
    "ABSVAL": "AbsVal", "ACCURACY": "Accuracy", "CONCAT": "Concat", "CONVOLUTION": "Convolution", "DATA": "Data",
    "DECONVOLUTION": "Deconvolution", "DROPOUT": "Dropout", "DUMMY_DATA": "DummyData", "ELTWISE": "Eltwise",
    "EXP": "Exp", "FLATTEN": "Flatten", "HDF5_DATA": "HDF5Data", "HDF5_OUTPUT": "HDF5Output",
    "IMAGE_DATA": "ImageData", "INNER_PRODUCT": "InnerProduct", "LRN": "LRN", "MEMORY_DATA": "MemoryData",
    "POOLING": "Pooling", "POWER": "Power", "RELU": "ReLU", "SIGMOID": "Sigmoid", "SILENCE": "Silence",
    "SLICE": "Slice", "SOFTMAX": "Softmax", "SOFTMAX_LOSS": "SoftmaxWithLoss", "SPLIT": "Split", "TANH": "TanH",
    "WINDOW_DATA": "WindowData",
}  # fmt: skip


def upgraded(net):
    """Return a NetParameter whose layers, if they are of the form before 2014, are of today's."""
    if not net.layers:
        return net
    new = caffe_pb2.NetParameter()
    new.CopyFrom(net)
    del new.layers[:]
    for old in net.layers:
        kind = caffe_pb2.V1LayerParameter.LayerType.Name(old.type)
        layer = new.layer.add(name=old.name, type=_V1_TYPES.get(kind, kind), bottom=old.bottom, top=old.top)
        for name in ("blobs", "include", "exclude"):
            getattr(layer, name).extend(getattr(old, name))
        for descriptor, value in old.ListFields():
            if descriptor.name.endswith("_param"):
                getattr(layer, descriptor.name).CopyFrom(value)
    return new


def _array(blob):
    """Return the values of a Caffe BlobProto."""
    data = np.array(blob.double_data or blob.data, np.float32)
    if blob.HasField("shape"):
        shape = tuple(blob.shape.dim)
    else:
        shape = tuple(getattr(blob, n) for n in ("num", "channels", "height", "width") if blob.HasField(n))
    if int(np.prod(shape)) != data.size:
        raise ValueError(f"a blob of shape {shape} holds {data.size} values: the caffemodel is damaged")
    return data.reshape(shape)


def _included(layer, state):
    """Return whether the layer is part of the net in this state (Caffe's include and exclude rules)."""

    def meets(rule):
        stages = set(state.stage)
        return (
            (not rule.HasField("phase") or rule.phase == state.phase)
            and (not rule.HasField("min_level") or state.level >= rule.min_level)
            and (not rule.HasField("max_level") or state.level <= rule.max_level)
            and stages.issuperset(rule.stage)
            and not stages.intersection(rule.not_stage)
        )

    if layer.include:
        return any(meets(rule) for rule in layer.include)
    return not any(meets(rule) for rule in layer.exclude)


class TranslatorRegistry:
    """Translators by type of layer."""

    registry_ = {}

    @classmethod
    def Register(cls, op_name):
        """Decorator: the function translates layers of that type."""

        def add(function):
            cls.registry_[op_name] = function
            return function

        return add

    @classmethod
    def TranslateLayer(cls, layer, pretrained_blobs, is_test, **kwargs):
        """Return ([OperatorDef], [TensorProto]) of one layer."""
        translate = cls.registry_.get(layer.type)
        if translate is None:
            raise KeyError(
                f"layer {layer.name!r}: there is no translator for layers of type {layer.type!r}; register one with "
                f"TranslatorRegistry.Register({layer.type!r}) (known: {', '.join(sorted(cls.registry_))})"
            )
        operators, parameters = translate(layer, pretrained_blobs, is_test, **kwargs)
        return (list(operators) if isinstance(operators, (list, tuple)) else [operators]), parameters

    @classmethod
    def TranslateModel(
        cls, caffe_net, pretrained_net, is_test=False, net_state=None, remove_legacy_pad=False, input_dims=None
    ):
        """Return (NetDef, TensorProtos of the parameters) of a Caffe net and its trained weights.

        net_state    NetState that decides which layers there are; default: phase TEST or TRAIN by `is_test`
        remove_legacy_pad, input_dims    state the padding that Caffe's pools have with an input of these dimensions
        """
        caffe_net, pretrained_net = upgraded(caffe_net), upgraded(pretrained_net)
        if net_state is None:
            net_state = caffe_pb2.NetState(phase=caffe_pb2.TEST if is_test else caffe_pb2.TRAIN)
        trained = {layer.name: layer for layer in pretrained_net.layer}
        net, parameters = caffe2_pb2.NetDef(name=caffe_net.name), caffe2_pb2.TensorProtos()
        for layer in caffe_net.layer:
            if not _included(layer, net_state) or layer.type in _DATA_LAYERS:
                log.info("layer %s (%s) is left out", layer.name, layer.type)
                continue
            weights = trained.get(layer.name)
            blobs = [] if weights is None else [_array(b) for b in weights.blobs]
            operators, made = cls.TranslateLayer(layer, blobs, is_test)
            net.op.extend(operators)
            parameters.protos.extend(made)
        if remove_legacy_pad:
            net = _without_legacy_pads(net, parameters, input_dims, _input_names(caffe_net))
        return net, parameters


def TranslateModel(*args, **kwargs):
    """TranslatorRegistry.TranslateModel."""
    return TranslatorRegistry.TranslateModel(*args, **kwargs)


def ConvertTensorProtosToInitNet(net_params, input_name):
    """Return a NetDef of fill operators that make the parameters, and a first value of the input."""
    net = caffe2_pb2.NetDef()
    for tensor in net_params.protos:
        array = utils.Caffe2TensorToNumpyArray(tensor)
        net.op.append(
            core.CreateOperator("GivenTensorFill", [], [tensor.name], shape=array.shape, values=array.ravel())
        )
    net.op.append(core.CreateOperator("ConstantFill", [], [input_name], shape=[1]))
    return net


def _input_names(caffe_net):
    return [*caffe_net.input, *(top for layer in caffe_net.layer if layer.type == "Input" for top in layer.top)]


def _without_legacy_pads(net, parameters, input_dims, input_names):
    """Return the net with the padding of its pools stated that Caffe's rounding up amounts to, in the place of legacy_pad."""
    if not any(arg.name == "legacy_pad" for op in net.op for arg in op.arg):
        return net
    if not input_dims:
        raise ValueError(f"remove_legacy_pad needs input_dims, the dimensions of the input; got {input_dims!r}")
    known = {tensor.name: list(tensor.dims) for tensor in parameters.protos}
    made = {output for op in net.op for output in op.output}
    name = next(iter(input_names), None) or next(
        i for op in net.op for i in op.input if i not in known and i not in made
    )
    known[name] = list(input_dims)
    fixed = caffe2_pb2.NetDef(name=net.name)
    for op in net.op:  # one by one: a blob may be written again in another shape
        shapes, _ = workspace.InferShapesAndTypes([caffe2_pb2.NetDef(op=[op])], known, nets_proto=True)
        if any(a.name == "legacy_pad" for a in op.arg) and op.output[0] in shapes:
            op = _explicit(op, known[op.input[0]][2:])
        known.update({output: shapes[output] for output in op.output if output in shapes})
        fixed.op.append(op)
    return fixed


def _explicit(op, size):
    """Return the operator with its padding stated, for images of this size (height and width)."""
    args = {a.name: a.i for a in op.arg if a.HasField("i") and a.name in windows.WINDOW_ARGS}
    place = windows.place(windows.parse(args), tuple(size))
    explicit = caffe2_pb2.OperatorDef()
    explicit.CopyFrom(op)
    del explicit.arg[:]
    explicit.arg.extend(a for a in op.arg if a.name != "legacy_pad" and not a.name.startswith("pad"))
    sides = dict(zip(("pad_t", "pad_l", "pad_b", "pad_r"), (*place.heads, *place.tails)))
    explicit.arg.extend(utils.MakeArgument(side, pixels) for side, pixels in sides.items())
    return explicit


# Translators


def _one(layer, kind, inputs=None, outputs=None, **arguments):
    """Return an operator that reads and writes what the layer does."""
    return core.CreateOperator(
        kind,
        list(layer.bottom) if inputs is None else inputs,
        list(layer.top) if outputs is None else outputs,
        **{k: v for k, v in arguments.items() if v is not None},
    )


def _tensor(array, name):
    return utils.NumpyArrayToCaffe2Tensor(np.ascontiguousarray(array, np.float32), name)


def _weights(layer, blobs, *suffixes):
    """Return (names, tensors) of as many blobs as there are suffixes; they are named after the layer's top."""
    if len(blobs) < len(suffixes):
        raise ValueError(
            f"layer {layer.name!r} ({layer.type}) needs {len(suffixes)} blobs of weights, and the caffemodel has "
            f"{len(blobs)} for it"
        )
    names = [layer.top[0] + suffix for suffix in suffixes]
    return names, [_tensor(blob, name) for blob, name in zip(blobs, names)]


def _window(param, layer):
    """kernel, stride, pad and dilation, which may be given once, by axis, or as _h and _w."""

    def sizes(plain, default):
        by_side = [getattr(param, f"{plain[0]}_{side}") for side in ("h", "w")]
        if any(param.HasField(f"{plain[0]}_{side}") for side in ("h", "w")):
            return by_side
        values = getattr(param, plain[1])
        values = list(values) if hasattr(values, "__len__") else [values]
        values = values or [default]
        return values * 2 if len(values) == 1 else values

    kernel = sizes(("kernel", "kernel_size"), 0)
    if not all(kernel):
        raise ValueError(f"layer {layer.name!r}: no kernel size is given")
    stride, pad = [s or 1 for s in sizes(("stride", "stride"), 1)], sizes(("pad", "pad"), 0)
    if len(kernel) > 2:
        return {"kernels": kernel, "strides": stride, "pads": pad * 2}
    arguments = _sides("kernel", kernel, ("_h", "_w")) | _sides("stride", stride, ("_h", "_w"))
    if pad[0] == pad[1]:
        return arguments | {"pad": pad[0]}
    return arguments | {"pad_t": pad[0], "pad_l": pad[1], "pad_b": pad[0], "pad_r": pad[1]}


def _sides(name, values, suffixes):
    if values[0] == values[1]:
        return {name: values[0]}
    return {name + suffix: value for suffix, value in zip(suffixes, values)}


def _convolution(kind):
    def translate(layer, blobs, is_test, **kwargs):
        param = layer.convolution_param
        suffixes = ("_w", "_b") if len(blobs) == 2 or kind == "ConvTranspose" and param.bias_term else ("_w",)
        names, tensors = _weights(layer, [blobs[0], *(b.ravel() for b in blobs[1:])] if blobs else [], *suffixes)
        arguments = _window(param, layer)
        if len(param.dilation) == 1:
            arguments["dilation"] = param.dilation[0]
        elif len(param.dilation) == 2:
            arguments["dilation_h"], arguments["dilation_w"] = param.dilation
        elif param.dilation:
            arguments["dilations"] = list(param.dilation)
        if kind == "ConvTranspose":
            arguments["order"] = "NCHW"
        group = param.group if param.group != 1 else None
        return _one(layer, kind, [layer.bottom[0], *names], group=group, **arguments), tensors

    return translate


TranslatorRegistry.registry_["Convolution"] = _convolution("Conv")
TranslatorRegistry.registry_["Deconvolution"] = _convolution("ConvTranspose")


@TranslatorRegistry.Register("Pooling")
def TranslatePool(layer, pretrained_blobs, is_test, **kwargs):
    """MaxPool or AveragePool; Caffe rounds the output's size up (legacy_pad)."""
    param = layer.pooling_param
    if param.pool == caffe_pb2.PoolingParameter.STOCHASTIC:
        raise ValueError(f"layer {layer.name!r}: stochastic pooling has no form in Caffe2")
    kind = "MaxPool" if param.pool == caffe_pb2.PoolingParameter.MAX else "AveragePool"
    if param.global_pooling:
        return _one(layer, kind, outputs=layer.top[:1], global_pooling=1, kernel=1, order="NCHW"), []
    arguments = {"order": "NCHW", **_window(param, layer)}
    padded = any(v for k, v in arguments.items() if k.startswith("pad"))
    if kind == "AveragePool" and padded:  # Caffe's average counts the padding
        arguments["count_include_pad"] = 1
    return _one(layer, kind, outputs=layer.top[:1], legacy_pad=windows.CAFFE_LEGACY_POOLING, **arguments), []


@TranslatorRegistry.Register("InnerProduct")
def TranslateInnerProduct(layer, pretrained_blobs, is_test, **kwargs):
    """FC."""
    param = layer.inner_product_param
    if param.axis != 1:
        raise ValueError(f"layer {layer.name!r}: InnerProduct along axis {param.axis} is not supported, only along 1")
    (name, *_), (_, *bias) = _weights(layer, pretrained_blobs, *(("_w", "_b") if param.bias_term else ("_w",)))
    weight = pretrained_blobs[0].reshape(pretrained_blobs[0].shape[-2:])
    weight = weight.T if param.transpose else weight
    bias = bias or [_tensor(np.zeros(len(weight)), f"{layer.top[0]}_b")]
    bias[0].CopyFrom(_tensor(utils.Caffe2TensorToNumpyArray(bias[0]).ravel(), bias[0].name))
    return _one(layer, "FC", [layer.bottom[0], name, bias[0].name]), [_tensor(weight, name), *bias]


@TranslatorRegistry.Register("ReLU")
def TranslateRelu(layer, pretrained_blobs, is_test, **kwargs):
    """Relu, or LeakyRelu where there is a negative slope."""
    slope = layer.relu_param.negative_slope
    return (_one(layer, "LeakyRelu", alpha=slope) if slope else _one(layer, "Relu")), []


@TranslatorRegistry.Register("PReLU")
def TranslatePRelu(layer, pretrained_blobs, is_test, **kwargs):
    """PRelu."""
    (name,), tensors = _weights(layer, [b.ravel() for b in pretrained_blobs], "_Slope")
    return _one(layer, "PRelu", [layer.bottom[0], name]), tensors


@TranslatorRegistry.Register("ELU")
def TranslateElu(layer, pretrained_blobs, is_test, **kwargs):
    """Elu."""
    return _one(layer, "Elu", alpha=layer.elu_param.alpha), []


def _plain(kind):
    return lambda layer, blobs, is_test, **kwargs: (_one(layer, kind), [])


for _caffe, _caffe2 in {
    "Sigmoid": "Sigmoid",
    "TanH": "Tanh",
    "AbsVal": "Abs",
    "Exp": "Exp",
    "BNLL": "Softplus",
}.items():
    TranslatorRegistry.registry_[_caffe] = _plain(_caffe2)


@TranslatorRegistry.Register("Split")
def TranslateSplit(layer, pretrained_blobs, is_test, **kwargs):
    """A Copy for each top."""
    return [_one(layer, "Copy", outputs=[top]) for top in layer.top], []


@TranslatorRegistry.Register("Dropout")
def TranslateDropout(layer, pretrained_blobs, is_test, **kwargs):
    """Dropout; its mask is _TOP_mask."""
    top = layer.top[0]
    test = 1 if is_test else None
    return _one(
        layer, "Dropout", outputs=[top, f"_{top}_mask"], ratio=layer.dropout_param.dropout_ratio, is_test=test
    ), []


@TranslatorRegistry.Register("LRN")
def TranslateLRN(layer, pretrained_blobs, is_test, **kwargs):
    """LRN across channels."""
    param = layer.lrn_param
    if param.norm_region != caffe_pb2.LRNParameter.ACROSS_CHANNELS:
        raise ValueError(f"layer {layer.name!r}: LRN within channels has no form in Caffe2")
    outputs = [layer.top[0], f"_{layer.top[0]}_scale"]
    return (
        _one(
            layer,
            "LRN",
            outputs=outputs,
            size=int(param.local_size),
            alpha=float(param.alpha),
            beta=float(param.beta),
            bias=float(param.k),
            order="NCHW",
        ),
        [],
    )


@TranslatorRegistry.Register("Softmax")
def TranslateSoftmax(layer, pretrained_blobs, is_test, **kwargs):
    """Softmax."""
    return _one(layer, "Softmax", axis=layer.softmax_param.axis if layer.softmax_param.axis != 1 else None), []


@TranslatorRegistry.Register("SoftmaxWithLoss")
def TranslateSoftmaxWithLoss(layer, pretrained_blobs, is_test, **kwargs):
    """Softmax, LabelCrossEntropy and AveragedLoss; what is between them is BOTTOM_translator_autogen_…."""
    softmax, entropy = (f"{layer.bottom[0]}_translator_autogen_{name}" for name in ("softmax", "xent"))
    return [
        _one(layer, "Softmax", layer.bottom[:1], [softmax]),
        _one(layer, "LabelCrossEntropy", [softmax, layer.bottom[1]], [entropy]),
        _one(layer, "AveragedLoss", [entropy], list(layer.top[:1]) or [f"{layer.name}_loss"]),
    ], []


@TranslatorRegistry.Register("Accuracy")
def TranslateAccuracy(layer, pretrained_blobs, is_test, **kwargs):
    """Accuracy."""
    top_k = layer.accuracy_param.top_k
    return _one(layer, "Accuracy", top_k=top_k if top_k != 1 else None), []


@TranslatorRegistry.Register("Concat")
def TranslateConcat(layer, pretrained_blobs, is_test, **kwargs):
    """Concat; the sizes are _TOP_dims."""
    param = layer.concat_param
    axis = int(param.concat_dim if param.HasField("concat_dim") else param.axis)
    along = {"order": "NCHW"} if axis == 1 else {"axis": axis}
    return _one(layer, "Concat", outputs=[layer.top[0], f"_{layer.top[0]}_dims"], **along), []


@TranslatorRegistry.Register("Slice")
def TranslateSlice(layer, pretrained_blobs, is_test, **kwargs):
    """Split, at the points of the layer or in equal parts."""
    param = layer.slice_param
    axis = int(param.slice_dim if param.HasField("slice_dim") else param.axis)
    if not param.slice_point:
        return _one(layer, "Split", axis=axis), []
    # The size of the last part is not in the layer: slices, which can go to the end.
    operators = []
    bounds = [0, *(int(p) for p in param.slice_point), -1]
    for top, first, last in zip(layer.top, bounds[:-1], bounds[1:]):
        whole = [0] * axis
        starts, ends = [*whole, first], [*(-1 for _ in whole), last]
        operators.append(_one(layer, "Slice", [layer.bottom[0]], [top], starts=starts, ends=ends))
    return operators, []


@TranslatorRegistry.Register("Eltwise")
def TranslateElementWise(layer, pretrained_blobs, is_test, **kwargs):
    """Sum, Mul or Max."""
    param = layer.eltwise_param
    coefficients = list(param.coeff)
    if coefficients and any(c != 1 for c in coefficients):
        if param.operation != caffe_pb2.EltwiseParameter.SUM:
            raise ValueError(f"layer {layer.name!r}: coefficients are for sums")
        scaled = [f"{layer.top[0]}_{i}" for i in range(len(layer.bottom))]
        operators = [
            _one(layer, "Scale", [bottom], [name], scale=float(c))
            for bottom, name, c in zip(layer.bottom, scaled, coefficients)
        ]
        return [*operators, _one(layer, "Sum", scaled)], []
    kinds = {caffe_pb2.EltwiseParameter.SUM: "Sum", caffe_pb2.EltwiseParameter.MAX: "Max"}
    if param.operation in kinds:
        return _one(layer, kinds[param.operation]), []
    operators, product = [], layer.bottom[0]
    for bottom in layer.bottom[1:]:
        operators.append(_one(layer, "Mul", [product, bottom]))
        product = layer.top[0]
    return operators, []


@TranslatorRegistry.Register("BatchNorm")
def TranslateBatchNorm(layer, pretrained_blobs, is_test, **kwargs):
    """SpatialBN without scale and bias (a Scale layer follows in Caffe)."""
    param = layer.batch_norm_param
    if len(pretrained_blobs) < 3:
        raise ValueError(
            f"layer {layer.name!r}: BatchNorm needs mean, variance and their weight; the caffemodel has "
            f"{len(pretrained_blobs)} blobs for it"
        )
    mean, variance, weight = (b.ravel() for b in pretrained_blobs[:3])
    if weight[0] == 0:
        raise RuntimeError(f"layer {layer.name!r}: the weight of BatchNorm's mean and variance is 0")
    scale = 1.0 / weight[0]
    names = [layer.top[0] + suffix for suffix in ("_scale", "_bias", "_mean", "_var")]
    arrays = [np.ones_like(mean), np.zeros_like(mean), mean * scale, variance * scale]
    test = is_test or param.use_global_stats
    outputs = [layer.top[0]]
    if not test:
        outputs += [names[2], names[3], f"{layer.top[0]}_saved_mean", f"{layer.top[0]}_saved_var"]
    op = _one(
        layer,
        "SpatialBN",
        [layer.bottom[0], *names],
        outputs,
        is_test=int(test),
        epsilon=float(param.eps),
        order="NCHW",
    )
    return op, [_tensor(a, n) for a, n in zip(arrays, names)]


@TranslatorRegistry.Register("Scale")
def TranslateScale(layer, pretrained_blobs, is_test, **kwargs):
    """Mul and Add along the layer's axis."""
    param = layer.scale_param
    if len(layer.bottom) > 1:
        return _one(layer, "Mul", broadcast=1, axis=param.axis), []
    biased = len(pretrained_blobs) > 1 or param.bias_term
    names, tensors = _weights(layer, pretrained_blobs, *(("scale_w", "scale_b") if biased else ("scale_w",)))
    place = {"broadcast": 1, "axis": param.axis}
    if not biased:
        return _one(layer, "Mul", [layer.bottom[0], names[0]], **place), tensors
    scaled = f"{layer.top[0]}_internal"
    operators = [
        _one(layer, "Mul", [layer.bottom[0], names[0]], [scaled], **place),
        _one(layer, "Add", [scaled, names[1]], **place),
    ]
    return operators, tensors


@TranslatorRegistry.Register("Power")
def TranslatePower(layer, pretrained_blobs, is_test, **kwargs):
    """(shift + scale x) ^ power."""
    param, name = layer.power_param, f"{layer.top[0]}_shift"
    operators = [_one(layer, "Scale", scale=float(param.scale))]
    tensors = []
    if param.shift:
        operators.append(_one(layer, "Add", [layer.top[0], name], broadcast=1))
        tensors.append(_tensor(np.array([param.shift]), name))
    if param.power != 1:
        operators.append(_one(layer, "Pow", [layer.top[0]], exponent=float(param.power)))
    return operators, tensors


@TranslatorRegistry.Register("Reshape")
def TranslateReshape(layer, pretrained_blobs, is_test, **kwargs):
    """Reshape; the former shape is _BOTTOM_dims."""
    param = layer.reshape_param
    if param.axis != 0 or param.num_axes != -1:
        raise ValueError(f"layer {layer.name!r}: Reshape of some axes only is not supported")
    return _one(layer, "Reshape", outputs=[layer.top[0], f"_{layer.bottom[0]}_dims"], shape=list(param.shape.dim)), []


@TranslatorRegistry.Register("Flatten")
def TranslateFlatten(layer, pretrained_blobs, is_test, **kwargs):
    """Flatten."""
    param = layer.flatten_param
    if param.end_axis != -1:
        raise ValueError(f"layer {layer.name!r}: Flatten up to axis {param.end_axis} is not supported")
    return _one(layer, "Flatten", axis=param.axis if param.axis != 1 else None), []


@TranslatorRegistry.Register("ROIPooling")
def TranslateRoiPooling(layer, pretrained_blobs, is_test, **kwargs):
    """RoIPool."""
    param = layer.roi_pooling_param
    op = _one(
        layer, "RoIPool", is_test=1, pooled_h=param.pooled_h, pooled_w=param.pooled_w, spatial_scale=param.spatial_scale
    )
    return op, []


def main(argv=None):
    """The command line."""
    parser = argparse.ArgumentParser(description="Translate a Caffe model into Caffe2 nets.")
    parser.add_argument("prototext", help="the deploy.prototxt")
    parser.add_argument("caffemodel", help="the trained weights")
    parser.add_argument("--init_net", default="init_net.pb", help="where the net of the weights goes")
    parser.add_argument("--predict_net", default="predict_net.pb", help="where the net goes")
    parser.add_argument("--remove_legacy_pad", action="store_true", help="state the padding of pools (--input_dims)")
    parser.add_argument("--input_dims", nargs="+", type=int, default=[], help="dimensions of the input")
    args = parser.parse_args(argv)
    net, weights = caffe_pb2.NetParameter(), caffe_pb2.NetParameter()
    with open(args.prototext) as f:
        try:
            parse(f.read(), net, allow_unknown_field=True)
        except ParseError as e:
            raise SystemExit(f"{args.prototext}: {e}") from None
    with open(args.caffemodel, "rb") as f:
        weights.ParseFromString(f.read())
    predict_net, parameters = TranslateModel(
        net, weights, is_test=True, remove_legacy_pad=args.remove_legacy_pad, input_dims=args.input_dims
    )
    known = {tensor.name for tensor in parameters.protos}
    made = {output for op in predict_net.op for output in op.output}
    inputs = _input_names(net) or [next(i for op in predict_net.op for i in op.input if i not in known | made)]
    predict_net.external_input.extend([*inputs, *(tensor.name for tensor in parameters.protos)])
    predict_net.external_output.append(predict_net.op[-1].output[0])
    init_net = ConvertTensorProtosToInitNet(parameters, inputs[0])
    init_net.name = f"{predict_net.name}_init"
    for path, made_net in ((args.predict_net, predict_net), (args.init_net, init_net)):
        with open(path, "wb") as f:
            f.write(made_net.SerializeToString())
    print(f"{len(predict_net.op)} operators in {args.predict_net}, {len(known)} parameters in {args.init_net}")


if __name__ == "__main__":
    main()
