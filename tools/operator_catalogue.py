"""Write docs/operators.md, the catalogue of operators, from the registry.

python tools/operator_catalogue.py > docs/operators.md
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Sequence

import caffe2lite.engine.python_op  # noqa: F401 - registers Python operators
from caffe2lite.ops.kit import arguments, registry
from caffe2lite.ops.kit.registry import MANY

_DIFFERENCES = pathlib.Path(__file__).parent.parent / "tests" / "golden" / "exceptions.txt"

_HEAD = """# Operators

Made by `python tools/operator_catalogue.py` from the registry; a test says when it is out of date.

Inputs and outputs with `?` are optional, with `…` there may be any number. Arguments without a default are required.
*In place* lists the inputs that an output may overwrite, *must be in place* those that it always does. *Types* are those of
the CPU, where not all are taken. *Gradient* names what Caffe2 has: a maker, none (inputs get no gradient), or refused
(asking is an error); nothing where the operator is a gradient itself. *Engines* are further kernels; NUMBA is chosen by
itself for large tensors where the extra `fast` is installed.
"""


def catalogue() -> str:
    """The page."""
    records = [r for name in registry.names() if (r := registry.find(name)).module.startswith("caffe2lite.")]
    records.sort(key=lambda r: (r.module, r.name))
    parts = [_HEAD, f"{len(records)} operators.\n"]
    differences = _differences()
    for module, group in itertools.groupby(records, key=lambda r: r.module):
        parts.append(f"## {module.removeprefix('caffe2lite.').removeprefix('ops.').replace('.', ' / ')}\n")
        parts += [_entry(r, differences.get(r.name, ())) for r in group]
    return "\n".join(parts)


def _entry(record: registry.Operator, differences: Sequence[str]) -> str:
    lines = [f"**{record.name}**({_operands(record, True)}) → {_operands(record, False) or 'nothing'}  "]
    lines += [" ".join(paragraph.split()) + "  " for paragraph in record.doc.split("\n\n")]
    facts = []
    if record.args:
        facts.append("*args* " + ", ".join(_argument(a) for a in record.args.values()))
    if record.types:
        facts.append(
            "*types* " + ", ".join(_types(record, i, accepted) for i, accepted in sorted(record.types.items()))
        )
    free = sorted(record.inplace - record.enforced)
    if free:
        facts.append("*in place* " + ", ".join(_pairs(record, free)))
    if record.enforced:
        facts.append("*must be in place* " + ", ".join(_pairs(record, sorted(record.enforced))))
    if record.gradient is registry.NO_GRADIENT:
        facts.append("*gradient* none")
    elif record.gradient is registry.FORBID_GRADIENT:
        facts.append("*gradient* refused")
    elif record.gradient is not None:
        facts.append("*gradient* yes")
    engines = sorted({engine for engine, _ in record.kernels if engine})
    if engines:
        facts.append("*engines* " + ", ".join(engines))
    if facts:
        lines.append("; ".join(facts) + "  ")
    lines += [f"Differs from Caffe2: {d}" for d in differences]
    return "\n".join(lines) + "\n"


def _operands(record: registry.Operator, inputs: bool) -> str:
    names = list(record.inputs if inputs else record.outputs)
    least = record.min_inputs if inputs else record.min_outputs
    most = record.max_inputs if inputs else record.max_outputs
    marked = [n + "?" * (i >= least) for i, n in enumerate(names)]
    if most == MANY and names:
        marked[-1] = names[-1] + "…"
    return ", ".join(marked)


def _argument(arg: arguments.Arg) -> str:
    limits = f" ({', '.join(arg.limits)})" if arg.limits else ""
    if arg.default is arguments.REQUIRED:
        return f"`{arg.name}`{limits}"
    value = f"{arg.default:.7g}" if isinstance(arg.default, float) else repr(arg.default)
    return f"`{arg.name}={value}`{limits}"


def _types(record: registry.Operator, i: int, accepted: tuple[str, ...]) -> str:
    if accepted[0] == "=":
        return f"{record.inputs[i]} as {record.inputs[int(accepted[1])]}"
    return f"{record.inputs[i]} {' '.join('string' if a == 'object' else a for a in accepted)}"


def _pairs(record: registry.Operator, pairs: list[tuple[int, int]]) -> list[str]:
    name = lambda names, i: names[min(i, len(names) - 1)] if names else str(i)
    if (-1, -1) in pairs:
        return ["any"]
    if len(pairs) > 8:
        return [f"{name(record.inputs, pairs[0][0])}, each with its own output"]
    return [f"{name(record.inputs, i)} → {name(record.outputs, o)}" for i, o in pairs]


def _differences() -> dict[str, list[str]]:
    """{type: in what its recorded cases differ}."""
    table: dict[str, list[str]] = {}
    for line in _DIFFERENCES.read_text().splitlines():
        if line and not line.startswith("#"):
            name, reason = line.split(None, 1)
            reasons = table.setdefault(name.partition("/")[0], [])
            if reason not in reasons:
                reasons.append(reason)
    return table


if __name__ == "__main__":
    print(catalogue(), end="")
