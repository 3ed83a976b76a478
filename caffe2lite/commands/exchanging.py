"""`caffe2lite export, import`."""

from __future__ import annotations

from typing import Any

import click

from caffe2lite import exchange
from caffe2lite.commands.looking import shapes, specs_of
from caffe2lite.commands.text import Input, Trouble, amount, count, say
from caffe2lite.exchange.formats import found_in

_EXPORTS = click.Choice(["onnx", "npz", "safetensors", "torch-state-dict"])
_IMPORTS = click.Choice(["minidb", "lmdb", "init-net"])


@click.command()
@click.argument("path", type=Input())
@click.option("--to", type=_EXPORTS, help="The format; else by the ending of the output.")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, writable=True), help="Where to.")
@click.option("--params", type=Input(), help="For onnx: the init net or checkpoint with the parameters of a net.")
@click.option("--leave", multiple=True, metavar="BLOB", help="A blob to leave out.")
@shapes
def export(
    path: str, to: str | None, output: str, params: str | None, leave: tuple[str, ...], inputs: tuple[str, ...]
) -> None:
    """Write checkpoints, exports and init nets as npz, safetensors or a torch state dict; models as ONNX.

    For onnx the shapes of what is fed must be told: `export predict_net.pb --params init_net.pb --input data:1x3x224x224
    -o model.onnx`. The net is then run once, on zeros.
    """
    to = to or exchange.format_of(output)
    if to is None:
        raise click.UsageError(f"{output} says no format: give --to")
    if to == "onnx":
        fed = _tried(exchange.export_model, path, output, params, specs_of(inputs))
        say(f"written: {output}, checked; it takes {', '.join(fed) or 'no input'}")
        return
    _told(_tried(exchange.export_tensors, path, output, to, leave), output)


@click.command("import")
@click.argument("path", type=Input())
@click.option("--to", type=_IMPORTS, default="minidb", show_default=True, help="What to make of tensors.")
@click.option("-o", "--output", required=True, type=click.Path(), help="Where to; for an ONNX model a folder.")
def import_(path: str, to: str, output: str) -> None:
    """Write an npz, a safetensors file or a torch state dict as a checkpoint or an init net; an ONNX model as nets.

    An ONNX model becomes init_net.pb and predict_net.pb in the folder that is named. No code in a file is run.
    """
    if _tried(found_in, path) == "onnx":
        say(f"written: {', '.join(_tried(exchange.import_model, path, output))}")
        return
    _told(_tried(exchange.import_tensors, path, output, to), output)


def _told(moved: Any, output: str) -> None:
    say(f"written: {output} ({count(moved.tensors, 'tensor')}, {amount(moved.bytes)})")
    for name, kind in moved.left.items():
        say(f"left out: {name} is no tensor ({kind})")


def _tried(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (ValueError, RuntimeError, OSError) as e:
        raise Trouble(str(e)) from None
