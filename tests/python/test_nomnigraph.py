"""Nets as graphs."""

import numpy as np
import pytest
from caffe2.python import core, workspace
from caffe2.python import nomnigraph as ng
from caffe2.python.nomnigraph_transformations import transpose_network


def in_place_net():
    net = core.Net("in_place")
    net.Relu("x", "x")
    net.Copy("x", "kept")
    net.Exp("x", "x")
    net.AddExternalOutput(net.Add(["x", "kept"], "y"))
    return net


def run(net, **arrays):
    workspace.ResetWorkspace()
    for name, array in arrays.items():
        workspace.FeedBlob(name, array)
    workspace.RunNetOnce(net)
    return {name: workspace.FetchBlob(name) for name in workspace.Blobs()}


def test_there_and_back_keeps_versions_apart():
    net = in_place_net()
    module = ng.NNModule(net)
    assert [t.name for t in module.dataFlow.tensors].count("x") == 3
    back = module.convertToCaffe2Proto()
    assert [op.SerializeToString() for op in back.op] == [op.SerializeToString() for op in net.Proto().op]
    assert back.external_input == ["x"] and back.external_output == ["y"] and back.name == net.Proto().name


def test_device_options_come_back():
    net = core.Net("devices")
    with core.DeviceScope(core.DeviceOption(1, 3)):
        net.Relu("x", "y")
    module = ng.NNModule(net)
    assert module.controlFlow[0].annotation.device_option.device_id == 3
    assert module.convertToCaffe2Proto().op[0].device_option.device_id == 3


def test_a_pattern_finds_each_place_once():
    net = core.Net("chain")
    for i in range(4):
        net.FC([f"x{i}", "w", "b"], f"f{i}")
        net.Relu(f"f{i}", f"x{i + 1}")
    module = ng.NNModule(net)
    pattern = ng.NNMatchGraph()
    fc = pattern.createNode(ng.NeuralNetOperator("FC"))
    between = pattern.createNode(ng.NeuralNetData("any"), strict=True)
    relu = pattern.createNode(ng.NeuralNetOperator("Relu"))
    pattern.createEdge(fc, between)
    pattern.createEdge(between, relu)
    found = [sorted(n.name for n in match.nodes) for match in module.match(pattern)]
    assert found == [["FC", "Relu", f"f{i}"] for i in range(4)]


def test_a_strict_tensor_has_no_other_readers():
    net = core.Net("read_twice")
    net.FC(["x", "w", "b"], "f")
    net.Relu("f", "y")
    net.Copy("f", "z")
    pattern = ng.NNMatchGraph()
    fc = pattern.createNode(ng.NeuralNetOperator("FC"))
    between = pattern.createNode(ng.NeuralNetData("any"), strict=True)
    relu = pattern.createNode(ng.NeuralNetOperator("Relu"))
    pattern.createEdge(fc, between)
    pattern.createEdge(between, relu)
    assert not list(ng.NNModule(net).match(pattern))


def test_fusing_two_operators_computes_the_same():
    net = core.Net("scale_twice")
    net.Scale("x", "a", scale=2.0)
    net.Scale("a", "y", scale=3.0)
    module = ng.NNModule(net)
    first, second = module.controlFlow
    fused = module.createNode(core.CreateOperator("Scale", [], [], scale=6.0))
    both = ng.NNSubgraph()
    for node in (first, first.outputs[0], second):
        both.addNode(node)
    module.replaceSubgraph(both, fused, first.inputs, second.outputs)
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(run(module.convertToCaffe2Proto(), x=x)["y"], 6 * x)


def test_convolutions_in_another_order_compute_the_same():
    rng = np.random.default_rng(0)
    arrays = {
        "x": rng.standard_normal((2, 3, 8, 8), np.float32),
        "w": rng.standard_normal((4, 3, 3, 3), np.float32),
        "v": rng.standard_normal((2, 4, 3, 3), np.float32),
        "b": rng.standard_normal(4, np.float32),
        "c": rng.standard_normal(2, np.float32),
    }
    net = core.Net("convolutions")
    net.Conv(["x", "w", "b"], "h", kernel=3)
    net.Conv(["h", "v", "c"], "y", kernel=3)
    expected = run(net, **arrays)["y"]
    module = ng.NNModule(net)
    transpose_network(module)
    assert [op.name for op in module.controlFlow].count("NCHW2NHWC") == 3  # x, w and v; h is at hand
    np.testing.assert_allclose(run(module.convertToCaffe2Proto(), **arrays)["y"], expected, rtol=1e-4, atol=1e-4)


def test_operators_that_wait_for_each_other():
    module = ng.NNModule()
    a, b = (module.createNode(ng.NeuralNetOperator(n)) for n in ("A", "B"))
    x, y = (module.createNode(ng.NeuralNetData(n)) for n in ("x", "y"))
    for edge in ((a, x), (x, b), (b, y), (y, a)):
        module.createEdge(*edge)
    with pytest.raises(RuntimeError, match="A, B"):
        module.convertToCaffe2Proto()


def test_dot_text_of_hostile_names():
    graph = ng.NNModule().dataFlow
    graph.createNode(ng.NeuralNetData('a"];evil[label="'))
    assert r"\"];evil" in str(graph)
