"""What differs between two nets or two checkpoints."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from caffe2lite.inspect.summary import device_name


def diff_nets(a: Any, b: Any) -> list[str]:
    """Lines: `+ 12 Relu(x) -> y` added, `- ` removed, `~ ` changed in its arguments, device or engine, `> ` moved."""
    lines = [
        f"~ {field}: {getattr(a, field)!r} is {getattr(b, field)!r}"
        for field in ("name", "type", "num_workers")
        if getattr(a, field) != getattr(b, field)
    ]
    for field in ("external_input", "external_output"):
        had, has = list(getattr(a, field)), list(getattr(b, field))
        lines += [f"- {field} {n}" for n in had if n not in set(has)]
        lines += [f"+ {field} {n}" for n in has if n not in set(had)]
    matcher = difflib.SequenceMatcher(None, [_wiring(op) for op in a.op], [_wiring(op) for op in b.op], autojunk=False)
    removed: list[int] = []
    added: list[int] = []
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        if tag == "equal":
            for i, j in zip(range(a0, a1), range(b0, b1)):
                lines += [f"~ {j} {_wiring(b.op[j])}: {change}" for change in _changes(a.op[i], b.op[j])]
        else:
            removed += range(a0, a1)
            added += range(b0, b1)
    gone = {}
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


def diff_blobs(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> list[str]:
    """Lines for blobs that only one has, and for those whose shape, type or values differ."""
    lines = [f"- {n}" for n in a if n not in b] + [f"+ {n}" for n in b if n not in a]
    for name in (n for n in a if n in b):
        x, y = a[name], b[name]
        if x.shape != y.shape or x.dtype != y.dtype:
            lines.append(f"~ {name}: {x.dtype}{list(x.shape)} is {y.dtype}{list(y.shape)}")
        elif x.dtype == object:
            lines += [f"~ {name}: {int((x != y).sum())} of {x.size} strings differ"] if (x != y).any() else []
        elif x.tobytes() != y.tobytes():
            with np.errstate(all="ignore"):
                far = np.abs(x.astype(np.float64) - y.astype(np.float64))
            lines.append(f"~ {name}: {int((x != y).sum())} of {x.size} values differ, by {np.nanmax(far):.6g} at most")
    return lines


def _wiring(op: Any) -> str:
    return f"{op.type}({_names(op.input)}) -> {_names(op.output)}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _changes(a: Any, b: Any) -> list[str]:
    changes = []
    had, has = ({arg.name: arg for arg in op.arg} for op in (a, b))
    for name in sorted({*had, *has}):
        if had.get(name) != has.get(name):
            changes.append(f"argument {name}: {_value(had.get(name))} is {_value(has.get(name))}")
    if device_name(a.device_option) != device_name(b.device_option):
        changes.append(f"device: {device_name(a.device_option)} is {device_name(b.device_option)}")
    if a.device_option.random_seed != b.device_option.random_seed:
        changes.append(f"random_seed: {a.device_option.random_seed} is {b.device_option.random_seed}")
    for field in ("engine", "name", "is_gradient_op", "debug_info", "domain", "op_version"):
        if getattr(a, field) != getattr(b, field):
            changes.append(f"{field}: {getattr(a, field)!r} is {getattr(b, field)!r}")
    if list(a.control_input) != list(b.control_input):
        changes.append(f"control inputs: {_names(a.control_input) or 'none'} is {_names(b.control_input) or 'none'}")
    return changes


def _value(arg: Any) -> str:
    if arg is None:
        return "absent"
    for field, value in arg.ListFields():
        if field.name != "name":
            text = (
                repr(value)
                if isinstance(value, (bytes, int, float)) or not hasattr(value, "__len__")
                else str(list(value))
            )
            return text if len(text) <= 60 else text[:57] + "..."
    return "empty"
