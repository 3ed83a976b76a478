"""Logs that operators write into the folder of their workspace."""

from __future__ import annotations

import os
from typing import Any

from caffe2lite.paths import allowed


def add_line(ctx: Any, name: str, line: bytes) -> None:
    """Add a line to a file of the workspace's folder; the operator's first line starts the file anew."""
    path = allowed(os.path.join(ctx.workspace.root_folder, name))
    with open(path, "ab" if hasattr(ctx.state, "log_begun") else "wb") as log:
        log.write(line + b"\n")
    ctx.state.log_begun = True
