"""`caffe2lite draw`."""

from __future__ import annotations

import click

from caffe2lite import draw as drawing
from caffe2lite.commands.looking import blobs_of, check_inputs, expand, known_after, read, shapes, specs_of
from caffe2lite.commands.text import Input, Trouble, say


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
    is drawn as lanes, one a device, with what moves between them. PNG needs Graphviz.
    """
    *before, path = expand(paths)
    given = specs_of(inputs)
    file, known = read(path), known_after(before, given)
    drawn = drawing.nets(file)
    if drawn:
        check_inputs(
            given.keys() - blobs_of(drawn), [str(b) for n in drawn for b in n.external_input], str(drawn[-1].name)
        )
    try:
        left = drawing.draw(file, output, known, net)
    except (ValueError, RuntimeError, OSError) as e:
        raise Trouble(str(e)) from None
    say(f"written: {output}")
    if left:
        say(f"not drawn: {', '.join(left)} (--net NAME draws another; .html has them all)")
