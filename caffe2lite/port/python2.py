"""Python 2 source, made to run on Python 3 in memory: syntax by fissix, meaning by the functions of `meaning`.

`load(source, filename)` is all that `run` needs.  Files are never touched.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import logging
import re
import sys
import tokenize
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from caffe2lite.extras import install
from caffe2lite.port import flow, gone, python3
from caffe2lite.port.meaning import Meaning, is_bridge


class Unreadable(ValueError):
    """A file that is Python of no version; `line` is where reading ended, `reason` what is wrong there."""

    def __init__(self, path: str, reason: str, line: int = 1) -> None:
        super().__init__(f"{path}: line {line}: {reason}")
        self.reason, self.line = reason, line


class NoConverter(Unreadable):
    """Source of Python 2, and nothing that converts it."""


class Code(NamedTuple):
    """Source as it runs here."""

    tree: ast.Module  # its lines are those of the file
    python2: bool


def read(path: str) -> str:
    """Return the text of a source file, by its coding line, else UTF-8, else Latin-1."""
    with open(path, "rb") as f:
        content = f.read()
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = content.decode(encoding)
    except (SyntaxError, UnicodeDecodeError):
        text = content.decode("latin-1")
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


# ---- what is Python 2 --------------------------------------------------------------------------------------------

_ONLY_2 = {n for n in gone.BUILTINS if n not in ("file", "reduce", "reload", "intern", "apply", "buffer")}
_METHODS_2 = {"iteritems", "iterkeys", "itervalues", "has_key"}


def traits(tree: ast.Module) -> list[tuple[int, str]]:
    """Return (line, name) of what only Python 2 has, where the module does not define it or guard against its absence."""
    tried = guarded(tree)
    found = [(line, name) for line, name in stray_builtins(tree) if name in _ONLY_2]
    for node in ast.walk(tree):
        if id(node) in tried:
            continue
        if isinstance(node, ast.Attribute) and node.attr in _METHODS_2 and not is_bridge(node.value):
            found.append((node.lineno, node.attr))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift) and _is_print(node.left):
            found.append((node.lineno, "print >>"))
        elif isinstance(node, ast.Expr) and _is_print(node.value):
            found.append((node.lineno, "print"))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, a.name) for a in node.names if a.name in gone.RENAMED]
        elif isinstance(node, ast.ImportFrom) and node.module in gone.RENAMED and not node.level:
            found.append((node.lineno, node.module))
    found += [(f.use.lineno, f.kind) for f in flow.breaks(tree) if f.kind != flow.FRACTION]  # type: ignore[attr-defined]
    return sorted(found)


def guesses(tree: ast.Module, source: str) -> bool:
    """Return whether a module that both Pythons read divides as only Python 2 can: the result counts or indexes."""
    return not has_true_division(source) and any(f.kind == flow.FRACTION for f in flow.breaks(tree))


def stray_builtins(tree: ast.Module) -> list[tuple[int, str]]:
    """Return (line, name) of Python 2's builtins that the module takes for granted."""
    made = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    made |= {a.asname or a.name for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
    made |= {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    made |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    if any(isinstance(n, ast.ImportFrom) and any(a.name == "*" for a in n.names) for n in ast.walk(tree)):
        made |= {"file", "reduce", "reload", "intern", "apply", "buffer"}  # a star may have brought them
    tried = guarded(tree)
    return [
        (n.lineno, n.id)
        for n in ast.walk(tree)
        if isinstance(n, ast.Name) and n.id in gone.BUILTINS and n.id not in made and id(n) not in tried
    ]


def guarded(tree: ast.Module) -> set[int]:
    """Return the ids of the nodes in `try`, and of those that ask for the version: such a module can do without a name."""
    guards = [
        n for n in ast.walk(tree) if isinstance(n, ast.Try) or (isinstance(n, (ast.If, ast.IfExp)) and _asks(n.test))
    ]
    return {id(n) for guard in guards for n in ast.walk(guard)}


def _asks(test: ast.expr) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in ("PY2", "PY3", "version_info") for n in ast.walk(test))


def _is_print(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "print"


_FUTURE = re.compile(r"^[ \t]*from[ \t]+__future__[ \t]+import\b[ \t]*(\([^)]{0,2000}\)|.*)", re.M)
_WORD = re.compile(r"\w+")


def futures(source: str) -> set[str]:
    """Return what a module takes from `__future__`."""
    return {word for found in _FUTURE.finditer(source) for word in _WORD.findall(found[1].partition("#")[0])}


def has_true_division(source: str) -> bool:
    """Return whether `/` of integers means a fraction: the module says so for Python 2."""
    return "division" in futures(source)


def shown(tree: ast.Module | None, source: str, cells: bool = False) -> bool | None:
    """Return whether source shows by itself that it is Python 2 (True) or 3 (False); None for what both can read.

    `tree` is None where Python 3 cannot read it.  What Python 2 cannot read is 3, whatever names are in it.
    """
    if tree is None:
        return True
    if python3.reads(tree, source, futures(source), cells):
        return False
    if traits(tree):
        return True
    return False if python3.has(tree, guarded(tree)) else None


def means_python2(tree: ast.Module | None, source: str, path: str, means2: bool | Callable[[], bool] | None) -> bool:
    """Return whether source is Python 2: as `means2` says, or where that is a function (or None), as the source shows."""
    if isinstance(means2, bool) and tree is not None:
        return means2 and shown(tree, source, path.endswith(".ipynb")) is not False
    found = shown(tree, source, path.endswith(".ipynb"))
    return found if found is not None else bool(means2 and means2())


# ---- syntax ------------------------------------------------------------------------------------------------------


# What the fixers of fissix mend, in words.
FIXERS = {
    "print": "print as a statement",
    "except": "`except E, e`",
    "raise": "`raise E, text`",
    "exec": "exec as a statement",
    "repr": "backticks",
    "ne": "`<>`",
    "numliterals": "a number of Python 2",
    "tuple_params": "a tuple as parameter",
    "has_key": "has_key",
    "dict": "a dict's methods",
    "xrange": "xrange",
    "unicode": "unicode",
    "basestring": "basestring",
    "long": "long",
    "next": ".next()",
    "map": "map makes no list",
    "filter": "filter makes no list",
    "zip": "zip makes no list",
    "imports": "a module that was renamed",
    "urllib": "urllib",
    "import": "an import of a module beside it",
    "raw_input": "raw_input",
    "input": "input",
    "reduce": "reduce",
    "itertools": "itertools",
    "itertools_imports": "itertools",
    "types": "types",
    "metaclass": "__metaclass__",
    "execfile": "execfile",
    "apply": "apply",
    "nonzero": "__nonzero__",
    "funcattrs": "a function's attributes",
    "methodattrs": "a method's attributes",
    "sys_exc": "sys.exc_type",
    "getcwdu": "os.getcwdu",
    "intern": "intern",
    "reload": "reload",
    "future": "from __future__",
    "imports2": "a module that was renamed",
    "isinstance": "isinstance",
    "renames": "sys.maxint",
    "standarderror": "StandardError",
    "paren": "a list without brackets",
    "throw": "throw",
    "xreadlines": "xreadlines",
}
SYNTAX = {"print", "except", "raise", "exec", "repr", "ne", "numliterals", "tuple_params", "paren", "throw"}


class Converted(NamedTuple):
    """Python 2 source as Python 3 source."""

    text: str
    changes: list[tuple[int, str, str]]  # (line of the source, fixer, what stood there)
    origins: list[int]  # for each line of the text, that of the source

    def origin(self, line: int) -> int:
        """Return the line of the source that a line of the text comes from."""
        return self.origins[min(line, len(self.origins)) - 1]


class _Converter:
    """fissix with its fixers, but for those left out; they note what they change."""

    def __init__(self, left_out: frozenset[str]) -> None:
        from fissix import refactor

        logging.getLogger("RefactoringTool").setLevel(logging.ERROR)
        names = refactor.get_fixers_from_package("fissix.fixes")
        self.tool = refactor.RefactoringTool([n for n in names if n.rpartition(".fix_")[2] not in left_out])
        self.changes: list[tuple[int, str]] = []
        for fixer in [*self.tool.pre_order, *self.tool.post_order]:
            fixer.transform = self._noting(fixer, fixer.transform)

    def _noting(self, fixer: Any, transform: Any) -> Any:
        name = type(fixer).__name__.removeprefix("Fix").lower()
        name = {
            "tupleparams": "tuple_params",
            "haskey": "has_key",
            "rawinput": "raw_input",
            "sysexc": "sys_exc",
            "itertoolsimports": "itertools_imports",
        }.get(name, name)

        def noting(node: Any, results: Any) -> Any:
            before, line = str(node), node.get_lineno()
            made = transform(node, results)
            if str(node if made is None else made) != before:
                self.changes.append((line, name))
            return made

        return noting

    def __call__(self, source: str, filename: str) -> Converted:
        self.changes = []
        tree = self.tool.refactor_string(source if source.endswith("\n") else source + "\n", filename)
        lines = source.split("\n")
        changes = [(line, name, _cut(lines[line - 1].strip())) for line, name in sorted(set(self.changes))]
        return Converted(str(tree), changes, _origins(tree))


def _origins(tree: Any) -> list[int]:
    """For each line of fissix's tree, that of the source: its leaves keep theirs, and those that it made have none."""
    found = [0]  # 0: not known yet
    for leaf in tree.leaves():
        found += [0] * leaf.prefix.count("\n")
        for i in range(leaf.value.count("\n") + 1):  # a string may have several lines, and so has the end of a line
            found += [0] * (i > 0)
            if leaf.lineno and leaf.value != "\n" and not found[-1]:
                found[-1] = leaf.lineno + i
    last = 1
    for line, origin in enumerate(found):
        last = found[line] = origin or last
    return found


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


@functools.cache
def _converter(left_out: frozenset[str]) -> _Converter:
    return _Converter(left_out)


# While a script runs, modules and names of Python 2 are there: the source need not go around them.
RUNS = frozenset(
    ("basestring", "future", "import", "imports", "imports2", "long", "unicode", "urllib", "standarderror")
)
_HARMLESS = frozenset(("future",))


def convert(source: str, filename: str, left_out: frozenset[str] = _HARMLESS) -> Converted:
    """Python 2 source as Python 3 source, but for what fixers do that are left out; Unreadable where it is Python of no version."""
    try:
        converter = _converter(left_out)
    except ImportError:
        raise NoConverter(filename, f"Python 2 syntax needs a converter: {install('port')}") from None
    with deep(filename):
        try:
            made = converter(source, filename)
            if "\t" in source and parse(made.text, filename) is None:  # for Python 2 a tab goes to the next column of 8
                made = converter(_INDENT.sub(lambda indent: indent[0].expandtabs(8), source), filename)
            return made
        except RecursionError:
            raise
        except Exception as e:  # fissix's parser has errors of several modules
            reasons = _reason(_syntax_error(source)), _reason(e)
            line, reason = max(reasons, key=lambda r: r[0])  # of the parser that came further
            raise Unreadable(filename, f"neither Python 3 nor Python 2: {reason}", line) from None


_INDENT = re.compile(r"^[ \t]+", re.M)
_DEPTH = 6000  # frames, for which a stack of 8 MB has room in every version of Python


@contextlib.contextmanager
def deep(filename: str) -> Iterator[None]:
    """While it is entered, there is room for deeply nested expressions; Unreadable for those that are deeper still."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        yield
    except RecursionError:
        raise Unreadable(filename, "an expression is nested too deeply") from None
    finally:
        sys.setrecursionlimit(before)


def _syntax_error(source: str) -> Exception | None:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError) as e:
        return e
    return None


def _reason(error: Exception | None) -> tuple[int, str]:
    """Return (line, what is wrong) of an error of one of the parsers."""
    if isinstance(error, SyntaxError):
        return error.lineno or 1, error.msg
    if hasattr(error, "context"):  # fissix's
        return error.context[1][
            0
        ], f"unexpected {error.value!r}" if error.value.strip() else "unexpected indentation or end"
    args = error.args if error is not None else ()
    if len(args) == 2 and isinstance(args[1], tuple):  # its tokenizer's
        return args[1][0], args[0]
    return 0, str(error)


def parse(source: str, filename: str) -> ast.Module | None:
    """Return the tree of Python 3 source, None for what is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old strings have backslashes that are no escapes
        try:
            return ast.parse(source, filename)
        except (SyntaxError, ValueError):
            return None
        except (RecursionError, MemoryError):
            raise Unreadable(filename, "an expression is nested too deeply") from None


def load(source: str, filename: str, python2: bool | None = None) -> Code:
    """Legacy source as code for this Python; Unreadable says why it cannot be.

    `python2` says what source means that Python 3 can read; None takes what it shows.
    """
    with deep(filename):
        tree = parse(source, filename)
        means2 = tree is None or bool(shown(tree, source) if python2 is None else python2)
        if means2:
            try:
                converted = convert(source, filename, RUNS | _no_lists(source))
            except Unreadable:
                if tree is None:
                    raise
            else:
                tree = parse(converted.text, filename)
                if tree is None:
                    raise Unreadable(filename, "it was converted from Python 2, and the result is no Python 3")
                _place(tree, converted)
        assert tree is not None
        tree = Meaning(means2, means2 and not has_true_division(source)).visit(tree)
        return Code(ast.fix_missing_locations(tree), means2)


def _no_lists(source: str) -> frozenset[str]:
    """Return the fixers that a module does not want: it prints by a function, or has taken iterators from a bridge."""
    found = {"print"} if "print_function" in futures(source) else set()
    if _ITERATORS.search(source):
        found |= {"map", "filter", "zip", "xrange"}
    return frozenset(found)


_ITERATORS = re.compile(r"^[ \t]*from[ \t]+(?:six\.moves|future_builtins|builtins|future\.builtins)\b", re.M)


def _place(tree: ast.Module, converted: Converted) -> None:
    """Give nodes of converted text their lines in the source, so that tracebacks show it; columns are not known there."""
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            first, last = converted.origin(node.lineno), converted.origin(node.end_lineno or node.lineno)
            node.lineno, node.end_lineno = first, max(first, last)
            node.col_offset = node.end_col_offset = -1


def execfile(path: str, variables: dict[str, Any] | None = None, local: dict[str, Any] | None = None) -> None:
    """As the builtin of Python 2: run a file among the caller's names."""
    if variables is None:
        variables = sys._getframe(1).f_globals
    code = load(read(path), path)
    exec(compile(code.tree, path, "exec"), variables, variables if local is None else local)
