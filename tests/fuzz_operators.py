"""Operators with operands and arguments that do not fit: run as a script, prints what went wrong.

    python fuzz_operators.py SEED TRIALS [TYPE ...]

Recorded cases are changed a little (dtypes, shapes, values, arguments, numbers of operands); each must work, or raise an
error that names the operator within a second.
"""

import itertools
import json
import os
import resource
import sys
import tempfile
import time
import warnings

import golden_cases
import numpy as np

from caffe2lite.engine import runner
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import registry
from caffe2lite.proto import caffe2_pb2

DTYPES = ("float32", "float64", "float16", "int32", "int64", "uint8", "bool", "object")
NUMBERS = (-(2**31), -100, -2, -1, 0, 1, 2, 3, 7, 100, 2**31 - 1, 2**62)
FLOATS = (float("nan"), float("inf"), -1.0, 0.0, 1e-38, 0.5, 1e30)
FOREIGN = {"collectives", "nccl", "stores"}  # they look for other processes
MEANT = {"Crash", "While", "ONNXWhile"}  # ends the process; loops as long as a changed condition says
NESTED = {"If", "While", "Do", "ONNXWhile", "RecurrentNetwork", "RecurrentNetworkGradient"}  # name the operator within
SECONDS = 1.0


def array(rng, shape, dtype):
    if dtype == "object":
        return np.array([b"text"] * int(np.prod(shape)), object).reshape(shape)
    if np.dtype(dtype).kind == "f":
        values = rng.standard_normal(shape)
        if rng.random() < 0.3 and values.size:
            values.reshape(-1)[rng.integers(values.size)] = rng.choice(FLOATS[:3])
        return values.astype(dtype)
    low, high = ((0, 3), (-2, 5), (-(2**31), 2**31 - 1))[rng.integers(3)] if dtype != "uint8" else (0, 256)
    return rng.integers(low, high, shape).astype(dtype)


def shape_near(rng, shape):
    shape = list(shape)
    kind = rng.integers(5)
    if kind == 0 and shape:
        del shape[rng.integers(len(shape))]
    elif kind == 1:
        shape.insert(rng.integers(len(shape) + 1), int(rng.integers(0, 4)))
    elif kind == 2 and shape:
        shape[rng.integers(len(shape))] = int(rng.integers(0, 6))
    elif kind == 3:
        shape = []
    else:
        shape = shape[::-1]
    return tuple(shape)


def change_operand(rng, workspace, name):
    blob = workspace.get_blob(name)
    value = blob.value
    if not isinstance(value, np.ndarray):
        workspace.feed(name, array(rng, (2, 3), "float32"))
        return
    kind = rng.integers(3)
    dtype = value.dtype.name if value.dtype != object else "object"
    if kind == 0:
        workspace.feed(name, array(rng, value.shape, DTYPES[rng.integers(len(DTYPES))]))
    elif kind == 1:
        workspace.feed(name, array(rng, shape_near(rng, value.shape), dtype))
    else:
        workspace.feed(name, array(rng, value.shape, dtype))


def change_argument(rng, op, record):
    names = [a.name for a in op.arg] + list(record.args)
    if not names:
        return
    name = names[rng.integers(len(names))]
    kept = [a for a in op.arg if a.name != name]
    had = next((a for a in op.arg if a.name == name), None)
    del op.arg[:]
    op.arg.extend(kept)
    kind = record.args[name].kind if name in record.args else "int"
    if rng.random() < 0.1 or (had is not None and rng.random() < 0.1):
        return
    arg = op.arg.add(name=name)
    if rng.random() < 0.1:
        kind = ("int", "float", "str", "list[int]")[rng.integers(4)]
    if kind in ("int", "bool"):
        arg.i = int(NUMBERS[rng.integers(len(NUMBERS))])
    elif kind == "float":
        arg.f = FLOATS[rng.integers(len(FLOATS))]
    elif kind in ("str", "bytes"):
        arg.s = (b"", b"NHWC", b"nonsense")[rng.integers(3)]
    elif kind == "list[float]":
        arg.floats.extend(FLOATS[rng.integers(len(FLOATS))] for _ in range(rng.integers(4)))
    elif kind == "list[str]":
        arg.strings.extend([b"a"] * int(rng.integers(4)))
    else:
        arg.ints.extend(int(NUMBERS[rng.integers(len(NUMBERS))]) for _ in range(rng.integers(5)))


def change_count(rng, op, workspace):
    kind = rng.integers(4)
    if kind == 0 and op.input:
        del op.input[-1]
    elif kind == 1:
        workspace.feed("extra", array(rng, (2,), "float32"))
        op.input.append("extra")
    elif kind == 2 and op.output:
        del op.output[-1]
    else:
        op.output.append("more")


def made_up(rng, record):
    """(workspace, OperatorDef) with operands at random, for a type without recorded cases."""
    workspace = Workspace()
    op = caffe2_pb2.OperatorDef(type=record.name)
    count = min(record.max_inputs, max(record.min_inputs, len(record.inputs)))
    for k in range(count):
        accepted = record.types.get(min(k, len(record.inputs) - 1), ("float32",))
        dtype = accepted[0] if accepted[0] != "=" else "float32"
        workspace.feed(f"in{k}", array(rng, tuple(rng.integers(0, 4, rng.integers(0, 4))), dtype))
        op.input.append(f"in{k}")
    enforced = {o: i for i, o in record.enforced}
    for o in range(max(record.min_outputs, min(len(record.outputs), record.max_outputs))):
        i = enforced.get(o)
        op.output.append(op.input[i] if i is not None and i < len(op.input) else f"out{o}")
    return workspace, op


def trial(rng, record, recorded):
    """What went wrong in one trial; None where nothing did."""
    if recorded and rng.random() < 0.8:
        try:
            workspace, op = golden_cases.load(recorded[rng.integers(len(recorded))])
        except RuntimeError:
            return None
    else:
        workspace, op = made_up(rng, record)
    for _ in range(int(rng.integers(1, 4))):
        kind = rng.random()
        if kind < 0.45 and op.input:
            name = op.input[rng.integers(len(op.input))]
            if workspace.get_blob(name) is not None:
                change_operand(rng, workspace, name)
        elif kind < 0.9:
            change_argument(rng, op, record)
        else:
            change_count(rng, op, workspace)
    start = time.process_time()
    told = None
    try:
        runner.run_operator(workspace, op)
    except (RuntimeError, MemoryError) as e:
        named = record.name in str(e) or (record.name in NESTED and "enforce fail in" in str(e))
        if not named and not isinstance(e, MemoryError):
            told = f"an error that does not name the operator: {type(e).__name__}: {e}"
    except Exception as e:
        told = f"{type(e).__name__}: {e}"
    took = time.process_time() - start
    if took > SECONDS:
        told = f"{took:.1f} seconds"
    return None if told is None else f"{told}\n  {describe(op, workspace)}"


def describe(op, workspace):
    operands = []
    for name in op.input:
        blob = workspace.get_blob(name)
        value = getattr(blob, "value", None)
        operands.append(
            f"{name}: {value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else f"{name}: {value!r}"
        )
    return f"{', '.join(operands)} -> {list(op.output)} {' '.join(str(op.arg).split())[:600]}"


def main():
    seed, trials, *kinds = sys.argv[1:]
    warnings.simplefilter("ignore")
    space = 1 << 30
    with open("/proc/self/statm") as f:
        space += int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        have = set(golden_cases.types("operators"))
        for kind in kinds or registry.names():
            record = registry.find(kind)
            if record.module.rpartition(".")[2] in FOREIGN or kind in MEANT:
                continue
            print(json.dumps(["", kind]), flush=True)  # the last one before a crash is to blame
            recorded = (
                [f for _, f in itertools.islice(golden_cases.cases("operators", kind), 10)] if kind in have else []
            )
            rng = np.random.default_rng([int(seed), *kind.encode()])
            for k in range(int(trials)):
                wrong = trial(rng, record, recorded)
                if wrong:
                    print(json.dumps([f"{kind}, trial {k}", wrong]), flush=True)


if __name__ == "__main__":
    main()
