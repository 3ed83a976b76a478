"""Run one operator on arrays, as a net would: checks, kernels, in-place outputs and the engine's errors included."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import registry
from caffe2lite.ops.kit.gradient import set_argument
from caffe2lite.proto import caffe2_pb2


def definition(kind: str, inputs: Sequence[str], outputs: Sequence[str], args: Mapping[str, Any] = {}, device=None):
    """The OperatorDef of an operator."""
    op = caffe2_pb2.OperatorDef(type=kind, input=inputs, output=outputs)
    for name, value in args.items():
        set_argument(op.arg.add(name=name), value)
    if device is not None:
        op.device_option.CopyFrom(device)
    return op


def run(
    kind: str,
    inputs: Sequence[np.ndarray | None],
    args: Mapping[str, Any] = {},
    outputs: int = 1,
    device=None,
    inplace: Mapping[int, int] = {},
) -> list[np.ndarray]:
    """The first `outputs` outputs of an operator on the blobs in0, in1, ...; an input None is a blob that holds nothing.

    Outputs are blobs out0, out1, ...; those that must be in place, and those of `inplace` ({input: output}), are the
    inputs themselves.
    """
    places = {o: i for i, o in registry.find(kind).enforced} | {o: i for i, o in inplace.items()}
    names = [f"in{k}" for k in range(len(inputs))]
    made = [names[places[o]] if o in places else f"out{o}" for o in range(outputs)]
    workspace = Workspace()
    for name, value in zip(names, inputs):
        if value is not None:
            workspace.feed(name, np.asarray(value))
    workspace.run_operator(definition(kind, names, made, args, device))
    return [workspace.fetch(name) for name in made]
