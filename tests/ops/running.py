"""Run one operator on arrays, as a net would: checks, kernels, in-place outputs and the engine's errors included."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from caffe2lite.engine import runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import arguments, registry
from caffe2lite.proto import caffe2_pb2

Arrays = Sequence[np.ndarray | None]


def definition(kind: str, inputs: Sequence[str], outputs: Sequence[str], args: Mapping[str, Any] = {}, device=None):
    """Return the OperatorDef of an operator."""
    op = caffe2_pb2.OperatorDef(type=kind, input=inputs, output=outputs)
    for name, value in args.items():
        arguments.write(op.arg.add(), name, value)
    if device is not None:
        op.device_option.CopyFrom(device)
    return op


def _named(kind, inputs, args, outputs, device=None, inplace: Mapping[int, int] = {}):
    """Return the OperatorDef on the blobs in0, in1, ..., out0, out1, ..., in place where it must be."""
    places = {o: i for i, o in registry.find(kind).enforced} | {o: i for i, o in inplace.items()}
    names = [f"in{k}" for k in range(len(inputs))]
    return definition(
        kind, names, [names[places[o]] if o in places else f"out{o}" for o in range(outputs)], args, device
    )


def _feed(workspace: Workspace, inputs: Arrays) -> None:
    for k, value in enumerate(inputs):
        if value is not None:
            workspace.feed(f"in{k}", np.asarray(value))


def run(
    kind: str,
    inputs: Arrays,
    args: Mapping[str, Any] = {},
    outputs: int = 1,
    device=None,
    inplace: Mapping[int, int] = {},
) -> list[np.ndarray]:
    """Run an operator on the blobs in0, in1, ... and return its first outputs; an input None is a blob that holds nothing.

    Outputs are blobs out0, out1, ...; those that must be in place, and those of `inplace` ({input: output}), are the
    inputs themselves.
    """
    op = _named(kind, inputs, args, outputs, device, inplace)
    workspace = Workspace()
    _feed(workspace, inputs)
    runner.run_operator(workspace, op)
    return [workspace.fetch(name) for name in op.output]


def check(
    kind: str, inputs: Arrays, expected: Sequence[Any], args: Mapping[str, Any] = {}, rtol=1e-5, atol=1e-6
) -> None:
    """Compare an operator's outputs with what they must be (None: anything), in values, shapes and dtypes."""
    found = run(kind, inputs, args, len(expected))
    for k, (have, want) in enumerate(zip(found, expected)):
        if want is not None:
            want = np.asarray(want)
            assert have.shape == want.shape, f"output {k} of {kind}"
            if want.dtype.kind in "iub":
                assert have.dtype.kind in "iub"
                np.testing.assert_array_equal(have, want, err_msg=f"output {k} of {kind}")
            else:
                np.testing.assert_allclose(have, want, rtol=rtol, atol=atol, err_msg=f"output {k} of {kind}")


def check_places(kind: str, inputs: Arrays, args: Mapping[str, Any] = {}, outputs: int = 1) -> None:
    """Compare each output in the place of an input with the one of its own, and inputs in another order of memory."""
    expected = run(kind, inputs, args, outputs)
    record = registry.find(kind)
    pairs = [p for p in record.inplace - record.enforced if p[0] < len(inputs) and p[1] < outputs]
    for i, o in pairs:
        for have, want in zip(run(kind, inputs, args, outputs, inplace={i: o}), expected):
            np.testing.assert_array_equal(have, want, err_msg=f"{kind} with output {o} in the place of input {i}")
    turned = [v if v is None else np.asarray(v).T.copy().T for v in inputs]
    for have, want in zip(run(kind, turned, args, outputs), expected):
        np.testing.assert_array_equal(have, want, err_msg=f"{kind} of inputs that are not contiguous")


def check_again(kind: str, first: Arrays, second: Arrays, args: Mapping[str, Any] = {}, outputs: int = 1) -> None:
    """Run one net on inputs of one shape, of another, and of the first again; each as if it were alone."""
    op = _named(kind, first, args, outputs)
    workspace = Workspace()
    _feed(workspace, first)
    net = runner.create_net(workspace, caffe2_pb2.NetDef(name="net", op=[op]))
    for inputs in (first, first, second, first):
        _feed(workspace, inputs)
        net.run()
        for name, want in zip(op.output, run(kind, inputs, args, outputs)):
            np.testing.assert_array_equal(workspace.fetch(name), want, err_msg=f"{name} of {kind}")


def refused(kind: str, inputs: Arrays, words: str, args: Mapping[str, Any] = {}, outputs: int = 1) -> None:
    """Check that an operator refuses these inputs, in words that match, and names itself and its blobs."""
    with pytest.raises(OperatorError, match=words) as raised:
        run(kind, inputs, args, outputs)
    assert kind in str(raised.value)
    assert not inputs or "in0" in str(raised.value)


def floats(*shape: int, seed: int = 0, low: float | None = None, high: float = 1.0) -> np.ndarray:
    """Return normal random numbers, or with `low` uniform ones of [low, high), float32."""
    rng = np.random.default_rng([seed, *shape])
    values = rng.standard_normal(shape) if low is None else rng.uniform(low, high, shape)
    return np.asarray(values, np.float32)
