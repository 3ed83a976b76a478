"""`caffe2lite conformance`."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterable

import click

from caffe2lite import conformance as tests
from caffe2lite.commands.text import Trouble, count, say
from caffe2lite.conformance import running, upstream
from caffe2lite.conformance.pinned import environment


@click.command()
@click.option("--only", multiple=True, metavar="WORD", help="Only test files whose path holds the word.")
@click.option(
    "--frontend",
    type=click.Choice(["ours", "genuine"]),
    default="ours",
    show_default=True,
    help="genuine: Caffe2's own Python files, untouched, over our engine.",
)
@click.option("--gpus", type=click.IntRange(1), metavar="N", help="Emulate N GPUs on the CPU; results are kept apart.")
@click.option("--resume", is_flag=True, help="Leave out files that were run before; their results are kept.")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Files to run side by side.")
@click.option(
    "--limit", type=click.FloatRange(1), default=900, show_default=True, metavar="SECONDS", help="For one file."
)
@click.option(
    "--python", default=sys.executable, help="The interpreter to test; it needs pytest, hypothesis and caffe2lite."
)
@click.option(
    "--pinned",
    is_flag=True,
    help="Test an environment of Caffe2's time, made in the cache: Python 3.10, NumPy 1.26, hypothesis 6.100, onnx 1.14.",
)
@click.option(
    "--status", type=click.Path(dir_okay=False), help="Write the scoreboard of all kept results to this file."
)
@click.option("--list", "list_only", is_flag=True, help="List the test files and run nothing.")
def conformance(
    only: tuple[str, ...],
    frontend: str,
    gpus: int | None,
    resume: bool,
    jobs: int,
    limit: float,
    python: str,
    pinned: bool,
    status: str | None,
    list_only: bool,
) -> None:
    """Run Caffe2's own test files on caffe2lite.

    They come from the last public wheel with Caffe2, about 150 MB that pip downloads the first time, and stay in the
    cache folder. Each file runs in a process of its own; what came of it is kept there too, so that a long run can be
    made in parts. Exit status 1 where a test that genuine Caffe2 passes does not pass here, but for named exceptions.
    """
    try:
        tree = tests.fetch()
        python = environment() if pinned and not list_only else python
    except RuntimeError as e:
        raise Trouble(str(e)) from None
    if pinned and gpus:
        raise Trouble("--pinned and --gpus are two runs; leave one of them out")
    kept = upstream.cache() / f"results-{frontend}{'-gpus' if gpus else '-pinned' if pinned else ''}"
    before = running.kept_outcomes(kept)
    chosen = tests.test_files(tree, only)
    if not chosen:
        raise Trouble(f"no test file's path holds {' or '.join(map(repr, only))}; --list lists them")
    files = [f for f in chosen if not (resume and f in before)]
    if list_only:
        click.echo("\n".join(files))
        return
    _need(python)
    if gpus:
        os.environ["CAFFE2LITE_EMULATED_GPUS"] = str(gpus)
    outcomes = _run(
        tests.run_files(tree, files, kept, python=python, frontend=frontend, jobs=jobs, limit=limit), len(files)
    )
    everything = {**before, **outcomes}
    if status is not None:
        versions = _versions(python)
        if gpus:
            page = tests.gpu_status(everything, gpus, versions)
        else:
            page = tests.status(everything, frontend, versions, pinned=pinned)
        _write(pathlib.Path(status), page)
        say(f"written: {status} ({count(len(everything), 'file')})")
    scores = [tests.score(o, pinned=pinned) for o in outcomes.values()]
    missing = sum(len(s.missing) for s in scores)
    wanted = sum(s.genuine - len(s.excepted) for s in scores)
    say(f"of {count(wanted, 'test')} that genuine Caffe2 passes, {wanted - missing:,} pass here; the logs: {kept}")
    sys.exit(1 if missing else 0)


def _need(python: str) -> None:
    """Trouble where the interpreter lacks what the tests import: all of them would count as missing."""
    try:
        done = subprocess.run([python, "-c", "import caffe2lite, hypothesis, pytest"], capture_output=True, text=True)
    except OSError as e:
        raise Trouble(f"--python: {e}") from None
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2]
        raise Trouble(f"{python} cannot run the tests: {said}; pip install caffe2lite pytest 'hypothesis==6.100.*'")


def _run(outcomes: Iterable[tests.Outcome], total: int) -> dict[str, tests.Outcome]:
    """Go through the outcomes under a progress bar on a terminal, a line a file where the output is piped."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    found: dict[str, tests.Outcome] = {}
    columns = (TextColumn("{task.description:50}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(highlight=False), disable=not sys.stdout.isatty()) as progress:
        bar = progress.add_task("Caffe2's own tests", total=total)
        for outcome in outcomes:
            found[outcome.file] = outcome
            told = tests.score(outcome)
            progress.update(bar, advance=1, description=outcome.file[-50:])
            if told.missing or outcome.trouble or not sys.stdout.isatty():
                some = [*told.missing[:3], *(["…"] if len(told.missing) > 3 else [])]
                lost = f", missing {len(told.missing)}: {', '.join(some)}" if some else ""
                progress.console.print(
                    f"{outcome.file}: {told.passed} of {told.genuine} ({outcome.seconds:.0f} s"
                    f"{', ' + outcome.trouble if outcome.trouble else ''}){lost}",
                    markup=False,
                    soft_wrap=True,
                )
    return found


_TITLE = """# Caffe2's own tests on caffe2lite

Names and numbers only; the test files are Caffe2's and are fetched by `caffe2lite conformance`, which writes this page.
"""


def _versions(python: str) -> str:
    """Return what the tested interpreter is."""
    code = (
        "import caffe2lite, numpy, platform; "
        "print(f'caffe2lite {caffe2lite.__version__}, Python {platform.python_version()}, NumPy {numpy.__version__}')"
    )
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _write(path: pathlib.Path, section: str) -> None:
    """Put the section of this front end into the page; the other one's stays."""
    head = section.split("\n", 1)[0]
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    sections = {s.split("\n", 1)[0]: s for s in ("## " + part for part in old.split("\n## ")[1:])}
    sections[head] = section
    ours_first = sorted(sections, key=lambda head: (not head.startswith("## caffe2lite"), head))
    body = "\n".join(sections[head].rstrip("\n") + "\n" for head in ours_first)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{_TITLE}\n{body}", encoding="utf-8")
