"""`make demo`: a legacy data-parallel script trains, checkpoints, resumes, and does so again on two shards.

Runs digits.py, which imports only caffe2, as a user would: each step in a fresh process.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = str(HERE / "digits.py")
OUT = pathlib.Path("demo-out").resolve()
console = Console(highlight=False)


class Step:
    """A process, or several, whose lines move the progress bar."""

    def __init__(self, title, commands, epochs, gpus):
        self.title, self.commands, self.epochs = title, commands, epochs
        self.environment = dict(os.environ, CAFFE2LITE_EMULATED_GPUS=str(gpus), OMP_NUM_THREADS="1")
        self.accuracies, self.equal, self.resumed = [], [], []

    def run(self, progress):
        """Run to the end; SystemExit with what was printed where a process fails."""
        bar = progress.add_task(self.title, total=self.epochs * len(self.commands))
        started = [
            subprocess.Popen(c, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for c in self.commands
        ]
        for process in started:
            for line in process.stdout:
                self._read(line, progress, bar)
        for process in started:
            error = process.stderr.read()
            if process.wait():
                console.print(f"[red]{self.title} failed[/red]\n{error}")
                raise SystemExit(1)
        progress.update(bar, completed=self.epochs * len(self.commands))

    def _read(self, line, progress, bar):
        if line.startswith("epoch"):
            progress.advance(bar)
        for word, found in (("test accuracy", self.accuracies), ("resumed accuracy", self.resumed)):
            if match := re.match(rf"{word} ([\d.]+)", line):
                found.append(float(match[1]))
        if line.startswith("devices equal"):
            self.equal.append("True" in line)


def steps():
    """The steps of the demo, in order; those with shards only where MPI is installed."""
    python = [sys.executable, SCRIPT]
    checkpoint = ["--load", str(OUT)]
    yield "train", Step("train on 4 GPUs", [[*python, "--gpus", "4", "--epochs", "8", "--save", str(OUT)]], 8, 4)
    yield "resume", Step("resume, fresh process", [[*python, "--gpus", "4", "--epochs", "12", *checkpoint]], 12, 4)
    mpirun = shutil.which("mpirun", path=os.path.dirname(sys.executable)) or shutil.which("mpirun")
    if importlib.util.find_spec("mpi4py") is None or mpirun is None:
        return
    shard = [*python, "--gpus", "2", "--epochs", "4", *checkpoint]
    # Two ranks print to one pipe: each epoch comes twice.
    yield "mpirun", Step("two shards, mpirun", [[mpirun, "-n", "2", *shard]], 8, 2)
    store = tempfile.mkdtemp(prefix="caffe2lite-store-")
    by_hand = [[*shard, "--shards", "2", "--shard", str(k), "--store", store] for k in (0, 1)]
    yield "store", Step("two shards, shared folder", by_hand, 4, 2)


def main():
    """Run all steps and say what came of them."""
    begin = time.monotonic()
    shutil.rmtree(OUT, ignore_errors=True)
    done = {}
    columns = (
        TextColumn("{task.description:28}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        for name, step in steps():
            step.run(progress)
            done[name] = step
    train, resume = done["train"], done["resume"]
    console.print(
        f"\nA script that imports only caffe2 trained a convnet on 1,440 handwritten digits, on 4 emulated GPUs: "
        f"{train.accuracies[0]:.1%} of 357 others right.\nA fresh process loaded its checkpoint on the first GPU, "
        f"called FinalizeAfterCheckpoint ({resume.resumed[0]:.1%} again, all GPUs equal to the bit: "
        f"{'yes' if all(resume.equal) else 'no'}) and trained on to {resume.accuracies[0]:.1%}."
    )
    for name, how in (("mpirun", "by mpirun"), ("store", "by hand over a shared folder")):
        if name in done:
            step = done[name]
            console.print(
                f"Two shards of 2 GPUs, started {how}: resumed at {step.resumed[0]:.1%}, ended at "
                f"{step.accuracies[0]:.1%}, all devices equal: {'yes' if all(step.equal) else 'no'}."
            )
    if "mpirun" not in done:
        console.print("Shards were left out: they need the extra mpi (pip install 'caffe2lite\\[mpi]').")
    console.print(
        f"Written: {OUT / 'digits.minidb'}, {OUT / 'checkpoint_sync_net.pb'} ({time.monotonic() - begin:.0f} s)"
    )
    good = all(all(s.equal) for s in done.values()) and resume.accuracies[0] > 0.95
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
