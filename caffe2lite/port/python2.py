"""Python 2 source, made to run on Python 3 in memory: syntax by fissix, meaning by a few functions.

`load(source, filename)` is all that `run` needs.  Files are never touched.
"""

from __future__ import annotations

import ast
import codecs
import functools
import importlib
import io
import logging
import numbers
import operator
import pickle
import re
import sys
import tokenize
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from caffe2lite.extras import install
from caffe2lite.port import gone


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
    guarded = _guarded(tree)
    found = [(line, name) for line, name in stray_builtins(tree) if name in _ONLY_2]
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.Attribute) and node.attr in _METHODS_2 and not _bridge(node.value):
            found.append((node.lineno, node.attr))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift) and _is_print(node.left):
            found.append((node.lineno, "print >>"))
        elif isinstance(node, ast.Expr) and _is_print(node.value):
            found.append((node.lineno, "print"))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, a.name) for a in node.names if a.name in gone.RENAMED]
        elif isinstance(node, ast.ImportFrom) and node.module in gone.RENAMED and not node.level:
            found.append((node.lineno, node.module))
    return sorted(found)


def stray_builtins(tree: ast.Module) -> list[tuple[int, str]]:
    """Return (line, name) of Python 2's builtins that the module takes for granted."""
    made = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    made |= {a.asname or a.name for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
    made |= {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    made |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    if any(isinstance(n, ast.ImportFrom) and any(a.name == "*" for a in n.names) for n in ast.walk(tree)):
        made |= {"file", "reduce", "reload", "intern", "apply", "buffer"}  # a star may have brought them
    guarded = _guarded(tree)
    return [
        (n.lineno, n.id)
        for n in ast.walk(tree)
        if isinstance(n, ast.Name) and n.id in gone.BUILTINS and n.id not in made and id(n) not in guarded
    ]


def _guarded(tree: ast.Module) -> set[int]:
    """Return the ids of the nodes in `try`: a module that tries a name can do without it."""
    return {id(n) for guard in ast.walk(tree) if isinstance(guard, ast.Try) for n in ast.walk(guard)}


def _is_print(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "print"


def _bridge(node: ast.expr) -> bool:
    """Return whether it is `six` or `utils`, whose functions have the names of the methods of Python 2."""
    return isinstance(node, ast.Name) and node.id in ("six", "utils", "future")


def has_true_division(source: str) -> bool:
    """Return whether `/` of integers means a fraction: the module says so for Python 2."""
    return re.search(r"^\s*from\s+__future__\s+import\b[^\n]*\bdivision\b", source, re.M) is not None or (
        re.search(r"from\s+__future__\s+import\s*\([^)]*\bdivision\b", source) is not None
    )


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
    """fissix with its fixers, which note what they change."""

    def __init__(self) -> None:
        from fissix import refactor

        logging.getLogger("RefactoringTool").setLevel(logging.ERROR)
        self.tool = refactor.RefactoringTool(refactor.get_fixers_from_package("fissix.fixes"))
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
def _converter() -> _Converter:
    return _Converter()


def convert(source: str, filename: str) -> Converted:
    """Python 2 source as Python 3 source; Unreadable where it is Python of no version."""
    try:
        converter = _converter()
    except ImportError:
        raise NoConverter(filename, f"Python 2 syntax needs a converter: {install('port')}") from None
    try:
        made = converter(source, filename)
        if "\t" in source and parse(made.text, filename) is None:  # for Python 2 a tab goes to the next column of 8
            made = converter(re.sub(r"^[ \t]+", lambda indent: indent[0].expandtabs(8), source, flags=re.M), filename)
        return made
    except Exception as e:  # fissix's parser has errors of several modules
        reasons = _reason(_syntax_error(source)), _reason(e)
        line, reason = max(reasons, key=lambda r: r[0])  # of the parser that came further
        raise Unreadable(filename, f"neither Python 3 nor Python 2: {reason}", line) from None


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
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old strings have backslashes that are no escapes
        try:
            return ast.parse(source, filename)
        except (SyntaxError, ValueError):
            return None


def load(source: str, filename: str) -> Code:
    """Legacy source as code for this Python; Unreadable says why it cannot be."""
    tree = parse(source, filename)
    python2 = tree is None or bool(traits(tree))
    if python2:
        try:
            converted = convert(source, filename)
        except Unreadable:
            if tree is None:
                raise
        else:
            tree = parse(converted.text, filename)
            if tree is None:
                raise Unreadable(filename, "it was converted from Python 2, and the result is no Python 3")
            _place(tree, converted)
    assert tree is not None
    tree = _Meaning(python2, python2 and not has_true_division(source)).visit(tree)
    return Code(ast.fix_missing_locations(tree), python2)


def _place(tree: ast.Module, converted: Converted) -> None:
    """Give nodes of converted text their lines in the source, so that tracebacks show it; columns are not known there."""
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            first, last = converted.origin(node.lineno), converted.origin(node.end_lineno or node.lineno)
            node.lineno, node.end_lineno = first, max(first, last)
            node.col_offset = node.end_col_offset = -1


# ---- meaning -----------------------------------------------------------------------------------------------------

DIVIDE, CALL, CAUGHT = "__caffe2lite_divide__", "__caffe2lite_call__", "__caffe2lite_caught__"
COMPARED, DIVIDE_IN_PLACE = "__caffe2lite_compared__", "__caffe2lite_divide_in_place__"
OWNER, KEY = "__caffe2lite_owner__", "__caffe2lite_key__"  # of what `/=` changes
_CALLED = {**gone.METHODS, **gone.ARRAY_METHODS}


def divide(a: Any, b: Any) -> Any:
    """`a / b` of Python 2: rounded down where both are integers."""
    if _whole(a) and _whole(b):
        return a // b
    return a / b


def divide_in_place(a: Any, b: Any) -> Any:
    """`a /= b` of Python 2."""
    return operator.ifloordiv(a, b) if _whole(a) and _whole(b) else operator.itruediv(a, b)


def _whole(value: Any) -> bool:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "iub"
    return isinstance(value, numbers.Integral)


def _itemset(array: np.ndarray, *args: Any) -> None:
    array[args[0] if len(args) > 1 else ()] = args[-1]


_OF_ARRAYS: dict[str, Any] = {
    "tostring": lambda array, order="C": array.tobytes(order),
    "itemset": _itemset,
    "newbyteorder": lambda array, order="S": array.view(array.dtype.newbyteorder(order)),
    "ptp": np.ptp,
}


def call(owner: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """`owner.method(…)` for methods that objects of Python and NumPy no longer have."""
    if isinstance(owner, (np.ndarray, np.generic)) and method in _OF_ARRAYS:
        return _OF_ARRAYS[method](owner, *args, **kwargs)
    if owner is pickle:
        return _pickling(method, *args, **kwargs)
    if method in ("decode", "encode") and isinstance(owner, str):
        return _recode(owner, method, *args, **kwargs)
    found = getattr(owner, method, None)
    if found is not None:
        return found(*args, **kwargs)
    if method == "next":
        return next(owner)
    if method == "has_key":
        return args[0] in owner
    if method == "tostring":  # of the module array
        return owner.tobytes()
    if method == "isAlive":
        return owner.is_alive()
    if method == "getchildren":
        return list(owner)
    if method in ("iteritems", "viewitems", "iterkeys", "viewkeys", "itervalues", "viewvalues"):
        return getattr(owner, method[4:])()
    return getattr(owner, method)(*args, **kwargs)  # its own AttributeError


def _pickling(method: str, *args: Any, **kwargs: Any) -> Any:
    """`pickle.load(…)` and the like, with files that were opened as text, and with strings that Python 2 has pickled."""
    if method != "dump":
        kwargs.setdefault("encoding", "latin1")
    binary = (getattr(value, "buffer", value) if isinstance(value, io.TextIOBase) else value for value in args)
    return getattr(pickle, method)(*binary, **kwargs)


def _recode(text: str, method: str, encoding: str = "utf-8", errors: str = "strict") -> Any:
    """`text.decode(…)`, which is text already, and codecs that made text of text."""
    if encoding.lower() in gone.CODECS:
        name = encoding.lower().replace("string", "unicode").replace("-", "_")
        if name == "rot13" or (name == "unicode_escape" and method == "encode"):
            made = getattr(codecs, method)(text, name)
        else:
            made = getattr(codecs, method)(text.encode("latin-1"), name)
        return made if isinstance(made, str) else made.decode("latin-1")
    return text if method == "decode" else text.encode(encoding, errors)


def compared(cls: Any) -> Any:
    """Return the class, with comparisons that ask its `__cmp__`, as Python 2 did."""
    for by in (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge):
        if f"__{by.__name__}__" not in vars(cls):
            setattr(cls, f"__{by.__name__}__", lambda self, other, by=by: by(self.__cmp__(other), 0))
    return cls


class _Meaning(ast.NodeTransformer):
    """What is gone or means something else becomes calls of the functions above."""

    def __init__(self, python2: bool, floors: bool) -> None:
        self.python2, self.floors = python2, floors
        self.ends: set[int] = set()  # ids of statements that end a generator

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        target = node.func
        if isinstance(target, ast.Attribute) and (target.attr in _CALLED or (self.python2 and _of_text(target))):
            if isinstance(target.value, ast.Name) and _bridge(target.value):
                return node
            if isinstance(target.value, ast.Call) and getattr(target.value.func, "id", "") == "super":
                return node
            name = ast.Constant(target.attr)
            return ast.copy_location(
                ast.Call(
                    _name(CALL, target), [target.value, ast.copy_location(name, target), *node.args], node.keywords
                ),
                node,
            )
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`np.bool` and `np.long` are the builtins that they were: NumPy 2 has given the names to types of its own."""
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy") and node.attr in ("bool", "long"):
            return _name("bool" if node.attr == "bool" else "int", node)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """Let the caught exception keep its name after the handler, as in Python 2."""
        self.generic_visit(node)
        if self.python2 and node.name:
            kept = ast.Assign([ast.Name(node.name, ast.Store())], ast.Name(CAUGHT, ast.Load()))
            node.name = CAUGHT
            for part in ast.walk(kept):
                ast.copy_location(part, node)
            node.body.insert(0, kept)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Return a generator that raises StopIteration ends, as it did before Python 3.7."""
        self.ends.update(map(id, stops(node)))
        self.generic_visit(node)
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self.generic_visit(node)
        return ast.copy_location(ast.Return(), node) if id(node) in self.ends else node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Python 2's `/` and comparisons call `__div__` and `__cmp__`."""
        self.generic_visit(node)
        defined = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
        for old in ("__div__", "__rdiv__", "__idiv__"):
            if self.python2 and old in defined and gone.SPECIAL[old] not in defined:
                same = ast.Assign([ast.Name(gone.SPECIAL[old], ast.Store())], ast.Name(old, ast.Load()))
                for part in ast.walk(same):
                    ast.copy_location(part, node)
                node.body.append(same)
        if self.python2 and "__cmp__" in defined:
            node.decorator_list.append(_name(COMPARED, node))
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if self.floors and isinstance(node.op, ast.Div):
            return ast.copy_location(ast.Call(_name(DIVIDE, node), [node.left, node.right], []), node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        """`x /= y`, in the place of x where x is an array; what x stands in is looked up once."""
        self.generic_visit(node)
        target = node.target
        if not self.floors or not isinstance(node.op, ast.Div):
            return node
        made: list[ast.stmt] = []
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            made.append(ast.Assign([ast.Name(OWNER, ast.Store())], target.value))
            target.value = ast.Name(OWNER, ast.Load())
        if isinstance(target, ast.Subscript) and not any(
            isinstance(part, ast.Slice) for part in ast.walk(target.slice)
        ):
            made.append(ast.Assign([ast.Name(KEY, ast.Store())], target.slice))
            target.slice = ast.Name(KEY, ast.Load())
        read = ast.parse(ast.unparse(target), mode="eval").body
        for part in ast.walk(read):
            ast.copy_location(part, node)
        made.append(ast.Assign([target], ast.Call(ast.Name(DIVIDE_IN_PLACE, ast.Load()), [read, node.value], [])))
        return [ast.fix_missing_locations(ast.copy_location(statement, node)) for statement in made]


def _of_text(method: ast.Attribute) -> bool:
    """Return whether it is a method for which Python 2 told no text from bytes."""
    if isinstance(method.value, ast.Name) and method.value.id == "pickle":
        return method.attr in ("dump", "load", "loads")
    return method.attr in ("decode", "encode")


def stops(function: ast.FunctionDef) -> list[ast.Raise]:
    """Return where a generator raises StopIteration, which is an error since Python 3.7."""
    own = list(_own(function))
    if not any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own):
        return []
    raised = [
        (node, node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
        for node in own
        if isinstance(node, ast.Raise)
    ]
    return [node for node, kind in raised if isinstance(kind, ast.Name) and kind.id == "StopIteration"]


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions and classes in it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield node
            yield from _own(node)


def _name(name: str, at: ast.AST) -> ast.Name:
    return ast.copy_location(ast.Name(name, ast.Load()), at)


# ---- names -------------------------------------------------------------------------------------------------------


def _execfile(path: str, variables: dict[str, Any] | None = None, local: dict[str, Any] | None = None) -> None:
    if variables is None:
        variables = sys._getframe(1).f_globals
    code = load(read(path), path)
    exec(compile(code.tree, path, "exec"), variables, variables if local is None else local)


BUILTINS: dict[str, Any] = {
    "xrange": range,
    "unicode": str,
    "basestring": str,
    "long": int,
    "unichr": chr,
    "raw_input": input,
    "reduce": functools.reduce,
    "reload": importlib.reload,
    "execfile": _execfile,
    "cmp": lambda a, b: (a > b) - (a < b),
    "file": open,
    "buffer": memoryview,
    "intern": sys.intern,
    "apply": lambda function, args=(), kwargs=None: function(*args, **(kwargs or {})),
}

# What a module's globals need beside its own names.
HELPERS: dict[str, Any] = {DIVIDE: divide, CALL: call, COMPARED: compared, DIVIDE_IN_PLACE: divide_in_place}
