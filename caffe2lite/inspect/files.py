"""What a file is, by its content: nets, plans, blobs, as binary or text, and databases."""

from __future__ import annotations

import os
import pathlib
import struct
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from caffe2lite.proto import caffe2_pb2, metanet_pb2
from caffe2lite.proto.names import check_names
from caffe2lite.proto.text import TOO_DEEP, ParseError, parse

_HEAD = struct.Struct("<ii")
_MESSAGE_LIMIT = 1 << 31  # protobuf's own


class Unrecognised(ValueError):
    """A file that is nothing of Caffe2's, or a broken one."""


class File(NamedTuple):
    """A file and what is in it.

    kind    "net", "plan", "predictor net", "blob", "tensor", "tensors", "minidb" or "lmdb"
    message the protobuf message; None for a database, which stays on disk
    """

    path: str
    kind: str
    message: Any


_KINDS = (
    ("net", caffe2_pb2.NetDef),
    ("plan", caffe2_pb2.PlanDef),
    ("predictor net", metanet_pb2.MetaNetDef),
    ("blob", caffe2_pb2.BlobProto),
    ("tensors", caffe2_pb2.TensorProtos),
    ("tensor", caffe2_pb2.TensorProto),
)


def read(path: str | os.PathLike[str]) -> File:
    """Read a file; Unrecognised says what is wrong with one that is none of Caffe2's."""
    path = os.fspath(path)
    if os.path.isdir(path):
        data = os.path.join(path, "data.mdb")
        if os.path.exists(data) and _is_lmdb(data):
            return File(path, "lmdb", None)
        raise Unrecognised(f"{path} is a folder, and no lmdb")
    if not os.path.isfile(path):
        raise Unrecognised(f"{path} is no file: write what comes through a pipe to one first")
    size = os.path.getsize(path)
    if not size:
        raise Unrecognised(f"{path} is empty")
    if _is_lmdb(path):
        folder, name = os.path.split(path)
        if name == "data.mdb":
            return File(folder or ".", "lmdb", None)
        raise Unrecognised(f"{path} is the file of an lmdb; it is opened as data.mdb in a folder of its own")
    if _is_minidb(path, size):
        return File(path, "minidb", None)
    if size >= _MESSAGE_LIMIT:
        raise Unrecognised(f"{path} has {size:,} bytes, more than a protobuf message can have, and is no minidb")
    content = pathlib.Path(path).read_bytes()
    for kind, message in _KINDS:
        made = _parse(message, content)
        if made is not None and _fits(kind, made):
            return File(path, kind, made)
    text = _text(content)
    if text is not None:
        for kind, message in _KINDS:
            made = message()
            try:
                parse(text, made)
            except (ParseError, ValueError) as e:
                if str(e) == TOO_DEEP:
                    raise Unrecognised(f"{path}: as a text of a {message.DESCRIPTOR.name}, {e}") from None
                continue
            if _fits(kind, made):
                return File(path, kind, made)
    if content.startswith(b"PK\3\4") or content[8:10] == b'{"':
        raise Unrecognised(
            f"{path} seems to be an .npz, PyTorch's or safetensors': caffe2lite import makes a checkpoint of it"
        )
    raise Unrecognised(
        f"{path} ({size:,} bytes) is none of NetDef, PlanDef, MetaNetDef, BlobProto, TensorProto(s), binary or text, nor a "
        f"minidb: it may be truncated, or nested more deeply than protobuf reads"
    )


def nets_of(file: File) -> list[Any] | None:
    """Return the NetDefs of a net, a plan or a predictor export; None for what holds no nets."""
    if file.kind == "net":
        return [file.message]
    if file.kind == "plan":
        return list(file.message.network)
    if file.kind == "predictor net":
        return [n.value for n in file.message.nets] + [net for p in file.message.plans for net in p.value.network]
    return None


def outline(step: caffe2_pb2.ExecutionStep, depth: int = 0) -> list[str]:
    """Return an ExecutionStep of a plan as indented lines, its substeps below it."""
    said = [f"step {step.name}".rstrip()]
    if step.network:
        said.append(f"nets {', '.join(map(str, step.network))}")  # bytes, where they are no UTF-8
    if step.num_iter:
        said.append(f"{step.num_iter} times" if step.num_iter != 1 else "once")
    if step.num_concurrent_instances > 1:
        said.append(f"{step.num_concurrent_instances} instances side by side")
    if step.should_stop_blob:
        said.append(f"until {step.should_stop_blob}")
    for field in ("concurrent_substeps", "only_once", "create_workspace"):
        if getattr(step, field):
            said.append(field.replace("_", " "))
    if step.report_net:
        said.append(f"reports by {step.report_net}")
    return ["  " * depth + ", ".join(map(str, said)), *(line for s in step.substep for line in outline(s, depth + 1))]


def _parse(message: type[Message], content: bytes) -> Any:
    made = message()
    try:
        made.ParseFromString(content)
    except DecodeError:
        return None
    return made if made.IsInitialized() and not len(UnknownFieldSet(made)) else None


def _text(content: bytes) -> str | None:
    if b"\0" in content[:4096]:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _fits(kind: str, made: Message) -> bool:
    """Return whether a message that parsed as one kind also looks like one: protobuf takes nearly any bytes for any message."""
    if kind == "net":
        return bool(made.op or (made.name and _one_string(made))) and _is_net(made)
    if kind == "plan":
        return bool(made.network or made.execution_step) and all(map(_is_net, made.network))
    if kind == "predictor net":
        return bool(made.nets or made.blobs) and all(_is_net(n.value) for n in made.nets)
    if kind == "blob":
        return (
            isinstance(made.type, str)
            and made.type.isprintable()
            and bool(made.type)
            and any(map(made.HasField, ("tensor", "qtensor", "content")))
        )
    if kind == "tensor":
        named = isinstance(made.name, str) and made.name.isprintable()  # an ONNX model would be a tensor without
        return bool(made.dims) and made.data_type != caffe2_pb2.TensorProto.UNDEFINED and named
    return bool(made.protos) and all(_fits("tensor", t) for t in made.protos)


def _one_string(net: caffe2_pb2.NetDef) -> bool:
    """Return whether a net without operators has a name and type that can be read.

    A tensor's dims and a plan's steps may be such bytes.
    """
    return all(isinstance(text, str) and text.isprintable() for text in (net.name, net.type)) and len(net.name) > 1


def _is_net(net: caffe2_pb2.NetDef) -> bool:
    try:
        check_names(net)
    except ValueError:
        return False
    return all(op.type.isprintable() and op.type.strip() for op in net.op) and not any(
        len(UnknownFieldSet(part)) for part in (net, *net.op)
    )


def _is_minidb(path: str, size: int) -> bool:
    """Return whether the file begins with a record whose key is text, or else is records from end to end, as far as a look goes."""
    at = 0
    with open(path, "rb") as f:
        for number in range(_LOOK):
            f.seek(at)
            head = f.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return number > 0 and not head
            key, value = _HEAD.unpack(head)
            at += _HEAD.size + key + value
            if not 0 <= key <= 4096 or value < 0 or at > size or not (number or value):
                return number > 2  # it may be cut
            if not number and key and f.read(key).decode("utf-8", "replace").isprintable():
                return True
    return True


_LOOK = 64  # records


def _is_lmdb(path: str) -> bool:
    """Return whether the file has the mark of lmdb, in the byte order of this machine or the other."""
    with open(path, "rb") as f:
        return f.read(20)[16:] in (b"\xde\xc0\xef\xbe", b"\xbe\xef\xc0\xde")
