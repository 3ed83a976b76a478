"""CAFFE2LITE_FILES confines what nets read and write to a folder, whichever operator names the path."""

import ast
import os
import pathlib

import numpy as np
import pytest
from caffe2.python import core, workspace

import caffe2lite

PACKAGE = pathlib.Path(caffe2lite.__file__).parent
KINDS = ["minidb", "lmdb", "leveldb", "protodb"]


def run(kind, inputs=(), outputs=(), **arguments):
    workspace.RunOperatorOnce(core.CreateOperator(kind, list(inputs), list(outputs), **arguments))


def load(path, kind="minidb"):
    run("Load", [], ["x"], absolute_path=1, db=path, db_type=kind)


def save(path, kind="minidb"):
    run("Save", ["x"], [], absolute_path=1, db=path, db_type=kind)


def cases():
    """(operator, what runs it on a path) of all that name files."""
    for kind in KINDS:
        yield f"Load {kind}", lambda path, kind=kind: load(path, kind)
        yield f"CreateDB {kind}", lambda path, kind=kind: run("CreateDB", [], ["reader"], db=path, db_type=kind)
        yield (
            f"DBExists {kind}",
            lambda path, kind=kind: (
                run("DBExists", [], ["there"], db_name=path, db_type=kind, absolute_path=1),
                _raise_where(not workspace.FetchBlob("there")),
            ),
        )
        if kind != "protodb":  # which Save cannot write
            yield f"Save {kind}", lambda path, kind=kind: save(path, kind)
            yield (
                f"Checkpoint {kind}",
                lambda path, kind=kind: run(
                    "Checkpoint", ["iteration", "x"], [], absolute_path=1, db=path + "%d", db_type=kind, every=1
                ),
            )
    yield "CreateTextFileReader", lambda path: run("CreateTextFileReader", [], ["r"], filename=path, num_passes=1,
                                                   field_types=[1])  # fmt: skip
    yield "FileStoreHandlerCreate", lambda path: run("FileStoreHandlerCreate", [], ["store"], path=path)


def _raise_where(wrong):
    if wrong:
        raise RuntimeError("it is outside of what it is confined to, or not there")


CASES = dict(cases())


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A folder to which files are confined, and one beside it."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    workspace.ResetWorkspace()
    workspace.FeedBlob("x", np.arange(3))
    workspace.FeedBlob("iteration", np.array([1]))
    monkeypatch.setenv("CAFFE2LITE_FILES", str(inside))
    return inside, outside


def outside_of(inside, outside):
    """Ways to name a file outside."""
    (inside / "link").symlink_to(outside)
    yield str(outside / "db")
    yield str(inside / ".." / "out" / "db")
    yield str(inside / "link" / "db")
    yield os.path.relpath(outside / "db")
    yield str(inside) + "side"  # a name that only begins like the folder's


@pytest.mark.parametrize("name", CASES)
def test_no_operator_leaves_the_folder(folders, name):
    if "leveldb" in name:
        pytest.importorskip("plyvel", reason="the extra leveldb is not installed")
    inside, outside = folders
    for path in outside_of(inside, outside):
        with pytest.raises(RuntimeError) as e:
            CASES[name](path)
        assert "DBExists" in name or "CAFFE2LITE_FILES" in str(e.value), str(e.value)
        assert not list(outside.iterdir()) and not os.path.exists(str(inside) + "side")


def test_within_the_folder_all_works(folders):
    inside, _ = folders
    save(str(inside / "db"))
    load(str(inside / "db"))
    run("FileStoreHandlerCreate", [], ["store"], path=str(inside / "store"))
    (inside / "rows").write_text("1\n")
    CASES["CreateTextFileReader"](str(inside / "rows"))


def test_names_of_blobs_lead_nowhere_else(folders):
    """Print's file has the blob's name; Summarize writes # for each /."""
    inside, outside = folders
    workspace.ResetWorkspace(str(inside))
    name = "../out/x"
    workspace.FeedBlob(name, np.ones(3, "f"))
    with pytest.raises(RuntimeError, match="CAFFE2LITE_FILES"):
        run("Print", [name], [], to_file=1)
    run("Summarize", [name], [], to_file=1)
    assert not list(outside.iterdir()) and os.listdir(inside) == ["..#out#x.summary"]


def test_a_link_within_an_lmdb_leads_nowhere_else(folders, monkeypatch):
    inside, outside = folders
    monkeypatch.delenv("CAFFE2LITE_FILES")
    save(str(outside / "db"), "lmdb")
    monkeypatch.setenv("CAFFE2LITE_FILES", str(inside))
    (inside / "db").mkdir()
    (inside / "db" / "data.mdb").symlink_to(outside / "db" / "data.mdb")
    with pytest.raises(RuntimeError, match="CAFFE2LITE_FILES"):
        load(str(inside / "db"), "lmdb")


OPENERS = {
    "open",
    "mkdir",
    "makedirs",
    "DB",
    "write_bytes",
    "write_text",
    "read_bytes",
    "read_text",
    "fdopen",
    "urlopen",
}
KNOWN = {
    "db/base.py", "db/files.py", "db/leveldb.py", "db/lmdb.py", "db/minidb.py",  # by open_db, which asks `allowed`
    "ops/kit/logs.py",  # asks `allowed`
    "ops/kit/products.py",  # /proc/self/maps
    "ops/image/image_input.py", "ops/image/video_input.py",  # of bytes in memory, or of `open_file`
}  # fmt: skip


def test_no_other_code_of_operators_opens_files():
    found = set()
    for folder in ("ops", "db"):
        for path in (PACKAGE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    if name in OPENERS:
                        found.add(path.relative_to(PACKAGE).as_posix())
    assert found <= KNOWN, f"{found - KNOWN}: ask caffe2lite.paths.allowed, or use its open_file"
