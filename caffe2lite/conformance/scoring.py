"""The scoreboard: of the tests that genuine Caffe2 passes, how many pass here."""

from __future__ import annotations

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
    """{file: the tests that genuine Caffe2 passes, on a CPU}, recorded from its last public wheel."""
    found = {}
    for line in _data("genuine_passes.txt"):
        file, _, tests = line.partition(": ")
        found[file] = tests.split("\t")
    return found


@functools.cache
def exceptions() -> list[tuple[str, str]]:
    """(pattern of FILE::CLASS::TEST, reason) of tests that need what is not meant to be here."""
    return [(pattern.strip(), reason.strip()) for pattern, _, reason in (line.partition("  ") for line in _data("exceptions.txt"))]


def _data(name: str) -> list[str]:
    text = importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line and not line.startswith("#")]


def score(outcome: Outcome) -> Score:
    """The Score of a file that was run."""
    wanted = genuine_passes().get(outcome.file, [])
    excepted: dict[str, str] = {}
    missing = []
    for test in wanted:
        if outcome.tests.get(test) == PASSED:
            continue
        reason = _reason(f"{outcome.file}::{test}")
        if reason:
            excepted[test] = reason
        else:
            missing.append(test)
    here = sum(o == PASSED for o in outcome.tests.values())
    passed = len(wanted) - len(excepted) - len(missing)
    return Score(outcome.file, len(wanted), passed, excepted, missing, here - passed, outcome.seconds, outcome.trouble)


def _reason(name: str) -> str:
    return next((reason for pattern, reason in exceptions() if fnmatch.fnmatchcase(name, pattern)), "")


def status(outcomes: Mapping[str, Outcome], frontend: str, versions: str) -> str:
    """The scoreboard as Markdown: names and numbers only.  `versions` says what was tested."""
    scores = [score(outcome) for _, outcome in sorted(outcomes.items())]
    scores = [s for s in scores if s.genuine or s.more]
    genuine, passed = sum(s.genuine for s in scores), sum(s.passed for s in scores)
    excepted, more = sum(len(s.excepted) for s in scores), sum(s.more for s in scores)
    owed = genuine - excepted
    who = "Caffe2's own Python files, untouched, over our engine" if frontend == "genuine" else "caffe2lite's front end and engine"
    lines = [
        f"## {who}",
        "",
        f"{versions}. Of {genuine:,} tests in {len(scores)} files that genuine Caffe2 passes on a CPU, {excepted} need what is "
        f"not meant to be here; of the other {owed:,} **{passed:,} pass ({passed / max(1, owed):.1%})**. {more:,} more pass here only.",
        "",
        "| test file | genuine | here | excepted | missing | more | |",
        "|---|---:|---:|---:|---:|---:|---|",
        *(
            f"| {s.file} | {s.genuine} | {s.passed} | {len(s.excepted) or ''} | {len(s.missing) or ''} | {s.more or ''} "
            f"| {s.trouble} |"
            for s in scores
        ),
    ]
    waiting = [file for file in genuine_passes() if file not in outcomes]
    if waiting:
        lines[3:3] = ["", f"{len(waiting)} files with {sum(len(genuine_passes()[f]) for f in waiting):,} more tests were not run yet."]
    absent = [(s.file, test) for s in scores for test in s.missing]
    if absent:
        lines += ["", f"### Missing ({len(absent)})", "", *(f"* {file} {test}" for file, test in absent)]
    reasons: dict[str, int] = {}
    for s in scores:
        for reason in s.excepted.values():
            reasons[reason] = reasons.get(reason, 0) + 1
    if reasons:
        lines += ["", "### Excepted", "", *(f"* {n}: {reason}" for reason, n in sorted(reasons.items(), key=lambda r: -r[1]))]
    return "\n".join(lines) + "\n"
