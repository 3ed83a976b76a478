"""Time the operator library against genuine Caffe2, and write docs/performance.md.

    PYTHON sweep.py --against GENUINE_PYTHON [--rounds 3] [--write docs/performance.md] [WORD ...]
    PYTHON sweep.py --measure [WORD ...]      JSON {case: [processor seconds, wall seconds]} for whatever `caffe2` PYTHON imports

A WORD picks the cases that hold it.  Everything runs on one thread.  A figure is the median of at least 7 runs after two
to warm up; in each round genuine, plain (without Numba) and fast (with it) take turns family by family, and the tables
show the median of the rounds' ratios.  The cases are in sweep_cases.py.
"""

import argparse
import ast
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import time

from sweep_cases import FAMILIES, REASONS

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
SIDES = {"genuine": {}, "plain": {"CAFFE2LITE_NUMBA": "0"}, "fast": {"CAFFE2LITE_NUMBA": "wait"}}


def cases():
    """{(family, title): line}."""
    return {
        (family, line.strip()): line.strip()
        for family, text in FAMILIES.items()
        for line in text.splitlines()
        if line.strip()
    }


def wanted(words):
    return {key: line for key, line in cases().items() if not words or any(w in line for w in words)}


# ---- one interpreter -------------------------------------------------------------------------------------------------


def values(spec, seed):
    """The array of an input: its shape, a letter and maybe a number."""
    import numpy as np

    shape, letter, number = re.fullmatch(r"([\dx]+?)([a-z])(\d*)", spec).groups()
    shape = tuple(map(int, shape.split("x")))
    count, most, draw = math.prod(shape), int(number or 0), np.random.RandomState(seed)
    if letter == "c":
        return np.full(shape, most, "int64" if shape == (1,) else "int32")
    if letter in "il":
        return draw.randint(0, most, shape).astype("int32" if letter == "i" else "int64")
    if letter == "u":
        return draw.permutation(most)[:count].astype("int32").reshape(shape)
    if letter == "s":
        return (np.arange(count) * most // count).astype("int32")
    if letter == "t":
        return np.array([f"key_{k}" for k in draw.randint(0, 1000, count)], object).reshape(shape)
    numbers = draw.rand(min(count, 1 << 20)).astype("f")
    numbers = np.resize(numbers, shape)
    if letter == "b":
        return numbers > 0.5
    return {"f": numbers - np.float32(0.5), "p": numbers + np.float32(0.05), "h": (numbers - 0.5).astype("float16")}[
        letter
    ]


def operator(text, before):
    """(OperatorDef, outputs that drive a gradient) of a part of a line; its inputs are fed."""
    from caffe2.python import core, workspace

    text, _, drivers = text.partition("@")
    text, _, outputs = text.partition(">")
    name, args, operands = re.fullmatch(r"\s*(\w+)(\(.*?\))?\s*(.*?)\s*", text).groups()
    keywords = ast.parse(f"f{args or '()'}", mode="eval").body.keywords
    inputs = []
    for k, spec in enumerate(operands.split()):
        inputs.append("before" if spec == "_" else f"in_{k}")
        if spec != "_":
            workspace.FeedBlob(inputs[-1], values(spec, k))
    made = [f"{'out' if before is not None else 'before'}_{k}" for k in range(int(outputs or 1))]
    if name in ("WeightedSum", "ScatterAssign"):
        made = inputs[:1]
    if before is None:
        made = ["before"]
    given = {k.arg: ast.literal_eval(k.value) for k in keywords}
    return core.CreateOperator(name, inputs, made, **given), [int(d) for d in drivers.replace(",", " ").split()]


def prepare(line):
    """(run, …) of a case: the operator's net, and its gradient's where it has one."""
    import numpy as np
    from caffe2.python import core, workspace

    workspace.ResetWorkspace()
    *first, last = line.split("|")
    if first:
        workspace.RunOperatorOnce(operator(first[0], None)[0])
    op, drivers = operator(last, "before")
    nets = [[op]]
    if drivers:
        workspace.RunOperatorOnce(op)
        gradients = [f"{out}_grad" if k in drivers else None for k, out in enumerate(op.output)]
        for out, gradient in zip(op.output, gradients):
            if gradient:
                shape = np.asarray(workspace.FetchBlob(out)).shape
                workspace.FeedBlob(gradient, np.full(shape, 0.5 if shape else 1, "f"))
        nets.append(core.GradientRegistry.GetGradientForOp(op, gradients)[0])
    runs = []
    for k, ops in enumerate(nets):
        net = core.Net(f"sweep_{k}")
        net.Proto().op.extend(ops)
        workspace.CreateNet(net, overwrite=True)
        runs.append(net.Proto().name)
    return runs


def clock(name):
    """[processor seconds, wall seconds] of a run of the net."""
    from caffe2.python import workspace

    workspace.RunNet(name)
    workspace.RunNet(name)
    spent = []
    while len(spent) < 7 or (sum(wall for _, wall in spent) < 0.1 and len(spent) < 1000):
        busy, began = time.process_time(), time.perf_counter()
        workspace.RunNet(name)
        spent.append((time.process_time() - busy, time.perf_counter() - began))
    return [statistics.median(column) for column in zip(*spent)]


def measure(words):
    from caffe2.python import core

    core.GlobalInit(["sweep", "--caffe2_log_level=2"])
    found = {}
    for (_, title), line in wanted(words).items():
        try:
            for name, ending in zip(prepare(line), ("", " gradient")):
                found[title.partition("@")[0].strip() + ending] = clock(name)
        except Exception as e:  # a case that cannot run has no figure, and says so
            print(f"{title}: {type(e).__name__}: {str(e)[:200]}", file=sys.stderr)
    return found


# ---- the table -------------------------------------------------------------------------------------------------------


def ask(python, side, words):
    command = [python, os.path.abspath(__file__), "--measure", *words]
    # OPENBLAS_CORETYPE and its kin slow today's NumPy down; they are set where an old library needs them.
    ours = {k: v for k, v in os.environ.items() if side == "genuine" or not k.startswith("OPENBLAS_")}
    done = subprocess.run(
        command, env={**ours, **ONE_THREAD, **SIDES[side]}, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def rounds_of(options):
    """{family: {case: [{side: [processor, wall]}, …]}}."""
    table = {}
    for turn in range(options.rounds):
        for family in FAMILIES:
            lines = [line for (f, _), line in wanted(options.words).items() if f == family]
            if not lines:
                continue
            order = list(SIDES) if turn % 2 == 0 else list(SIDES)[::-1]
            found = {side: ask(options.against if side == "genuine" else sys.executable, side, lines) for side in order}
            for case in found["genuine"]:
                if all(case in found[side] for side in SIDES):
                    rows = table.setdefault(family, {}).setdefault(case, [])
                    rows.append({side: found[side][case] for side in SIDES})
            print(f"round {turn + 1}: {family}", file=sys.stderr, flush=True)
    return table


def ratio(rounds, side, kind):
    return statistics.median(r[side][kind] / r["genuine"][kind] for r in rounds)


def mean_of(numbers):
    return math.exp(statistics.fmean(map(math.log, numbers)))


def report(table, options):
    """The lines of the document."""
    every = [rounds for rows in table.values() for rounds in rows.values()]
    yield "# Performance against Caffe2"
    yield ""
    yield f"Written by `python benchmarks/sweep.py --against GENUINE_PYTHON --rounds {options.rounds} --write docs/performance.md`"
    yield f"on {platform.machine()}, Python {platform.python_version()}, one thread. Ratios are this package's time over that of"
    yield "genuine Caffe2: below 1 it is faster. *Plain* is NumPy alone, *fast* with Numba (the extra `fast`)."
    yield "Compiled kernels are ready before the clock starts (`CAFFE2LITE_NUMBA=wait`). Where nothing says why a case is"
    yield "above 1, it is not known."
    yield ""
    yield "| | processor, fast | processor, plain | wall, fast | wall, plain |"
    yield "|---|---|---|---|---|"
    columns = [(side, kind) for kind in (0, 1) for side in ("fast", "plain")]
    yield "| geometric mean | " + " | ".join(f"{mean_of(ratio(r, *c) for r in every):.2f}" for c in columns) + " |"
    for most in (1, 2, 5):
        counts = (sum(ratio(r, *c) > most for r in every) for c in columns)
        yield f"| cases of {len(every)} above {most} | " + " | ".join(map(str, counts)) + " |"
    for family, rows in table.items():
        yield f"\n## {family}\n"
        yield "| case | genuine, µs | fast | plain | fast, wall | plain, wall | why above 1 |"
        yield "|---|---|---|---|---|---|---|"
        for case, rounds in sorted(rows.items(), key=lambda row: -ratio(row[1], "fast", 0)):
            numbers = [ratio(rounds, *c) for c in columns]
            genuine = statistics.median(r["genuine"][0] for r in rounds) * 1e6
            name = re.match(r"\w+", case.split("|")[-1].strip()).group()
            why = REASONS.get(name, "") if numbers[0] > 1.05 else ""
            yield (
                f"| `{case.replace('|', 'then')}` | {genuine:,.0f} | "
                + " | ".join(f"{n:.2f}" for n in numbers)
                + f" | {why} |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--against", metavar="GENUINE_PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", metavar="FILE", help="the document; without it, it is printed")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    if options.measure or not options.against:
        print(json.dumps(measure(options.words)))
        return
    text = "\n".join(report(rounds_of(options), options)) + "\n"
    if options.write:
        with open(options.write, "w", encoding="utf-8") as f:
            f.write(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
