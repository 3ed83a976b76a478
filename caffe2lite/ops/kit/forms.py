"""What the shapes of an operator's operands must be, as its record says: "X [N, C, ...], scale [C], dY = X".

An operand in brackets has one dimension for each item: a number, a letter that stands for one size wherever it occurs,
"..." for any number of dimensions, or *D for any that are the same wherever *D occurs.  "dY = X" is an operand of X's
shape; one of another shape that has as many values is taken for it, as in Caffe2, which reads the values one after the
other.  Operands that are absent are passed over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Shape = tuple[int, ...]


class Form(NamedTuple):
    """The form of one operand: as another one, or dimensions before and behind an ellipsis."""

    operand: int
    like: int | None
    front: tuple[str, ...]
    rest: str  # "..." or *D, "" where there is none
    back: tuple[str, ...]
    text: str


def parse(title: str, inputs: Sequence[str], text: str) -> tuple[Form, ...]:
    """The forms in such a text; TypeError where it is none."""
    made = []
    for item in filter(None, re.split(r",\s*(?![^\[]*\])", text)):
        name, sign, rest = item.partition(" ")
        if name not in inputs:
            raise TypeError(f"operator {title}: {item!r} tells the shape of no operand")
        if rest.startswith("= "):
            made.append(Form(inputs.index(name), inputs.index(rest[2:]), (), "", (), rest[2:]))
            continue
        if not sign or not (rest.startswith("[") and rest.endswith("]")):
            raise TypeError(f"operator {title}: {item!r} is no shape")
        dims = [d.strip() for d in rest[1:-1].split(",") if d.strip()]
        at = next((k for k, d in enumerate(dims) if d == "..." or d[0] == "*"), len(dims))
        many = dims[at] if at < len(dims) else ""
        made.append(Form(inputs.index(name), None, tuple(dims[:at]), many, tuple(dims[at + 1 :]), rest))
    return tuple(made)


def fit(
    forms: Sequence[Form], operands: Sequence[Any], variadic: int | None
) -> tuple[tuple[int, str] | None, dict[int, Shape]]:
    """(operand, what its shape must be) of the first that does not fit, or None; and the shapes that some are to get.

    Operands from `variadic` on all have the form of that one.
    """
    sizes: dict[str, Any] = {}
    shapes: dict[int, Shape] = {}
    for form in forms:
        last = len(operands) if form.operand == variadic else form.operand + 1
        for k in range(form.operand, min(last, len(operands))):
            shape = getattr(operands[k], "shape", None)
            if shape is None:
                continue
            if form.like is not None:
                other = operands[form.like]
                if other is not None and shape != other.shape:
                    if math.prod(shape) != math.prod(other.shape):
                        return (k, f"the shape of {form.text}, {list(other.shape)}"), {}
                    shapes[k] = other.shape
            elif not _fits(form, shape, sizes):
                names = (*form.front, form.rest, *form.back)
                known = ", ".join(f"{n} = {_shown(sizes[n])}" for n in dict.fromkeys(names) if n in sizes)
                return (k, f"the shape {form.text}" + (f" with {known}" if known else "")), {}
    return None, shapes


def alike(which: Sequence[int], operands: Sequence[Any], broadcasts: bool) -> tuple[int | None, dict[int, Shape]]:
    """The first of these operands that does not fit the others, or None; and the shapes that some are to get.

    They must have as many values, and get the shape of the first; where the operator broadcasts, they may differ in
    leading ones alone, and get the longest shape.
    """
    shape = operands[which[0]].shape
    if all(operands[i].shape == shape for i in which):
        return None, {}
    if broadcasts:
        shape = max((operands[i].shape for i in which), key=len)
    for i in which:
        mine = operands[i].shape
        if (1,) * (len(shape) - len(mine)) + mine != shape if broadcasts else math.prod(mine) != math.prod(shape):
            return i if i != which[0] else which[1], {}
    return None, {i: shape for i in which if operands[i].shape != shape}


def reshaping(kernel: Callable[..., Any], shapes: Mapping[int, Shape]) -> Callable[..., Any]:
    """The kernel, given some of its operands in other shapes."""

    def reshaped(first: Any, *operands: Any, **args: Any) -> Any:
        given = (x.reshape(shapes[i]) if i in shapes else x for i, x in enumerate(operands))
        return kernel(first, *given, **args)

    return reshaped


def _shown(size: Any) -> Any:
    return list(size) if isinstance(size, tuple) else size


def _fits(form: Form, shape: tuple[int, ...], sizes: dict[str, Any]) -> bool:
    front, back = len(form.front), len(form.back)
    if len(shape) < front + back or (not form.rest and len(shape) != front):
        return False
    pairs: list[tuple[str, Any]] = [*zip(form.front, shape), *zip(form.back, shape[len(shape) - back :])]
    if form.rest.startswith("*"):
        pairs.append((form.rest, shape[front : len(shape) - back]))
    found = dict(sizes)
    for name, size in pairs:
        if (int(name) if name.isdecimal() else found.setdefault(name, size)) != size:
            return False
    sizes.update(found)
    return True
