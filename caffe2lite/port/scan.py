"""What in a legacy script does not work on today's Python and NumPy, or means something else.  It is read, never run."""

from __future__ import annotations

import ast
import os
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from caffe2lite.port import bridges, cython, flow, gone, libraries, meaning, names, project, python2
from caffe2lite.port.names import dotted, imports
from caffe2lite.port.notebooks import Notebook
from caffe2lite.port.uses import DIFFERS, MISSING, Use, uses

CODES = {
    "P001": "syntax of Python 2",
    "P002": "a name or method of Python 2",
    "P003": "a module that was renamed",
    "P004": "a module that was removed",
    "P005": "a name that the standard library no longer has",
    "P006": "division that meant something else in Python 2",
    "P007": "a package that bridges Python 2 and 3",
    "P008": "neither Python 3 nor Python 2",
    "P009": "a file or a StringIO that holds bytes, and was made for text",
    "P010": "a pickle of Python 2",
    "P011": "a result that is no list any more, or no integer",
    "L001": "what another library no longer has",
    "L002": "what NumPy no longer has, in Cython",
    "N001": "a name that NumPy no longer has",
    "N002": "a method that arrays no longer have",
    "C101": "a module, function or operator of Caffe2's that is not here",
    "C102": "something of Caffe2's that is not all the same here",
}
SAFE, ASK, NOTE = "safe", "ask", "note"  # port --write mends it; a person must decide; it works as it is


class Finding(NamedTuple):
    """A place in a file, what is wrong with it, and what to do; `fix` is SAFE, ASK or NOTE.

    In a notebook `line` is that of the cell; cells of every kind count, from 1.
    """

    path: str
    line: int
    code: str
    message: str
    remedy: str
    fix: str
    cell: int | None = None


class Report(NamedTuple):
    """What is to say of one file."""

    path: str
    python2: bool
    uses: list[Use]
    findings: list[Finding]

    @property
    def runs_as_is(self) -> bool:
        """Whether today's Python runs it without `caffe2lite run` and without changes."""
        return all(f.fix == NOTE for f in self.findings)

    @property
    def is_read(self) -> bool:
        """Whether it could be read at all."""
        return all(f.code != "P008" for f in self.findings)


def examine(path: str, version: int | None = None) -> Report:
    """Read a Python file, a notebook or Cython; `version` is 2 or 3, for what both can read: else its project tells."""
    text = python2.read(path)
    if path.endswith(".pyx"):
        found = [
            Finding(path, line, "L002", f"numpy.{name} is gone", instead, ASK)
            for line, name, instead in cython.stray(text)
        ]
        return Report(path, False, [], found)
    means2 = version == 2 if version else None
    if not path.endswith(".ipynb"):
        return examine_source(text, path, means2 if version else lambda: project.guess(path).python2)
    try:
        notebook = Notebook(text, path)
    except python2.Unreadable as e:
        return Report(path, False, [], [Finding(path, e.line, "P008", e.reason, "look at the file", ASK)])
    report = examine_source(notebook.source, path, means2 if version else lambda: notebook.is_python2)
    findings = [in_cell(f, notebook) for f in report.findings]
    if notebook.is_python2:
        findings.insert(0, Finding(path, 1, "P001", "its kernel is Python 2", "port --write asks for Python 3", SAFE))
    return report._replace(findings=findings)


def in_cell(finding: Finding, notebook: Notebook) -> Finding:
    """Return a finding in the source of a notebook, by cell."""
    cell, line = notebook.place(finding.line)
    return finding._replace(cell=cell, line=line)


def files(path: str) -> list[str]:
    """Return the Python files and notebooks of a folder, or the file itself."""
    if not os.path.isdir(path):
        return [path]
    found = [p for p in pathlib.Path(path).rglob("*") if p.suffix in (".py", ".pyx", ".ipynb") and p.is_file()]
    return sorted(str(p) for p in found if not any(part.startswith(".") for part in p.relative_to(path).parts))


def examine_source(source: str, path: str, means2: bool | Callable[[], bool] | None = None) -> Report:
    """Read source text; `path` is for the report only, `means2` what it means, or a function to ask where it does not show that."""
    try:
        with python2.deep(path):
            return _examined(source, path, means2)
    except python2.Unreadable as e:
        return Report(path, False, [], [Finding(path, e.line, "P008", e.reason, "look at the file", ASK)])


def _examined(source: str, path: str, means2: bool | Callable[[], bool] | None) -> Report:
    tree = python2.parse(source, path)
    is_python2 = python2.means_python2(tree, source, path, means2)
    findings: list[Finding] = []
    line_of: Callable[[int], int] = int  # the line in the source
    if is_python2:
        try:
            made = python2.convert(source, path, project.left_out(source, path, tree))
        except python2.Unreadable as e:
            if tree is None:
                remedy = "install it, and look again" if isinstance(e, python2.NoConverter) else "look at the file"
                code = "P001" if isinstance(e, python2.NoConverter) else "P008"
                return Report(path, False, [], [Finding(path, e.line, code, e.reason, remedy, ASK)])
            made = python2.Converted(source, [], list(range(1, source.count("\n") + 2)))
        for line, what, was in made.changes:
            code = "P001" if what in python2.SYNTAX else "P002"
            findings.append(Finding(path, line, code, f"{_fixer_says(what)}: {was}", "port --write mends it", SAFE))
        converted = python2.parse(made.text, path)
        if converted is None:
            message = "it was converted from Python 2, and the result is no Python 3"
            return Report(path, True, [], [*findings, Finding(path, 1, "P008", message, "look at the file", ASK)])
        tree, line_of = converted, made.origin
        if not python2.has_true_division(source):
            findings += [f._replace(line=line_of(f.line)) for f in divisions(tree, path)]
    seen = {(f.line, f.code) for f in findings}
    findings += [f for f in _names(tree, path, line_of) if (f.line, f.code) not in seen]
    findings += [f for f in _flows(tree, path, line_of, is_python2) if (f.line, f.code) not in seen]
    findings += list(_libraries(tree, path, line_of))
    own = project.own(project.root_of(path)) if os.path.exists(path) else None
    used = [use._replace(line=line_of(use.line)) for use in uses(tree, own)]
    for use in used:
        if use.state == MISSING:
            findings.append(Finding(path, use.line, "C101", f"{use.kind} {use.name}: {use.note}", "see the note", ASK))
        elif use.state == DIFFERS:
            findings.append(Finding(path, use.line, "C102", f"{use.name}: {use.note}", "check that it suits you", NOTE))
    return Report(path, is_python2, used, sorted(dict.fromkeys(findings), key=lambda f: (f.line, f.code)))


def _fixer_says(fixer: str) -> str:
    return python2.FIXERS.get(fixer, fixer.replace("_", " "))


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else text[:39] + "…"


def divisions(tree: ast.Module, path: str) -> list[Finding]:
    """Return the divisions of Python 2 source that may have been of integers: a person decides where they probably were."""
    remedy = "write // where integers are meant; `caffe2lite run` does what Python 2 did"
    found = []
    rounded = {id(n.args[0]) for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args and _rounds(n)}
    for node in ast.walk(tree):
        if id(node) in rounded:
            continue  # as before, for numbers above 0
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            sides = (node.left, node.right)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
            sides = (node.target, node.value)
        else:
            continue
        if any(map(flow.is_fraction, sides)):
            continue
        message = f"`{_short(node)}` was rounded down for integers in Python 2"
        found.append(Finding(path, node.lineno, "P006", message, remedy, ASK if all(map(_counts, sides)) else NOTE))
    return found


def _rounds(node: ast.Call) -> bool:
    return (node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")) in ("int", "floor")


def _counts(node: ast.expr) -> bool:
    """Return whether it is probably an integer: a number, a size, or a variable that is named as one."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    if isinstance(node, ast.Call):
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        return called in ("len", "int", "ord", "count", "size") or (called == "round" and len(node.args) == 1)
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _COUNT.search(node.id if isinstance(node, ast.Name) else node.attr) is not None
    if isinstance(node, ast.BinOp):
        return _counts(node.left) and _counts(node.right)
    return False


_COUNT = re.compile(
    r"^[ijknwhN]$|^n[A-Z]|(?:^|_)(?i:n|num|len|length|count|size|width|height|iters?|epochs?|gpus?|batch|idx|index|stride|total|"
    r"number|classes|images|examples|samples|rows|cols|steps)\d*$|^(?i:n|num|number)_"
)


# ---- values and other libraries ----------------------------------------------------------------------------------

_FLOWS = {
    flow.LOSES_BYTES: ("P009", "{node} holds bytes: {use}", "open it as binary, with 'b' in its mode"),
    flow.IN_MEMORY: ("P009", "{node} holds bytes: {use}", "io.BytesIO"),
    flow.INDEXED: ("P011", "{node} is no list any more: {use}", "list(…)"),
    flow.FRACTION: ("P011", "{node} is a fraction: {use}", "write // where integers are meant"),
}


def _flows(tree: ast.Module, path: str, line_of: Callable[[int], int], is_python2: bool) -> Iterator[Finding]:
    for found in flow.breaks(tree):
        code, message, remedy = _FLOWS[found.kind]
        if found.kind == flow.FRACTION and not is_python2:
            continue
        safe = found.kind != flow.FRACTION and found.alone and mends(found)
        words = message.format(node=f"`{_short(found.node)}`", use=f"`{_short(found.use)}`")
        yield Finding(path, line_of(found.node.lineno), code, words, remedy, SAFE if safe else ASK)
    for node in ast.walk(tree) if is_python2 else ():
        if isinstance(node, ast.Call) and is_old_pickle(node):
            words = f"`{_short(node)}` fails where Python 2 has pickled text that is no ASCII, or arrays"
            yield Finding(path, line_of(node.lineno), "P010", words, "encoding='latin1'", SAFE)


def mends(found: flow.Found) -> bool:
    """Return whether `port --write` can mend it: all but a mode that is not written where the file is opened."""
    return found.kind in (flow.LOSES_BYTES, flow.IN_MEMORY, flow.INDEXED)


def is_old_pickle(node: ast.Call) -> bool:
    """Return whether it is `pickle.load(f)` without an encoding."""
    function = node.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr in ("load", "loads")
        and isinstance(function.value, ast.Name)
        and function.value.id in ("pickle", "cPickle")
        and not any(k.arg == "encoding" for k in node.keywords)
    )


def _libraries(tree: ast.Module, path: str, line_of: Callable[[int], int]) -> Iterator[Finding]:
    """Yield what other libraries no longer have."""
    imported = list(imports(tree))
    aliases = names.aliases(imported)
    tops = {i.module.split(".")[0] for i in imported}
    guarded = python2.guarded(tree)

    def told(node: Any, what: str, row: libraries.Break) -> Finding:
        fix = NOTE if id(node) in guarded else ASK
        return Finding(path, line_of(node.lineno), "L001", f"{what} ended with {row.since}", row.instead, fix)

    for i in imported:
        for whole in dict.fromkeys((i.module, i.meaning)):
            if whole in libraries.BREAKS and whole not in libraries.CALLS:
                yield told(i.node, whole, libraries.BREAKS[whole])
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            whole = dotted(node.func, aliases)
            breaks = libraries.CALLS.get(whole)
            words = {k.arg or "" for k in node.keywords}
            if breaks is not None and "" not in words and breaks(len(node.args), words):
                yield told(node, f"`{_short(node)}`", libraries.BREAKS[whole])
            last = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            for word in words:
                row = libraries.KEYWORDS.get((last, word))
                if row is not None and row[0] in tops:
                    yield told(node, f"{last}({word}=)", libraries.Break(row[1], row[2]))
        elif isinstance(node, ast.Attribute):
            whole = dotted(node, aliases)
            if whole in libraries.BREAKS and whole not in libraries.CALLS and isinstance(node.ctx, ast.Load):
                yield told(node, whole, libraries.BREAKS[whole])
            elif not whole and node.attr in libraries.ATTRIBUTES:
                row = libraries.ATTRIBUTES[node.attr]
                if row[0] in tops:
                    yield told(node, f".{node.attr}", libraries.Break(row[1], row[2]))


# ---- names that are gone -----------------------------------------------------------------------------------------


def _names(tree: ast.Module, path: str, line_of: Callable[[int], int]) -> Iterator[Finding]:
    imported = list(imports(tree))
    aliases = names.aliases(imported)
    guarded, needless = python2.guarded(tree), bridges.needless(tree, path)
    for i in imported:
        line, at = line_of(i.node.lineno), NOTE if id(i.node) in guarded else None
        yield from _module(path, line, i.module, at, (i.node.lineno, i.name or i.module) in needless)
        if i.name:
            yield from _name(path, line, i.meaning, at)
    for line, name in python2.stray_builtins(tree):
        yield Finding(path, line_of(line), "P002", f"{name} is gone", gone.BUILTINS[name], ASK)
    yield from _methods(tree, path, line_of)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        line, at = line_of(node.lineno), NOTE if id(node) in guarded else None
        whole = dotted(node, aliases)
        if whole:
            yield from _name(path, line, whole, at)
        elif node.attr in gone.ARRAY_METHODS:
            fix = SAFE if node.attr == "tostring" else ASK
            yield Finding(
                path, line, "N002", f".{node.attr} of arrays is gone", gone.ARRAY_METHODS[node.attr], at or fix
            )
        elif node.attr in gone.UNITTEST and isinstance(node.value, ast.Name) and node.value.id == "self":
            instead = gone.UNITTEST[node.attr]
            yield Finding(
                path, line, "P005", f"self.{node.attr} is gone", instead, at or (SAFE if " " not in instead else ASK)
            )
        elif node.attr in ("isAlive", "getchildren"):
            yield Finding(path, line, "P005", f".{node.attr} is gone", gone.METHODS[node.attr], at or ASK)


def _methods(tree: ast.Module, path: str, line_of: Callable[[int], int]) -> Iterator[Finding]:
    """Yield what only Python 2 does with classes, generators and codecs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            defined = {part.name: part.lineno for part in node.body if isinstance(part, ast.FunctionDef)}
            new = defined.keys() | {n.id for part in node.body for n in ast.walk(part) if isinstance(n, ast.Name)}
            for old in gone.SPECIAL.keys() & defined.keys():
                if new.isdisjoint({gone.SPECIAL[old].split()[0].rstrip(","), "__lt__" if old == "__cmp__" else ""}):
                    line = line_of(defined[old])
                    yield Finding(path, line, "P002", f"nothing calls {old} of {node.name}", gone.SPECIAL[old], ASK)
        elif isinstance(node, ast.FunctionDef):
            for end in meaning.stops(node):
                yield Finding(
                    path, line_of(end.lineno), "P002", "a generator that raises StopIteration fails", "return", ASK
                )
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("decode", "encode")
        ):
            codec = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
            if codec in gone.CODECS[:4] and not dotted(node.func, {"codecs": "codecs"}):
                message = f"text has no codec {codec!r}: .{node.func.attr}({codec!r})"
                yield Finding(path, line_of(node.lineno), "P002", message, f"codecs.{node.func.attr}, of bytes", ASK)


def _module(path: str, line: int, name: str, at: str | None, needless: bool) -> Iterator[Finding]:
    top = name.split(".")[0]
    if name in gone.RENAMED:
        yield Finding(path, line, "P003", f"module {name} was renamed", gone.RENAMED[name], at or SAFE)
    elif name in gone.REMOVED or top in gone.REMOVED:
        yield Finding(
            path,
            line,
            "P004",
            f"module {name} was removed",
            gone.REMOVED.get(name, gone.REMOVED.get(top, "")),
            at or ASK,
        )
    elif bridges.is_one(name) and needless and not at:
        yield Finding(path, line, "P007", f"{name} is not needed", "port --write leaves it out", SAFE)
    elif bridges.is_one(name):
        note = f"pip install {'future' if top == 'past' else top}, or caffe2lite run, which has what is used of it"
        fix = at or (NOTE if bridges.is_installed(top) else ASK)
        yield Finding(path, line, "P007", f"{name} bridges Python 2 and 3", note, fix)


def _name(path: str, line: int, whole: str, at: str | None) -> Iterator[Finding]:
    top, _, rest = whole.partition(".")
    if top == "numpy" and rest in gone.NUMPY:
        instead = gone.NUMPY[rest]
        plain = instead.removeprefix("-").removeprefix("np.").isidentifier()
        fix = SAFE if plain or rest == "asscalar" else ASK
        yield Finding(path, line, "N001", f"numpy.{rest} is gone", instead, at or fix)
    elif whole in gone.NAMES:
        instead = gone.NAMES[whole]
        fix = SAFE if whole.startswith("collections.") or whole == "time.clock" else ASK
        yield Finding(path, line, "P005", f"{whole} is gone", instead, at or fix)
