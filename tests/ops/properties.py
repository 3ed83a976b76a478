"""What must hold of any operator: in place as beside, again as at first, refusals in words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from running import definition, run

from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import registry
from caffe2lite.proto import caffe2_pb2


def same(have: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> None:
    """Assert that arrays agree in shape, dtype and value."""
    assert [(h.shape, h.dtype) for h in have] == [(w.shape, w.dtype) for w in want]
    for h, w in zip(have, want):
        np.testing.assert_array_equal(h, w)


def in_place(kind: str, inputs: Sequence[np.ndarray], args: Mapping[str, Any] = {}, outputs: int = 1) -> None:
    """Assert that each pair of input and output that may be one blob gives what two blobs give."""
    record = registry.find(kind)
    beside = run(kind, inputs, args, outputs)
    pairs = [(i, o) for i, o in sorted(record.inplace - record.enforced) if 0 <= i < len(inputs) and o < outputs]
    assert pairs, f"{kind} does not work in place"
    for i, o in pairs:
        same(run(kind, inputs, args, outputs, inplace={i: o}), beside)


def again(
    kind: str, first: Sequence[np.ndarray], then: Sequence[np.ndarray], args: Mapping[str, Any] = {}, outputs: int = 1
) -> None:
    """Assert that one net that has run on some shapes gives on others, and on the first again, what a new one gives."""
    ins, outs = [f"in{k}" for k in range(len(first))], [f"out{k}" for k in range(outputs)]
    workspace = Workspace()
    for name in ins:
        workspace.feed(name, np.zeros(0, "f"))
    net = caffe2_pb2.NetDef(name="again", op=[definition(kind, ins, outs, args)])
    runner = workspace.create_net(net)
    for arrays in (first, first, then, first):
        for name, array in zip(ins, arrays):
            workspace.feed(name, array)
        runner.run()
        same([workspace.fetch(name) for name in outs], run(kind, arrays, args, outputs))


def refuses(
    words: str, kind: str, inputs: Sequence[np.ndarray | None], args: Mapping[str, Any] = {}, outputs: int = 1
) -> None:
    """Assert that the operator raises an error that names it and says `words`, a regular expression."""
    with pytest.raises(OperatorError, match=words) as caught:
        run(kind, inputs, args, outputs)
    assert kind in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
