"""A table of injected faults: which rank dies or stops, when, and how the shards were started.

    python benchmarks/faults.py        needs the extra mpi; about four minutes

Each line: seconds from the fault until the last survivor's error, and until all have ended, which includes the start of
their interpreters; their exit status; what one of them says.  The deadline is 4 s.
"""

import itertools
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "shards"))

import launch

DEADLINE_MS = "4000"


def outcome(end):
    lines = [line for line in end.output.splitlines() if "Error" in line]
    return (
        lines[-1].split("Error: ", 1)[-1][:90]
        if lines
        else end.output.strip().splitlines()[-1][:90]
        if end.output.strip()
        else ""
    )


def main():
    print(
        "| start | ranks | who | what | when | s to error | s in all | status | what a survivor says |"
        "\n|---|---|---|---|---|---|---|---|---|"
    )
    cases = itertools.product(
        sys.argv[1:] or ("by hand", "mpiexec"), (2, 3), (0, 1), ("SIGKILL", "SIGSTOP"), ("before", "after", "amid")
    )
    for how, size, who, what, when in cases:
        options = {"who": str(who), "what": what, "when": when, "timeout_ms": DEADLINE_MS}
        if how == "mpiexec":
            ends = everybody = [launch.launched("fault", size, **options)]
        else:
            with tempfile.TemporaryDirectory() as store:
                stopped = [who] if what == "SIGSTOP" else []
                everybody = launch.by_hand("fault", size, store, stopped=stopped, **options)
                ends = everybody[:who] + everybody[who + 1 :]
        seconds = max(end.seconds for end in ends)
        told = "".join(end.output for end in everybody)
        fault, errors = re.findall(r"SIG\w+ \w+ at ([\d.]+)", told), re.findall(r"error at ([\d.]+)", told)
        delay = f"{max(map(float, errors)) - float(fault[0]):.1f}" if fault and errors else "-"
        status = ", ".join(str(end.status) for end in ends)
        print(
            f"| {how} | {size} | {who} | {what} | {when} | {delay} | {seconds:.1f} | {status} | {outcome(ends[0])} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
