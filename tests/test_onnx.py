"""Nets as ONNX models: they pass onnx.checker, onnxruntime computes the same, and they come back."""

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, workspace
from caffe2.python.models import resnet
from google.protobuf import text_format

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed here")

from caffe2.python.onnx import backend, frontend  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402


def rand(*shape, low=-1.0):
    return np.random.default_rng(len(shape)).uniform(low, 1, shape).astype(np.float32)


def run_caffe2(net, arrays):
    workspace.ResetWorkspace()
    for name, array in arrays.items():
        workspace.FeedBlob(name, array)
    workspace.RunNetOnce(net)
    return [workspace.FetchBlob(name) for name in net.external_output]


def run_onnxruntime(model, arrays):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = {i.name for i in session.get_inputs()}
    return session.run(None, {k: v for k, v in arrays.items() if k in wanted})


def info(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype), array.shape


def check(net, arrays):
    expected = run_caffe2(net, arrays)
    model = frontend.caffe2_net_to_onnx_model(net, value_info={k: info(v) for k, v in arrays.items()})
    for values in (run_onnxruntime(model, arrays), backend.run_model(model, arrays)):
        assert len(values) == len(expected)
        for value, wanted in zip(values, expected):
            assert value.shape == wanted.shape
            np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


IMAGE = rand(2, 6, 9, 9)
OPERATORS = [
    ("Conv", [IMAGE, rand(4, 6, 3, 3), rand(4)], {"kernel": 3, "pad": 1, "stride": 2}),
    (
        "Conv",
        [IMAGE, rand(4, 3, 3, 2)],
        {"kernel_h": 3, "kernel_w": 2, "pad_t": 1, "pad_l": 0, "pad_b": 1, "pad_r": 0, "group": 2, "dilation": 2},
    ),
    ("Conv", [IMAGE, rand(4, 6, 3, 3)], {"kernels": [3, 3], "pads": [1, 1, 0, 0], "strides": [2, 1]}),
    ("Conv1D", [rand(2, 3, 9), rand(4, 3, 3)], {"kernels": [3]}),
    ("ConvTranspose", [IMAGE, rand(6, 4, 3, 3), rand(4)], {"kernel": 3, "stride": 2, "adj": 1}),
    ("MaxPool", [IMAGE], {"kernel": 3, "stride": 2}),
    ("MaxPool", [rand(1, 2, 6, 6)], {"kernel": 3, "stride": 2, "legacy_pad": 3}),
    *[
        (kind, [rand(1, 2, 6, 9), *more], {"kernel": 3, "stride": 2, "legacy_pad": legacy})  # VALID, SAME, Caffe's
        for kind, more in (("MaxPool", []), ("AveragePool", []), ("Conv", [rand(4, 2, 3, 3)]))
        for legacy in (1, 2, 3)
    ],
    ("AveragePool", [rand(1, 2, 8, 9)], {"kernel": 3, "stride": 3, "pad": 1, "legacy_pad": 3, "count_include_pad": 1}),
    ("MaxPool", [IMAGE], {"global_pooling": 1}),
    ("AveragePool", [IMAGE], {"kernel": 2, "stride": 2, "pad": 1}),
    ("AveragePool", [IMAGE], {"kernel": 2, "stride": 2, "pad": 1, "count_include_pad": 1}),
    ("AveragePool", [IMAGE], {"global_pooling": 1}),
    ("FC", [rand(2, 3), rand(4, 3), rand(4)], {}),
    ("FC", [rand(2, 3, 2), rand(4, 6), rand(4)], {}),
    ("FC", [rand(2, 3, 2), rand(4, 2), rand(4)], {"axis": 2}),
    ("FCTransposed", [rand(2, 3), rand(3, 4), rand(4)], {}),
    ("MatMul", [rand(3, 2), rand(4, 3)], {"trans_a": 1, "trans_b": 1}),
    ("BatchMatMul", [rand(5, 2, 3), rand(5, 4, 3)], {"trans_b": 1}),
    ("Add", [rand(2, 3), rand(3)], {"broadcast": 1}),
    ("Mul", [IMAGE, rand(6)], {"broadcast": 1, "axis": 1}),
    ("Sub", [rand(2, 3), rand(2, 3)], {}),
    ("Div", [rand(2, 3), rand(2, 3, low=0.5)], {}),
    ("Max", [rand(2, 3), rand(2, 3) * 2], {}),
    ("Sum", [rand(2, 3), rand(2, 3), rand(2, 3)], {}),
    ("SpatialBN", [IMAGE, rand(6), rand(6), rand(6), rand(6, low=0.1)], {"is_test": 1, "epsilon": 1e-3}),
    ("LRN", [IMAGE], {"size": 3, "alpha": 0.1, "beta": 0.5}),
    ("Softmax", [rand(2, 3)], {}),
    ("Softmax", [rand(2, 3, 4)], {"axis": 2}),
    ("Concat", [rand(2, 3), rand(2, 4)], {"axis": 1}),
    ("Concat", [rand(2, 3), rand(2, 3)], {"axis": 1, "add_axis": 1}),
    ("Split", [rand(2, 6)], {"axis": 1}),
    ("Split", [rand(2, 6)], {"axis": 1, "split": [2, 4]}),
    ("Reshape", [rand(2, 6)], {"shape": [3, -1]}),
    ("Transpose", [rand(2, 3, 4)], {"axes": [2, 0, 1]}),
    ("Transpose", [rand(2, 3, 4)], {}),
    ("Slice", [rand(4, 6)], {"starts": [0, 1], "ends": [-1, 3]}),
    ("Slice", [rand(4, 6)], {"starts": [-3, 0], "ends": [-2, 6]}),
    ("Squeeze", [rand(1, 6, 1)], {"dims": [0, 2]}),
    ("ExpandDims", [rand(6)], {"dims": [0, 2]}),
    ("Flatten", [rand(2, 3, 4)], {}),
    ("Cast", [rand(2, 3) * 9], {"to": core.DataType.INT32}),
    ("PRelu", [IMAGE, rand(6)], {}),
    ("LeakyRelu", [rand(2, 3)], {"alpha": 0.3}),
    ("Elu", [rand(2, 3)], {"alpha": 0.3}),
    ("Selu", [rand(2, 3)], {"alpha": 0.3, "scale": 2.0}),
    ("HardSigmoid", [rand(2, 3)], {"alpha": 0.3, "beta": 0.1}),
    ("Clip", [rand(2, 3)], {"min": -0.1, "max": 0.2}),
    ("Gather", [rand(4, 3), np.array([2, 0])], {}),
    ("BatchGather", [rand(4, 3), np.array([2, 0])], {}),
    ("Tile", [rand(2, 3)], {"tiles": 2, "axis": 1}),
    ("NumpyTile", [rand(2, 3), np.array([2, 1])], {}),
    ("ReduceFrontMean", [rand(2, 3, 4)], {"num_reduce_dim": 2}),
    ("ReduceBackSum", [rand(2, 3, 4)], {"num_reduce_dim": 1}),
    ("ReduceMean", [rand(2, 3, 4)], {"axes": [1], "keepdims": 0}),
    ("ReduceL2", [rand(2, 3, 4)], {"axes": [0, 2], "keepdims": 1}),
    ("ResizeNearest", [IMAGE], {"width_scale": 2.0, "height_scale": 3.0}),
    ("ElementwiseLinear", [rand(2, 3, 4), rand(12), rand(12)], {"axis": 1}),
    ("MergeDim", [rand(2, 3, 4)], {}),
    ("ChannelShuffle", [IMAGE], {"group": 2}),
    ("AffineChannel", [IMAGE, rand(6), rand(6)], {}),
    ("PadImage", [IMAGE], {"pad_t": 1, "pad_l": 0, "pad_b": 0, "pad_r": 2, "value": 0.5}),
    ("Scale", [rand(2, 3)], {"scale": 2.5}),
    ("ArgMax", [rand(2, 3)], {"axis": 1, "keepdims": 0}),
    ("LT", [rand(2, 3), rand(2, 3)[::-1].copy()], {}),
    *[(kind, [rand(2, 3)], {}) for kind in ("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Negative", "Softsign", "Copy")],
    *[(kind, [rand(2, 3)], {}) for kind in ("Softplus", "Cosh", "Sinh", "Sqr", "Floor", "Sign", "Sin", "StopGradient")],
    *[(kind, [rand(2, 3, low=0.1)], {}) for kind in ("Log", "Log1p", "Sqrt")],
]
OUTPUTS = {"Split": 2, "Reshape": 2, "Concat": 2}


@pytest.mark.parametrize("kind, arrays, args", OPERATORS, ids=lambda v: v if isinstance(v, str) else "")
def test_an_operator_there_and_back(kind, arrays, args):
    names = [f"x{i}" for i in range(len(arrays))]
    outputs = [f"y{i}" for i in range(OUTPUTS.get(kind, 1))]
    net = caffe2_pb2.NetDef(name="one", external_input=names, external_output=outputs)
    if kind == "Reshape":
        net.external_output.pop()
    net.op.add().CopyFrom(core.CreateOperator(kind, names, outputs, **args))
    check(net, dict(zip(names, arrays)))


@pytest.mark.parametrize("opset", [9, 13, 18])
def test_a_convnet_with_weights(opset):
    arg_scope = {"order": "NCHW", "is_test": True}
    model = model_helper.ModelHelper("small", arg_scope=arg_scope)
    brew.conv(model, "data", "conv", 3, 8, kernel=3, pad=1)
    brew.spatial_bn(model, "conv", "bn", 8, is_test=True)
    brew.relu(model, "bn", "bn")
    brew.max_pool(model, "bn", "pool", kernel=2, stride=2)
    brew.fc(model, "pool", "fc", 8 * 16, 10)
    brew.softmax(model, "fc", "softmax")
    workspace.ResetWorkspace()
    workspace.RunNetOnce(model.param_init_net)
    predict = caffe2_pb2.NetDef()
    predict.CopyFrom(model.net.Proto())
    predict.external_output[:] = ["softmax"]
    init = caffe2_pb2.NetDef(name="init")
    for name in predict.external_input:
        if name != "data":
            value = workspace.FetchBlob(name)
            init.op.add().CopyFrom(
                core.CreateOperator("GivenTensorFill", [], [name], shape=value.shape, values=value.ravel())
            )
    data = rand(2, 3, 8, 8)
    workspace.FeedBlob("data", data)
    workspace.RunNetOnce(predict)
    expected = workspace.FetchBlob("softmax")
    converted = frontend.caffe2_net_to_onnx_model(predict, init, {"data": info(data)})
    if opset > 9:
        converted = onnx.version_converter.convert_version(converted, opset)
    np.testing.assert_allclose(run_onnxruntime(converted, {"data": data})[0], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(backend.run_model(converted, {"data": data}).softmax, expected, rtol=1e-5)
    init_back, predict_back = backend.Caffe2Backend.onnx_graph_to_caffe2_net(converted)
    workspace.ResetWorkspace()
    workspace.FeedBlob("data", data)
    workspace.RunNetOnce(init_back)
    workspace.RunNetOnce(predict_back)
    np.testing.assert_allclose(workspace.FetchBlob("softmax"), expected, rtol=1e-5)


def test_resnet():
    model = model_helper.ModelHelper("resnet", arg_scope={"order": "NCHW", "is_test": True, "use_cudnn": False})
    resnet.create_resnet_32x32(model, "data", 3, num_groups=1, num_labels=10, is_test=True)
    workspace.ResetWorkspace()
    workspace.RunNetOnce(model.param_init_net)
    predict = caffe2_pb2.NetDef()
    predict.CopyFrom(model.net.Proto())
    predict.external_output[:] = [predict.op[-1].output[0]]
    arrays = {n: workspace.FetchBlob(n) for n in predict.external_input if n != "data"}
    check(predict, {**arrays, "data": rand(1, 3, 32, 32)})


def model_of(nodes, inputs, outputs, opset, initializer=()):
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(n, *info(a)) for n, a in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in outputs.items()],
        [onnx.numpy_helper.from_array(a, n) for n, a in dict(initializer).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    onnx.checker.check_model(model)
    return model


LONG = np.array
MODERN = [
    (13, "Squeeze", [rand(1, 3, 1)], {"axes": LONG([0, 2])}, {}),
    (13, "Unsqueeze", [rand(3)], {"axes": LONG([0, 2])}, {}),
    (13, "ReduceSum", [rand(2, 3)], {"axes": LONG([1])}, {"keepdims": 0}),
    (18, "ReduceMean", [rand(2, 3)], {"axes": LONG([0])}, {"keepdims": 1}),
    (13, "Slice", [rand(4, 5, 6)], {"starts": LONG([1, -3]), "ends": LONG([-1, 2**31 - 1]), "axes": LONG([0, -1])}, {}),
    (13, "Clip", [rand(2, 3)], {"min": np.float32(-0.2), "max": np.float32(0.3)}, {}),
    (13, "Softmax", [rand(2, 3, 4)], {}, {}),
    (13, "LogSoftmax", [rand(2, 3)], {}, {"axis": 1}),
    (13, "Pad", [rand(1, 2, 3, 3)], {"pads": LONG([0, 0, 1, 0, 0, 0, 2, 1]), "value": np.float32(3)}, {}),
    (13, "Gemm", [rand(2, 3), rand(4, 3)], {"c": rand(4)}, {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    (13, "Gemm", [rand(3, 2), rand(3, 4)], {}, {"transA": 1}),
    (13, "MatMul", [rand(2, 1, 3, 4), rand(5, 4, 2)], {}, {}),
    (13, "Resize", [rand(1, 2, 3, 3)], {"roi": rand(0), "scales": np.array([1, 1, 2, 2], "f")},
     {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    (15, "BatchNormalization", [IMAGE], {"s": rand(6), "b": rand(6), "m": rand(6), "v": rand(6, low=0.1)}, {}),
    (13, "Tile", [rand(2, 3)], {"repeats": LONG([2, 2])}, {}),
    (13, "Gather", [rand(3, 4)], {"indices": LONG([[0, 2]])}, {"axis": 1}),
    (13, "Reshape", [rand(2, 6)], {"shape": LONG([3, 4])}, {}),
    (13, "Concat", [rand(2, 3), rand(2, 3)], {}, {"axis": 0}),
    (13, "Where", [rand(2, 3) > 0, rand(2, 3), rand(2, 3) * 2], {}, {}),
    (13, "Identity", [rand(2, 3)], {}, {}),
    (13, "Pow", [rand(2, 3, low=0.1), rand(3)], {}, {}),
    (13, "Conv", [IMAGE], {"w": rand(4, 6, 3, 3), "b": rand(4)}, {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    (13, "InstanceNormalization", [IMAGE], {"s": rand(6), "b": rand(6)}, {"epsilon": 0.01}),
]  # fmt: skip


@pytest.mark.parametrize("opset, kind, arrays, constants, attrs", MODERN, ids=lambda v: v if isinstance(v, str) else "")
def test_a_node_of_newer_operator_sets(opset, kind, arrays, constants, attrs):
    inputs = {f"x{i}": a for i, a in enumerate(arrays)}
    node = helper.make_node(kind, [*inputs, *constants], ["y"], **attrs)
    model = model_of([node], inputs, {"y": None}, opset, {k: np.asarray(v) for k, v in constants.items()})
    expected = run_onnxruntime(model, inputs)[0]
    np.testing.assert_allclose(backend.run_model(model, inputs).y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("go", [True, False])
def test_branches(go):
    then = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["a"])], "t", [], [helper.make_tensor_value_info("a", 1, [2])]
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["b"])], "e", [], [helper.make_tensor_value_info("b", 1, [2])]
    )
    inputs = {"go": np.array(go), "x": rand(2)}
    node = helper.make_node("If", ["go"], ["y"], then_branch=then, else_branch=other)
    model = model_of([node], inputs, {"y": None}, 11)
    np.testing.assert_allclose(backend.run_model(model, inputs).y, run_onnxruntime(model, inputs)[0])


def test_loops():
    body = helper.make_graph(
        [helper.make_node("MatMul", ["h", "w"], ["next"]), helper.make_node("Identity", ["c"], ["still"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h", TensorProto.FLOAT, [2, 2]),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [2, 2]),
        ],
    )
    inputs = {"n": np.array(3), "go": np.array(True), "x": rand(2, 2), "w": rand(2, 2)}
    model = model_of([helper.make_node("Loop", ["n", "go", "x"], ["y"], body=body)], inputs, {"y": [2, 2]}, 11)
    np.testing.assert_allclose(backend.run_model(model, inputs).y, run_onnxruntime(model, inputs)[0], rtol=1e-5)


RECURRENT = [
    (kind, direction, attrs, given)
    for kind, attrs in [("RNN", {}), ("RNN", {"activations": ["Relu"]}), ("GRU", {}), ("GRU", {"linear_before_reset": 1}), ("LSTM", {})]
    for direction, given in [("forward", {}), ("reverse", {"lengths": True}), ("bidirectional", {"states": False}),
                             ("bidirectional", {"lengths": True, "biases": False})]
]  # fmt: skip


@pytest.mark.parametrize("kind, direction, attrs, given", RECURRENT, ids=str)
def test_recurrent_nodes(kind, direction, attrs, given):
    directions = 2 if direction == "bidirectional" else 1
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    w, r, b = rand(directions, gates * 6, 4), rand(directions, gates * 6, 6, low=-0.5), rand(directions, 2 * gates * 6)
    arrays = {"x": rand(5, 3, 4), "w": w, "r": r, "b": b, "lengths": np.array([5, 2, 4], np.int32)}
    arrays |= {"h": rand(directions, 3, 6), "c": rand(directions, 3, 6) * 2}
    given = {"lengths": False, "biases": True, "states": True, **given}
    names = ["x", "w", "r", "b" * given["biases"], "lengths" * given["lengths"], "h" * given["states"]]
    names += ["c" * given["states"]] * (kind == "LSTM")
    outputs = ["y", "y_h", "y_c"][: 3 if kind == "LSTM" else 2]
    attrs = {k: v * directions if isinstance(v, list) else v for k, v in attrs.items()}
    node = helper.make_node(kind, names, outputs, hidden_size=6, direction=direction, **attrs)
    inputs = {k: v for k, v in arrays.items() if k in names}
    model = model_of([node], inputs, dict.fromkeys(outputs), 14)
    expected = run_onnxruntime(model, inputs)
    prepared = backend.prepare(model)
    for _ in range(2):
        for value, wanted in zip(prepared.run(inputs), expected):
            np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


def test_a_blob_that_is_written_again_gets_names():
    net = text_format.Parse(
        """name: "n" external_input: "x" external_output: "x"
        op { type: "Relu" input: "x" output: "x" } op { type: "Exp" input: "x" output: "x" }""",
        caffe2_pb2.NetDef(),
    )
    check(net, {"x": rand(2, 3)})
    frontend.ssa_rewrite(net, None, {})
    assert [list(op.output) for op in net.op] == [["x_1"], ["x_2"]] and net.external_output == ["x_2"]


REFUSED = [
    ("NonMaxSuppression", {}, "NonMaxSuppression"),
    ("Relu", {"foo": 3}, "foo"),
    ("MaxPool", {"kernel_shape": [2, 2], "ceil_mode": 1}, "ceil_mode"),
    ("Slice", {"starts": [0], "ends": [4], "steps": [2]}, "steps"),
    ("Softmax", {"axis": 0}, "axis"),
    ("LSTM", {"hidden_size": 2, "clip": 1.0}, "clip"),
    ("GRU", {"hidden_size": 2, "activations": ["Sigmoid", "Softsign"]}, "Softsign"),
    ("RNN", {}, "hidden_size"),
]


@pytest.mark.parametrize("kind, attrs, word", REFUSED)
def test_what_has_no_form_is_an_error_that_says_so(kind, attrs, word):
    node = helper.make_node(kind, ["x"], ["y"], **attrs)
    with pytest.raises(RuntimeError, match=word):
        backend.run_node(node, [rand(2, 3)], opset_version=13)


def test_a_missing_input_is_named():
    net = caffe2_pb2.NetDef(name="n", external_input=["x"], external_output=["y"])
    net.op.add().CopyFrom(core.CreateOperator("Relu", ["x"], ["y"]))
    with pytest.raises(RuntimeError, match="value info of inputs: x"):
        frontend.caffe2_net_to_onnx_model(net)
