"""`caffe2lite run`."""

from __future__ import annotations

import os
import sys
import time

import click

from caffe2lite.commands.text import Trouble, count, say, table
from caffe2lite.engine import instance
from caffe2lite.port import python2, running, watching


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--gpus", type=click.IntRange(0), metavar="N", help="Emulate N GPUs on the CPU.")
@click.option("--shards", type=click.IntRange(1), metavar="N", help="Start N ranks by mpiexec.")
@click.option("--profile", is_flag=True, help="At the end, a table of the time that each type of operator took.")
@click.option("--trace", type=click.Path(dir_okay=False), help="Write a trace of all operators for chrome://tracing.")
@click.option("--trace-blobs", is_flag=True, help="Print what each operator makes, on standard error.")
@click.option(
    "--python2",
    "version",
    flag_value=2,
    type=int,
    help="Files that both can read mean Python 2; without it the file tells, else its project.",
)
@click.option("--python3", "version", flag_value=3, type=int, help="All files that Python 3 can read mean Python 3.")
@click.option("-m", "module", is_flag=True, help="SCRIPT is the name of a module, as for python -m.")
@click.argument("script")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(
    gpus: int | None,
    shards: int | None,
    profile: bool,
    trace: str | None,
    trace_blobs: bool,
    version: int | None,
    module: bool,
    script: str,
    args: tuple[str, ...],
) -> None:
    """Run a legacy script with no edits; options stand before it, its own arguments after it.

    While it runs, the names that NumPy and Python have dropped are there, `six`, `future` and `past` import, and Python 2
    is converted in memory: the script, and all modules of its project.
    """
    if not module and not os.path.isfile(script):
        raise click.BadParameter(f"there is no file {script}", param_hint="SCRIPT")
    if trace and not os.path.isdir(os.path.dirname(trace) or "."):
        raise click.BadParameter(f"there is no folder {os.path.dirname(trace)}", param_hint="--trace")
    if gpus is not None:
        os.environ["CAFFE2LITE_EMULATED_GPUS"] = str(gpus)
    if shards is not None:
        line = ["--profile"] * profile + ["--trace-blobs"] * trace_blobs + (["--trace", trace] if trace else [])
        line += [f"--python{version}"] * bool(version) + ["-m"] * module
        try:
            command = running.shards_command(shards, [*line, script, *args])
        except RuntimeError as e:
            raise Trouble(str(e)) from None
        sys.stdout.flush()
        os.execv(command[0], command)
    watch = watching.Profile() if profile or trace else None
    if watch is not None:
        instance.watchers.append(watch.watch)
    if trace_blobs:
        instance.watchers.append(watching.Blobs(sys.stderr).watch)
    begin = time.perf_counter()
    try:
        (running.run_module if module else running.run_script)(script, args, version)
    except python2.Unreadable as e:
        raise Trouble(str(e)) from None
    except Exception as e:
        shown = e.with_traceback(running.of_script(e.__traceback__))
        sys.excepthook(type(shown), shown, shown.__traceback__)
        advice = "" if module else running.hint(e, script, version)
        if advice:
            click.echo(f"caffe2lite: {advice}", err=True)
        sys.exit(1)
    finally:
        if watch is not None:
            _report(watch, profile, trace, time.perf_counter() - begin, running.rank())


def _report(watch: watching.Profile, profile: bool, trace: str | None, seconds: float, rank: int) -> None:
    if trace:
        stem, dot, kind = trace.rpartition(".")
        watch.write(f"{stem}.{rank}{dot}{kind}" if rank and dot else f"{trace}.{rank}" if rank else trace)
    if profile:
        rows = watch.rows()
        inside = sum(row.own for row in rows)
        table(
            ("operator", "runs", "own ms", "share", "with inner ms", "mean µs", "longest ms"),
            [
                (
                    row.type,
                    f"{row.runs:,}",
                    f"{1e3 * row.own:,.2f}",
                    f"{row.own / inside:.1%}",
                    f"{1e3 * row.seconds:,.2f}",
                    f"{1e6 * row.seconds / row.runs:,.1f}",
                    f"{1e3 * row.longest:,.2f}",
                )
                for row in rows
            ],
        )
        runs = count(sum(row.runs for row in rows), "run")
        say(f"{runs} of operators took {inside:.2f} s on all threads, the script {seconds:.2f} s")
