"""Kill processes at any moment of a Save: afterwards the old checkpoint is there whole, or the new one, and nothing else.

    python tools/kill_saves.py [--kills 500] [--seed 0] [--types minidb protodb lmdb]
    python tools/kill_saves.py --full 20         the same where files cannot grow, as on a full disk, at that many sizes
    python tools/kill_saves.py --together 3      several writers of one file, and a reader, for 10 seconds

A checkpoint has four blobs, all of one number; the number grows with each Save.  A later Save must work, and leaves one
file (lmdb: one folder a Save, whose name counts).  Exit status 1 where something was found; what it was is told.
"""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "compat")]

from caffe2lite import db as databases  # noqa: E402
from caffe2lite.db import Mode  # noqa: E402

BLOBS = "abcd"
ELEMENTS = 50_000


def save(path: str, kind: str, number: int) -> None:
    """Write a checkpoint; in protodb, which Save cannot write, by its transaction."""
    from caffe2.python import core, utils, workspace

    if kind == "protodb":
        db = databases.open_db(kind, path, Mode.new)
        try:
            transaction = db.new_transaction()
            for name in BLOBS:
                tensor = utils.NumpyArrayToCaffe2Tensor(np.full(ELEMENTS, number, "f"), name)
                transaction.put(name.encode(), tensor.SerializeToString())
            transaction.commit()
        finally:
            db.close()
        return
    for name in BLOBS:
        workspace.FeedBlob(name, np.full(ELEMENTS, number, "f"))
    workspace.RunOperatorOnce(
        core.CreateOperator("Save", list(BLOBS), [], absolute_path=1, db=path, db_type=kind, chunk_size=7000)
    )


def load(path: str, kind: str) -> int:
    """The number of a checkpoint; ValueError where it is not whole."""
    from caffe2.python import core, utils, workspace

    workspace.ResetWorkspace()
    if kind == "protodb":
        for tensor in databases.open_db(kind, path, Mode.read).protos.protos:
            workspace.FeedBlob(tensor.name, utils.Caffe2TensorToNumpyArray(tensor))
        return number_of()
    workspace.RunOperatorOnce(core.CreateOperator("Load", [], list(BLOBS), absolute_path=1, db=path, db_type=kind))
    return number_of()


def number_of() -> int:
    """The number that all the blobs hold."""
    from caffe2.python import workspace

    found = {float(v) for name in BLOBS for v in np.unique(workspace.FetchBlob(name))}
    if len(found) != 1 or any(workspace.FetchBlob(name).size != ELEMENTS for name in BLOBS):
        raise ValueError(f"pieces of several checkpoints: {found}")
    return int(found.pop())


def place(folder: str, kind: str, number: int) -> str:
    """Where the checkpoint of that number goes."""
    return os.path.join(folder, f"checkpoint{number if kind == 'lmdb' else ''}")


def write_on(folder: str, kind: str, first: int, limit: int) -> None:
    """Save until killed; with a limit on the size of files, tell what was refused."""
    if limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    print("ready", flush=True)
    for number in range(first, first + 10_000):
        try:
            save(place(folder, kind, number), kind, number)
        except RuntimeError as e:
            if not limit:
                raise
            print("refused", str(e).splitlines()[0], flush=True)
            return
        print(number, flush=True)


def writer(folder: str, kind: str, first: int, limit: int = 0) -> subprocess.Popen[str]:
    """A process that saves until it is killed."""
    command = [sys.executable, __file__, "--write", folder, kind, str(first), str(limit)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def complete(folder: str, kind: str, last: int) -> str:
    """What is wrong with the checkpoints in a folder; "" where the newest is `last` or the one after it."""
    names = [n for n in os.listdir(folder) if not n.startswith(".")]
    try:
        found = max((load(os.path.join(folder, n), kind) for n in names), default=0)
    except (RuntimeError, ValueError) as e:
        return f"half a checkpoint: {str(e).splitlines()[0]}"
    return "" if found in (last, last + 1) else f"checkpoint {found}, and {last} was the last one told"


def left(folder: str) -> list[str]:
    """Names in a folder that are no checkpoints."""
    return [n for n in os.listdir(folder) if not n.startswith("checkpoint")]


def kill(kinds: list[str], kills: int, seed: int) -> collections.Counter[str]:
    """Kill that many writers, each at a moment of its own."""
    draw, wrong = random.Random(seed), collections.Counter[str]()
    for turn in range(kills):
        kind = kinds[turn % len(kinds)]
        with tempfile.TemporaryDirectory() as folder:
            save(place(folder, kind, 1), kind, 1)
            process = writer(folder, kind, 2)
            time.sleep(draw.random() * 0.12)
            process.kill()
            told = process.communicate()[0].split()
            last = int(told[-1]) if told else 1
            problem = complete(folder, kind, last)
            stays = len(left(folder))
            wrong[f"{kind}: {problem}"] += bool(problem)
            wrong[f"{kind}: more than the file that was being written stays"] += stays > 1
            for number in (last + 2, last + 3):
                save(place(folder, kind, number), kind, number)
            if stays and kind != "lmdb":
                wrong[f"{kind}: what the killed one left stays after the next Save"] += bool(left(folder))
            wrong[f"{kind}: the next Save is not there"] += bool(complete(folder, kind, last + 3))
    return +wrong


def fill(kinds: list[str], sizes: int) -> collections.Counter[str]:
    """Let writers meet a limit at many sizes."""
    wrong = collections.Counter[str]()
    for kind in kinds:
        for limit in np.linspace(1000, 780_000, sizes).astype(int).tolist():
            with tempfile.TemporaryDirectory() as folder:
                save(place(folder, kind, 1), kind, 1)
                process = writer(folder, kind, 2, limit)
                told = process.communicate(timeout=60)[0].splitlines()
                wrong[f"{kind}: ended with {process.returncode} and {told}"] += not (
                    process.returncode == 0 and told and told[-1].startswith("refused") and folder in told[-1]
                )
                problem = complete(folder, kind, 1)
                wrong[f"{kind}: {problem}"] += bool(problem)
                wrong[f"{kind}: {left(folder)} stays"] += bool(left(folder))
    return +wrong


def together(kinds: list[str], writers: int, seconds: float) -> collections.Counter[str]:
    """Several writers of one file, and a reader."""
    wrong = collections.Counter[str]()
    for kind in (k for k in kinds if k != "lmdb"):  # a new lmdb needs a name that is not taken
        with tempfile.TemporaryDirectory() as folder:
            path = place(folder, kind, 1)
            save(path, kind, 1)
            running = [writer(folder, kind, 1000 * (k + 1)) for k in range(writers)]
            reads, until = 0, time.monotonic() + seconds
            while time.monotonic() < until:
                try:
                    load(path, kind)
                except (RuntimeError, ValueError) as e:
                    wrong[f"{kind}: a reader beside writers: {str(e).splitlines()[0]}"] += 1
                reads += 1
            for process in running:
                process.kill()
                process.communicate()
            print(f"{kind}: {reads} reads beside {writers} writers")
    return +wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--types", nargs="+", default=["minidb", "protodb", "lmdb"])
    parser.add_argument("--full", type=int, default=0, help="sizes at which files cannot grow")
    parser.add_argument("--together", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--write", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        folder, kind, first, limit = given.write
        write_on(folder, kind, int(first), int(limit))
        return 0
    if given.full:
        wrong, what = fill(given.types, given.full), "full disks"
    elif given.together:
        wrong, what = together(given.types, given.together, given.seconds), "writers and a reader"
    else:
        wrong, what = kill(given.types, given.kills, given.seed), f"{given.kills} kills"
    for text, count in wrong.most_common():
        print(f"{count} x {text}")
    print(f"{what}: {sum(wrong.values())} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
