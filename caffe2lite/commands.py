"""`caffe2lite inspect, lint, diff, doctor`: for people by default, for programs with --json."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import click
from rich.console import Console
from rich.table import Table


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="caffe2lite")
def cli() -> None:
    """Look into Caffe2's nets and checkpoints, and check what is installed.  Nothing in a file is ever executed."""


_as_json = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
_shapes = click.option(
    "--input", "inputs", multiple=True, metavar="BLOB:2x3[:int32]", help="Shape (and type) of an input, for inference."
)


def _specs(inputs: Iterable[str]) -> dict[str, Any]:
    import numpy as np

    from caffe2lite.ops.infer import Spec

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


def _read(path: str) -> Any:
    from caffe2lite import inspect

    try:
        return inspect.read(path)
    except (inspect.Unrecognised, OSError) as e:
        raise click.ClickException(str(e)) from None


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 240, markup=False, highlight=False)


@cli.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--against", type=click.Path(exists=True), help="A net whose inputs a checkpoint should hold.")
@_shapes
@_as_json
def inspect(paths: tuple[str, ...], against: str | None, inputs: tuple[str, ...], as_json: bool) -> None:
    """Say what files hold: nets, plans, predictor exports, blobs, checkpoints."""
    specs, results = _specs(inputs), []
    for path in paths:
        file = _read(path)
        if against is not None and file.kind != "minidb":
            raise click.UsageError(f"--against is for checkpoints, and {path} is a {file.kind}")
        facts = _facts(file, specs, against)
        results.append(facts)
        if not as_json:
            _show(facts)
    if as_json:
        click.echo(json.dumps(results, indent=1, default=str))


def _facts(file: Any, specs: dict[str, Any], against: str | None) -> dict[str, Any]:
    from caffe2lite import inspect as look

    facts: dict[str, Any] = {"path": file.path, "kind": file.kind}
    if file.kind == "minidb":
        try:
            blobs = look.stored(file.path)
        except RuntimeError as e:
            raise click.ClickException(str(e)) from None
        facts["blobs"] = [b._asdict() for b in blobs]
        if against is not None:
            other = _read(against)
            if other.kind != "net":
                raise click.UsageError(f"--against takes a net, and {against} is a {other.kind}")
            net = other.message
            wanted = list(net.external_input)
            held = {b.name for b in blobs}
            facts["missing"] = [n for n in wanted if n not in held]
            facts["extra"] = sorted(held.difference(wanted))
        return facts
    nets = {
        "net": lambda m: [m],
        "plan": lambda m: list(m.network),
        "predictor net": lambda m: [n.value for n in m.nets],
    }
    if file.kind in nets:
        facts["nets"] = [_net_facts(net, specs) for net in nets[file.kind](file.message)]
    else:
        tensors = {"blob": lambda m: [m.tensor], "tensor": lambda m: [m], "tensors": lambda m: list(m.protos)}
        facts["tensors"] = [
            {"name": t.name, "type": _type_name(t), "shape": list(t.dims)} for t in tensors[file.kind](file.message)
        ]
    return facts


def _type_name(tensor: Any) -> str:
    from caffe2lite.proto import caffe2_pb2

    try:
        return caffe2_pb2.TensorProto.DataType.Name(tensor.data_type)
    except ValueError:
        return str(tensor.data_type)


def _net_facts(net: Any, specs: dict[str, Any]) -> dict[str, Any]:
    from caffe2lite import inspect as look

    summary = look.summarize(net, specs)
    stray = [name for name in specs if name not in summary.blobs]
    if stray:
        raise click.UsageError(
            f"--input {stray[0]}: net {net.name!r} has no such blob; it takes {', '.join(summary.inputs)}"
        )
    sync = look.sync_of(net, specs)
    facts = summary._asdict()
    facts["blobs"] = {
        n: {**b._asdict(), "spec": b.spec and [list(b.spec.shape), b.spec.dtype]} for n, b in summary.blobs.items()
    }
    facts["sync"] = None if sync is None else {**sync._asdict(), "moves": [m._asdict() for m in sync.moves]}
    facts["words"] = None if sync is None else sync.explain()
    facts["operators_in_order"] = [
        {
            "type": op.type,
            "inputs": list(op.input),
            "outputs": list(op.output),
            "device": look.summary.device_name(op.device_option),
        }
        for op in net.op
    ]
    return facts


def _show(facts: dict[str, Any]) -> None:
    out = _console()
    out.print(f"{facts['path']}: {facts['kind']}", style="bold")
    for net in facts.get("nets", ()):
        _show_net(out, net)
    if "tensors" in facts:
        _table(out, ("tensor", "type", "shape"), [(t["name"], t["type"], t["shape"]) for t in facts["tensors"]])
    if facts["kind"] == "minidb":
        rows = []
        for b in facts["blobs"]:
            flag = " ".join(f"{b[k]:,} {k}" for k in ("nan", "inf", "missing") if b[k])
            span = "" if b["least"] is None else f"{b['least']:.4g} … {b['most']:.4g}"
            rows.append((b["name"], b["kind"], list(b["shape"]), f"{b['bytes']:,}", span, flag))
        _table(out, ("blob", "type", "shape", "bytes", "values", "attention"), rows)
        out.print(f"{len(rows)} blobs, {sum(b['bytes'] for b in facts['blobs']):,} bytes")
    for word in ("missing", "extra"):
        if word in facts:
            out.print(f"{word}: {', '.join(facts[word]) or 'none'}", highlight=False)


def _show_net(out: Console, net: dict[str, Any]) -> None:
    out.print(f"net {net['name']} ({net['type']}): {net['operators']} operators", highlight=False)
    if net["words"]:
        out.print(net["words"], highlight=False)
        rows = [
            (m["position"], m["parameter"], m["source"], ", ".join(m["targets"]), m["by"], m["world"])
            for m in net["sync"]["moves"]
        ]
        _table(out, ("#", "parameter", "from", "to", "by", "common world"), rows)
        return
    _table(
        out, ("#", "operator", "inputs", "outputs", "device"),
        [(i, o["type"], ", ".join(o["inputs"]), ", ".join(o["outputs"]), o["device"]) for i, o in enumerate(net["operators_in_order"])],
    )  # fmt: skip
    out.print("by type: " + ", ".join(f"{n} {t}" for t, n in net["by_type"].items()), highlight=False)
    out.print("by device: " + ", ".join(f"{n} on {d}" for d, n in net["by_device"].items()), highlight=False)
    out.print(f"inputs: {', '.join(net['inputs']) or 'none'}", highlight=False)
    out.print(f"outputs: {', '.join(net['outputs']) or 'none'}", highlight=False)
    known = [b for b in net["blobs"].values() if b["spec"]]
    if known:
        rows = [(n, *(b["spec"] or ("not known", ""))) for n, b in net["blobs"].items()]
        _table(out, ("blob", "shape", "type"), [(n, s, t) for n, s, t in rows])
    if net["flops"]:
        out.print(f"{net['flops']:,} FLOPs", highlight=False)


def _table(out: Console, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    out.print(table)


@cli.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--shards", is_flag=True, help="The files are the nets of shards that run together.")
@click.option("--silence", multiple=True, metavar="CODE", help="Do not report problems of this code.")
@_shapes
@_as_json
def lint(
    paths: tuple[str, ...], shards: bool, silence: tuple[str, ...], inputs: tuple[str, ...], as_json: bool
) -> None:
    """Find what would bite when nets run.  Exit status 1 where something was found."""
    from caffe2lite import inspect as look

    nets = []
    for path in paths:
        file = _read(path)
        if file.kind != "net":
            raise click.ClickException(f"{path} is a {file.kind}; lint takes nets")
        nets.append(file.message)
    found = [(path, p) for path, net in zip(paths, nets) for p in look.lint(net, _specs(inputs), silence)]
    if shards:
        found += [("shards", p) for p in look.lint_shards(nets) if p.code not in silence]
    if as_json:
        click.echo(json.dumps([{"path": path, **p._asdict()} for path, p in found], indent=1))
    else:
        for path, p in found:
            place = "" if p.operator is None else f" operator {p.operator}"
            click.echo(f"{path}:{place} {p.code} {p.message}; {p.remedy}")
        click.echo(f"{len(found)} problem{'s' if len(found) != 1 else ''}")
    sys.exit(1 if found else 0)


@cli.command()
@click.argument("a", type=click.Path(exists=True))
@click.argument("b", type=click.Path(exists=True))
@_as_json
def diff(a: str, b: str, as_json: bool) -> None:
    """Say what differs between two nets or two checkpoints.  Exit status 1 where something does."""
    from caffe2lite import inspect as look
    from caffe2lite.inspect.checkpoint import tensors

    one, two = _read(a), _read(b)
    if one.kind != two.kind:
        raise click.ClickException(f"{a} is a {one.kind} and {b} a {two.kind}")
    if one.kind == "net":
        lines = look.diff_nets(one.message, two.message)
    elif one.kind == "minidb":
        lines = look.diff_blobs(tensors(a), tensors(b))
    else:
        lines = [] if one.message == two.message else ["the messages differ"]
    if as_json:
        click.echo(json.dumps(lines, indent=1))
    else:
        for line in lines:
            click.echo(line)
        click.echo(f"{len(lines)} difference{'s' if len(lines) != 1 else ''}" if lines else "no differences")
    sys.exit(1 if lines else 0)


@cli.command()
@_as_json
def doctor(as_json: bool) -> None:
    """Say what is installed, what works, and what to install for what is missing."""
    from caffe2lite.doctor import examine

    found = examine()
    if as_json:
        click.echo(json.dumps([f._asdict() for f in found], indent=1))
        return
    out = _console()
    _table(out, ("what", "found", "what to do"), [(f.what, f.found, f.remedy) for f in found])
