"""Out of Caffe2's files and back: what comes back is bit-equal, others read what is written, and what cannot go says so."""

import json
import struct

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, workspace
from caffe2.python.predictor import predictor_exporter
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from caffe2lite import exchange, inspect
from caffe2lite.inspect.checkpoint import each_tensor
from caffe2lite.ops.kit.infer import Spec

click_testing = pytest.importorskip("click.testing", reason="the extra tools is not installed")
from caffe2lite.commands import cli  # noqa: E402 - it needs click

TYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16", "bool"]
TENSORS = {
    **{f"gpu_0/{kind}": np.arange(6).reshape(2, 3).astype(kind) for kind in TYPES},
    "nan": np.array([np.nan, np.inf, -0.0], np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.array(2.5, np.float32),
    "a.npy": np.ones(2, np.float32),
}
STRINGS = {"names": np.array([b"one", b"", b"two\0x"], object)}


def save(path, blobs, chunk_size=4, kind="minidb"):
    workspace.ResetWorkspace()
    for name, value in blobs.items():
        workspace.FeedBlob(name, value)
    args = {"absolute_path": 1, "db": str(path), "db_type": kind, "chunk_size": chunk_size}
    workspace.RunOperatorOnce(core.CreateOperator("Save", list(blobs), [], **args))
    workspace.ResetWorkspace()


def load(path, kind="minidb"):
    workspace.ResetWorkspace()
    args = {"absolute_path": 1, "db": str(path), "db_type": kind, "load_all": 1}
    workspace.RunOperatorOnce(core.CreateOperator("Load", [], [], **args))
    found = {name: workspace.FetchBlob(name) for name in workspace.Blobs()}
    workspace.ResetWorkspace()
    return found


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert (found[name].shape, found[name].dtype) == (value.shape, value.dtype), name
        assert (
            found[name].tolist() == value.tolist()
            if value.dtype == object
            else found[name].tobytes() == value.tobytes()
        )


def run(*args):
    return click_testing.CliRunner().invoke(cli, [str(a) for a in args], catch_exceptions=False)


@pytest.mark.parametrize("ending", ["npz", "safetensors", "pt"])
@pytest.mark.parametrize("kind", ["minidb", "lmdb"])
def test_out_and_back_is_bit_equal(ending, kind, tmp_path):
    if ending == "pt":
        pytest.importorskip("torch", reason="torch is not installed here")
    blobs = {**TENSORS, **(STRINGS if ending == "npz" else {})}
    save(tmp_path / "model", blobs, kind=kind)
    out = tmp_path / f"model.{ending}"
    said = run("export", tmp_path / "model", "-o", out)
    assert said.exit_code == 0 and f"{len(blobs)} tensors" in said.output
    assert run("import", out, "-o", tmp_path / "back", "--to", kind).exit_code == 0
    assert_same(load(tmp_path / "back", kind), blobs)


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_any_tensor_goes_out_and_back(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    shape = arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    names = st.text(st.characters(blacklist_categories=["C", "Z"]), min_size=1, max_size=8).filter(
        lambda n: "#%" not in n and "/" not in n
    )
    made = st.sampled_from(TYPES).flatmap(lambda kind: arrays_of.arrays(kind, shape))
    blobs = data.draw(st.dictionaries(names, made, min_size=1, max_size=4))
    save(folder / "model", blobs, chunk_size=data.draw(st.integers(1, 8)))
    for ending in ("npz", "safetensors"):
        exchange.export_tensors(folder / "model", folder / f"m.{ending}")
        exchange.import_tensors(folder / f"m.{ending}", folder / "back")
        assert_same(load(folder / "back"), blobs)


def test_others_read_what_is_written(tmp_path):
    save(tmp_path / "model", TENSORS)
    for ending, package in (("npz", "numpy"), ("safetensors", "safetensors.numpy"), ("pt", "torch")):
        out = tmp_path / f"m.{ending}"
        module = pytest.importorskip(package, reason=f"{package} is not installed here")
        exchange.export_tensors(tmp_path / "model", out)
        if ending == "npz":
            with np.load(out) as archive:
                found = {name: archive[name] for name in archive.files}
        elif ending == "safetensors":
            found = module.load_file(out)
        else:
            found = {name: t.numpy() for name, t in module.load(out, weights_only=True).items()}
        assert_same(found, TENSORS)


def test_init_nets_are_tensors(tmp_path):
    blobs = {
        k: v
        for k, v in {**TENSORS, **STRINGS}.items()
        if not k.endswith(("float16", "int8", "uint16")) or k.endswith("uint8")
    }
    save(tmp_path / "model", blobs)
    exchange.export_tensors(tmp_path / "model", tmp_path / "m.npz")
    exchange.import_tensors(tmp_path / "m.npz", tmp_path / "init.pb", "init-net")
    net = inspect.read(tmp_path / "init.pb").message
    workspace.ResetWorkspace()
    workspace.RunNetOnce(net)
    assert_same({name: workspace.FetchBlob(name) for name in blobs}, blobs)
    net.op.add(type="ConstantFill", output=["c"], arg=[caffe2_pb2.Argument(name="shape", ints=[2])])
    (tmp_path / "init.pb").write_bytes(net.SerializeToString())
    exchange.export_tensors(tmp_path / "init.pb", tmp_path / "again.npz")
    with np.load(tmp_path / "again.npz") as archive:
        assert set(archive.files) == {*blobs, "c"} and archive["c"].tolist() == [0, 0]


@pytest.mark.parametrize("op", [("XavierFill", []), ("Load", []), ("Copy", ["x"])])
def test_a_net_is_not_run_to_be_exported(op, tmp_path):
    net = caffe2_pb2.NetDef(name="init", op=[caffe2_pb2.OperatorDef(type=op[0], input=op[1], output=["y"])])
    (tmp_path / "init.pb").write_bytes(net.SerializeToString())
    said = run("export", tmp_path / "init.pb", "-o", tmp_path / "y.npz")
    assert said.exit_code == 2 and f"operator 0 of net 'init' is {op[0]}" in said.output
    assert not (tmp_path / "y.npz").exists()


def test_what_a_format_cannot_hold(tmp_path):
    save(tmp_path / "strings", {**STRINGS, "w": np.ones(2, np.float32)})
    said = run("export", tmp_path / "strings", "-o", tmp_path / "s.safetensors")
    assert (
        said.exit_code == 2
        and "'names' holds strings, which safetensors cannot hold: leave it out (--leave names)" in said.output
    )
    assert run("export", tmp_path / "strings", "-o", tmp_path / "s.safetensors", "--leave", "names").exit_code == 0
    save(tmp_path / "nul", {"names": np.array([b"x\0"], object)})
    with pytest.raises(exchange.CannotHold, match="end in NUL"):
        exchange.export_tensors(tmp_path / "nul", tmp_path / "n.npz")
    save(tmp_path / "half", {"h": np.ones(2, np.float16)})
    exchange.export_tensors(tmp_path / "half", tmp_path / "h.npz")
    with pytest.raises(exchange.CannotHold, match="'h' is float16, which no fill operator makes"):
        exchange.import_tensors(tmp_path / "h.npz", tmp_path / "init.pb", "init-net")
    np.savez(tmp_path / "c.npz", c=np.ones(2, complex))
    with pytest.raises(exchange.CannotHold, match="'c' is of type complex128, which Caffe2 does not have"):
        exchange.import_tensors(tmp_path / "c.npz", tmp_path / "c")
    np.savez(tmp_path / "o.npz", o=np.array([{}]))
    with pytest.raises(exchange.CannotHold, match="allow_pickle=False"):
        exchange.import_tensors(tmp_path / "o.npz", tmp_path / "o")
    assert sorted(p.name for p in tmp_path.iterdir() if "tmp" in p.name) == []


def safetensors(header, content=b""):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


def test_bfloat16_is_widened(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors({"b": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}, b"\x80\x3f\xc0\xbf"))
    exchange.import_tensors(path, tmp_path / "back")
    assert_same(load(tmp_path / "back"), {"b": np.array([1, -1.5], np.float32)})


BROKEN = {
    "beyond the end": {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}},
    "another size": {"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}},
    "negative": {"a": {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}},
    "huge": {"a": {"dtype": "F32", "shape": [1 << 62, 4], "data_offsets": [0, 8]}},
    "unknown type": {"a": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}},
    "no entry": {"a": 3},
}


@pytest.mark.parametrize("header", BROKEN.values(), ids=BROKEN)
def test_broken_safetensors(header, tmp_path):
    (tmp_path / "m.safetensors").write_bytes(safetensors(header, bytes(8)))
    with pytest.raises(exchange.CannotHold, match=r"'a'"):
        exchange.import_tensors(tmp_path / "m.safetensors", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_truncated_checkpoint(tmp_path):
    save(tmp_path / "model", {"w": np.arange(8, dtype=np.float32)}, chunk_size=4)
    whole = (tmp_path / "model").read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RuntimeError, match=r"of blob 'w' of .* only 4 of 8 elements are there"):
        list(each_tensor(str(tmp_path / "half")))
    assert run("export", tmp_path / "half", "-o", tmp_path / "m.npz").exit_code == 2
    assert not (tmp_path / "m.npz").exists()


# ---- models ------------------------------------------------------------------------------------------------------


@pytest.fixture
def model():
    """A small convnet, its parameters in the workspace."""
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper("convnet", arg_scope={"order": "NCHW"})
    h = brew.relu(model, brew.conv(model, "data", "conv", 3, 4, 3, pad=1), "conv")
    h = brew.max_pool(model, h, "pool", kernel=2, stride=2)
    brew.softmax(model, brew.fc(model, h, "fc", 4 * 4 * 4, 5), "softmax")
    model.net.AddExternalOutput(core.BlobReference("softmax"))
    workspace.RunNetOnce(model.param_init_net)
    yield model
    workspace.ResetWorkspace()


def expected_of(model, data):
    workspace.FeedBlob("data", data)
    workspace.RunNetOnce(model.net)
    return workspace.FetchBlob("softmax")


def test_a_model_to_onnx_and_back(model, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed here")
    data = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
    expected = expected_of(model, data)
    params = {str(p): workspace.FetchBlob(p) for p in model.params}
    meta = predictor_exporter.PredictorExportMeta(
        model.net, list(params), ["data"], ["softmax"], shapes={"data": data.shape, "softmax": (2, 5)}
    )
    predictor_exporter.save_to_db("minidb", str(tmp_path / "export"), meta)
    assert run("draw", tmp_path / "export", "-o", tmp_path / "export.svg").exit_code == 0
    assert "MaxPool" in (tmp_path / "export.svg").read_text()
    (tmp_path / "net.pb").write_bytes(model.net.Proto().SerializeToString())
    save(tmp_path / "params", params)
    said = run("draw", tmp_path / "params", "-o", tmp_path / "params.svg")
    assert said.exit_code == 2 and "is a minidb: it holds no net to draw" in said.output
    shape = "data:2x3x8x8"
    assert (
        run(
            "export", tmp_path / "net.pb", "--params", tmp_path / "params", "--input", shape, "-o", tmp_path / "a.onnx"
        ).exit_code
        == 0
    )
    assert run("export", tmp_path / "export", "--input", shape, "-o", tmp_path / "b.onnx").exit_code == 0
    for name in ("a.onnx", "b.onnx"):
        session = onnxruntime.InferenceSession(str(tmp_path / name), providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(session.run(None, {"data": data})[0], expected, rtol=1e-4, atol=1e-6)
    said = run("import", tmp_path / "a.onnx", "-o", tmp_path / "nets")
    assert said.exit_code == 0, said.output
    workspace.ResetWorkspace()
    workspace.FeedBlob("data", data)
    for name in ("init_net.pb", "predict_net.pb"):
        workspace.RunNetOnce(inspect.read(tmp_path / "nets" / name).message)
    found = workspace.FetchBlob(inspect.read(tmp_path / "nets" / "predict_net.pb").message.external_output[0])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    nets = tmp_path / "nets"
    again = run(
        "export", nets / "predict_net.pb", "--params", nets / "init_net.pb", "--input", shape, "-o", tmp_path / "c.onnx"
    )
    assert again.exit_code == 0, again.output


def test_a_model_in_onnx_has_no_constants_that_nothing_uses(tmp_path):
    onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
    net = core.Net("joined")
    net.FC(["x", "w", "b"], "y")
    net.Concat(["x", "y"], ["joined", "sizes"], axis=1)
    net.Proto().external_output.append("joined")
    (tmp_path / "net.pb").write_bytes(net.Proto().SerializeToString())
    save(tmp_path / "params", {"w": np.ones((2, 3), np.float32), "b": np.ones(2, np.float32)})
    exchange.export_model(tmp_path / "net.pb", tmp_path / "m.onnx", tmp_path / "params", {"x": Spec((4, 3), "float32")})
    assert {t.name for t in onnx.load(str(tmp_path / "m.onnx")).graph.initializer} == {"w", "b"}


def test_what_onnx_cannot_have(model, tmp_path):
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    (tmp_path / "net.pb").write_bytes(model.net.Proto().SerializeToString())
    with pytest.raises(
        exchange.CannotHold, match=r"of data, conv_w, conv_b, fc_w, fc_b neither values nor a shape are known"
    ):
        exchange.export_model(tmp_path / "net.pb", tmp_path / "m.onnx")
    net = core.Net("odd")
    net.Python(lambda inputs, outputs: None)("x", "y")
    net.SparseLengthsSum(["y", "i", "n"], "z")
    (tmp_path / "odd.pb").write_bytes(net.Proto().SerializeToString())
    with pytest.raises(exchange.CannotHold, match=r"ONNX has no form for Python \(1\), SparseLengthsSum \(1\)"):
        exchange.export_model(tmp_path / "odd.pb", tmp_path / "m.onnx", inputs={"x": Spec((2,), "float32")})
    (tmp_path / "no.onnx").write_bytes(b"nothing of ONNX's")
    with pytest.raises(exchange.CannotHold, match="no sound ONNX model"):
        exchange.import_model(tmp_path / "no.onnx", tmp_path / "nets")
