"""Two tables of injected faults: which rank dies or stops, when, and how the shards were started; and how a rank ends.

    python benchmarks/faults.py ["by hand"] [mpiexec]        needs the extra mpi; about five minutes

Each line of the first: seconds from the fault until the last survivor's error, and until all have ended, which includes
the start of their interpreters; their exit status; what one of them says.  The deadline is 4 s.
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


ENDS = {
    "sys.exit(3) amid the job": "exit3",
    "its script ends amid the job": "skip",
    "os._exit(0) amid the job": "_exit",
    "forks, and the child ends with sys.exit": "fork",
    "killed after its last collective": "SIGKILL",
    "stopped after its last collective": "SIGSTOP",
    "os._exit(0) after its last collective": "_exit late",
    "works on for 7 s after it": "works on",
}


def endings(launchers):
    print("\n| start | what rank 1 does | s in all | status of both | what is said |\n|---|---|---|---|---|")
    for how, (words, what) in itertools.product(launchers, ENDS.items()):
        options = {"who": "1", "what": what, "timeout_ms": DEADLINE_MS, "seconds": "7"}
        if how == "mpiexec":
            ends = [launch.launched("ending", 2, **options)]
        else:
            with tempfile.TemporaryDirectory() as store:
                ends = launch.by_hand("ending", 2, store, stopped=[1] if what == "SIGSTOP" else [], **options)
        status = ", ".join(str(end.status) for end in ends)
        said = re.findall(".*(?:Error: |MPI rank|without a word).*", ends[0].output)
        print(f"| {how} | {words} | {ends[0].seconds:.1f} | {status} | {said[-1][-150:] if said else ''} |", flush=True)


def main():
    print(
        "| start | ranks | who | what | when | s to error | s in all | status | what a survivor says |"
        "\n|---|---|---|---|---|---|---|---|---|"
    )
    launchers = sys.argv[1:] or ("by hand", "mpiexec")
    cases = itertools.product(launchers, (2, 3), (0, 1), ("SIGKILL", "SIGSTOP"), ("before", "after", "amid"))
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
    endings(launchers)


if __name__ == "__main__":
    main()
