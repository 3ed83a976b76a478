"""What the shapes of an operator's operands must be, as its record says: "X [N, C, ...], scale [C], dY = X".

An operand in brackets has one dimension for each item: a number, a letter that stands for one size wherever it occurs, or
"..." for any number of dimensions.  "dY = X" is an operand of X's very shape.  Operands that are absent are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple


class Form(NamedTuple):
    """The form of one operand: as another one, or dimensions before and behind an ellipsis."""

    operand: int
    like: int | None
    front: tuple[str, ...]
    back: tuple[str, ...] | None  # None: there is no ellipsis
    text: str


def parse(title: str, inputs: Sequence[str], text: str) -> tuple[Form, ...]:
    """The forms in such a text; TypeError where it is none."""
    made = []
    for item in filter(None, re.split(r",\s*(?![^\[]*\])", text)):
        name, sign, rest = item.partition(" ")
        if name not in inputs:
            raise TypeError(f"operator {title}: {item!r} tells the shape of no operand")
        if rest.startswith("= "):
            made.append(Form(inputs.index(name), inputs.index(rest[2:]), (), None, rest[2:]))
            continue
        if not sign or not (rest.startswith("[") and rest.endswith("]")):
            raise TypeError(f"operator {title}: {item!r} is no shape")
        dims = [d.strip() for d in rest[1:-1].split(",") if d.strip()]
        at = dims.index("...") if "..." in dims else len(dims)
        back = tuple(dims[at + 1 :]) if at < len(dims) else None
        made.append(Form(inputs.index(name), None, tuple(dims[:at]), back, rest))
    return tuple(made)


def mismatch(forms: Sequence[Form], operands: Sequence[Any], variadic: int | None) -> tuple[int, str] | None:
    """(operand, what its shape must be) of the first that has another form; None where all fit.

    Operands from `variadic` on all have the form of that one.
    """
    sizes: dict[str, int] = {}
    for form in forms:
        last = len(operands) if form.operand == variadic else form.operand + 1
        for k in range(form.operand, min(last, len(operands))):
            shape = getattr(operands[k], "shape", None)
            if shape is None:
                continue
            if form.like is not None:
                other = operands[form.like]
                if other is not None and shape != other.shape:
                    return k, f"the shape of {form.text}, {list(other.shape)}"
            elif not _fits(form, shape, sizes):
                known = ", ".join(f"{n} = {sizes[n]}" for n in (*form.front, *(form.back or ())) if n in sizes)
                return k, f"the shape {form.text}" + (f" with {known}" if known else "")
    return None


def _fits(form: Form, shape: tuple[int, ...], sizes: dict[str, int]) -> bool:
    front, back = form.front, form.back or ()
    if len(shape) < len(front) + len(back) or (form.back is None and len(shape) != len(front)):
        return False
    pairs = [*zip(front, shape), *zip(back, shape[len(shape) - len(back) :])]
    before = dict(sizes)
    for name, size in pairs:
        if (int(name) if name.isdecimal() else sizes.setdefault(name, size)) != size:
            sizes.clear()
            sizes.update(before)
            return False
    return True
