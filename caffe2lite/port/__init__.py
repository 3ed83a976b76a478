"""Legacy code on today's Python: what it needs, how to mend it, and how to run it as it is.

from caffe2lite import port
port.examine("train.py").findings
port.mend(source, "train.py").text
port.run_script("train.py", ["--epochs", "3"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from caffe2lite.port.running import run_script
from caffe2lite.port.scan import Finding, Report, examine, examine_source, files

if TYPE_CHECKING:
    from caffe2lite.port.mending import mend

__all__ = ["Finding", "Report", "examine", "examine_source", "files", "mend", "run_script"]


def __getattr__(name: str) -> Any:
    if name == "mend":
        from caffe2lite.port.mending import mend  # not above: it needs an extra

        return mend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
