"""`caffe2lite port`."""

from __future__ import annotations

import collections
import difflib
import os
import sys
from typing import Any

import click

from caffe2lite.commands.text import Input, Trouble, count, progress, say, say_json, table
from caffe2lite.port import python2, scan


@click.command()
@click.argument("paths", nargs=-1, required=True, type=Input(".py"))
@click.option("--diff", "show_diff", is_flag=True, help="Print the safe fixes as a diff; write nothing.")
@click.option("--write", is_flag=True, help="Apply the safe fixes; the originals stay as FILE.orig.")
@click.option(
    "-o", "--output", type=click.Path(), metavar="PATH", help="Write the mended files there; no original is touched."
)
@click.option(
    "--uses", "show_uses", is_flag=True, help="List everything of Caffe2's that is used, not only what is missing."
)
@click.option("--summary", is_flag=True, help="One line a file, and the total; no findings.")
@click.option(
    "--python2",
    "version",
    flag_value=2,
    type=int,
    help="Files that both can read mean Python 2; without it the file tells, else its project.",
)
@click.option("--python3", "version", flag_value=3, type=int, help="All files that Python 3 can read mean Python 3.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def port(
    paths: tuple[str, ...],
    show_diff: bool,
    write: bool,
    output: str | None,
    show_uses: bool,
    summary: bool,
    version: int | None,
    as_json: bool,
) -> None:
    """Say what legacy scripts need to run on today's Python: what they use of Caffe2, and what in them is broken.

    Scripts are read, never run. Exit status 1 where something has to be done before plain `python` runs them (`caffe2lite
    run` may run them as they are); with --write or -o, where something is left to do in what was written.
    """
    named = [(root, path) for root in paths for path in scan.files(root)]
    with progress("reading", len(named)) as step:
        reports = []
        for _, path in named:
            step(path)
            reports.append(scan.examine(path, version))
    if as_json:
        say_json([_facts(report) for report in reports])
    elif not show_diff:
        if summary:
            _summary(reports)
        else:
            for report in reports:
                _show(report)
        _total(reports, show_uses)
    clean = all(r.runs_as_is for r in reports)
    if show_diff or write or output:
        mended = _mend(named, show_diff, write, output, as_json, version)
        clean = mended if write or output else clean
    sys.exit(0 if clean else 1)


def _facts(report: Any) -> dict[str, Any]:
    return {
        "path": report.path,
        "python2": report.python2,
        "runs_as_is": report.runs_as_is,
        "uses": [u._asdict() for u in report.uses],
        "findings": [f._asdict() for f in report.findings],
    }


def _show(report: Any) -> None:
    version = ": Python 2" if report.python2 else ""
    if not report.findings:
        say(f"{report.path}{version}: nothing to do", bold=True)
        return
    say(f"{report.path}{version}", bold=True)
    head = "cell:line" if any(f.cell for f in report.findings) else "line"
    table(
        (head, "code", "what", "what to do", ""),
        [(_place(f), f.code, f.message, f.remedy, f.fix) for f in report.findings],
    )


def _summary(reports: list[Any]) -> None:
    """One row a file: how much is to do, by whom."""
    rows = []
    for report in reports:
        fixes = collections.Counter(f.fix for f in report.findings)
        rows.append(
            (report.path, "2" if report.python2 else "3" if report.is_read else "?", fixes["safe"], fixes["ask"])
        )
    table(("file", "Python", "safe", "ask"), rows)


def _place(finding: Any) -> str:
    return f"{finding.cell}:{finding.line}" if finding.cell else str(finding.line)


def _total(reports: list[Any], show_uses: bool) -> None:
    """One line, or a table, for all files."""
    found: dict[tuple[str, str], list[Any]] = collections.defaultdict(list)
    for report in reports:
        for use in report.uses:
            found[use.kind, use.name].append((use, report.path))
    states = collections.Counter(places[0][0].state for places in found.values())
    if show_uses and found:
        rows = [
            (kind, name, len(places), len({path for _, path in places}), places[0][0].state)
            for (kind, name), places in sorted(found.items(), key=lambda item: (item[0][0], -len(item[1]), item[0][1]))
        ]
        table(("kind", "name of Caffe2's", "uses", "files", "here"), rows)
    said = ", ".join(f"{states[s]} {s}" for s in ("supported", "differs", "missing") if states[s]) or "nothing"
    fixes = collections.Counter(f.fix for r in reports for f in r.findings)
    read = sum(r.is_read for r in reports)
    if read:
        say(
            f"{count(read, 'file')}; of Caffe2 they use {count(len(found), 'name')}: {said}"
            if found
            else f"{count(read, 'file')}; they use nothing of Caffe2"
        )
    if read < len(reports):
        say(f"{count(len(reports) - read, 'file')} could not be read")
    say(f"to mend: {fixes['safe']} by `caffe2lite port --write`, {fixes['ask']} by a person")


def _mend(
    files: list[tuple[str, str]], show_diff: bool, write: bool, output: str | None, quiet: bool, version: int | None
) -> bool:
    """Show or write the mended files; return whether nothing is left for a person."""
    try:
        from caffe2lite.port import mending  # not above: it needs an extra
    except ImportError as e:
        raise Trouble(str(e)) from None
    clean = True
    for root, path in files:
        try:
            source, mended = mending.mend_file(path, version)
        except python2.Unreadable as e:
            click.echo(f"{e}: left as it is", err=True)
            clean = False
            continue
        clean &= all(f.fix != scan.ASK for f in mended.asks)
        if show_diff:
            lines = [text.splitlines(keepends=True) for text in (source, mended.text)]
            click.echo("".join(difflib.unified_diff(*lines, path, f"{path} (mended)")), nl=False)
        target = None
        if output is not None:
            target = os.path.join(output, os.path.relpath(path, root)) if os.path.isdir(root) else output
        if output is None and (not write or mended.text == source):
            continue
        place = mending.write(path, mended, target)
        if not quiet:
            say(f"written: {place}")
            for f in mended.asks:
                say(f"  decide: {'cell:line' if f.cell else 'line'} {_place(f)}: {f.message}; {f.remedy}")
    return clean
