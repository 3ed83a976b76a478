"""`caffe2lite draw`."""

from __future__ import annotations

import click

from caffe2lite import draw as drawing
from caffe2lite import exchange, inspect
from caffe2lite.commands.looking import check_inputs, expand, known_after, read, shapes, specs_of
from caffe2lite.commands.text import Input, Trouble, say
from caffe2lite.draw.values import Values, values_of
from caffe2lite.exchange.moving import tensors_of


@click.command()
@click.argument("paths", nargs=-1, required=True, type=Input())
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, writable=True),
    help="Where to, ending in .html, .svg, .png or .dot.",
)
@click.option("--net", help="The net to draw, of a file with several.")
@shapes
def draw(paths: tuple[str, ...], output: str, net: str | None, inputs: tuple[str, ...]) -> None:
    """Draw the nets of a file: of the last, with the shapes that the files before it give (`draw init_net.pb predict_net.pb`).

    HTML is one page that opens offline, with zoom, search and a panel for each operator. A net that synchronizes devices
    is drawn as lanes, one a device, with what moves between them. PNG needs Pillow.
    The page tells the values of the parameters that the files before the net hold.
    """
    *before, path = expand(paths)
    given = specs_of(inputs)
    file, known = read(path), known_after(before, given)
    check_inputs(given, drawing.nets(file))
    try:
        left = drawing.draw(file, output, known, net, _values(before) if output.endswith(".html") else None)
    except (ValueError, RuntimeError, OSError) as e:
        raise Trouble(str(e)) from None
    say(f"written: {output}")
    if left:
        say(f"not drawn: {', '.join(left)} (--net NAME draws another; .html has them all)")


def _values(paths: list[str]) -> dict[str, Values]:
    """Return what is in the parameters of init nets and checkpoints; nothing of nets whose fills are random."""
    found: dict[str, Values] = {}
    for path in paths:
        file = read(path)
        try:
            found.update((name, values_of(array)) for name, array in tensors_of(file, {}))
            for made_up in {blob for n in drawing.nets(file) for blob in inspect.placeholders(n)}:
                del found[made_up]
        except (exchange.CannotHold, ValueError, RuntimeError) as e:
            say(f"no values of {path}: {e}")
    return found
