"""The scoreboard: of the tests that genuine Caffe2 passes, how many pass here."""

from __future__ import annotations

import collections
import fnmatch
import functools
import importlib.resources
from collections.abc import Mapping
from typing import NamedTuple

from caffe2lite.conformance.running import PASSED, Outcome


class Score(NamedTuple):
    """A test file: how many tests genuine Caffe2 passes, how many of them pass here, and which do not."""

    file: str
    genuine: int
    passed: int
    excepted: dict[str, str]  # tests that do not pass, with the reason why they need not
    missing: list[str]  # tests that do not pass and should
    more: int  # tests that pass here only
    seconds: float
    trouble: str


@functools.cache
def genuine_passes() -> dict[str, list[str]]:
    """Return {file: the tests that genuine Caffe2 passes, on a CPU}, recorded from its last public wheel."""
    return _tests("genuine_passes.txt")


@functools.cache
def genuine_without_gpu() -> dict[str, list[str]]:
    """Return {file: the tests that genuine Caffe2 skips where there is no GPU, for that reason}."""
    return _tests("genuine_without_gpu.txt")


@functools.cache
def exceptions(pinned: bool = False) -> list[tuple[str, str]]:
    """Return (pattern of FILE::CLASS::TEST, reason) of tests that need what is not meant to be here.

    Those that fail for libraries newer than they are among them, but for an environment of their time (`pinned`).
    """
    lines = _data("exceptions.txt") + ([] if pinned else _data("newer_libraries.txt"))
    return [(pattern.strip(), reason.strip()) for pattern, _, reason in (line.partition("  ") for line in lines)]


def _tests(name: str) -> dict[str, list[str]]:
    return {file: tests.split("\t") for file, _, tests in (line.partition(": ") for line in _data(name))}


def _data(name: str) -> list[str]:
    text = importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line and not line.startswith("#")]


def score(outcome: Outcome, wanted: list[str] | None = None, *, pinned: bool = False) -> Score:
    """Return the Score of a file that was run; the tests that are `wanted` are those that genuine Caffe2 passes if None."""
    wanted = genuine_passes().get(outcome.file, []) if wanted is None else wanted
    lost = {test: _reason(f"{outcome.file}::{test}", pinned) for test in wanted if outcome.tests.get(test) != PASSED}
    excepted = {test: reason for test, reason in lost.items() if reason}
    missing = [test for test, reason in lost.items() if not reason]
    passed = len(wanted) - len(lost)
    here = sum(o == PASSED for o in outcome.tests.values())
    return Score(outcome.file, len(wanted), passed, excepted, missing, here - passed, outcome.seconds, outcome.trouble)


def _reason(name: str, pinned: bool) -> str:
    return next((reason for pattern, reason in exceptions(pinned) if fnmatch.fnmatchcase(name, pattern)), "")


def status(outcomes: Mapping[str, Outcome], frontend: str, versions: str, *, pinned: bool = False) -> str:
    """Return the scoreboard as Markdown: names and numbers only.  `versions` says what was tested."""
    scores = [score(outcome, pinned=pinned) for _, outcome in sorted(outcomes.items())]
    scores = [s for s in scores if s.genuine or s.more]
    who = (
        "Caffe2's own Python files, untouched, over our engine"
        if frontend == "genuine"
        else "caffe2lite's front end and engine"
    )
    if pinned:
        who += ", in an environment of Caffe2's time"
    more = sum(s.more for s in scores)
    lines = [
        f"## {who}",
        "",
        f"{versions}. Of {_share(scores, 'that genuine Caffe2 passes on a CPU')} {more:,} more pass here only.",
        "",
        "| test file | genuine | here | excepted | missing | more | |",
        "|---|---:|---:|---:|---:|---:|---|",
        *(
            f"| {s.file} | {s.genuine} | {s.passed} | {len(s.excepted) or ''} | {len(s.missing) or ''} | {s.more or ''} "
            f"| {s.trouble} |"
            for s in scores
        ),
    ]
    lines[3:3] = _waiting(genuine_passes(), outcomes)
    return "\n".join([*lines, *_lists(scores)]) + "\n"


def gpu_status(outcomes: Mapping[str, Outcome], gpus: int, versions: str) -> str:
    """Return the scoreboard of a run on emulated GPUs: the tests that genuine Caffe2 skips for want of one."""
    wanted = genuine_without_gpu()
    scores = [score(outcome, wanted[file]) for file, outcome in sorted(outcomes.items()) if file in wanted]
    also = [score(outcome) for outcome in outcomes.values()]
    lines = [
        f"## caffe2lite's front end and engine, on {gpus} emulated GPUs",
        "",
        f"{versions}. Of {_share(scores, 'that genuine Caffe2 skips for want of a GPU')}",
        "",
        f"Of {_share(also, 'that it passes on a CPU')} Here they run on CPU and GPU.",
        "",
        "| test file | need a GPU | here | excepted | missing | |",
        "|---|---:|---:|---:|---:|---|",
        *(
            f"| {s.file} | {s.genuine} | {s.passed} | {len(s.excepted) or ''} | {len(s.missing) or ''} | {s.trouble} |"
            for s in scores
        ),
    ]
    lines[3:3] = _waiting(wanted, outcomes)
    return "\n".join([*lines, *_lists([*scores, *also])]) + "\n"


def _share(scores: list[Score], which: str) -> str:
    """`20 tests in 3 files that …, 2 need what is not meant to be here; of the other 18 **17 pass (94.4%)**.`"""
    scores = [s for s in scores if s.genuine]
    total, passed, excepted = (
        sum(s.genuine for s in scores),
        sum(s.passed for s in scores),
        sum(len(s.excepted) for s in scores),
    )
    return (
        f"{total:,} tests in {len(scores)} files {which}, {excepted} need what is not meant to be here; "
        f"of the other {total - excepted:,} **{passed:,} pass ({passed / max(1, total - excepted):.1%})**."
    )


def _waiting(wanted: Mapping[str, list[str]], outcomes: Mapping[str, Outcome]) -> list[str]:
    waiting = [file for file in wanted if file not in outcomes]
    tests = sum(len(wanted[file]) for file in waiting)
    return ["", f"{len(waiting)} files with {tests:,} more tests were not run yet."] if waiting else []


def _lists(scores: list[Score]) -> list[str]:
    """Return what is missing, test by test, and the reasons of what is excepted."""
    absent = [(s.file, test) for s in scores for test in s.missing]
    reasons = collections.Counter(reason for s in scores for reason in s.excepted.values())
    lines = []
    if absent:
        lines += ["", f"### Missing ({len(absent)})", "", *(f"* {file} {test}" for file, test in absent)]
    if reasons:
        lines += ["", "### Excepted", "", *(f"* {n}: {reason}" for reason, n in reasons.most_common())]
    return lines
