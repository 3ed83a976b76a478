"""Operators one after the other on the blobs of one workspace, for those that keep something in blobs."""

from typing import Any

import numpy as np
from running import definition

from caffe2lite.engine import runner
from caffe2lite.engine.workspace import Workspace


class Session:
    """A workspace with some blobs; called with an operator, it runs it and returns those outputs that are tensors."""

    def __init__(self, **blobs: Any) -> None:
        self.workspace = Workspace()
        self.feed(**blobs)

    def feed(self, **blobs: Any) -> None:
        """Feed arrays."""
        for name, value in blobs.items():
            self.workspace.feed(name, np.asarray(value))

    def __call__(self, kind: str, inputs: str = "", outputs: str = "", **args: Any) -> list[np.ndarray]:
        runner.run_operator(self.workspace, definition(kind, inputs.split(), outputs.split(), args))
        return [self[name] for name in outputs.split() if self.workspace.blobs[name].is_tensor]

    def __getitem__(self, name: str) -> np.ndarray:
        return self.workspace.fetch(name)
