"""Check caffe2lite on the GPUs of this machine: what is right, in order, and how fast.  Without a GPU it says so and exits 0.

    python tools/gpu_check.py --seconds 300          what fits into five minutes; call it again to go on
    python tools/gpu_check.py --only order edges     groups whose names begin so
    python tools/gpu_check.py --emulated 4           emulated GPUs (checks this tool, not the GPU code)

What was found is kept in a JSON file (--results) after each check, and told on a page (--page) at the end.  Checks that
have ended are not run again on the same machine unless --again is given.  Exit status 1 where one has failed.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import platform
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from gpu_checks import Check, Skip, order, processes, speed, values  # noqa: E402

from caffe2lite import __version__, devices  # noqa: E402 - the path comes first
from caffe2lite.devices import emulated  # noqa: E402

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
Found = dict[str, dict[str, Any]]  # by "group/name": outcome, seconds, told


def machine() -> dict[str, Any]:
    """What the results are of."""
    versions = {"caffe2lite": __version__, "Python": platform.python_version()}
    gpus = devices.gpus()
    if devices.cuda_version():
        versions |= {"CUDA": str(devices.cuda_version()), "CuPy": gpus[0].xp.__version__}
    return {"GPUs": [str(g.properties()["name"]) for g in gpus], "versions": versions}


def all_checks() -> Iterator[Check]:
    """All there are, those that tell most first."""
    for module in (values, order, processes, speed):
        yield from module.checks()


def load(path: pathlib.Path, here: dict[str, Any]) -> Found:
    """What was found before on this machine."""
    text = path.read_text() if path.is_file() else ""
    before = json.loads(text) if text.strip() else {}
    return before["checks"] if before.get("machine") == here else {}


def run(check: Check) -> dict[str, Any]:
    """The outcome of a check."""
    begin = time.perf_counter()
    try:
        outcome, told = PASSED, check.run()
    except Skip as e:
        outcome, told = SKIPPED, str(e)
    except Exception:
        outcome, told = FAILED, traceback.format_exc()
    return {"outcome": outcome, "seconds": round(time.perf_counter() - begin, 2), "told": told}


def last_words(told: str) -> str:
    """The line of a traceback that has the error."""
    said = [line for line in told.splitlines() if line and not line.startswith(" ")]
    return said[-1][:300] if said else ""


def page(here: dict[str, Any], found: Found, left: int) -> str:
    """The results in Markdown: a line a group, then what failed, then what was measured."""
    versions = ", ".join(f"{k} {v}" for k, v in here["versions"].items())
    lines = ["# GPU check", "", f"{len(here['GPUs'])} GPUs: {', '.join(here['GPUs'])}; {versions}", ""]
    if left:
        lines += [f"**{left} checks have not been run yet.**", ""]
    lines += ["| group | passed | failed | skipped | seconds |", "|---|---|---|---|---|"]
    groups: dict[str, Found] = {}
    for name, result in found.items():
        groups.setdefault(name.partition("/")[0], {})[name.partition("/")[2]] = result
    for group, results in groups.items():
        counts = [sum(r["outcome"] == o for r in results.values()) for o in (PASSED, FAILED, SKIPPED)]
        taken = sum(r["seconds"] for r in results.values())
        lines.append(f"| {group} | {' | '.join(map(str, counts))} | {taken:.0f} |")
    for outcome in (FAILED, SKIPPED):
        chosen = [(n, r["told"]) for n, r in found.items() if r["outcome"] == outcome]
        if chosen:
            lines += ["", f"## {outcome.capitalize()}", ""]
            lines += [f"- {n}: {last_words(told or '')}" for n, told in chosen]
    lines += ["", "## Told", ""]
    for name, result in found.items():
        if result["outcome"] == PASSED and result["told"]:
            told = result["told"]
            text = ", ".join(f"{k} {v}" for k, v in told.items()) if isinstance(told, dict) else told
            lines.append(f"- {name}: {text}")
    return "\n".join(lines) + "\n"


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emulated", type=int, default=0, metavar="N", help="emulate N GPUs")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no check after this time")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="GROUP", help="groups or group/name, by their beginning"
    )
    parser.add_argument("--again", action="store_true", help="run what has ended again")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("gpu_check.json"))
    parser.add_argument("--page", type=pathlib.Path, help="where the page goes (default: beside the results)")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    emulated.use(options.emulated)
    if options.worker:
        processes.worker(*options.worker)
        return 0
    if not devices.gpu_count():
        print("No GPU here (or CuPy is not installed): nothing was checked.")
        return 0
    here = machine()
    found = load(options.results, here)
    chosen = [c for c in all_checks() if f"{c.group}/{c.name}".startswith(tuple(options.only))]
    if options.again:
        for check in chosen:
            found.pop(f"{check.group}/{check.name}", None)
    waiting = [c for c in chosen if f"{c.group}/{c.name}" not in found]
    deadline = time.monotonic() + options.seconds
    left = len(waiting)
    for check in waiting:
        if time.monotonic() > deadline:
            break
        name = f"{check.group}/{check.name}"
        result = found[name] = run(check)
        left -= 1
        if result["outcome"] != PASSED or check.group != "recorded cases":
            print(f"{name:<60} {result['seconds']:7.2f} s  {result['outcome']}  {result['told'] or ''}", flush=True)
        options.results.write_text(json.dumps({"machine": here, "checks": found}, indent=1) + "\n")
    if options.results.is_file():
        (options.page or options.results.with_suffix(".md")).write_text(page(here, found, left))
    mine = [found[f"{c.group}/{c.name}"]["outcome"] for c in chosen if f"{c.group}/{c.name}" in found]
    print(f"{mine.count(PASSED)} passed, {mine.count(FAILED)} failed, {mine.count(SKIPPED)} skipped, {left} left.")
    return min(mine.count(FAILED), 1)


if __name__ == "__main__":
    sys.exit(main())
