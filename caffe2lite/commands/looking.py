"""`caffe2lite inspect, lint, diff`: for people by default, for programs with --json."""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import click
import numpy as np

from caffe2lite import inspect as look
from caffe2lite.commands.text import Input, Trouble, amount, count, nearest, say, say_json, table
from caffe2lite.engine.dependencies import blobs_of
from caffe2lite.ops.kit.infer import Spec

_as_json = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
shapes = click.option(
    "--input", "inputs", multiple=True, metavar="BLOB:2x3[:int32]", help="Shape (and type) of an input, for inference."
)
_file = Input()


def specs_of(inputs: Iterable[str]) -> dict[str, Any]:
    specs = {}
    for text in inputs:
        name, _, rest = text.partition(":")
        dims, _, dtype = rest.partition(":")
        try:
            np.dtype(dtype or "float32")
            specs[name] = Spec(tuple(int(d) for d in dims.split("x")) if dims else (), dtype or "float32")
        except (ValueError, TypeError):
            raise click.BadParameter(f"{text!r} is not BLOB:2x3 or BLOB:2x3:int32", param_hint="--input") from None
    return specs


def refuse_unknown(unknown: Iterable[str], inputs: Iterable[str], net: str) -> None:
    """Refuse the first name of --input that no net has; `inputs` are those that could be meant."""
    for name in sorted(unknown):
        takes = nearest(name, list(dict.fromkeys(inputs)))
        raise click.UsageError(f"--input {name}: there is no such blob in {net!r}; it takes {takes}")


def check_inputs(given: Mapping[str, Any], nets: Sequence[Any]) -> None:
    """Refuse names of --input that none of the nets has."""
    if nets:
        inputs = [str(b) for net in nets for b in net.external_input]
        refuse_unknown(given.keys() - blobs_of(nets), inputs, str(nets[-1].name))


def read(path: str) -> Any:
    try:
        return look.read(path)
    except (look.Unrecognised, OSError) as e:
        raise Trouble(str(e)) from None


def expand(paths: Iterable[str]) -> list[str]:
    """Return the files, and those of folders that hold nets: what initializes comes first."""
    found = []
    for path in paths:
        if not os.path.isdir(path) or os.path.exists(os.path.join(path, "data.mdb")):
            found.append(path)
            continue
        names = [n for n in sorted(os.listdir(path)) if n.endswith(_NETS)]
        if not names:
            raise Trouble(f"{path} holds no nets: no file of it ends in {', '.join(_NETS)}")
        found += [os.path.join(path, n) for n in sorted(names, key=lambda n: "init" not in n)]
    return found


_NETS = (".pb", ".pbtxt", ".prototxt", ".minidb")


# ---- inspect -----------------------------------------------------------------------------------------------------


@click.command()
@click.argument("paths", nargs=-1, required=True, type=_file)
@click.option("--against", type=_file, help="A net whose inputs a checkpoint should hold.")
@click.option("--blobs", is_flag=True, help="List the blobs of nets, too (they are listed where shapes are known).")
@click.option(
    "--bandwidth",
    type=click.FloatRange(min=0, min_open=True),
    metavar="GB/S",
    help="Estimate how long a sync net takes.",
)
@shapes
@_as_json
def inspect(
    paths: tuple[str, ...],
    against: str | None,
    blobs: bool,
    bandwidth: float | None,
    inputs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Say what files hold: nets, plans, predictor exports, blobs, checkpoints.

    What the nets of the first files make is known to those that follow: `inspect init_net.pb predict_net.pb`, or the folder of both.
    """
    given, results = specs_of(inputs), []
    specs, asked = dict(given), set(given)
    for path in expand(paths):
        file = read(path)
        if against is not None and file.kind not in _DATABASES:
            raise click.UsageError(f"--against is for checkpoints, and {path} is of kind {file.kind}")
        facts = _facts(file, specs, against, bandwidth)
        for name in {blob for net in look.nets_of(file) or () for blob in look.placeholders(net)}:
            specs.pop(name, None)
        specs |= given
        asked -= {blob for net in facts.get("nets", ()) for blob in net["blobs"]}
        results.append(facts)
    nets = [net for facts in results for net in facts.get("nets", ())]
    if nets:
        refuse_unknown(asked, [blob for net in nets for blob in net["inputs"]], nets[-1]["name"])
    if as_json:
        say_json(results)
        return
    for facts in results:
        _show(facts, blobs)


_DATABASES = ("minidb", "lmdb")


def _facts(file: Any, specs: dict[str, Any], against: str | None, bandwidth: float | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"path": file.path, "kind": file.kind}
    if file.kind in _DATABASES:
        try:
            held = look.stored(file.path, file.kind)
        except RuntimeError as e:
            raise Trouble(str(e)) from None
        facts["blobs"] = [b._asdict() for b in held]
        specs |= {b.name: look.Spec(b.shape, b.kind) for b in held if b.is_tensor}
        export = look.predictor_of(file.path, file.kind, held)
        if export is not None:
            facts["nets"] = [_net_facts(n.value, specs, bandwidth) for n in export.nets]
            facts["roles"] = _roles(export)
        if against is not None:
            facts |= _compared(against, {b.name for b in held})
        return facts
    nets = look.nets_of(file)
    if nets is not None:
        facts["nets"] = [_net_facts(net, specs, bandwidth) for net in nets]
        if file.kind == "plan":
            facts["steps"] = [line for step in file.message.execution_step for line in look.outline(step)]
        if file.kind == "predictor net":
            facts["roles"] = _roles(file.message)
    else:
        facts["blobs"] = [b._asdict() for b in look.stored_in(file.message)]
    return facts


def _compared(against: str, held: set[str]) -> dict[str, list[str]]:
    other = read(against)
    if other.kind != "net":
        raise click.UsageError(f"--against takes a net, and {against} is of kind {other.kind}")
    wanted = list(other.message.external_input)
    missing = [n for n in wanted if n not in held]
    weights = look.summarize(other.message).parameters
    return {
        "missing": missing,
        "missing_parameters": [n for n in missing if n in weights],
        "extra": sorted(held.difference(wanted)),
    }


def _roles(meta: Any) -> dict[str, list[str]]:
    """Return what a predictor export says of its nets and blobs: PARAMETERS_BLOB_TYPE, INPUTS_BLOB_TYPE, …"""
    roles = {**{n.key: [n.value.name] for n in meta.nets}, **{b.key: list(b.value) for b in meta.blobs}}
    return {str(key): [str(name) for name in names] for key, names in roles.items()}  # what is no UTF-8 comes as bytes


_LARGEST = 500_000  # operators and names of blobs of a net that can be told


def _net_facts(net: Any, specs: dict[str, Any], bandwidth: float | None) -> dict[str, Any]:
    size = len(net.op) + sum(len(op.input) + len(op.output) for op in net.op)
    if size > _LARGEST:
        raise Trouble(
            f"net {net.name!r} has {count(len(net.op), 'operator')} and {size - len(net.op):,} inputs and outputs, more than "
            "can be shown; caffe2lite lint and diff take it"
        )
    summary = look.summarize(net, specs)
    specs.update((name, use.spec) for name, use in summary.blobs.items() if use.spec is not None)
    sync = look.sync_of(net, specs)
    facts = summary._asdict()
    facts["blobs"] = {
        name: {
            **use._asdict(),
            "spec": use.spec and [list(use.spec.shape), use.spec.dtype],
            "bytes": use.bytes,
        }
        for name, use in summary.blobs.items()
    }
    facts["sync"] = None if sync is None else {**sync._asdict(), "moves": [m._asdict() for m in sync.moves]}
    facts["words"] = None if sync is None else sync.explain(bandwidth)
    facts["operators_in_order"] = [
        {
            "type": op.type,
            "inputs": list(op.input),
            "outputs": list(op.output),
            "args": {arg.name: look.value_of(arg) for arg in op.arg},
            "engine": op.engine,
            "device": place,
        }
        for op, place in zip(net.op, look.places(net))
    ]
    return facts


def _show(facts: dict[str, Any], blobs: bool) -> None:
    say(f"{facts['path']}: {facts['kind']}", bold=True)
    for key, names in facts.get("roles", {}).items():
        say(f"{key}: {', '.join(names) or 'none'}")
    for line in facts.get("steps", ()):
        say(line)
    for net in facts.get("nets", ()):
        _show_net(net, blobs)
    if "blobs" in facts:
        rows = []
        for b in facts["blobs"]:
            flag = " ".join(f"{b[k]:,} {k}" for k in ("nan", "inf", "missing") if b[k])
            span = "" if b["least"] is None else f"{b['least']:.4g} … {b['most']:.4g}"
            mean = "" if b["mean"] is None else f"{b['mean']:.4g}"
            rows.append((b["name"], b["kind"], list(b["shape"]), f"{b['bytes']:,}", span, mean, flag))
        table(("blob", "type", "shape", "bytes", "values", "mean", "attention"), rows)
        say(f"{count(len(rows), 'blob')}, {amount(sum(b['bytes'] for b in facts['blobs']))}")
    if "missing" in facts:
        lost = facts["missing_parameters"]
        say(f"missing parameters: {', '.join(lost) or 'none'}", bold=bool(lost))
        say(f"missing inputs: {', '.join(n for n in facts['missing'] if n not in lost) or 'none'}")
        say(f"extra: {', '.join(facts['extra']) or 'none'}")


def _show_net(net: dict[str, Any], blobs: bool) -> None:
    say(f"net {net['name'] or 'without a name'} ({net['type']}): {count(net['operators'], 'operator')}", bold=True)
    if net["words"]:
        say(net["words"])
        rows = [
            (m["position"], m["parameter"], m["source"], ", ".join(m["targets"]), m["by"], m["world"])
            for m in net["sync"]["moves"]
        ]
        table(("#", "parameter", "from", "to", "by", "common world"), rows)
        return
    table(
        ("#", "operator", "inputs", "outputs", "arguments", "device"),
        [
            (
                i,
                o["type"] + (f" ({o['engine']})" if o["engine"] else ""),
                _most(o["inputs"]),
                _most(o["outputs"]),
                ", ".join(f"{k}={v}" for k, v in o["args"].items()),
                o["device"],
            )
            for i, o in enumerate(net["operators_in_order"])
        ],
    )
    say("by type: " + ", ".join(f"{n} {t}" for t, n in net["by_type"].items()))
    say("by device: " + ", ".join(f"{n} on {d}" for d, n in net["by_device"].items()))
    trained = {n for n in net["inputs"] if net["blobs"][n]["producers"]}.union(net["parameters"])
    say(f"inputs: {_some(net['inputs'], last=trained)}")
    say(f"outputs: {_some(net['outputs'])}")
    sizes = {n: b["bytes"] or 0 for n, b in net["blobs"].items()}
    if net["parameters"]:
        held = sum(sizes[n] for n in net["parameters"])
        say(f"of the inputs, {count(len(net['parameters']), 'parameter')}" + (f", {amount(held)}" if held else ""))
    known = [b for b in net["blobs"].values() if b["spec"]]
    if known or blobs:
        rows = [(n, *_use(b)) for n, b in net["blobs"].items()]
        table(("blob", "shape", "type", "bytes", "made by", "used by"), rows)
    if known:
        fed = sum(sizes[n] for n in net["inputs"])
        say(
            f"{len(known)} of {count(len(sizes), 'blob')} known: {amount(fed)} of inputs, "
            f"{amount(sum(sizes.values()) - fed)} made"
        )
    if net["flops"]:
        say(f"{net['flops']:,} FLOPs")


def _some(names: list[str], last: Container[str] = ()) -> str:
    """Return the first of many names, those in `last` behind the others; --json has all."""
    if len(names) <= 20:
        return ", ".join(names) or "none"
    return ", ".join(sorted(names, key=lambda name: name in last)[:20]) + f" and {len(names) - 20:,} more"


def _most(names: list[str]) -> str:
    """Return all names but those of an operator of very many, which would make every line of a table as long."""
    return ", ".join(names) if len(names) <= 200 else ", ".join(names[:200]) + f" and {len(names) - 200:,} more"


def _use(blob: dict[str, Any]) -> Sequence[Any]:
    shape, dtype = blob["spec"] or ("not known", "")
    size = "" if blob["bytes"] is None else f"{blob['bytes']:,}"
    return shape, dtype, size, _positions(blob["producers"]), _positions(blob["consumers"])


def _positions(found: list[int]) -> str:
    return ", ".join(map(str, found[:6])) + (f" and {len(found) - 6} more" if len(found) > 6 else "")


def known_after(paths: Sequence[str], given: dict[str, Any]) -> dict[str, Any]:
    """Return the shapes that are known after the nets of files."""
    specs = dict(given)
    for path in paths:
        held, known = _nets_in(read(path))
        specs = known | specs
        for net in held:
            specs = look.shapes_after(net, specs) | given
    return specs


# ---- lint --------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("paths", nargs=-1, required=True, type=_file)
@click.option("--shards", is_flag=True, help="The files are the nets of shards that run together.")
@click.option("--silence", multiple=True, metavar="CODE", help="Do not report problems of this code.")
@shapes
@_as_json
def lint(
    paths: tuple[str, ...], shards: bool, silence: tuple[str, ...], inputs: tuple[str, ...], as_json: bool
) -> None:
    """Find what would bite when nets run.  Exit status 1 where something was found.

    What the nets of the first files make is known to those that follow: `lint init_net.pb predict_net.pb`.
    """
    for code in silence:
        if code not in look.CODES:
            raise click.BadParameter(
                f"there is no code {code!r}; they go from {min(look.CODES)} to {max(look.CODES)}",
                param_hint="--silence",
            )
    given = specs_of(inputs)
    specs, nets, found = given, [], []
    for path in expand(paths):
        file = read(path)
        if file.kind == "plan":
            found += [(path, p) for p in look.lint_plan(file.message) if p.code not in silence]
        held, known = _nets_in(file)
        specs = known | specs
        for net in held:
            nets.append(net)
            found += [(path, p) for p in look.lint(net, specs, silence)]
            if not shards:
                specs = look.shapes_after(net, specs) | given
    check_inputs(given, nets)
    if shards:
        found += [("shards", p) for p in look.lint_shards(nets, given) if p.code not in silence]
    if as_json:
        say_json([{"path": path, **p._asdict()} for path, p in found])
    else:
        for path, p in found:
            place = "" if p.operator is None else f" operator {p.operator}"
            say(f"{path}:{place} {p.code} {p.message}; {p.remedy}")
        say(count(len(found), "problem"))
    sys.exit(1 if found else 0)


def _nets_in(file: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return (nets, shapes of blobs) of a file of nets, or of a predictor export in a database."""
    held, known = look.nets_of(file), {}
    if file.kind in _DATABASES:
        try:
            blobs = look.stored(file.path, file.kind)
            export = look.predictor_of(file.path, file.kind, blobs)
        except RuntimeError as e:
            raise Trouble(str(e)) from None
        known = {b.name: look.Spec(b.shape, b.kind) for b in blobs if b.is_tensor}
        held = None if export is None else [n.value for n in export.nets]
    if held is None:
        raise Trouble(f"{file.path} ({file.kind}) holds no nets; lint is for nets")
    return held, known


# ---- diff --------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("a", type=_file)
@click.argument("b", type=_file)
@_as_json
def diff(a: str, b: str, as_json: bool) -> None:
    """Say what differs between two nets or two checkpoints.  Exit status 1 where something does."""
    one, two = read(a), read(b)
    if one.kind != two.kind and not {one.kind, two.kind} <= set(_DATABASES):
        raise Trouble(f"they cannot be compared: {a} is of kind {one.kind}, {b} of kind {two.kind}")
    try:
        lines = look.diff_files(one, two)
    except RuntimeError as e:
        raise Trouble(str(e)) from None
    if as_json:
        say_json(lines)
    else:
        for line in lines:
            say(line)
        say(count(len(lines), "difference") if lines else "no differences")
    sys.exit(1 if lines else 0)
