"""The command `caffe2lite`.  All commands but `doctor` need the extra `tools`."""

from __future__ import annotations

import sys

from caffe2lite.extras import install


def main() -> None:
    """Run the command line."""
    try:
        import click  # noqa: F401
    except ImportError:
        if sys.argv[1:] == ["doctor"]:
            _doctor()
            return
        sys.exit(f"the commands need the package click: {install('tools')} (caffe2lite doctor works without)")
    from caffe2lite.commands import cli

    try:
        cli(prog_name="caffe2lite")
    except RuntimeError as e:
        from caffe2lite.devices.base import DeviceError  # not above: it brings NumPy, and --help needs none

        if not isinstance(e, DeviceError):
            raise
        sys.exit(f"caffe2lite: {e}")


def _doctor() -> None:
    """What the command `doctor` says, without tables."""
    from caffe2lite.doctor import examine

    for found in examine():
        print(f"{found.what}: {found.found}" + (f" ({found.remedy})" if found.remedy else ""))
