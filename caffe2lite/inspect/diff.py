"""What differs between two nets or two checkpoints."""

from __future__ import annotations

import collections
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from caffe2lite.inspect.checkpoint import digests, tensors
from caffe2lite.inspect.files import File, nets_of
from caffe2lite.inspect.summary import device_name
from caffe2lite.proto import caffe2_pb2

_Configured = caffe2_pb2.OperatorDef | caffe2_pb2.NetDef  # what has arguments and a device


def diff_nets(a: caffe2_pb2.NetDef, b: caffe2_pb2.NetDef) -> list[str]:
    """Lines: `+ 12 Relu(x) -> y` added, `- ` removed, `~ ` changed in its arguments, device or engine, `> ` moved."""
    lines = [
        f"~ {field}: {getattr(a, field)!r} is {getattr(b, field)!r}"
        for field in ("name", "type", "num_workers")
        if getattr(a, field) != getattr(b, field)
    ]
    for field in ("external_input", "external_output"):
        had, has = list(getattr(a, field)), list(getattr(b, field))
        before, after = set(had), set(has)
        lines += [f"- {field} {n}" for n in had if n not in after]
        lines += [f"+ {field} {n}" for n in has if n not in before]
        if had != has and before == after:
            lines.append(f"~ {field}: the same blobs in another order, or another number of times")
    lines += [f"~ {change}" for change in _options(a, b)]
    removed: list[int] = []
    added: list[int] = []
    for tag, a0, a1, b0, b1 in _opcodes([_wiring(op) for op in a.op], [_wiring(op) for op in b.op]):
        if tag == "equal":
            for i, j in zip(range(a0, a1), range(b0, b1)):
                lines += [f"~ {j} {_wiring(b.op[j])}: {change}" for change in _changes(a.op[i], b.op[j])]
        else:
            removed += range(a0, a1)
            added += range(b0, b1)
    gone: dict[str, list[int]] = {}
    for i in removed:
        gone.setdefault(_wiring(a.op[i]), []).append(i)
    for j in added:
        was = gone.get(_wiring(b.op[j]))
        if was:
            i = was.pop(0)
            lines.append(f"> {j} {_wiring(b.op[j])}: it was operator {i}")
            lines += [f"~ {j} {_wiring(b.op[j])}: {change}" for change in _changes(a.op[i], b.op[j])]
        else:
            lines.append(f"+ {j} {_wiring(b.op[j])}")
    lines += [f"- {i} {wiring}" for wiring, left in gone.items() for i in left]
    return lines


_MOST_PAIRS = 4_000_000


def _opcodes(a: list[str], b: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """As difflib has them; where lines come so often that it would take minutes, it gets what begins and ends do not share."""
    if _pairs(a, b) <= _MOST_PAIRS:
        yield from difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        return
    begin = _alike(a, b)
    end = _alike(a[begin:][::-1], b[begin:][::-1])
    one, two = a[begin : len(a) - end], b[begin : len(b) - end]
    yield "equal", 0, begin, 0, begin
    if _pairs(one, two) <= _MOST_PAIRS:
        for tag, *where in difflib.SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
            a0, a1, b0, b1 = (place + begin for place in where)
            yield tag, a0, a1, b0, b1
    else:
        yield "replace", begin, len(a) - end, begin, len(b) - end
    yield "equal", len(a) - end, len(a), len(b) - end, len(b)


def _pairs(a: list[str], b: list[str]) -> int:
    """How many pairs of equal lines there are, which difflib goes through."""
    has = collections.Counter(b)
    return sum(number * has[line] for line, number in collections.Counter(a).items())


def _alike(a: list[str], b: list[str]) -> int:
    """How many lines are the same from the beginning on."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def diff_files(a: File, b: File) -> list[str]:
    """Return lines for what differs between two files of one kind, or two databases; RuntimeError for one that cannot be read."""
    if a.kind in ("minidb", "lmdb"):
        return _diff_databases(a, b)
    if a.kind == "net":
        return diff_nets(a.message, b.message)
    lines = []
    one, two = ({net.name: net for net in nets_of(f) or ()} for f in (a, b))
    lines += [f"- net {n}" for n in one if n not in two] + [f"+ net {n}" for n in two if n not in one]
    lines += [f"{n}: {line}" for n in one if n in two for line in diff_nets(one[n], two[n])]
    if not lines and _bytes(a.message) != _bytes(b.message):
        lines.append(f"the {a.kind}s differ outside of their nets" if one else f"the {a.kind}s differ")
    return lines


def _diff_databases(a: File, b: File) -> list[str]:
    """Blob by blob: no more than two are in memory, and those whose records are equal not at all."""
    had, has = digests(a.path, a.kind), digests(b.path, b.kind)
    lines = [f"- {n}" for n in had if n not in has] + [f"+ {n}" for n in has if n not in had]
    for name in (n for n in had if n in has and had[n] != has[n]):
        one, two = (tensors(f.path, f.kind, {name}) for f in (a, b))
        both = name in one and name in two
        lines += diff_blobs(one, two) if both or one or two else [f"~ {name}: what it holds, no tensor, differs"]
    return lines


def diff_blobs(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> list[str]:
    """Return lines for blobs that only one has, and for those whose shape, type or values differ."""
    lines = [f"- {n}" for n in a if n not in b] + [f"+ {n}" for n in b if n not in a]
    for name in (n for n in a if n in b):
        x, y = a[name], b[name]
        if x.shape != y.shape or x.dtype != y.dtype:
            lines.append(f"~ {name}: {x.dtype}{list(x.shape)} is {y.dtype}{list(y.shape)}")
        elif x.dtype == object:
            lines += [f"~ {name}: {int((x != y).sum())} of {x.size} strings differ"] if (x != y).any() else []
        elif x.tobytes() != y.tobytes():
            lines.append(f"~ {name}: {_distance(x, y)}")
    return lines


def _distance(x: np.ndarray, y: np.ndarray) -> str:
    """Return how many values differ in their bits, and by how much."""
    bits = (np.ascontiguousarray(v).reshape(-1).view(np.uint8).reshape(-1, v.itemsize) for v in (x, y))
    differ = np.asarray(np.not_equal(*bits).any(axis=1))
    x, y = (v.reshape(-1)[differ] for v in (x, y))
    said = [f"{len(x)} of {len(differ)} values differ"]
    numbers = np.asarray((x == x) & (y == y))
    if numbers.any():
        wide = np.longdouble if x.dtype.kind in "iu" else np.float64  # float64 has not all of int64
        with np.errstate(all="ignore"):
            said.append(f"by {np.abs(x[numbers].astype(wide) - y[numbers].astype(wide)).max():.6g} at most")
    if not numbers.all():
        said.append(f"{(~numbers).sum()} by NaN")
    return ", ".join(said)


def _wiring(op: caffe2_pb2.OperatorDef) -> str:
    return f"{op.type}({_names(op.input)}) -> {_names(op.output)}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _changes(a: caffe2_pb2.OperatorDef, b: caffe2_pb2.OperatorDef) -> list[str]:
    changes = _options(a, b)
    for field in ("engine", "name", "is_gradient_op", "debug_info", "domain", "op_version"):
        if getattr(a, field) != getattr(b, field):
            changes.append(f"{field}: {getattr(a, field)!r} is {getattr(b, field)!r}")
    if list(a.control_input) != list(b.control_input):
        changes.append(f"control inputs: {_names(a.control_input) or 'none'} is {_names(b.control_input) or 'none'}")
    return changes


def _options(a: _Configured, b: _Configured) -> list[str]:
    """Return the changes of arguments and device, which operators and nets have."""
    changes = []
    had, has = ({arg.name: arg for arg in both.arg} for both in (a, b))
    for name in sorted({*had, *has}):
        if _bytes(had.get(name)) != _bytes(has.get(name)):
            changes.append(f"argument {name}: {value_of(had.get(name))} is {value_of(has.get(name))}")
    one, two = a.device_option, b.device_option
    if device_name(one) != device_name(two):
        changes.append(f"device: {device_name(one)} is {device_name(two)}")
    if list(one.extra_info) != list(two.extra_info):
        changes.append(f"extra_info: {_names(one.extra_info) or 'none'} is {_names(two.extra_info) or 'none'}")
    for field in ("random_seed", "numa_node_id"):
        if getattr(one, field) != getattr(two, field):
            changes.append(f"{field}: {getattr(one, field)} is {getattr(two, field)}")
    return changes


def _bytes(arg: caffe2_pb2.Argument | None) -> bytes:
    """To compare by: NaN is no reason to differ."""
    return b"" if arg is None else arg.SerializeToString(deterministic=True)


def value_of(arg: caffe2_pb2.Argument | None) -> str:
    """Return the value of an Argument in few words; "absent" for None."""
    if arg is None:
        return "absent"
    for field, value in arg.ListFields():
        if field.name != "name":
            many = isinstance(value, Sequence) and not isinstance(value, (bytes, str))
            text = f"[{', '.join(map(_plain, value[:20]))}]" if many else _plain(value)
            if len(text) > 60 or (many and len(value) > 20):
                return text[:57].rstrip("]") + "…" + (f" ({len(value)} values)" if many else "")
            return text
    return "empty"


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        try:
            return repr(value.decode())
        except UnicodeDecodeError:
            return repr(value)
    return f"{value:.7g}" if isinstance(value, float) else str(value).strip().replace("\n", " ")
