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


class Int8Session(Session):
    """A session with Int8 tensors, fed as (data, scale, zero point)."""

    def quantized(self, **tensors: tuple[np.ndarray, float, int]) -> None:
        """Feed Int8 tensors, of bytes or of int32."""
        for name, (data, scale, zero_point) in tensors.items():
            args = {"shape": list(data.shape), "Y_scale": scale, "Y_zero_point": zero_point}
            if data.dtype == np.uint8:
                self("Int8GivenTensorFill", "", name, values=data.tobytes(), **args)
            else:
                self("Int8GivenIntTensorFill", "", name, values=data.reshape(-1).tolist(), **args)

    def bytes(self, name: str) -> np.ndarray:
        """The stored bytes."""
        return self.workspace.fetch_int8(name).data

    def real(self, name: str) -> np.ndarray:
        """The numbers that they stand for."""
        tensor = self.workspace.fetch_int8(name)
        return (tensor.data.astype(float) - tensor.zero_point) * tensor.scale
