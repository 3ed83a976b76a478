"""Run every operator on operands that do not fit, on each backend, and tell what went wrong.

    python tools/hostile_operands.py [--seed 1] [--cases 100] [--jobs 2] [--single] [TYPE ...]

Half of the cases are recorded ones of tests/golden with several changes, half are made up of what the operator's record
says: ranks, dtypes, emptiness, values (NaN and infinities too), lengths, indices, arguments, numbers of operands.  Each
runs plain, a second time into outputs full of garbage, compiled by Numba whatever its size, and on an emulated GPU.
Found are: a process that dies or does not end, an error in Python's or NumPy's words, an error without the operator's
name, an input that has changed, a result that another backend does not give (rounding aside), memory left unwritten.
With NUMBA_BOUNDSCHECK=1 (and a NUMBA_CACHE_DIR of its own, since what is kept on disk has no checks) an index beyond an
array in a compiled loop is an IndexError, and found.

With --single the cases are four recorded ones with one change each, all that there are: every operand with every type,
with a dimension more, less, smaller or larger, with every extreme value; every argument with every extreme value.

The last line is a JSON object with the numbers of cases, runs and findings.
"""

import argparse
import collections
import itertools
import json
import linecache
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import fuzz_operators as fuzz  # noqa: E402
import golden_cases  # noqa: E402
import numpy as np  # noqa: E402

from caffe2lite.devices import emulated  # noqa: E402
from caffe2lite.engine import runner, serialize  # noqa: E402
from caffe2lite.engine.errors import EngineError  # noqa: E402
from caffe2lite.engine.workspace import Workspace  # noqa: E402
from caffe2lite.ops.kit import compiled, registry  # noqa: E402
from caffe2lite.proto import caffe2_pb2  # noqa: E402

PACKAGE = str(ROOT / "caffe2lite")
SECONDS = 60  # for one case on all backends, and to compile a loop
DTYPES = ("float32", "float32", "float32", "float64", "float16", "int32", "int64", "uint8", "int8", "bool", "object")
VALUES = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5)
NUMBERS = (-(2**62), -(2**31), -7, -2, -1, 0, 1, 2, 3, 4, 5, 8, 100, 2**31 - 1, 2**40)
LEFT_OUT = fuzz.MEANT | {"FreeBlobs", "PythonDLPack", "Python", "DataCouple"}
# Caffe2 has these for the CPU alone, and so are they here (see tests/test_golden.py).
HOST_ONLY = {"AtomicAppend", "CTCBeamSearchDecoder", "CTCGreedyDecoder", "If", "While", "Do", "PackRecords"}


# ---- cases ---------------------------------------------------------------------------------------------------------


def values(rng, shape, dtype):
    """An array of that type with small numbers, and sometimes with odd ones."""
    if dtype == "object":
        return np.array([rng.choice([b"", b"text", b"\xff"]) for _ in range(int(np.prod(shape)))], object).reshape(
            shape
        )
    kind = np.dtype(dtype).kind
    if kind == "f":
        made = (rng.standard_normal(shape) * rng.choice([1, 3])).astype(dtype)
        for _ in range(int(rng.integers(3)) if made.size and rng.random() < 0.4 else 0):
            made.reshape(-1)[rng.integers(made.size)] = rng.choice(VALUES)
        return made
    low, high = ((0, 2), (0, 4), (-1, 4), (-3, 7))[rng.integers(4)]
    made = rng.integers(0 if kind in "ub" else low, high, shape).astype(dtype)
    if made.size and kind == "i" and rng.random() < 0.15:
        edge = np.iinfo(dtype)
        made.reshape(-1)[rng.integers(made.size)] = rng.choice([edge.min, edge.max, 1 << 30 if edge.bits > 31 else 100])
    return made


def random_shape(rng):
    return tuple(int(d) for d in rng.choice([0, 1, 1, 2, 2, 3, 4, 5], int(rng.choice([0, 1, 1, 2, 2, 3, 4, 5]))))


def made_up(rng, record):
    """(contents, OperatorDef) of operands at random, whose types are mostly such as the record takes."""
    most = min(record.max_inputs, 8)
    count = int(rng.integers(record.min_inputs, max(record.min_inputs, min(most, len(record.inputs) + 2)) + 1))
    if record.input_counts:
        count = int(rng.choice(sorted(c for c in record.input_counts if c <= max(8, min(record.input_counts)))))
    shapes = [random_shape(rng) for _ in range(2)]
    contents, dtypes = {}, []
    op = caffe2_pb2.OperatorDef(type=record.name)
    for k in range(count):
        accepted = record.types.get(min(k, len(record.inputs) - 1) if record.inputs else 0, DTYPES)
        dtype = dtypes[int(accepted[1])] if accepted[0] == "=" else accepted[rng.integers(len(accepted))]
        if rng.random() < 0.03:
            dtype = DTYPES[rng.integers(len(DTYPES))]
        dtypes.append(dtype)
        shape = shapes[0] if rng.random() < 0.5 else shapes[1] if rng.random() < 0.5 else random_shape(rng)
        if rng.random() < 0.3:
            shape = shape[: rng.integers(len(shape) + 1)]
        contents[f"in{k}"] = values(rng, shape, dtype)
        op.input.append(f"in{k}")
    least, most = record.min_outputs, max(record.min_outputs, min(record.max_outputs, len(record.outputs) + 1))
    outputs = int(rng.integers(least, most + 1)) if rng.random() < 0.3 else max(least, min(most, len(record.outputs)))
    enforced = {o: i for i, o in record.enforced}
    for o in range(outputs):
        i = enforced.get(o)
        op.output.append(op.input[i] if i is not None and i < count else f"out{o}")
    free = [
        (i, o) for i, o in record.inplace - record.enforced if 0 <= i < count and 0 <= o < outputs and o not in enforced
    ]
    if free and rng.random() < 0.3:
        i, o = free[rng.integers(len(free))]
        op.output[o] = op.input[i]
    for arg in record.args.values():
        if rng.random() < 0.3 or arg.default is registry.arguments.REQUIRED:
            argument(rng, op, arg.name, arg.kind)
    return contents, op


def argument(rng, op, name, kind):
    """Set an argument to a value at random."""
    kept = [a for a in op.arg if a.name != name]
    del op.arg[:]
    op.arg.extend(kept)
    if rng.random() < 0.1 and kept:
        return
    arg = op.arg.add(name=name)
    number = lambda: int(NUMBERS[rng.integers(len(NUMBERS))]) if rng.random() < 0.3 else int(rng.integers(-1, 5))
    if kind in ("int", "bool"):
        arg.i = number() if kind == "int" else int(rng.integers(2))
    elif kind == "float":
        arg.f = float(rng.choice([*VALUES, 2.0, 1e30, 1e-30]) if rng.random() < 0.4 else rng.random() * 3)
    elif kind in ("str", "bytes"):
        arg.s = rng.choice([b"", b"NHWC", b"NCHW", b"nonsense", b"linear", b"in0"])
    elif kind == "list[float]":
        arg.floats.extend(float(v) for v in np.sort(rng.standard_normal(rng.integers(5))))
    elif kind in ("list[str]", "list[bytes]"):
        arg.strings.extend(rng.choice([b"a", b"b", b"c:lengths"], int(rng.integers(4))).tolist())
    elif kind.startswith("list["):
        arg.ints.extend(number() for _ in range(int(rng.integers(5))))
    else:
        arg.i = number()


def recorded_case(rng, record, recorded):
    """(contents, OperatorDef): a recorded case with up to three changes."""
    held, op = recorded[rng.integers(len(recorded))]
    contents, changed = dict(held), caffe2_pb2.OperatorDef()
    changed.CopyFrom(op)
    for _ in range(int(rng.integers(0, 4))):
        kind = rng.random()
        names = [n for n in changed.input if isinstance(contents.get(n), np.ndarray)]
        if kind < 0.6 and names:
            name = names[rng.integers(len(names))]
            contents[name] = changed_array(rng, contents[name])
        elif kind < 0.85 and (record.args or changed.arg):
            named = [a.name for a in changed.arg] + list(record.args)
            name = named[rng.integers(len(named))]
            argument(rng, changed, name, record.args[name].kind if name in record.args else "int")
        elif kind < 0.9 and changed.input:
            del changed.input[-1]
        elif kind < 0.95:
            changed.input.append("extra")
            contents["extra"] = values(rng, random_shape(rng), "float32")
        elif changed.output:
            del changed.output[-1]
    return contents, changed


def changed_array(rng, array):
    dtype = "object" if array.dtype == object else array.dtype.name
    kind = rng.integers(6)
    if kind == 0:
        return values(rng, array.shape, DTYPES[rng.integers(len(DTYPES))])
    if kind == 1:
        return values(rng, fuzz.shape_near(rng, array.shape), dtype)
    if kind == 2 and array.ndim:
        shape = list(array.shape)
        shape[rng.integers(len(shape))] = int(rng.choice([0, 1, 2, 7]))
        return values(rng, tuple(shape), dtype)
    if kind == 3 and array.size:
        made = array.copy()
        odd = values(rng, (1,), dtype)
        made.reshape(-1)[rng.integers(array.size)] = odd[0]
        return made
    if kind == 4 and array.ndim and array.shape[0]:
        return array[: rng.integers(len(array))].copy()
    return values(rng, array.shape, dtype)


def single_changes(rng, record, recorded):
    """(contents, OperatorDef) of each recorded case with one change, for all changes that there are."""
    for contents, op in recorded:
        for name in dict.fromkeys(op.input):
            if isinstance(contents.get(name), np.ndarray):
                for made in arrays_near(rng, contents[name]):
                    yield {**contents, name: made}, op
        for name in sorted({a.name for a in op.arg} | set(record.args)):
            kind = record.args[name].kind if name in record.args else "int"
            numbers = [n for n in VALUES if kind == "float"] or [n for n in NUMBERS if kind in ("int", "list[int]")]
            for number in numbers:
                changed = caffe2_pb2.OperatorDef()
                changed.CopyFrom(op)
                arg = next((a for a in changed.arg if a.name == name), None) or changed.arg.add(name=name)
                if kind == "float":
                    arg.f = number
                elif kind == "int":
                    arg.i = number
                else:
                    arg.ints[:] = [number, *arg.ints[1:]]
                yield contents, changed


def arrays_near(rng, array):
    """The array in other types, in other shapes, and with an extreme value in it."""
    dtype = "object" if array.dtype == object else array.dtype.name
    for other in dict.fromkeys(DTYPES):
        if other != dtype:
            yield values(rng, array.shape, other)
    for k, size in enumerate(array.shape):
        for changed in {0, 1, size - 1, size + 1} - {size, -1}:
            yield values(rng, (*array.shape[:k], changed, *array.shape[k + 1 :]), dtype)
    for shape in {(*array.shape, 1), (1, *array.shape), array.shape[1:], array.shape[:-1], array.shape[::-1]}:
        if shape != array.shape:
            yield values(rng, shape, dtype)
    kind = array.dtype.kind
    extremes = VALUES[:3] if kind == "f" else ()
    if kind == "i":
        edge = np.iinfo(dtype)
        extremes = (edge.min, -1, 0, 1, 1 << 30 if edge.bits > 31 else 100, edge.max)
    for value in extremes if array.size else ():
        for at in {0, array.size - 1}:
            made = array.copy()
            made.reshape(-1)[at] = value
            yield made


def held(files):
    """({blob: its array, or its bytes where it is no tensor}, OperatorDef) of a recorded case; None where it cannot be read."""
    try:
        workspace, op = golden_cases.load(files)
    except (EngineError, ValueError):
        return None
    contents = {}
    for k, name in enumerate(op.input):
        blob = workspace.get_blob(name)
        if blob is not None and blob.value is not None:
            contents[name] = blob.value.copy() if blob.is_tensor else files[f"in_{k}.blob"]
    return contents, op


# ---- runs ----------------------------------------------------------------------------------------------------------


def workspace_of(contents, op, record, gpu):
    workspace = Workspace()
    option = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CUDA) if gpu else None
    for name, content in contents.items():
        if isinstance(content, bytes):
            serialize.read(workspace.create_blob(name), content)
            continue
        at = [
            record.inputs[min(k, len(record.inputs) - 1)] for k, n in enumerate(op.input) if n == name and record.inputs
        ]
        host = content.dtype == object or any(o in record.host for o in at)
        workspace.feed(name, content, None if host else option)
    for name in op.input:
        if workspace.get_blob(name) is None:
            workspace.create_blob(name)
    return workspace


def outcome(workspace, op):
    """(error or None, {output: array})."""
    try:
        runner.run_operator(workspace, op)
    except Exception as e:
        return e, {}
    made = {}
    for name in op.output:
        blob = workspace.get_blob(name)
        if blob is not None and blob.is_tensor and op.type != "PackRecords":  # whose records cannot be fetched
            made[name] = workspace.fetch(name)
    return None, made


def differs(a, b):
    """How two results differ beyond rounding; None where they do not."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
    if a.dtype.kind != "f":
        same = a == b
    else:
        x, y = a.astype("d"), b.astype("d")
        scale = max((float(np.abs(v[np.isfinite(v)]).max(initial=0)) for v in (x, y)), default=0)
        loose = 2e-2 if a.dtype == np.float16 else 1e-3
        with np.errstate(all="ignore"):
            same = np.isclose(x, y, rtol=loose, atol=loose * min(scale, 1e30) * 0.1 + 1e-30, equal_nan=True)
    if np.all(same):
        return None
    at = tuple(np.argwhere(~np.asarray(same))[0].tolist())
    return f"at {at}: {a[at]!r} and {b[at]!r}"


def same_bytes(a, b):
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and (a.tobytes() == b.tobytes() if a.dtype != object else a.tolist() == b.tolist())
    )


def in_foreign_words(error):
    """Where an error comes from that this package did not raise itself; None for one of its own."""
    cause = error
    while isinstance(cause, EngineError) and cause.__context__ is not None:  # the engine adds where it was
        cause = cause.__context__
    trace = cause.__traceback__
    if trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    path, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
    text = linecache.getline(path, line).strip()
    if path.startswith(PACKAGE) and text.startswith("raise"):
        return None
    return f"{type(cause).__name__} at {path.removeprefix(str(ROOT) + '/')}:{line}: {str(cause)[:150]!r}"


class Trial:
    """One case on all backends; what went wrong is in `found`, as (kind, text)."""

    def __init__(self, record, contents, op):
        self.record, self.contents, self.op = record, contents, op
        self.found, self.runs = [], 0
        op.device_option.random_seed = 5
        compiled.LEAST = 1 << 62
        self.plain = self.run("plain", again=not record.stateful)
        if ("NUMBA", registry.CPU) in record.kernels and compiled.available():
            compiled.LEAST = 0
            self.compare("compiled", self.run("compiled"))
            compiled.LEAST = 1 << 62
        if (
            record.name not in HOST_ONLY
            and not any(_of_strings(c) for c in contents.values())
            and not record.name.startswith("Int8")
        ):
            self.compare("GPU", self.run("GPU", gpu=True))

    def run(self, where, gpu=False, again=False):
        record, op = self.record, self.op
        if gpu:
            op = caffe2_pb2.OperatorDef()
            op.CopyFrom(self.op)
            op.device_option.device_type, op.device_option.device_id = caffe2_pb2.CUDA, 0
        workspace = workspace_of(self.contents, op, record, gpu)
        error, made = outcome(workspace, op)
        self.runs += 1
        if error is not None:
            self.judge(where, error)
        written = set() if error else set(op.output)
        for name, content in self.contents.items():
            blob = workspace.get_blob(name)
            by_design = not error and (record.aliases or record.stateful)  # what it mutates its record does not say
            if name in written or isinstance(content, bytes) or by_design or record.name in fuzz.NESTED:
                continue
            if blob is None or not blob.is_tensor or not same_bytes(workspace.fetch(name), content):
                self.found.append(("changed input", f"{where}: {name}" + (f" after {error}" if error else "")))
        if again and not error and not set(op.output) & set(op.input):
            for name in op.output:
                poison(workspace.get_blob(name))
            error, second = outcome(workspace, op)
            self.runs += 1
            if error:
                self.found.append(("second run", f"{where}: {error}"))
            for name, array in second.items():
                if name in made and (how := differs(made[name], array)):
                    self.found.append(("second run", f"{where}: {name} {how}"))
        return error, made

    def judge(self, where, error):
        if not isinstance(error, (EngineError, MemoryError)):
            self.found.append(("error", f"{where}: {type(error).__name__}: {error}"))
        elif (told := in_foreign_words(error)) is not None:
            self.found.append(("foreign words", f"{where}: {told}"))
        elif self.record.name not in str(error) and self.record.name not in fuzz.NESTED:
            self.found.append(("no name", f"{where}: {error}"))

    def compare(self, where, other):
        """Compare with the plain run; a GPU may take other types, as the record says."""
        (error, made), (theirs, results) = self.plain, other
        if (error is None) != (theirs is None):
            if where == "GPU" and self.other_types(theirs):
                return
            text = f"plain {error or 'runs'}; {where} {theirs or 'runs'}"
            self.found.append(("refused by one", text))
        if self.record.stateful:
            return
        for name, array in made.items():
            if name in results and (how := differs(array, results[name])):
                self.found.append(("other result", f"plain and {where}: {name} {how}"))

    def other_types(self, error):
        """Whether the GPU may well refuse what the CPU does not, or the other way round."""
        record, (plain, _) = self.record, self.plain
        if "strings cannot be on a GPU" in str(error) or "on the CPU here" in str(error) or "for the CPU" in str(plain):
            return True
        return record.types != record.cuda_types or any(isinstance(c, bytes) for c in self.contents.values())


def _of_strings(content):
    return isinstance(content, np.ndarray) and content.dtype == object


def poison(blob):
    if blob is not None and isinstance(blob.value, np.ndarray) and blob.value.dtype != object:
        blob.value.view("uint8" if blob.value.ndim else blob.value.dtype)[...] = 123


def describe(contents, op):
    operands = []
    for name in op.input:
        content = contents.get(name)
        if isinstance(content, np.ndarray):
            text = f"{content.dtype}{list(content.shape)}"
            operands.append(f"{name}: {text}" + (f" {content.tolist()}" if content.size <= 8 else ""))
        else:
            operands.append(f"{name}: {'an object' if content else 'nothing'}")
    return f"{op.type}({', '.join(operands)}) -> {list(op.output)} {' '.join(str(op.arg).split())[:500]}"


# ---- processes -----------------------------------------------------------------------------------------------------


def child(seed, cases, single, first, kinds):
    """Run cases `first`, `first` + 1, … of the first type, then all of the others; a JSON line for each finding."""
    warnings.simplefilter("ignore")
    emulated.use(1)
    with open("/proc/self/statm") as f:
        space = (3 << 30) + int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    have = set(golden_cases.types("operators"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for kind in kinds:
            record = registry.find(kind)
            recorded = []
            if kind in have:
                files = (f for _, f in itertools.islice(golden_cases.cases("operators", kind), 12))
                recorded = [c for c in map(held, files) if c is not None]
            changes = (
                single_changes(np.random.default_rng([seed, *kind.encode()]), record, recorded[:4]) if single else None
            )
            for k in range(cases):
                if changes is not None and (change := next(changes, None)) is None:
                    break
                if k < first:
                    continue
                os.write(1, f"{json.dumps(['at', kind, k])}\n".encode())
                rng = np.random.default_rng([seed, k, *kind.encode()])
                if changes is not None:
                    contents, op = change
                else:
                    contents, op = recorded_case(rng, record, recorded) if recorded and k % 2 else made_up(rng, record)
                signal.setitimer(signal.ITIMER_REAL, SECONDS)
                try:
                    trial = Trial(record, contents, op)
                except (EngineError, ValueError) as e:  # what was made up cannot even be fed
                    if "feed" not in str(e) and "string" not in str(e):
                        raise
                    continue
                signal.setitimer(signal.ITIMER_REAL, 0)
                lines = [["ran", kind, k, trial.runs]]
                lines += [["found", kind, k, what, text, describe(contents, op)] for what, text in trial.found]
                os.write(1, "".join(json.dumps(line) + "\n" for line in lines).encode())
            first = 0


class Hunt:
    """The types shared among child processes."""

    def __init__(self, seed, cases, single, kinds, jobs):
        self.seed, self.cases, self.single = seed, cases, single
        self.left = collections.deque(kinds[i : i + 8] for i in range(0, len(kinds), 8))
        self.lock = threading.Lock()
        self.count = collections.Counter()
        threads = [threading.Thread(target=self.work) for _ in range(jobs)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def work(self):
        while True:
            with self.lock:
                if not self.left:
                    return
                kinds = self.left.popleft()
            first = 0
            while kinds:
                kinds, first = self.one(kinds, first)

    def one(self, kinds, first):
        """Run one child; (types, first case) that it has left undone."""
        script = [
            sys.executable,
            __file__,
            "--child",
            str(self.seed),
            str(self.cases),
            str(int(self.single)),
            str(first),
        ]
        script += kinds
        limited = {**os.environ, "CAFFE2LITE_LARGEST_RESULT": str(1 << 28), "CAFFE2LITE_NUMBA": "wait"}
        process = subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=limited)
        at = None
        errors = []
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
        reader.start()
        for line in process.stdout:
            if not line.startswith("["):
                continue  # of an operator that prints
            try:
                what, kind, k, *rest = json.loads(line)
            except ValueError:
                continue
            if what == "at":
                at = kind, k
                continue
            with self.lock:
                if what == "ran":
                    self.count["cases"] += 1
                    self.count["runs"] += rest[0]
                else:
                    self.count["findings"] += 1
                    print(f"{rest[0]}: {kind} {k}: {rest[1]}\n    {rest[2]}", flush=True)
        status = process.wait()
        reader.join()
        if status == 0 or at is None:
            if status:
                print(f"a child did not start: {errors[0][-2000:]}", flush=True)
                self.count["findings"] += 1
            return [], 0
        with self.lock:
            self.count["findings"] += 1
            print(f"ended with status {status}: {at[0]} {at[1]}: {errors[0][-700:]}", flush=True)
        kind, k = at
        return (kinds[kinds.index(kind) :], k + 1) if k + 1 < self.cases else (kinds[kinds.index(kind) + 1 :], 0)


def types():
    """All types that can be tried."""
    return [
        n for n in registry.names()
        if n not in LEFT_OUT and registry.find(n).module.rpartition(".")[2] not in fuzz.FOREIGN
    ]  # fmt: skip


def main():
    if sys.argv[1:2] == ["--child"]:
        seed, cases, single, first, *kinds = sys.argv[2:]
        return child(int(seed), int(cases), bool(int(single)), int(first), kinds)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, help="cases a type; 100, and with --single all")
    parser.add_argument("--single", action="store_true", help="all single changes of recorded cases")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("types", nargs="*")
    args = parser.parse_args()
    cases = args.cases or (1 << 30 if args.single else 100)
    hunt = Hunt(args.seed, cases, args.single, args.types or types(), args.jobs)
    print(json.dumps({"cases": hunt.count["cases"], "runs": hunt.count["runs"], "findings": hunt.count["findings"]}))
    sys.exit(hunt.count["findings"] > 0)


if __name__ == "__main__":
    main()
