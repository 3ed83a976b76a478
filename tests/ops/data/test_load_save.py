"""Save and Load beyond the recorded cases: pieces, formats, and databases that name a blob twice."""

import contextlib
import random

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace

from caffe2lite import db as databases
from caffe2lite.db import Mode


@pytest.fixture
def folder(tmp_path):
    workspace.ResetWorkspace()
    yield tmp_path
    workspace.ResetWorkspace()


def save(path, names, **args):
    workspace.RunOperatorOnce(
        core.CreateOperator("Save", names, [], absolute_path=1, db=str(path), db_type="minidb", **args)
    )


def load(paths, names, **args):
    args = {"db_type": "minidb", **args}
    return workspace.RunOperatorOnce(
        core.CreateOperator("Load", [], names, absolute_path=1, dbs=[str(p) for p in paths], **args)
    )


def pieces(path):
    db = databases.open_db("minidb", str(path), Mode.read)
    cursor, keys = db.new_cursor(), []
    while cursor.valid():
        keys.append(cursor.key().decode())
        cursor.next()
    db.close()
    return sorted(keys)


def rule(regex, **values):
    return caffe2_pb2.BlobSerializationOptions(blob_name_regex=regex, **values)


@pytest.mark.parametrize("chunk_size, count", [(3, 4), (0, 1), (-2, 1), (10, 1), (9, 2)])
def test_pieces_of_chunk_size_elements(folder, chunk_size, count):
    workspace.FeedBlob("x", np.arange(10))
    save(folder / "db", ["x"], chunk_size=chunk_size)
    assert pieces(folder / "db") == [f"x#%{i}" for i in range(count)]
    load([folder / "db"], ["x"])
    np.testing.assert_array_equal(workspace.FetchBlob("x"), np.arange(10))


def test_minus_one_is_the_default_of_a_million(folder):
    workspace.FeedBlob("x", np.zeros(1_000_001, "int8"))
    save(folder / "db", ["x"], chunk_size=-1)
    assert len(pieces(folder / "db")) == 2


def test_options_go_by_the_whole_name_and_the_first_match(folder):
    for name in ("fc_w", "fc_b", "other"):
        workspace.FeedBlob(name, np.arange(10, dtype="f"))
    options = caffe2_pb2.SerializationOptions(options=[rule("fc_.", chunk_size=5), rule("", chunk_size=2)])
    save(folder / "db", ["fc_w", "fc_b", "other"], chunk_size=3, options=options)
    keys = pieces(folder / "db")
    assert [sum(k.startswith(n) for k in keys) for n in ("fc_w", "fc_b", "other")] == [2, 2, 5]


def test_bfloat16_rounds_to_the_nearest(folder):
    x = np.array([1.7640524, 0.40015721, np.inf, np.nan, -2.0, 1 + 2**-8, 1 + 3 * 2**-8], "f")
    workspace.FeedBlob("x", x)
    options = caffe2_pb2.SerializationOptions(
        options=[rule("x", float_format=caffe2_pb2.BlobSerializationOptions.FLOAT_BFLOAT16)]
    )
    save(folder / "db", ["x"], options=options)
    load([folder / "db"], ["x"])
    # ties to even: 1 + 2^-8 lies between 1 and 1 + 2^-7, 1 + 3 * 2^-8 between 1 + 2^-7 and 1 + 2^-6
    expected = [1.765625, 0.400390625, np.inf, np.nan, -2.0, 1.0, 1 + 2**-6]
    np.testing.assert_array_equal(workspace.FetchBlob("x"), np.array(expected, "f"))


@pytest.mark.parametrize("options", [b"\xff\xff", b"\n\x03\n\x01["])
def test_options_that_cannot_be_read(folder, options):
    workspace.FeedBlob("x", np.zeros(1))
    with pytest.raises(RuntimeError, match="options"):
        save(folder / "db", ["x"], options=options)
    assert not (folder / "db").exists()


@pytest.mark.parametrize("args", [{"load_all": 1}, {}])
def test_a_blob_in_two_databases_is_an_error(folder, args):
    workspace.FeedBlob("x", np.arange(3))
    save(folder / "one", ["x"])
    save(folder / "two", ["x"])
    with pytest.raises(RuntimeError, match="'x' is in the databases more than once"):
        load([folder / "one", folder / "two"], [] if args else ["x"], **args)
    with pytest.raises(RuntimeError, match="named twice"):
        load([folder / "one", folder / "one"], [] if args else ["x"], **args)


def test_load_all_checks_the_outputs_that_are_named(folder):
    workspace.FeedBlob("x", np.arange(3))
    workspace.FeedBlob("y", np.arange(4))
    save(folder / "db", ["x", "y"])
    workspace.ResetWorkspace()
    load([folder / "db"], ["x"], load_all=1)
    assert sorted(workspace.Blobs()) == ["x", "y"]
    with pytest.raises(RuntimeError, match="not in the database: z"):
        load([folder / "db"], ["z"], load_all=1)


PACKAGE = {"lmdb": "lmdb", "leveldb": "plyvel"}


@pytest.mark.parametrize("kind", PACKAGE)
def test_a_database_is_read_by_several_at_once(folder, kind):
    pytest.importorskip(PACKAGE[kind], reason=f"the extra {kind} is not installed")
    path = str(folder / "db")
    workspace.FeedBlob("x", np.arange(10))
    workspace.RunOperatorOnce(core.CreateOperator("Save", ["x"], [], absolute_path=1, db=path, db_type=kind))
    first, second = (databases.open_db(kind, path, Mode.read) for _ in range(2))
    one, two = first.new_cursor(), second.new_cursor()
    assert one.key() == two.key()
    writer = databases.open_db(kind, path, Mode.write)
    transaction = writer.new_transaction()
    transaction.put(b"z", b"later")
    transaction.commit()
    first.close()
    assert two.valid() and two.value()
    two.next()
    assert not two.valid()  # a cursor sees what was there when it was made
    second.close()
    writer.close()
    reader = databases.open_db(kind, path, Mode.read).new_cursor()
    reader.seek(b"y")
    assert (reader.key(), reader.value()) == (b"z", b"later")
    with pytest.raises(RuntimeError, match=path):
        databases.open_db(kind, path, Mode.new)


def test_a_script_and_a_net_read_one_lmdb(folder):
    lmdb = pytest.importorskip("lmdb", reason="the extra lmdb is not installed")
    path = str(folder / "db")
    workspace.FeedBlob("x", np.arange(10))
    workspace.RunOperatorOnce(core.CreateOperator("Save", ["x"], [], absolute_path=1, db=path, db_type="lmdb"))
    with lmdb.open(path, readonly=True) as environment:
        load([path], ["x"], db_type="lmdb")
        assert environment.stat()["entries"] == 1
    workspace.RunOperatorOnce(core.CreateOperator("CreateDB", [], "reader", db=path, db_type="lmdb"))
    with lmdb.open(path, readonly=True, lock=False) as environment, environment.begin() as transaction:
        assert dict(transaction.cursor()).keys() == {b"x#%0"}


@pytest.mark.parametrize("seed", range(8))
def test_an_lmdb_file_is_read_as_lmdb_reads_it(tmp_path, seed):
    """Random records, large and small, deleted and written again; then the same file with random damage."""
    lmdb = pytest.importorskip("lmdb", reason="the extra lmdb is not installed")
    rng = random.Random(seed)
    with lmdb.open(str(tmp_path / "db"), map_size=1 << 26) as environment:
        for _ in range(seed):
            with environment.begin(write=True) as transaction:
                for _ in range(rng.randint(0, 400)):
                    key = b"%0*d" % (rng.choice([1, 5, 200]), rng.randint(0, 3000))
                    if rng.random() < 0.3:
                        transaction.delete(key)
                    else:
                        transaction.put(key, rng.randbytes(rng.choice([0, 3, 50, 900, 2100, 20000])))
        cursor = databases.open_db("lmdb", str(tmp_path / "db"), Mode.read).new_cursor()
        read = []
        while cursor.valid():
            read.append((cursor.key(), cursor.value()))
            cursor.next()
        with environment.begin() as transaction, transaction.cursor() as other:
            assert read == list(other)
            for _ in range(50):
                key = b"%d" % rng.randint(0, 4000)
                cursor.seek(key)
                assert cursor.valid() == other.set_range(key)
                assert not cursor.valid() or cursor.key() == other.key()
    whole = (tmp_path / "db" / "data.mdb").read_bytes()
    for _ in range(30):
        damaged = bytearray(whole[: rng.randrange(1, len(whole)) if rng.random() < 0.3 else len(whole)])
        for _ in range(30):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (tmp_path / "damaged").write_bytes(damaged)
        with contextlib.suppress(databases.DBError):
            cursor = databases.open_db("lmdb", str(tmp_path / "damaged"), Mode.read).new_cursor()
            for _ in range(5000):
                if not cursor.valid():
                    break
                cursor.key(), cursor.value()
                cursor.next()


@pytest.mark.parametrize(
    "pattern, name",
    [("model_%08d.db", "model_00000020.db"), ("latest", "latest"), ("100%", "100%"), ("a%%b_%d", "a%b_20")],
)
def test_the_name_of_a_checkpoint_is_filled_in_as_printf_does(folder, pattern, name):
    workspace.FeedBlob("iter", np.array([20]))
    workspace.FeedBlob("x", np.ones(3, "f"))
    workspace.RunOperatorOnce(
        core.CreateOperator(
            "Checkpoint", ["iter", "x"], [], absolute_path=1, db=str(folder / pattern), db_type="minidb", every=10
        )
    )
    assert [p.name for p in folder.iterdir()] == [name]


def test_whether_a_database_is_there(folder):
    workspace.FeedBlob("x", np.ones(3))
    save(folder / "db", ["x"])
    for path, there in (("db", True), ("none", False)):
        workspace.RunOperatorOnce(
            core.CreateOperator("DBExists", [], ["y"], absolute_path=1, db_name=str(folder / path), db_type="minidb")
        )
        assert bool(workspace.FetchBlob("y")) == there


@pytest.mark.parametrize(
    ("words", "kind", "args"),
    [
        ("1 blob_name_overrides are given for 2 blobs", "Save", {"blob_name_overrides": ["a"]}),
        (
            r"give strip_prefix \('x'\) or blob_name_overrides",
            "Save",
            {"strip_prefix": "x", "blob_name_overrides": ["a", "b"]},
        ),
        ("under one name: a", "Save", {"blob_name_overrides": ["a", "a"]}),
        ("every must be positive, got 0", "Checkpoint", {"every": 0}),
        (r"give db \('.*'\) or dbs \(\['a'\]\), not both", "Load", {"dbs": ["a"]}),
        ("1 source_blob_names are given for 2 outputs", "Load", {"source_blob_names": ["a"]}),
        ("loaded twice: a", "Load", {"source_blob_names": ["a", "a"]}),
    ],
)
def test_arguments_that_contradict_each_other(folder, words, kind, args):
    for name in ("iter", "x"):
        workspace.FeedBlob(name, np.ones(1, "int64"))
    blobs = ([], ["iter", "x"]) if kind == "Load" else (["iter", "x"], [])
    with pytest.raises(RuntimeError, match=words):
        workspace.RunOperatorOnce(
            core.CreateOperator(kind, *blobs, absolute_path=1, db=str(folder / "db"), db_type="minidb", **args)
        )
