"""The commands of `caffe2lite`, one module a group of them; each is imported when it is called for."""

from __future__ import annotations

import difflib
import importlib
import keyword
from typing import Any

import click

_PLACES = {
    "inspect": ("looking", "Say what files hold: nets, plans, predictor exports, blobs, checkpoints."),
    "lint": ("looking", "Find what would bite when nets run."),
    "diff": ("looking", "Say what differs between two nets or two checkpoints."),
    "draw": ("drawing", "Draw nets: a page to look around in, or a picture."),
    "export": ("exchanging", "Write checkpoints as npz, safetensors, torch state dicts; models as ONNX."),
    "import": ("exchanging", "Write those as Caffe2's checkpoints and nets."),
    "port": ("porting", "Say what a legacy script needs to run today, and mend it."),
    "run": ("running", "Run a legacy script with no edits."),
    "conformance": ("conforming", "Run Caffe2's own test files on caffe2lite."),
    "doctor": ("doctoring", "Say what is installed, what works, and what to install."),
}


class _Lazy(click.Group):
    """A group whose commands are imported when they are called for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _PLACES:
            return None
        module = importlib.import_module(f"{__name__}.{_PLACES[cmd_name][0]}")
        return getattr(module, f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As of any group; an unknown name gets the one that looks most like it."""
        close = difflib.get_close_matches(args[0], _PLACES, 1) if args and args[0] not in _PLACES else []
        if close:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, what) in _PLACES.items()])


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="caffe2lite")
def cli() -> None:
    """Look into Caffe2's nets and checkpoints, and bring its scripts to today's Python.

    Nothing in a net or checkpoint is ever executed.
    """
