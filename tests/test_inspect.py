"""Looking into files: what they are, what is in them, what is wrong with them, and what differs."""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, workspace
from caffe2.python.predictor import mobile_exporter
from hypothesis import given, settings
from hypothesis import strategies as st
from inspected import checkpoint, run, small_net

from caffe2lite import extras, inspect
from caffe2lite.commands import text
from caffe2lite.ops.kit.infer import Spec


def test_a_sync_net_in_words(sync_net, tmp_path):
    (tmp_path / "sync.pb").write_bytes(sync_net.SerializeToString())
    sync = inspect.sync_of(inspect.read(tmp_path / "sync.pb").message, {"gpu_0/fc1_w": Spec((16, 8))})
    assert sync.devices == ["gpu_0", "gpu_1", "gpu_2", "gpu_3"] and not sync.worlds
    assert {"fc1_w", "fc1_b", "fc2_w", "fc2_b"} <= set(sync.parameters)
    assert sync.bytes_each == {"fc1_w": 512}
    assert all(m.source.startswith("gpu_0/") for m in sync.moves)
    said = run("inspect", tmp_path / "sync.pb").output
    assert "over 4 devices (gpu_0, gpu_1, gpu_2, gpu_3): each gets the values of gpu_0" in said


@pytest.mark.parametrize("text", [False, True])
def test_files_are_known_by_their_content(text, tmp_path):
    plan = core.Plan("plan")
    net = small_net()
    plan.AddNets([core.Net(net)])
    tensor = caffe2_pb2.TensorProto(dims=[2], data_type=1, float_data=[1, 2], name="t")
    messages = {
        "net": net,
        "plan": plan.Proto(),
        "tensor": tensor,
        "tensors": caffe2_pb2.TensorProtos(protos=[tensor]),
        "blob": caffe2_pb2.BlobProto(name="b", type="Tensor", tensor=tensor),
    }
    for kind, message in messages.items():
        path = tmp_path / kind
        path.write_bytes(str(message).encode() if text else message.SerializeToString())
        assert inspect.read(path).kind == kind
        assert json.loads(run("inspect", "--json", path).output)[0]["kind"] == kind


def test_a_summary_with_shapes_and_work():
    shapes = {"x": Spec((5, 8)), "w": Spec((3, 8)), "b": Spec((3,))}
    summary = inspect.summarize(small_net(), shapes)
    assert summary.by_type == {"FC": 1, "Relu": 1, "Softmax": 1} and summary.by_device == {"cpu": 3}
    assert summary.blobs["p"].spec.shape == (5, 3) and summary.blobs["p"].bytes == 60
    assert summary.blobs["h"].producers == [0, 1] and summary.inputs == ["x", "w", "b"] and summary.outputs == ["p"]
    assert summary.flops >= 2 * 5 * 8 * 3


def test_a_checkpoint_with_statistics_and_what_is_missing(tmp_path):
    checkpoint(tmp_path / "c", w=np.array([[1, np.nan, 3, 4, 5, np.inf]], "f"), other=np.arange(3))
    w, other = inspect.stored(str(tmp_path / "c"))
    assert (w.name, w.kind, w.shape, w.bytes, w.least, w.most, w.mean, w.nan, w.inf) == (
        "w",
        "float32",
        (1, 6),
        24,
        1.0,
        5.0,
        3.25,
        1,
        1,
    )
    assert (other.kind, other.least, other.most, other.missing) == ("int64", 0, 2, 0)
    (tmp_path / "net").write_bytes(small_net().SerializeToString())
    facts = json.loads(run("inspect", "--json", tmp_path / "c", "--against", tmp_path / "net").output)[0]
    assert set(facts["missing"]) == {"x", "b"} and facts["missing_parameters"] == ["b"] and facts["extra"] == ["other"]


def test_differences_of_nets(tmp_path):
    a, b = small_net(), small_net()
    b.name = a.name
    assert inspect.diff_nets(a, b) == []
    b.op[2].arg.add(name="axis", i=2)
    moved = b.op.pop(0)
    b.op.append(moved)
    b.op.add(type="Copy", input=["p"], output=["q"])
    lines = inspect.diff_nets(a, b)
    assert any(line.startswith("+ ") and "Copy(p) -> q" in line for line in lines)
    assert any(line.startswith("> ") and "FC(x, w, b)" in line for line in lines)
    assert any("argument axis: absent is 2" in line for line in lines)
    for name, net in (("a", a), ("b", b)):
        (tmp_path / name).write_bytes(net.SerializeToString())
    assert run("diff", tmp_path / "a", tmp_path / "a").exit_code == 0
    assert run("diff", tmp_path / "a", tmp_path / "b").exit_code == 1


def test_differences_of_checkpoints(tmp_path):
    checkpoint(tmp_path / "a", w=np.arange(6.0), same=np.ones(2), gone=np.ones(1))
    checkpoint(tmp_path / "b", w=np.arange(6.0) + [0, 0, 0, 0, 0, 0.5], same=np.ones(2), new=np.ones(1))
    result = run("diff", tmp_path / "a", tmp_path / "b")
    assert result.exit_code == 1
    assert "~ w: 1 of 6 values differ, by 0.5 at most" in result.output
    assert "- gone" in result.output and "+ new" in result.output and "same" not in result.output


@pytest.mark.parametrize("change, line", [
    (lambda net: net.arg.add(name="top_k", i=3), "~ argument top_k: absent is 3"),
    (lambda net: setattr(net.device_option, "device_type", 1), "~ device: cpu is gpu_0"),
    (lambda net: net.external_input.insert(0, net.external_input.pop()), "~ external_input: the same blobs in another order"),
    (lambda net: net.op[0].device_option.extra_info.append("x"), "extra_info: none is x"),
])  # fmt: skip
def test_differences_beside_the_operators(change, line):
    a, b = small_net(), caffe2_pb2.NetDef()
    b.CopyFrom(a)
    change(b)
    assert [found for found in inspect.diff_nets(a, b) if line in found] and len(inspect.diff_nets(a, b)) == 1


@pytest.mark.parametrize("a, b, said", [
    ([1.0, np.nan], [1.0, 2.0], "1 of 2 values differ, 1 by NaN"),
    ([1.0, np.nan], [3.0, 2.0], "2 of 2 values differ, by 2 at most, 1 by NaN"),
    ([np.nan, np.nan], [1.0, 2.0], "2 of 2 values differ, 2 by NaN"),
    ([2**60, 1], [2**60 + 1, 1], "1 of 2 values differ, by 1 at most"),
    ([0, 255], [255, 255], "1 of 2 values differ, by 255 at most"),
    ([True, False], [True, True], "1 of 2 values differ, by 1 at most"),
])  # fmt: skip
def test_distances_of_values(a, b, said):
    assert inspect.diff_blobs({"w": np.array(a)}, {"w": np.array(b)}) == [f"~ w: {said}"]
    assert not inspect.diff_blobs({"w": np.array(a)}, {"w": np.array(a)})


def test_blobs_that_are_saved_whole_and_a_cut_checkpoint(tmp_path):
    checkpoint(tmp_path / "a", w=np.arange(6.0), s=np.array(["x", "y"]))
    checkpoint(tmp_path / "b", w=np.arange(6.0), s=np.array(["x", "z"]))
    assert inspect.diff_files(inspect.read(tmp_path / "a"), inspect.read(tmp_path / "b")) == [
        "~ s: 1 of 2 strings differ"
    ]
    (tmp_path / "c").write_bytes((tmp_path / "a").read_bytes()[:-3])
    result = run("inspect", tmp_path / "c")
    assert result.exit_code == 2 and "truncated" in result.output


def test_training_data_in_a_database(tmp_path):
    from caffe2lite import db

    records = db.open_db("minidb", str(tmp_path / "data"), db.Mode.new)
    example = caffe2_pb2.TensorProtos()
    example.protos.add(dims=[3, 2], data_type=caffe2_pb2.TensorProto.FLOAT, float_data=range(6))
    example.protos.add(data_type=caffe2_pb2.TensorProto.INT32, int32_data=[1])
    transaction = records.new_transaction()
    for i in range(5):
        transaction.put(str(i).encode(), example.SerializeToString())
    transaction.commit()
    records.close()
    (found,) = inspect.stored(str(tmp_path / "data"))
    assert found.name == "(5 records: FLOAT[3, 2] INT32[])" and found.kind == "TensorProtos"


def test_two_files_that_show_what_they_are_together(tmp_path):
    """A checkpoint's blobs give the net that follows its shapes; what the user says of an input comes first."""
    checkpoint(tmp_path / "c", w=np.ones((3, 8), "f"), b=np.ones(3, "f"))
    (tmp_path / "net").write_bytes(small_net().SerializeToString())
    said = run("inspect", tmp_path / "c", tmp_path / "net", "--input", "x:5x8").output.split("\n")
    assert [line.split()[:6] for line in said if line.startswith("p ")] == [["p", "[5,", "3]", "float32", "60", "2"]]
    assert "5 of 5 blobs known: 268 bytes of inputs, 120 bytes made" in said


def test_a_predictor_export_shows_its_nets(tmp_path):
    from caffe2.python.predictor import predictor_exporter

    workspace.ResetWorkspace()
    for name, value in {
        "w": np.ones((3, 8), "f"),
        "b": np.ones(3, "f"),
        "x": np.ones((5, 8), "f"),
        "p": np.ones((5, 3), "f"),
    }.items():
        workspace.FeedBlob(name, value)
    meta = predictor_exporter.PredictorExportMeta(small_net(), ["w", "b"], ["x"], ["p"])
    predictor_exporter.save_to_db("minidb", str(tmp_path / "export"), meta)
    (facts,) = json.loads(run("inspect", "--json", tmp_path / "export").output)
    assert [n["operators"] for n in facts["nets"]][-1] == 3 and facts["roles"]["INPUTS_BLOB_TYPE"] == ["x"]
    assert facts["nets"][-1]["blobs"]["p"]["spec"] == [[5, 3], "float32"]

    (tmp_path / "x").write_bytes(small_net().SerializeToString())
    assert run("lint", tmp_path / "export").exit_code == 0
    problem = run("lint", tmp_path / "export", "--input", "x:5x9").output
    assert "C008" in problem and "W must be" in problem  # the shapes of the parameters are in the export


def test_what_people_see_of_a_net(tmp_path):
    net = small_net()
    net.name = "small"
    net.op[2].arg.add(name="axis", i=1)
    (tmp_path / "net").write_bytes(net.SerializeToString())
    said = run("inspect", tmp_path / "net", "--input", "x:5x8", "--input", "w:3x8", "--input", "b:3").output
    assert (
        said.replace(str(tmp_path), "DIR")
        == """\
DIR/net: net
net small (simple): 3 operators
#  operator  inputs   outputs  arguments  device
0  FC        x, w, b  h                   cpu
1  Relu      h        h                   cpu
2  Softmax   h        p        axis=1     cpu
by type: 1 FC, 1 Relu, 1 Softmax
by device: 3 on cpu
inputs: x, w, b
outputs: p
of the inputs, 2 parameters, 108 bytes
blob  shape   type     bytes  made by  used by
x     [5, 8]  float32  160             0
w     [3, 8]  float32  96              0
b     [3]     float32  12              0
h     [5, 3]  float32  60     0, 1     1, 2
p     [5, 3]  float32  60     2
5 of 5 blobs known: 268 bytes of inputs, 120 bytes made
255 FLOPs
"""
    )


def test_the_device_of_a_net_is_that_of_its_operators():
    """Field by field: an operator whose own option names no type keeps the net's."""
    net = small_net()
    net.device_option.device_type, net.device_option.device_id = caffe2_pb2.CUDA, 1
    net.op[0].device_option.extra_info.append("is_auto_gen_sum_ops:1")
    net.op[1].device_option.device_type = caffe2_pb2.CPU
    assert inspect.places(net) == ["gpu_1", "cpu", "gpu_1"]


def test_many_inputs_are_told_with_the_data_first(tmp_path):
    net = core.Net("many")
    for i in range(8):
        net.SpatialBN(
            [f"x{i}", f"scale{i}", f"bias{i}", f"mean{i}", f"var{i}"],
            [f"y{i}", f"mean{i}", f"var{i}", f"m{i}", f"v{i}"],
        )
    assert inspect.summarize(net.Proto()).parameters == [
        f"{name}{i}" for i in range(8) for name in ("scale", "bias", "mean", "var")
    ]
    (tmp_path / "net").write_bytes(net.Proto().SerializeToString())
    said = run("inspect", tmp_path / "net").output
    assert f"inputs: {', '.join(f'x{i}' for i in range(8))}, scale0" in said and " and 20 more\n" in said


def test_running_averages_that_a_checkpoint_lacks(tmp_path):
    net = core.Net("bn")
    net.SpatialBN(["x", "scale", "bias", "mean", "var"], "y", is_test=1)
    (tmp_path / "net").write_bytes(net.Proto().SerializeToString())
    checkpoint(tmp_path / "ck", scale=np.ones(2), bias=np.ones(2))
    said = run("inspect", tmp_path / "ck", "--against", tmp_path / "net").output
    assert "missing parameters: mean, var\nmissing inputs: x\n" in said


@pytest.mark.parametrize("content, said", [
    (b"PK\3\4 a zip", "caffe2lite import"),
    (b'\x20\0\0\0\0\0\0\0{"w":{"dtype":"F32"}}', "caffe2lite import"),
    (bytes([8, 8, 58, 20, 10, 8, 10, 1, 120, 18, 1, 121, 34, 0, 18, 1, 103, 90, 0, 98, 0, 0]), "none of NetDef"),  # ONNX
])  # fmt: skip
def test_files_of_others(content, said, tmp_path):
    (tmp_path / "f").write_bytes(content)
    result = run("inspect", tmp_path / "f")
    assert result.exit_code == 2 and said in result.output, result.output


def test_a_plan_of_steps_alone_and_a_pipe(tmp_path):
    plan = caffe2_pb2.PlanDef(name="steps")
    plan.execution_step.add(name="s").network.append("elsewhere")
    (tmp_path / "plan").write_bytes(plan.SerializeToString())
    assert inspect.read(tmp_path / "plan").kind == "plan"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(inspect.Unrecognised, match="is no file"):
        inspect.read(tmp_path / "pipe")


def test_bytes_and_time_of_a_sync_net(sync_net, tmp_path):
    (tmp_path / "sync.pb").write_bytes(sync_net.SerializeToString())
    said = run("inspect", tmp_path / "sync.pb", "--input", "gpu_0/fc1_w:1000x1000", "--bandwidth", "8").output
    assert "Each device receives at least 4,000,000 bytes, 12,000,000 in all within a process." in said
    names = inspect.sync_of(sync_net).parameters
    assert f"The shapes of {len(names) - 1} parameters are not known" in said
    shapes = [f"--input=gpu_0/{name}:1000" for name in names if name != "fc1_w"]
    known = run("inspect", tmp_path / "sync.pb", "--input", "gpu_0/fc1_w:1000x1000", *shapes, "--bandwidth", "8").output
    total = 4_000_000 + 4000 * (len(names) - 1)
    assert f"receives {total:,} bytes" in known and f"a device takes about {total / 8e6:.2f} ms." in known


def test_plans_in_steps(tmp_path):
    plan = core.Plan("plan")
    plan.AddStep(core.execution_step("train", [core.Net(small_net())], num_iter=3))
    (tmp_path / "plan").write_bytes(plan.Proto().SerializeToString())
    assert "step train, nets small" in run("inspect", tmp_path / "plan").output


def test_no_difference_from_itself_even_with_nan(sync_net, tmp_path):
    sync_net.op[0].arg.add(name="x", f=float("nan"))
    assert inspect.diff_nets(sync_net, sync_net) == []


def test_what_to_install_is_what_the_extras_need():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    project = tomllib.loads((pathlib.Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    named = {
        extra: tuple(re.match(r"[\w.-]+", package)[0] for package in packages)
        for extra, packages in project["optional-dependencies"].items()
        if extra not in ("test", "dev")
    }
    assert named == extras.PACKAGES


def test_a_number_of_gpus_that_is_none(tmp_path):
    """A sentence, and no traceback."""
    (tmp_path / "net").write_bytes(small_net().SerializeToString())
    environment = {**os.environ, "CAFFE2LITE_EMULATED_GPUS": "two"}
    done = subprocess.run(
        [sys.executable, "-m", "caffe2lite", "doctor"], env=environment, capture_output=True, text=True
    )
    assert "CAFFE2LITE_EMULATED_GPUS is the number of GPUs" in done.stdout and "Traceback" not in done.stderr


def test_doctor_without_click():
    """The one command that helps where nothing is installed."""
    code = "import sys; sys.modules['click'] = None; sys.argv[1:] = ['{}']; from caffe2lite.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code.format("doctor")], capture_output=True, text=True)
    assert done.returncode == 0 and "numpy: " in done.stdout and "click: not installed" not in done.stderr
    done = subprocess.run([sys.executable, "-c", code.format("lint")], capture_output=True, text=True)
    assert done.returncode == 1 and "pip install click rich" in done.stderr


def test_tables_fit_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(text.sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    text.table(("#", "inputs", "note"), [(1, ", ".join(f"blob_{i}" for i in range(30)), "x" * 70), (2, "a", "b")])
    lines = capsys.readouterr().out.split("\n")
    assert max(len(re.sub(r"\x1b\[\d*m", "", line)) for line in lines) <= 60
    assert "".join(lines).count("blob_") == 30 and "".join(lines).count("x") == 70
    assert lines[-2].split() == ["2", "a", "b"]


@pytest.mark.parametrize(
    "name, shown", [("a\x1b[31m", "a\\x1b[31m"), ("\udce9", "\\udce9"), ("naïve 0…9", "naïve 0…9")]
)
def test_names_cannot_steer_the_terminal(name, shown):
    assert text.shown(name) == shown


def test_names_are_shown_as_they_are(tmp_path):
    net = core.Net("m[bold]x")
    net.Relu("w[/b]", "[z]")
    (tmp_path / "net").write_bytes(net.Proto().SerializeToString())
    said = run("inspect", tmp_path / "net").output
    assert "w[/b]" in said and "[z]" in said and "m[bold]x" in said
    assert "pip install" in run("doctor").output


@pytest.mark.parametrize(
    "args, words",
    [
        (["net", "--against", "net"], "--against is for checkpoints"),
        (["checkpoint", "--against", "checkpoint"], "--against takes a net"),
        (["net", "--input", "dta:2x3"], "no such blob"),
        (["net", "--input", "x:2x3:flot"], "is not BLOB:2x3"),
        (["net", "--input", "x:2y3"], "is not BLOB:2x3"),
    ],
)
def test_options_that_do_not_fit(args, words, tmp_path):
    (tmp_path / "net").write_bytes(small_net().SerializeToString())
    checkpoint(tmp_path / "checkpoint", w=np.ones(2))
    result = run("inspect", *(tmp_path / a if a in ("net", "checkpoint") else a for a in args))
    assert result.exit_code == 2 and words in result.output


def test_trouble_is_no_finding(tmp_path):
    """A script can tell by the exit status: 1 is what was found, 2 what could not be done."""
    (tmp_path / "net").write_bytes(small_net().SerializeToString())
    checkpoint(tmp_path / "checkpoint", w=np.ones(2))
    for args, words in (
        (["diff", tmp_path / "net", tmp_path / "checkpoint"], "cannot be compared"),
        (["lint", tmp_path / "checkpoint"], "holds no nets"),
        (["lint", tmp_path / "net", "--silence", "C099"], "there is no code 'C099'"),
        (["inspect", tmp_path / "nowhere"], "does not exist"),
    ):
        result = run(*args)
        assert result.exit_code == 2 and words in result.output


def test_blobs_and_tensors_alone(tmp_path):
    tensor = caffe2_pb2.TensorProto(
        name="t", data_type=caffe2_pb2.TensorProto.FLOAT, dims=[3], float_data=[1, 2, np.inf]
    )
    quantized = caffe2_pb2.QTensorProto(dims=[2], precision=8, scale=0.5, bias=10, is_signed=False, data=[8, 12])
    blob = caffe2_pb2.BlobProto(name="q", type="Int8TensorCPU", qtensor=quantized)
    (tmp_path / "tensors").write_bytes(caffe2_pb2.TensorProtos(protos=[tensor, tensor]).SerializeToString())
    (tmp_path / "blob").write_bytes(caffe2_pb2.BlobProto(name="t", type="Tensor", tensor=tensor).SerializeToString())
    seen = [
        [(b["name"], b["kind"], b["shape"], b["least"], b["most"], b["inf"]) for b in facts["blobs"]]
        for facts in json.loads(run("inspect", "--json", tmp_path / "tensors", tmp_path / "blob").output)
    ]
    assert seen == [[("t", "float32", [3], 1, 2, 1)] * 2, [("t", "float32", [3], 1, 2, 1)]]
    (tmp_path / "q").write_bytes(blob.SerializeToString())
    (found,) = inspect.stored_in(inspect.read(tmp_path / "q").message)
    assert (found.kind, found.shape, found.bytes, found.least, found.most) == ("Int8TensorCPU", (2,), 2, -1, 1)


def test_json_has_no_numbers_that_are_none(capsys):
    text.say_json({"a": [float("nan"), {"b": (float("-inf"), 1.5)}]})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {"a": ["nan", {"b": ["-inf", 1.5]}]}


def test_doctor_says_what_to_do():
    found = {f["what"]: f for f in json.loads(run("doctor", "--json").output)}
    assert found["import caffe2"]["found"] == "is caffe2lite"
    assert found["numpy"]["found"] == np.__version__
    catalogue = (pathlib.Path(__file__).parent.parent / "docs" / "operators.md").read_text()
    assert (
        found["caffe2lite"]["found"].split(", ")[1]
        == f"{re.search(r'^([0-9]+) operators', catalogue, re.M)[1]} operators"
    )
    known = {"MPI": ("mpi4py", "mpich"), "PyAV": ("av",), "cupy": extras.PACKAGES["cuda12"] + extras.PACKAGES["cuda13"]}
    told = {*found, *(package for packages in known.values() for package in packages)}
    assert {package for packages in extras.PACKAGES.values() for package in packages} <= told
    assert "Graphviz" in found


@pytest.mark.parametrize("content", [b"", b"\xff" * 50, b"hello world", bytes(100)])
def test_what_is_no_file_of_caffe2(content, tmp_path):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(inspect.Unrecognised, match="f"):
        inspect.read(tmp_path / "f")
    assert run("inspect", tmp_path / "f").exit_code == 2


GOOD = small_net().SerializeToString()


@settings(max_examples=300, deadline=None)
@given(
    cut=st.integers(0, len(GOOD)),
    edits=st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=5),
)
def test_any_bytes_are_inspected_or_refused(cut, edits, tmp_path_factory):
    content = bytearray(GOOD)
    for at, value in edits:
        content[at] = value
    path = tmp_path_factory.mktemp("mutated") / "f"
    path.write_bytes(content[:cut])
    for command in ("inspect", "lint"):
        result = run(command, path)
        assert result.exit_code in (0, 1, 2)


def test_names_that_are_no_text(tmp_path):
    """protobuf gives bytes for them; a net is refused, a plan's steps are shown as they are."""
    plan = core.Plan("plan")
    plan.AddStep(core.execution_step("train", [core.Net("netname")]))
    content = plan.Proto().SerializeToString()
    last = content.rindex(b"netname")
    (tmp_path / "plan").write_bytes(content[:last] + b"\xffetname" + content[last + 7 :])
    result = run("inspect", tmp_path / "plan")
    assert result.exit_code == 0 and "\\xffetname" in result.output


@pytest.mark.parametrize("db_type", ["minidb", "lmdb"])
@pytest.mark.parametrize("keys", [[b"\0\1", b"\0\2"], [b"", b"w"], [b"\xff", b"\xfe"]])
def test_keys_that_are_no_text(keys, db_type, tmp_path):
    if db_type == "lmdb":
        pytest.importorskip("lmdb", reason="the extra lmdb is not installed")
        keys = keys if keys[0] else [b"\n"]  # lmdb has no empty keys
    from caffe2lite import db

    records = db.open_db(db_type, str(tmp_path / "data"), db.Mode.new)
    blob = caffe2_pb2.BlobProto(name="x", type="Tensor")
    blob.tensor.dims.append(2)
    blob.tensor.data_type = caffe2_pb2.TensorProto.FLOAT
    blob.tensor.float_data.extend([1, 2])
    transaction = records.new_transaction()
    for key in keys:
        transaction.put(key, blob.SerializeToString())
    transaction.commit()
    records.close()
    (facts,) = json.loads(run("inspect", "--json", tmp_path / "data").output)
    assert facts["kind"] == db_type and [b["shape"] for b in facts["blobs"]] == [[2]] * len(keys)
    assert run("inspect", tmp_path / "data").exit_code == 0
    if db_type == "lmdb":
        assert inspect.read(tmp_path / "data" / "data.mdb").kind == "lmdb"


def test_standard_input_is_a_file_too():
    text = 'name: "piped" op { type: "Relu" input: "a" output: "b" }'
    for command in ("inspect", "lint"):
        done = subprocess.run(
            [sys.executable, "-m", "caffe2lite", command, "-"], input=text, capture_output=True, text=True
        )
        assert done.returncode == 0 and "stdin" in done.stdout or command == "lint", done.stderr


def test_a_net_nested_too_deeply_is_said(tmp_path):
    text = 'name: "deep" ' + 'op { type: "If" arg { name: "then_net" n { ' * 2000 + " } } }" * 2000
    (tmp_path / "deep.txt").write_text(text)
    for arguments in (("inspect",), ("lint",), ("draw", "-o", str(tmp_path / "a.html"))):
        done = subprocess.run(
            [sys.executable, "-m", "caffe2lite", *arguments, tmp_path / "deep.txt"], capture_output=True, text=True
        )
        assert done.returncode == 2 and "nested too deeply" in done.stderr and "Traceback" not in done.stderr


def test_an_input_of_no_net_gets_the_closest_names(tmp_path):
    op = "".join(
        f'op {{ type: "Relu" input: "data_{i}" output: "y{i}" }} external_input: "data_{i}" ' for i in range(50)
    )
    (tmp_path / "net.txt").write_text(f'name: "wide" {op}')
    done = subprocess.run(
        [sys.executable, "-m", "caffe2lite", "inspect", "--input", "data17:2", tmp_path / "net.txt"],
        capture_output=True,
        text=True,
    )
    assert (
        done.returncode == 2
        and "data_17" in done.stderr
        and "45 others" in done.stderr
        and "data_30" not in done.stderr
    )


@pytest.fixture
def exported(tmp_path):
    """(init net, predict net) of a model, as files that `mobile_exporter` has made."""
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper("mobile")
    hidden = brew.relu(model, brew.conv(model, "data", "conv", 3, 4, 3), "relu")
    brew.softmax(model, brew.fc(model, hidden, "fc", 4 * 6 * 6, 5), "softmax")
    workspace.RunNetOnce(model.param_init_net)
    paths = tmp_path / "init_net.pb", tmp_path / "predict_net.pb"
    for path, net in zip(paths, mobile_exporter.Export(workspace, model.net, model.params)):
        path.write_bytes(net.SerializeToString())
    return paths


def test_the_placeholder_of_an_input_is_no_shape_of_it(exported):
    """mobile_exporter lets the init net make a 0 of 1 x 1 for what is fed later."""
    result = run("lint", *exported)
    assert result.exit_code == 0, result.output
    assert "C008" not in result.output
    assert run("lint", *exported, "--input", "data:1x3x8x8").exit_code == 0
    wrong = run("lint", *exported, "--input", "data:1x4x8x8")
    assert wrong.exit_code == 1 and "C008 Conv" in wrong.output
    (report,) = [
        n for f in json.loads(run("inspect", *exported, "--json").output) for n in f["nets"] if n["name"] == "mobile"
    ]
    assert report["blobs"]["data"]["spec"] is None and report["blobs"]["conv_w"]["spec"] == [[4, 3, 3, 3], "float32"]


@pytest.mark.parametrize("command", [["inspect"], ["inspect", "--json"], ["lint"], ["draw", "-o", "net.html"]])
def test_a_wrong_input_is_said_before_anything_else(exported, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*command, *exported, "--input", "dta:1x3x8x8")
    assert result.exit_code == 2
    assert result.stdout == "" and "--input dta: there is no such blob in 'mobile" in result.stderr
    assert "it takes data" in result.stderr
    assert not (tmp_path / "net.html").exists()
