"""Running test files, each in a process of its own, and keeping what came of them."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from caffe2lite.conformance.upstream import Tree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
WHOLE = "(the whole file)"


class Outcome(NamedTuple):
    """What came of a test file: {test: PASSED, FAILED or SKIPPED}, and how it ended ("", "timeout", "exit -11")."""

    file: str
    tests: dict[str, str]
    seconds: float
    trouble: str


def run_files(
    tree: Tree,
    files: Iterable[str],
    kept: pathlib.Path,
    *,
    python: str = sys.executable,
    frontend: str = "ours",
    jobs: int = 2,
    limit: float = 900,
) -> Iterator[Outcome]:
    """Run test files, at most `limit` seconds each, and yield their outcomes as they end; each is kept in a file, too."""
    kept.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        started = [pool.submit(_run, tree, file, kept, python, frontend, limit) for file in files]
        try:
            for done in concurrent.futures.as_completed(started):
                yield done.result()
        finally:
            for waiting in started:
                waiting.cancel()


def kept_outcomes(kept: pathlib.Path) -> dict[str, Outcome]:
    """Return what earlier runs have left, by file."""
    found = [Outcome(*json.loads(p.read_text()).values()) for p in sorted(kept.glob("*.json"))]
    return {outcome.file: outcome for outcome in found}


def _run(tree: Tree, file: str, kept: pathlib.Path, python: str, frontend: str, limit: float) -> Outcome:
    stem = file.replace("/", "__").removesuffix(".py")
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    if frontend == "genuine":
        environment["CAFFE2LITE_GENUINE"] = str(tree.genuine)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, open(kept / f"{stem}.log", "wb") as log:
        report = pathlib.Path(folder, "report.xml")
        work = pathlib.Path(folder, "work")
        work.mkdir()
        line = [
            python, "-m", "pytest", "-q", "--import-mode=importlib", "-p", "no:cacheprovider",
            "-p", "caffe2lite.conformance.plugin", "--rootdir", str(tree.tests), f"--junitxml={report}", "-W", "ignore",
            str(tree.tests / file),
        ]  # fmt: skip
        try:
            ended = subprocess.run(
                line, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=limit
            )
            trouble = "" if ended.returncode in (0, 1, 5) else f"exit {ended.returncode}"
            empty = ended.returncode == 5
        except subprocess.TimeoutExpired:
            trouble, empty = "timeout", False
        tests = _read(report) if report.exists() else {}
    if not tests and not empty:
        tests = {WHOLE: FAILED}
    outcome = Outcome(file, tests, round(time.monotonic() - begin, 1), trouble)
    place = kept / f"{stem}.json"
    beside = place.with_suffix(".tmp")
    beside.write_text(json.dumps(outcome._asdict(), indent=0, sort_keys=False))
    beside.replace(place)
    return outcome


def _read(report: pathlib.Path) -> dict[str, str]:
    tests = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        tests[name] = FAILED if kinds & {"failure", "error"} else SKIPPED if "skipped" in kinds else PASSED
    return tests
