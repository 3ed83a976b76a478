"""Save, Load and Checkpoint: blobs in a database."""

from __future__ import annotations

import os
import re

from caffe2lite import db as databases
from caffe2lite.db import Mode
from caffe2lite.ops.data.databases import DBReader
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, NO_GRADIENT
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.ops.kit.objects import needed
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.serialization import DEFAULT_CHUNK, WHOLE, Options


def full_path(ctx, path: str, absolute_path: int) -> str:
    """Return the path, within the workspace's root folder unless it is said to be absolute."""
    return path if absolute_path else os.path.join(ctx.workspace.root_folder, path)


def _key(name: str, strip_prefix: str) -> str:
    """Return the name that a blob is saved under: what follows `strip_prefix` in it."""
    at = name.find(strip_prefix) if strip_prefix else -1
    return name if at < 0 else name[at + len(strip_prefix) :]


def _save(ctx, path: str, db_type: str, names: list[str], options: Options) -> None:
    twins = {n for n in names if names.count(n) > 1}
    if twins:
        raise ValueError(f"two blobs would be saved under one name: {', '.join(sorted(twins))}")
    db = databases.open_db(db_type, path, Mode.new)
    try:
        transaction = db.new_transaction()
        for blob, name in zip(ctx.inputs, names):
            for key, content in ctx.chunks(blob, name, *options.of(name)):
                transaction.put(key.encode(), content)
        transaction.commit()
    finally:
        db.close()


@operator("", num_inputs=(1, MANY), anywhere="Xs", stateful=True, gradient=FORBID_GRADIENT)
def Save(
    ctx,
    *Xs,
    db: str,
    db_type: str,
    absolute_path: int = 0,
    strip_prefix: str = "",
    blob_name_overrides: list[str] = (),
    chunk_size: int = -1,
    options: bytes = b"",
):
    """Write the inputs into a new database, large tensors in pieces of `chunk_size` elements (0: whole; -1: 1,000,000).

    `options`, a serialised SerializationOptions, says it by the names of blobs, and may ask for bfloat16.

    Inputs [...] of any type, and whatever else can be serialised -> no tensors. ValueError where two blobs would have
    one name, or the arguments contradict each other; a DBError where the database cannot be made.
    """
    if strip_prefix and blob_name_overrides:
        raise ValueError(
            f"give strip_prefix ({strip_prefix!r}) or blob_name_overrides ({list(blob_name_overrides)}), not both"
        )
    if blob_name_overrides and len(blob_name_overrides) != len(ctx.inputs):
        raise ValueError(f"{len(blob_name_overrides)} blob_name_overrides are given for {len(ctx.inputs)} blobs")
    names = list(blob_name_overrides) or [_key(b, strip_prefix) for b in ctx.op.input]
    _save(
        ctx,
        full_path(ctx, db, absolute_path),
        db_type,
        names,
        Options(options, DEFAULT_CHUNK if chunk_size == -1 else max(chunk_size, WHOLE)),
    )


def _numbered(pattern: str, step: int) -> str:
    """Return `pattern` as C's printf fills it in: each %d becomes the number, and %% a percent sign."""
    return re.sub(
        r"%([-+ 0]*(?:[1-9]\d*)?)l{0,2}[diu]|%%", lambda m: "%" if m[0] == "%%" else f"%{m[1]}d" % step, pattern
    )


@operator(
    "",
    types={"iter": "int64 int32"},
    num_inputs=(1, MANY),
    host="iter",
    anywhere="Xs",
    stateful=True,
    gradient=FORBID_GRADIENT,
)
def Checkpoint(ctx, iter, *Xs, db: str, db_type: str, absolute_path: int = 0, every: int = 1):
    """Save all inputs each `every` iterations; `db` is a path, mostly with a place for the iteration, `model_%08d.db`.

    iter [1] of any integers, inputs [...] of any type -> no tensors. ValueError where `every` is not above 0.
    """
    if every <= 0:
        raise ValueError(f"every must be positive, got {every}")
    if iter.size < 1:
        raise ValueError("the iteration is an empty tensor")
    step = int(iter.reshape(-1)[0])
    if step % every == 0:
        _save(ctx, full_path(ctx, _numbered(db, step), absolute_path), db_type, list(ctx.op.input), Options())


operator(
    "", name="Snapshot", types={"iter": "int64 int32"}, num_inputs=(1, MANY), host="iter", anywhere="Xs", stateful=True,
    doc="""Checkpoint under the name that it had first.

    iter [1] of any integers, inputs [...] of any type -> no tensors. ValueError where `every` is not above 0.
    """,
)(Checkpoint.kernels["", None])  # fmt: skip


def _infer_load(args, inputs):
    return []


@operator("Ys*", num_inputs=(0, MANY), stateful=True, infer=_infer_load, gradient=NO_GRADIENT)
def Load(
    ctx,
    *readers,
    db: str = "",
    dbs: list[str] = (),
    db_type: str = "",
    absolute_path: int = 0,
    add_prefix: str = "",
    strip_prefix: str = "",
    keep_device: int = 0,
    load_all: int = 0,
    allow_incomplete: bool = False,
    source_blob_names: list[str] = (),
):
    """Read blobs from one or more databases into the outputs (or, with `load_all`, into blobs of their own names).

    Readers in place of `db` or `dbs` -> blobs [...] of any type, as they were saved. ValueError where a blob is absent
    (but with `allow_incomplete`), incomplete, or there twice, or where the arguments contradict each other.
    """
    wanted = _wanted(ctx, source_blob_names)
    missing = _Remaining(wanted)

    def read(db: databases.DB, source: str) -> None:
        cursor = db.new_cursor()
        while cursor.valid():
            name = add_prefix + _key(_saved_name(cursor.key(), source), strip_prefix)
            if load_all and name not in wanted:
                wanted[name] = ctx.workspace.create_blob(name)
            if name in wanted:
                missing.count(name, _load_piece(ctx, wanted[name], cursor.value(), keep_device, source))
            cursor.next()
        cursor.close()

    for reader in readers:
        read(needed(DBReader, reader), reader.source)
    for path in [] if readers else _paths(ctx, db, dbs, absolute_path):
        opened = databases.open_db(db_type, path, Mode.read)
        try:
            read(opened, path)
        finally:
            opened.close()
    missing.check(allow_incomplete)


def _saved_name(key: bytes, source: str) -> str:
    """Return the name of a blob, whose pieces have the keys NAME#%0, NAME#%1, …"""
    try:
        return key.decode().rsplit("#%", 1)[0]
    except UnicodeDecodeError:
        raise ValueError(f"{source}: the key {key!r} is no name: it is not UTF-8 text") from None


def _paths(ctx, db, dbs, absolute_path):
    """Return where the databases are that the arguments name."""
    if db and dbs:
        raise ValueError(f"give db ({db!r}) or dbs ({list(dbs)}), not both")
    paths = [full_path(ctx, p, absolute_path) for p in ([db] if db else dbs)]
    twins = sorted({p for p in paths if paths.count(p) > 1})
    if twins:
        raise ValueError(f"a database is named twice: {', '.join(twins)}")
    if not paths:
        raise ValueError("Load needs the argument db or dbs, or a reader as input")
    return paths


def _wanted(ctx, source_blob_names):
    """Return {name in the database: output blob}."""
    if source_blob_names and len(source_blob_names) != len(ctx.outputs):
        raise ValueError(f"{len(source_blob_names)} source_blob_names are given for {len(ctx.outputs)} outputs")
    names = list(source_blob_names) or list(ctx.op.output)
    if len(set(names)) != len(names):
        raise ValueError(f"a blob is to be loaded twice: {', '.join(sorted({n for n in names if names.count(n) > 1}))}")
    return dict(zip(names, ctx.outputs))


def _load_piece(ctx, blob, content, keep_device, source):
    return ctx.load(blob, content, None if keep_device else ctx.device, source)


class _Remaining:
    """How many elements of each wanted blob have not come yet."""

    def __init__(self, names) -> None:
        self.left = dict.fromkeys(names, None)

    def count(self, name, piece) -> None:
        left = self.left.get(name)
        if piece.array is None:
            self.left[name] = 0
            return
        if left is not None and left <= 0:
            raise ValueError(f"blob {name!r} is in the databases more than once")
        self.left[name] = (piece.count if left is None else left) - (piece.end - piece.begin)

    def check(self, allow_incomplete) -> None:
        absent = [n for n, left in self.left.items() if left is None]
        partial = [n for n, left in self.left.items() if left]
        if partial:
            raise ValueError(f"only parts of these blobs are in the database: {', '.join(partial)}")
        if absent and not allow_incomplete:
            raise ValueError(f"not in the database: {', '.join(absent)} (allow_incomplete=1 passes over them)")


@operator("exists", stateful=True, infer=lambda args, inputs: [Spec((), "bool")], gradient=FORBID_GRADIENT)
def DBExists(ctx, *, db_name: str, db_type: str, absolute_path: int = 0, out):
    """Whether a database is there.

    exists, a scalar bool. ValueError where an argument is missing; a database of an unknown type is none.
    """
    try:
        databases.open_db(db_type, full_path(ctx, db_name, absolute_path), Mode.read).close()
        found = True
    except databases.DBError:
        found = False
    answer = out((), bool)
    answer[...] = found
    return answer
