"""Named rewrites of nets."""

import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, workspace


def small_net():
    model = model_helper.ModelHelper(name="transformed")
    brew.conv(model, "data", "conv", 3, 4, kernel=3)
    model.net.Relu("conv", "conv")
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CUDA)):
        model.net.Conv(["conv", "conv_w"], "on_gpu", kernel=3)
    return model.net.Proto()


def test_convolutions_on_the_cpu_get_the_engine():
    net = small_net()
    before = net.SerializeToString()
    assert [op.engine for op in workspace.ApplyTransform("ConvToNNPack", net).op] == ["NNPACK", "", ""]
    assert net.SerializeToString() == before


FC = ["x", "w", "b"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (  # three become one; operators are taken as their inputs are there, the new one last
            [("FC", FC, "y"), ("Tanh", ["x"], "t"), ("FC", FC, "z"), ("FC", FC, "q"), ("Sum", ["y", "z", "q"], "s")],
            [("Tanh", ["x"], "t"), ("FC", FC, "transform/y"), ("Sum", ["transform/y"] * 3, "s")],
        ),
        (  # what follows equal operators is not equal before, and stays
            [("FC", FC, "y"), ("FC", FC, "z"), ("FC", ["y", "w", "b"], "q"), ("FC", ["z", "w", "b"], "v")],
            [("FC", FC, "transform/y"), ("FC", ["transform/y", "w", "b"], "q"), ("FC", ["transform/y", "w", "b"], "v")],
        ),
        (  # another x in between
            [("FC", FC, "y"), ("Relu", ["x"], "x"), ("FC", FC, "z")],
            [("FC", FC, "y"), ("Relu", ["x"], "x"), ("FC", FC, "z")],
        ),
        ([("Relu", ["x"], "y"), ("Relu", ["x"], "z")], [("Relu", ["x"], "y"), ("Relu", ["x"], "z")]),
        ([("FC", FC, "y", 1), ("FC", FC, "z")], [("FC", FC, "y", 1), ("FC", FC, "z")]),
        ([("FC", FC, "y"), ("FC", FC, "z", 1)], [("FC", FC, "transform/y")]),  # the first one's arguments count
        (
            [("LearningRate", ["i"], "y", 2), ("LearningRate", ["i"], "z", 2)],
            [("LearningRate", ["i"], "transform/y", 2)],
        ),
    ],
)
def test_common_subexpressions(given, wanted):
    net = core.Net("equal_parts")
    for kind, inputs, output, *axis in given:
        net.Proto().op.extend([core.CreateOperator(kind, inputs, [output], **dict(zip(["axis"], axis)))])
    made = workspace.ApplyTransform("CommonSubexpressionElimination", net.Proto())
    assert [(op.type, list(op.input), *op.output, *(a.i for a in op.arg)) for op in made.op] == wanted


def test_an_unknown_transform_is_an_error_that_names_those_there_are():
    with pytest.raises(RuntimeError, match=r"'nope'.*ConvToNNPack"):
        workspace.ApplyTransform("nope", small_net())
    assert workspace.C.transform_exists("ConvToNNPack") and not workspace.C.transform_exists("nope")


def test_a_transform_that_is_not_faster_is_not_taken():
    init = core.Net("init")
    init.ConstantFill([], "x", shape=[2, 3])
    net = core.Net("run")
    net.Relu("x", "y")
    result = workspace.ApplyTransformIfFaster("ConvToNNPack", net.Proto(), init.Proto(), improvement_threshold=1e9)
    assert result == net.Proto()


def test_chains_of_simulated_half_precision_become_one_operator():
    from caffe2.python.fakefp16_transform_lib import fakeFp16FuseOps

    net = core.Net("chains")
    for i, kinds in enumerate((["Int8DequantizeNNPI", "SwishFakeFp16NNPI"], ["TanhFakeFp16NNPI"], ["Relu"])):
        for j, kind in enumerate([*kinds, "Int8QuantizeNNPI"]):
            op = net.Proto().op.add(type=kind, input=[f"x{i}{j}"], output=[f"x{i}{j + 1}"])
            if kind == "Int8QuantizeNNPI":
                op.arg.add(name="Y_scale", f=0.5)
                op.arg.add(name="Y_zero_point", i=3)
    fused = fakeFp16FuseOps(net.Proto())
    kinds = [op.type for op in fused.op]
    assert kinds == ["SwishFakeInt8NNPI", "TanhQuantFakeFp16NNPI", "Relu", "Int8QuantizeNNPI"]
    swish = fused.op[0]
    assert (swish.input, swish.output) == (["x00"], ["x03"])
    assert {a.name: a.f or a.i for a in swish.arg} == {"Y_scale": 0.5, "Y_zero_point": 3}
