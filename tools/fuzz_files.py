"""Damaged files through inspect and lint: nothing may crash, hang or eat memory.

    python tools/fuzz_files.py --count 200000 --seed 1 --log fuzz.jsonl FILE-OR-FOLDER…

Each case is a file of the given ones (binary, and nets also as text), cut, with bits flipped, bytes replaced, parts
doubled, or nothing but random bytes.  Case k of seed s is always the same: `--from k --count 1` repeats it.
Limits: 2 seconds of the processor a command (and 30 of the clock), 500 MB for the whole process.
"""

import argparse
import contextlib
import io
import json
import pathlib
import random
import resource
import signal
import sys
import tempfile
import time
import traceback

import click

from caffe2lite import inspect
from caffe2lite.commands import looking

SECONDS, MEGABYTES = 2.0, 500
NOWHERE = io.StringIO()  # one for all: click keeps every stream that it has written to


class TooSlow(Exception):
    """A case that took longer than its limit."""


def sources(paths, most):
    """The contents to damage, each with a name; text forms of nets besides."""
    files = sorted(f for p in map(pathlib.Path, paths) for f in (p.rglob("*") if p.is_dir() else [p]) if f.is_file())
    for path in files:
        content = path.read_bytes()
        if 0 < len(content) <= most:
            yield path.name, content
            with contextlib.suppress(inspect.Unrecognised):
                file = inspect.read(path)
                if file.message is not None and len(content) < most // 8:
                    yield f"{path.name} as text", str(file.message).encode()


def damaged(content, rng):
    """The content with some of what happens to files."""
    data = bytearray(content)
    kind = rng.randrange(8)
    if kind == 0:  # truncation
        del data[rng.randrange(len(data)) :]
    elif kind == 1:  # random bytes, perhaps behind a good beginning
        keep = rng.choice((0, 0, 4, 8, len(data) // 2))
        data = data[:keep] + rng.randbytes(rng.choice((1, 8, 64, 1024)))
    elif kind == 2:  # a part doubled, or moved
        a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        at = rng.randrange(len(data) + 1)
        data[at:at] = data[a : min(b, a + 4096)]
    elif kind == 3:  # a part lost
        a = rng.randrange(len(data))
        del data[a : a + rng.choice((1, 2, 8, 100))]
    else:  # bits and bytes
        for _ in range(rng.choice((1, 1, 2, 4, 16, 64))):
            at = rng.randrange(len(data))
            if kind == 4:
                data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            else:
                data[at] ^= 1 << rng.randrange(8)
    return bytes(data)


def look(path, case):
    """What the commands do with a file, one of them with --json, by turns; what they say of it goes nowhere."""
    with contextlib.redirect_stdout(NOWHERE):
        for turn, command in enumerate((looking.inspect, looking.lint)):
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.setitimer(signal.ITIMER_REAL, 15 * SECONDS)
            try:
                command.main(["--json"] * (case % 2 == turn) + [str(path)], standalone_mode=False)
            except (click.ClickException, SystemExit):
                pass
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
            NOWHERE.seek(0)
            NOWHERE.truncate()


def main():
    """Run the cases; exit status 1 where one failed."""
    ask = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ask.add_argument("paths", nargs="+")
    ask.add_argument("--count", type=int, default=1000)
    ask.add_argument("--from", dest="first", type=int, default=0)
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--most", type=int, default=4_000_000, help="leave out files of more bytes")
    ask.add_argument("--log", help="write failures there, a JSON object a line")
    ask.add_argument("--keep", help="a folder for the files that failed")
    asked = ask.parse_args()
    good = list(sources(asked.paths, asked.most))
    print(f"{len(good)} sources", flush=True)

    def late(*_):
        raise TooSlow(f"more than {SECONDS} s")

    signal.signal(signal.SIGPROF, late)
    signal.signal(signal.SIGALRM, late)
    failures, slowest, begin = 0, (0.0, -1), time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "file")
        for case in range(asked.first, asked.first + asked.count):
            rng = random.Random(f"{asked.seed}/{case}")
            name, content = rng.choice(good)
            path.write_bytes(damaged(content, rng))
            started, wrong = time.process_time(), ""
            try:
                look(path, case)
            except Exception:
                wrong = traceback.format_exc()
            took = time.process_time() - started
            slowest = max(slowest, (took, case))
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if most > max(before, MEGABYTES * 1024):
                wrong, before = wrong or f"memory rose to {most // 1024} MB", most
            if wrong:
                failures += 1
                line = {"seed": asked.seed, "case": case, "source": name, "seconds": round(took, 3), "what": wrong}
                if asked.log:
                    with open(asked.log, "a") as f:
                        print(json.dumps(line), file=f)
                if asked.keep:
                    kept = pathlib.Path(asked.keep)
                    kept.mkdir(parents=True, exist_ok=True)
                    (kept / f"{asked.seed}-{case}").write_bytes(path.read_bytes())
                print(f"case {case} ({name}): {wrong.strip().splitlines()[-1]}", flush=True)
            if (case + 1) % 1000 == 0:
                print(
                    f"{case + 1}: {failures} failures, {time.monotonic() - begin:.0f} s, slowest {slowest[0]:.2f} s "
                    f"(case {slowest[1]}), most memory {most // 1024} MB",
                    flush=True,
                )
    print(
        f"{asked.count} files of seed {asked.seed}: {failures} failures, slowest {slowest[0]:.2f} s (case {slowest[1]}), "
        f"most memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB"
    )
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
