"""Gradients in double precision: what an operator's maker writes, against differences of the forward operator.

Kernels are functions of arrays and do not care for the type; the engine, which does, is left out here.
"""

import numpy as np
import pytest

from caffe2lite.ops.kit import arguments, registry
from caffe2lite.ops.kit.gradient import Forward
from caffe2lite.proto import caffe2_pb2


class _Out:
    """Allocator of an output, in double precision where the operator's own is single."""

    def __call__(self, shape, dtype):
        return np.empty(shape, np.float64 if np.dtype(dtype) == np.float32 else dtype)

    def replaces(self, array):
        return False


def run(op, blobs):
    """Run an operator's plain kernel on {name: array}, where its outputs go too."""
    record = registry.get(op.type)
    args = arguments.parse(op.type, record.args, op.arg)
    inputs = [blobs[n] for n in op.input]
    allocators = tuple(_Out() for _ in op.output)
    if record.takes_out:
        args["out"] = allocators[0] if record.max_outputs == 1 else allocators
    result = record.kernels["", None](np, *inputs, **record.parameters(args))
    for name, value in zip(op.output, result if isinstance(result, tuple) else (result,)):
        blobs[name] = value


def check(kind, inputs, wanted, outputs=1, by=(0,), named=(), step=1e-6, tolerance=1e-5, **args):
    """Compare the gradient of a random projection of the outputs `by` with differences, for the inputs `wanted`.

    A maker may ask for gradients of further outputs: those are `named`, and without values.
    """
    rng = np.random.default_rng(7)
    op = caffe2_pb2.OperatorDef(type=kind, input=[f"x{i}" for i in range(len(inputs))])
    op.output.extend(f"y{i}" for i in range(outputs))
    for name, value in args.items():
        arguments.write(op.arg.add(), name, value)
    start = {f"x{i}": np.array(v) for i, v in enumerate(inputs)}
    blobs = {name: value.copy() for name, value in start.items()}
    run(op, blobs)
    weights = {f"y{i}": rng.standard_normal(blobs[f"y{i}"].shape) for i in by}

    def projection(name, value):
        mine = {n: v.copy() for n, v in {**start, name: value}.items()}
        run(op, mine)
        return sum(float((mine[n] * w).sum()) for n, w in weights.items())

    forward = Forward(op, [f"y{i}_g" if i in (*by, *named) else None for i in range(outputs)])
    made = list(registry.get(kind).gradient(forward))
    backward = {**blobs, **{n + "_g": w for n, w in weights.items()}}
    for g in made:
        if forward.copy_arguments:
            g.arg.extend(op.arg)
        run(g, backward)
    for i in wanted:
        name, value = f"x{i}", start[f"x{i}"]
        found = _dense(backward, forward.g_input[i], value.shape)
        assert found.shape == value.shape
        along = rng.standard_normal(value.shape)
        expected = (projection(name, value + step * along) - projection(name, value - step * along)) / (2 * step)
        assert float((found * along).sum()) == pytest.approx(expected, rel=tolerance, abs=tolerance), f"input {i}"


def _dense(blobs, gradient, shape):
    """Return a gradient as one array: a sparse one, (indices, values), added up."""
    if isinstance(gradient, str):
        return blobs[gradient]
    dense = np.zeros(shape)
    np.add.at(dense, blobs[gradient[0]], blobs[gradient[1]])
    return dense


def values(*shape, low=-1.0, high=1.0):
    """Return numbers that differ from each other and from 0, so that no kink is near."""
    rng = np.random.default_rng(sum(shape) + 3)
    n = int(np.prod(shape))
    grid = (np.arange(n) + 0.5) / n * (high - low) + low
    return rng.permutation(grid).reshape(shape)
