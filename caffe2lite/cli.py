"""The command `caffe2lite`.  The commands themselves need the extra `tools`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from caffe2lite.commands import cli
    except ImportError as e:
        if e.name not in ("click", "rich"):
            raise
        sys.exit(f"the command line needs {e.name}: pip install 'caffe2lite[tools]'")
    cli()
