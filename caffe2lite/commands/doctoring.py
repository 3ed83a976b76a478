"""`caffe2lite doctor`."""

from __future__ import annotations

import json

import click

from caffe2lite.commands.text import table
from caffe2lite.doctor import examine


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def doctor(as_json: bool) -> None:
    """Say what is installed, what works, and what to install for what is missing."""
    found = examine()
    if as_json:
        click.echo(json.dumps([f._asdict() for f in found], indent=1))
        return
    table(("what", "found", "what to do"), found)
