"""Scopes and helpers."""

import pathlib
import threading

import numpy as np
import pytest

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, scope, utils, workspace


def test_scopes_nest_reset_and_end_with_their_block():
    with scope.NameScope("a"):
        with scope.NameScope("b"):
            assert scope.CurrentNameScope() == "a/b/"
        with scope.NameScope("c", reset=True):
            assert scope.CurrentNameScope() == "c/"
        assert scope.CurrentNameScope() == "a/"
    assert scope.CurrentNameScope() == ""
    with pytest.raises(ZeroDivisionError), scope.NameScope("left"):
        1 / 0  # noqa: B018
    assert scope.CurrentNameScope() == ""


def test_a_device_scope_fills_in_what_the_inner_one_leaves_open():
    outer = core.DeviceOption(caffe2_pb2.CUDA, 3, node_name="n")
    with scope.DeviceScope(outer):
        with scope.DeviceScope(core.DeviceOption(caffe2_pb2.CUDA, 1)):
            assert scope.CurrentDeviceScope().node_name == "n"
            assert scope.CurrentDeviceScope().device_id == 1
        with scope.EmptyDeviceScope():
            assert scope.CurrentDeviceScope() is None
        assert scope.CurrentDeviceScope() == outer


def test_every_thread_has_its_scope():
    seen = []
    with scope.NameScope("main"):
        thread = threading.Thread(target=lambda: seen.append(scope.CurrentNameScope()))
        thread.start()
        thread.join()
    assert seen == [""]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
def test_tensors_as_messages(dtype):
    array = np.array([[0, 1], [2, 3]]).astype(dtype)
    back = utils.Caffe2TensorToNumpyArray(utils.NumpyArrayToCaffe2Tensor(array, "name"))
    np.testing.assert_array_equal(back, array)


def test_an_argument_with_a_field_for_its_type():
    assert utils.MakeArgument("k", np.float64(1.5)).f == 1.5
    assert list(utils.MakeArgument("k", (1, 2)).ints) == [1, 2]
    assert utils.MakeArgument("k", "s").s == b"s"
    inner = caffe2_pb2.NetDef(name="inner")
    assert utils.MakeArgument("k", inner).n == inner
    with pytest.raises(ValueError, match="k"):
        utils.MakeArgument("k", object())


def test_arguments_found_by_name():
    net = core.Net("args")
    net.Conv(["x", "w"], "y", kernel=3, pad=1)
    op = net.Proto().op[0]
    assert utils.ArgsToDict(op.arg)["kernel"] == 3


def test_raise_if_not_equal_says_why():
    with pytest.raises(Exception, match="why"):
        utils.raiseIfNotEqual(1, 2, "why")
    utils.raiseIfNotEqual(1, 1, "why")


@pytest.mark.parametrize("arguments", [["relu", "-c", "--iters", "3"], ["MatMul", "-b", "w=3,3"]])
def test_generated_benchmarks_run(tmp_path, arguments):
    from caffe2.python import benchmark_generator

    paths = [str(tmp_path / n) for n in ("init.pb", "predict.pb")]
    options = ["-b", "data=2,3", "--init_net", paths[0], "--predict_net", paths[1]]
    benchmark_generator.main(benchmark_generator.parser().parse_args([*arguments, *options]))
    nets = [caffe2_pb2.NetDef.FromString(pathlib.Path(p).read_bytes()) for p in paths]
    workspace.ResetWorkspace()
    for net in nets:
        workspace.RunNetOnce(net)
    assert workspace.FetchBlob(nets[1].external_output[0]).shape == (2, 3)


def test_values_on_the_command_line():
    from caffe2.python.benchmark_generator import parse_kwarg

    assert [parse_kwarg(t) for t in ("a=3", "b = 1.5", "c=NCHW", "d=[1, 2]")] == [
        ("a", 3), ("b", 1.5), ("c", "NCHW"), ("d", [1, 2]),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["caffe2_pybind11_state", "caffe2_pybind11_state_gpu"])
def test_names_of_the_c_extension(name):
    import importlib

    assert importlib.import_module(f"caffe2.python.{name}") is workspace.C
    assert importlib.import_module("caffe2.python").caffe2_pb2 is caffe2_pb2
