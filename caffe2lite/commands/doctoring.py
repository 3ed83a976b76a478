"""`caffe2lite doctor`."""

from __future__ import annotations

import click

from caffe2lite.commands.text import say_json, table
from caffe2lite.doctor import examine


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def doctor(as_json: bool) -> None:
    """Say what is installed, what works, and what to install for what is missing."""
    found = examine()
    if as_json:
        say_json([f._asdict() for f in found])
        return
    table(("what", "found", "what to do"), found)
