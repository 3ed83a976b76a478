"""Files that operators and commands write: their names, and what stands in them as Caffe2 writes it."""

import importlib.util
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from caffe2.python import core, models, workspace

VALUES = {
    "big": (np.array([1234567, 1e-7, 1 / 3, np.nan, -np.inf, -0.0, 100000], "f"), b"float",
            b"1.23457e+06,1e-07,0.333333,nan,-inf,-0,100000"),
    "wide": (np.array([1e20, 123456789.0]), b"double", b"1e+20,1.23457e+08"),
    "long": (np.array([[4, -5]]), b"long int", b"4,-5"),
    "int": (np.array([7], "i4"), b"int", b"7"),
    "truth": (np.array([True, False]), b"bool", b"1,0"),
    "byte": (np.array([65, 200], "u1"), b"unsigned char", b"A,\xc8"),
    "text": (np.array(["a b", "é"], object), b"std::basic_string<char>", "a b,é".encode()),
    "none": (np.zeros((0, 3), "f"), b"float", b""),
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path):
    workspace.ResetWorkspace(str(tmp_path))
    yield tmp_path
    workspace.ResetWorkspace()


@pytest.mark.parametrize("name", VALUES)
def test_print_writes_numbers_as_c_does(folder, name):
    array, kind, numbers = VALUES[name]
    workspace.FeedBlob(name, array)
    workspace.RunOperatorOnce(core.CreateOperator("Print", name, [], to_file=1))
    dims = b"".join(b"%d," % d for d in array.shape)
    expected = b"Tensor %s of type %s. Dims: (%s): %s\n" % (name.encode(), kind, dims, numbers)
    assert (folder / f"{name}.log").read_bytes() == expected


def test_a_scope_is_a_folder_for_print_and_a_sign_for_summarize(folder):
    workspace.FeedBlob("tower/h", np.array([[1, 2], [3, 1 / 3]], "f"))
    net = core.Net("n")
    net.Summarize("tower/h", [], to_file=1)
    net.Print("tower/h", [], to_file=1, limit=1)
    (folder / "tower").mkdir()
    workspace.CreateNet(net)
    workspace.RunNet(net, 2)
    assert (folder / "tower#h.summary").read_text() == "0.333333 3 1.58333 1.16667\n" * 2
    assert (folder / "tower/h.log").read_text() == "Tensor tower/h of type float. Dims: (2,2,): 1\n" * 2
    workspace.CreateNet(net, True)  # new operators begin anew
    workspace.RunNet(net)
    assert (folder / "tower#h.summary").read_text().count("\n") == 1


def test_print_without_the_folder_says_which_file(folder):
    workspace.FeedBlob("no/h", np.ones(1, "f"))
    with pytest.raises(RuntimeError, match=r"no/h\.log"):
        workspace.RunOperatorOnce(core.CreateOperator("Print", "no/h", [], to_file=1))


def download(*arguments, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "caffe2.python.models.download", *arguments], capture_output=True, text=True, **kwargs
    )


@pytest.mark.parametrize(
    "arguments, word", [((), "required"), (("../x",), "not a valid model name"), (("__init__",), "valid")]
)
def test_a_download_of_nothing_fails(folder, arguments, word):
    done = download(*arguments, cwd=folder)
    assert done.returncode and word in done.stderr


def test_a_model_that_is_there_is_not_replaced_unasked(folder):
    (folder / "squeezenet").mkdir()
    (folder / "squeezenet/kept").write_text("")
    done = download("squeezenet", cwd=folder, stdin=subprocess.DEVNULL)
    assert done.returncode and "exists already" in done.stderr and (folder / "squeezenet/kept").exists()


def test_the_module_of_a_downloaded_model(folder):
    net = core.Net("tiny")
    net.ConstantFill([], "c", shape=[1], value=2.0)
    for name in ("init_net.pb", "predict_net.pb"):
        (folder / name).write_bytes(net.Proto().SerializeToString())
    source = pathlib.Path(models.__file__).with_name("__sym_init__.py")
    (folder / "__init__.py").write_text(source.read_text())
    spec = importlib.util.spec_from_file_location("tiny", folder / "__init__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.init_net.op[0].type == "ConstantFill" and module.predict_net.name == "tiny"
