"""Compare whole programs over caffe2.python with genuine Caffe2: nets, blobs, values, refusals, files and what is printed.

    python tools/programs.py --genuine PYTHON [--seed 1] [--count 1000] [--keep FILE] [FAMILY ...]

Programs are lists of small steps, drawn at random by the families of tools/program_families.  PYTHON, an interpreter
that imports genuine Caffe2, runs them, and so does this one (tests/programs_worker.py).  Of programs that differ alike
one is shown, without the steps that the difference does not need; those that tools/program_families/known.py has a
reason for are counted.  --keep adds programs on which both agree, small ones,
to a file for the tests, with what genuine Caffe2 made of them.
"""

import argparse
import collections
import concurrent.futures
import gzip
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tools")]

import program_families  # noqa: E402
import program_results as compare  # noqa: E402
from program_families import known  # noqa: E402

from caffe2lite.proto import caffe_pb2  # noqa: E402

WORKER = ROOT / "tests" / "programs_worker.py"
LARGEST = 4000  # bytes of a result that is kept
MOST = 38  # programs of a family that are kept
BATCH = 500


class Interpreter:
    """A process that runs programs, one after the other."""

    def __init__(self, python, folder, *arguments):
        self.process = subprocess.Popen(
            [python, str(WORKER), *arguments],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, steps):
        """What came of a program."""
        self.process.stdin.write(json.dumps(steps) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def run_all(self, programs):
        """What came of each."""
        return [self.run(steps) for steps in programs]


class Both:
    """Genuine Caffe2's interpreter and this one, at the same time."""

    def __init__(self, genuine, folder):
        caffe = pathlib.Path(folder, "caffe.pb")  # genuine Caffe2 has no messages of Caffe 1
        caffe.write_bytes(caffe_pb2.DESCRIPTOR.serialized_pb)
        self.sides = [Interpreter(genuine, folder, str(caffe)), Interpreter(sys.executable, folder)]
        self.pool = concurrent.futures.ThreadPoolExecutor(2)

    def run(self, programs):
        """[(there, here)] of programs."""
        return list(zip(*self.pool.map(lambda side: side.run_all(programs), self.sides)))


def differ(pair):
    """The first difference of a pair of results, or None."""
    there, here = map(compare.outcome, pair)
    if isinstance(there, str):
        return None  # the process of genuine Caffe2 ended: nothing to compare with
    return compare.difference(there, here)


def kind_of(text):
    """What differences that are alike have in common."""
    text = re.sub(r"\d+", "#", text)
    return re.sub(r"/blobs/[^:]*", "/blobs/…", text)[:160]


def shrink(both, steps, kind):
    """The steps that a difference of this kind needs."""
    for i in reversed(range(len(steps))):
        shorter = steps[:i] + steps[i + 1 :]
        found = differ(*both.run([shorter]))
        if found and kind_of(found) == kind:
            steps = shorter
    return steps


def report(both, failures, per_kind):
    """Show one small program of each kind of difference."""
    kinds = collections.defaultdict(list)
    for family, steps, text in failures:
        kinds[family, kind_of(text)].append((len(steps), steps, text))
    for (family, kind), found in sorted(kinds.items(), key=lambda item: -len(item[1]))[:per_kind]:
        _, steps, text = min(found, key=lambda f: f[0])
        print(f"--- {family}: {len(found)} programs\n    {text}")
        for step in shrink(both, steps, kind):
            if step.startswith("from caffe2."):
                continue  # the same for all of a family
            print("    |", step.replace("\n", "\n    |   "))
    return len(kinds)


def keep(path, agreed):
    """Write programs with genuine Caffe2's outcome, as many of each family."""
    kept = collections.Counter()
    with gzip.GzipFile(path, "wb", mtime=0) as f:
        for family, steps, result in agreed:
            kept[family] += 1
            if kept[family] > MOST:
                continue
            f.write(json.dumps([family, steps, rounded(result)], separators=(",", ":")).encode() + b"\n")


def rounded(x):
    """Numbers to as many digits as are compared."""
    if isinstance(x, float):
        return float(f"{x:.5g}")
    if isinstance(x, list):
        return [rounded(v) for v in x]
    return {k: rounded(v) for k, v in x.items()} if isinstance(x, dict) else x


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--genuine", required=True, help="an interpreter that imports genuine Caffe2")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000, help="programs, in equal shares of the families")
    parser.add_argument("--show", type=int, default=20, help="kinds of differences that are shown")
    parser.add_argument(
        "--errors", type=int, default=0, help="messages of genuine Caffe2 that are shown, the frequent ones"
    )
    parser.add_argument("--keep", type=pathlib.Path, help="file for small programs on which both agree")
    parser.add_argument("families", nargs="*", help=f"of {', '.join(sorted(program_families.FAMILIES))}")
    args = parser.parse_args()
    names = args.families or sorted(program_families.FAMILIES)
    both = Both(args.genuine, tempfile.mkdtemp())
    failures, agreed, said, reasons = [], [], collections.Counter(), collections.Counter()
    counts = {name: collections.Counter() for name in names}
    for begin in range(0, args.count, BATCH):
        drawn = [draw(args.seed, names, i) for i in range(begin, min(args.count, begin + BATCH))]
        for (family, steps), pair in zip(drawn, both.run([steps for _, steps in drawn])):
            counts[family]["programs"] += 1
            if isinstance(pair[0], str):
                counts[family]["ended"] += 1  # the process of genuine Caffe2 did: nothing to compare with
                continue
            if pair[0]["errors"]:
                counts[family]["errors"] += 1
                said.update((family, e[1][:150]) for e in pair[0]["errors"].values())
            text = differ(pair)
            why = text and isinstance(pair[1], dict) and known.reason_of(text, *pair)
            if why:
                counts[family]["known"] += 1
                reasons[why] += 1
            elif text:
                counts[family]["different"] += 1
                failures.append((family, steps, text))
                print(f"{family}: {text[:200]}", file=sys.stderr, flush=True)
            elif args.keep and len(json.dumps(compare.outcome(pair[0]))) < LARGEST:
                agreed.append((family, steps, compare.outcome(pair[0])))
    kinds = report(both, failures, args.show)
    for (family, text), n in said.most_common(args.errors):
        print(f"{n:5} {family}: {text}")
    for why, n in reasons.most_common():
        print(f"{n:5} known: {why}")
    for name, count in counts.items():
        print(
            f"{name:24} {count['programs']:6} programs {count['different']:5} different {count['known']:4} known "
            f"{count['ended']:4} ended genuine {count['errors']:5} with errors"
        )
    if args.keep:
        keep(args.keep, agreed)
    print(
        json.dumps({"programs": args.count, "different": len(failures), "known": sum(reasons.values()), "kinds": kinds})
    )


def draw(seed, names, i):
    """(family, steps) of the program of a number."""
    family = names[i % len(names)]
    return family, program_families.FAMILIES[family](random.Random(f"{seed} {family} {i // len(names)}"))


if __name__ == "__main__":
    main()
