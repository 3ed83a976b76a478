"""Files of databases that others change, cut short, or are no files at all; and writers that are killed."""

import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest
from caffe2.python import core, workspace

from caffe2lite import db as databases
from caffe2lite.db import DBError, Mode

TOOL = pathlib.Path(__file__).parent.parent / "tools" / "kill_saves.py"
KINDS = ["minidb", "lmdb"]


def saved(path, kind, blobs=4):
    workspace.ResetWorkspace()
    workspace.FeedBlob("x", np.arange(3000, dtype="f"))
    names = [f"x{k}" for k in range(blobs)]
    workspace.RunOperatorOnce(
        core.CreateOperator(
            "Save", ["x"] * blobs, [], absolute_path=1, db=str(path), db_type=kind, blob_name_overrides=names
        )
    )
    return path / "data.mdb" if kind == "lmdb" else path


def walk(path, kind, each=lambda count: None):
    """The keys of a database; `each` is called after each record."""
    db = databases.open_db(kind, str(path), Mode.read)
    try:
        cursor, keys = db.new_cursor(), []
        while cursor.valid():
            keys.append(cursor.key())
            cursor.value()
            each(len(keys))
            cursor.next()
        return keys
    finally:
        db.close()


@pytest.mark.parametrize(
    ("kind", "after"), [("minidb", k) for k in (1, 2, 3, 4)] + [("lmdb", k) for k in (1, 2, 3)]
)  # nothing is read from an lmdb after its last record
def test_a_file_that_becomes_shorter_while_it_is_read_is_an_error(tmp_path, kind, after):
    file = saved(tmp_path / "db", kind)

    def shorten(count):
        if count == after:
            os.truncate(file, file.stat().st_size // 8)

    with pytest.raises(DBError, match="became shorter while it was read"):
        walk(tmp_path / "db", kind, shorten)


@pytest.mark.parametrize("after", [1, 4])
def test_a_minidb_that_is_written_anew_while_it_is_read_is_an_error(tmp_path, after):
    file = saved(tmp_path / "db", "minidb")
    content = file.read_bytes()

    def rewrite(count):
        if count == after:
            file.write_bytes(content)
            os.utime(file, ns=(1, 1))

    with pytest.raises(DBError, match="was changed while it was read"):
        walk(file, "minidb", rewrite)


def test_a_reader_of_a_minidb_goes_on_where_records_are_added(tmp_path):
    """It sees what was there when it was opened."""
    file = saved(tmp_path / "db", "minidb")
    content = file.read_bytes()

    def add(count):
        with file.open("ab") as f:
            f.write(content)

    assert walk(file, "minidb", add) == [b"x0#%0", b"x1#%0", b"x2#%0", b"x3#%0"]


def test_a_file_of_a_new_name_takes_the_place_while_the_old_one_is_read(tmp_path):
    file = saved(tmp_path / "db", "minidb")
    assert len(walk(file, "minidb", lambda count: saved(tmp_path / "db", "minidb", 2))) == 4
    assert len(walk(file, "minidb")) == 2


def nothing_to_read(folder):
    """Paths of what is no file."""
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    address = socket.socket(socket.AF_UNIX)
    address.bind(str(folder / "s"))
    address.close()
    return [folder / "pipe", folder / "folder", folder / "s", pathlib.Path("/dev/zero"), pathlib.Path("/dev/random")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("kind", ["minidb", "lmdb", "protodb"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in nothing_to_read(pathlib.Path(".")):
        code = f"""if True:
            from caffe2.python import core, workspace
            workspace.RunOperatorOnce(core.CreateOperator(
                "Load", [], ["x"], absolute_path=1, db={str(path)!r}, db_type={kind!r}))"""
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=20,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        assert done.returncode == 1
        assert f"{path}" in done.stderr and ("not a file" in done.stderr or "cannot be opened" in done.stderr), done


def test_a_folder_without_permission_is_told(tmp_path):
    with pytest.raises(RuntimeError, match="cannot be written: No such file or directory"):
        saved(tmp_path / "none" / "db", "minidb")


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_killed_writer_left_is_removed_by_the_next_one(tmp_path, kind):
    """Names of this machine's processes that live, and those of other machines, stay."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host = socket.gethostname()
    names = {f".db.{host}.{ended.pid}.ab": False, f".db.{host}.{os.getpid()}.ab": True, ".db.elsewhere.1.ab": True,
             ".other.1": True}  # fmt: skip
    for name in names:
        (tmp_path / name).mkdir() if kind == "lmdb" else (tmp_path / name).touch()
    saved(tmp_path / "db", kind)
    assert {name: (tmp_path / name).exists() for name in names} == names


@pytest.mark.parametrize(
    "options",
    [["--kills", "12"], ["--full", "4"], ["--together", "2", "--seconds", "1"]],
    ids=lambda options: options[0],
)
def test_a_checkpoint_is_whole_at_any_moment(options):
    """Short runs; `tools/kill_saves.py` is the long one."""
    path = os.pathsep.join(p for p in sys.path if p)
    types = ["--types", "minidb"] if options[0] == "--full" else []
    done = subprocess.run(
        [sys.executable, TOOL, *options, *types], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0 and " 0 faults" in done.stdout, done
