"""Python 2's meaning on Python 3: what means something else, or is gone, becomes calls of the functions here."""

from __future__ import annotations

import ast
import builtins
import codecs
import csv
import decimal
import functools
import importlib
import importlib.util
import io
import numbers
import operator
import os
import pickle
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from caffe2lite.port import gone, text

DIVIDE, CALL, CAUGHT = "__caffe2lite_divide__", text.MARK, "__caffe2lite_caught__"
COMPARED, DIVIDE_IN_PLACE = "__caffe2lite_compared__", "__caffe2lite_divide_in_place__"
OWNER, KEY = "__caffe2lite_owner__", "__caffe2lite_key__"  # of what `/=` changes
NUMBER = "__caffe2lite_number__"
FILES = "__caffe2lite_files__"
STRINGS = "__caffe2lite_strings__"  # what is a `str` for isinstance
_CALLED = {*gone.METHODS, *gone.ARRAY_METHODS, "exists", "isfile"}
# Methods that take or give what Python 2 had as a `str`, and that are of bytes here.
_OF_STRINGS = {
    "ParseFromString", "MergeFromString", "FromString", "SerializeToString", "loads", "dumps", "load", "dump", "pack",
    "unpack", "unpack_from", "fromstring", "frombuffer", "compress", "decompress", "b64encode", "b64decode", "hexlify",
    "unhexlify", "crc32", "adler32", "update", "md5", "sha1", "sha256", "send", "sendall", "sendto", "recv",
    "recv_multipart", "send_multipart", "communicate", "check_output", "read", "readline", "readlines", "write", "put",
    "get", "key", "value", "getvalue", "digest", "decode", "encode", "tobytes", "reader", "DictReader", "sort",
}  # fmt: skip


# ---- what the calls do -------------------------------------------------------------------------------------------


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
    """`owner.method(…)` for methods that objects of Python and NumPy no longer have, or that told no text from bytes."""
    if isinstance(owner, (np.ndarray, np.generic)) and method in _OF_ARRAYS:
        return _OF_ARRAYS[method](owner, *args, **kwargs)
    if owner is os.path and method in ("exists", "isfile"):
        return _built_in(args[0]) or getattr(owner, method)(*args, **kwargs)
    if method in ("decode", "encode") and isinstance(owner, (str, text.Bytes)):
        return _recode(owner, method, *args, **kwargs)
    found = getattr(owner, method, None)
    if found is not None:
        return _with_strings(owner, method, found, args, kwargs) if method in _OF_STRINGS else found(*args, **kwargs)
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


_LIBRARY = re.compile(r"(?:lib)?caffe2_\w+\.(?:so|dylib|dll)")


def _built_in(path: Any) -> bool:
    """Return whether it is a library of operators, which a script looks for before `dyndep` takes it: ours are built in."""
    return isinstance(path, str) and _LIBRARY.fullmatch(os.path.basename(path)) is not None


def _with_strings(owner: Any, method: str, found: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function that may want bytes where Python 2 gave a `str`; bytes that it gives understand text."""
    if method == "sort" and isinstance(owner, list) and (args or "cmp" in kwargs):
        key = functools.cmp_to_key(args[0] if args else kwargs.pop("cmp"))
        return found(key=key, **{k: v for k, v in kwargs.items() if k == "reverse"})
    if owner is csv and method in ("reader", "DictReader") and args and not isinstance(args[0], (list, tuple)):
        return found(map(text.decoded, args[0]), *args[1:], **kwargs)
    try:
        return text.tolerant(found(*args, **kwargs))
    except (TypeError, ValueError):
        if not any(isinstance(a, str) for a in args) or _is_legacy(found):
            raise
        given = tuple(map(text.encoded, args))
    return text.tolerant(found(*given, **kwargs))


def _is_legacy(function: Any) -> bool:
    """Return whether it is a function of the script's own, which an error may have left half done."""
    return CALL in getattr(getattr(function, "__func__", function), "__globals__", ())


def _recode(owner: Any, method: str, encoding: str = "utf-8", errors: str = "strict") -> Any:
    """`owner.decode(…)`, which may be text already, and codecs that made text of text."""
    if encoding.lower() in gone.CODECS:
        name = encoding.lower().replace("string", "unicode").replace("-", "_")
        if isinstance(owner, bytes):
            return text.tolerant(codecs.encode(owner, name) if method == "encode" else codecs.decode(owner, name))
        if name == "rot13" or (name == "unicode_escape" and method == "encode"):
            made = getattr(codecs, method)(owner, name)
        else:
            made = getattr(codecs, method)(owner.encode("latin-1"), name)
        return made if isinstance(made, str) else made.decode("latin-1")
    if method == "decode":
        return bytes(owner).decode(encoding, errors) if isinstance(owner, bytes) else owner
    return text.tolerant(owner.encode(encoding, errors))


def as_number(kind: Any, value: Any) -> Any:
    """`float(x)` and `int(x)`, also of an array of one element, which NumPy 2.4 has ended."""
    return kind(value.item() if isinstance(value, np.ndarray) and value.size == 1 else value)


def compared(cls: Any) -> Any:
    """Return the class, with comparisons that ask its `__cmp__`, as Python 2 did."""
    for by in (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge):
        if f"__{by.__name__}__" not in vars(cls):
            setattr(cls, f"__{by.__name__}__", lambda self, other, by=by: by(self.__cmp__(other), 0))
    return cls


# ---- the tree ----------------------------------------------------------------------------------------------------


class Meaning(ast.NodeTransformer):
    """What is gone or means something else becomes calls of the functions above."""

    def __init__(self, python2: bool, floors: bool) -> None:
        self.python2, self.floors = python2, floors
        self.ends: set[int] = set()  # ids of statements that end a generator

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        target = node.func
        if isinstance(target, ast.Name) and target.id == "isinstance" and self.python2 and len(node.args) == 2:
            node.args[1] = _strings(node.args[1])
        if _is_number(node):
            return ast.copy_location(ast.Call(_name(NUMBER, target), [target, *node.args], []), node)
        if not isinstance(target, ast.Attribute):
            return node
        if target.attr in _CALLED or (self.python2 and target.attr in _OF_STRINGS):
            if isinstance(target.value, ast.Name) and is_bridge(target.value):
                return node
            if isinstance(target.value, ast.Call) and getattr(target.value.func, "id", "") == "super":
                return node
            name = ast.copy_location(ast.Constant(target.attr), target)
            made = ast.Call(_name(CALL, target), [target.value, name, *node.args], node.keywords)
            return ast.copy_location(made, node)
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


def is_bridge(node: ast.expr) -> bool:
    """Return whether it is `six` or `utils`, whose functions have the names of the methods of Python 2."""
    return isinstance(node, ast.Name) and node.id in ("six", "utils", "future")


def _is_number(node: ast.Call) -> bool:
    """Return whether it is `float(x)` or `int(x)` of what may be an array."""
    named = isinstance(node.func, ast.Name) and node.func.id in ("float", "int")
    return (
        named
        and len(node.args) == 1
        and not node.keywords
        and not isinstance(node.args[0], (ast.Constant, ast.Starred))
    )


def _strings(kinds: ast.expr) -> ast.expr:
    """Return the second argument of isinstance, for which Python 2's `str` are also the bytes that stand for them."""
    if isinstance(kinds, ast.Name) and kinds.id in ("str", "file"):
        return _name(STRINGS if kinds.id == "str" else FILES, kinds)
    if isinstance(kinds, ast.Tuple):
        kinds.elts = [_strings(kind) for kind in kinds.elts]
    return kinds


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


# ---- builtins ----------------------------------------------------------------------------------------------------


def _round(number: Any, digits: int = 0) -> float:
    """`round` of Python 2: a float, halves away from zero; also of an array of one element."""
    value = as_number(float, number)
    if value != value or value in (float("inf"), float("-inf")):
        return value
    step = decimal.Decimal(1).scaleb(-digits)
    context = decimal.Context(prec=400)
    return float(decimal.Decimal(value).quantize(step, decimal.ROUND_HALF_UP, context))


def _sorted(values: Any, cmp: Any = None, key: Any = None, reverse: bool = False) -> list[Any]:
    by = key
    if cmp is not None:
        order = functools.cmp_to_key(cmp)
        by = order if key is None else lambda value: order(key(value))
    return sorted(values, key=by, reverse=reverse)


def _import(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    """`import` of Python 2, which looked beside a module of a package first."""
    package = (globals or {}).get("__package__")
    if level == 0 and package and not (globals or {}).get("absolute_import"):
        beside = f"{package}.{name.partition('.')[0]}"
        if beside in sys.modules or _is_beside(beside):
            level = 1
    return builtins.__import__(name, globals, locals, fromlist, level)


def _is_beside(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


BUILTINS: dict[str, Any] = {
    "xrange": range,
    "unicode": str,
    "basestring": (str, bytes),
    "long": int,
    "unichr": chr,
    "raw_input": input,
    "reduce": functools.reduce,
    "reload": importlib.reload,
    "cmp": lambda a, b: (a > b) - (a < b),
    "file": text.open,
    "buffer": memoryview,
    "intern": sys.intern,
    "apply": lambda function, args=(), kwargs=None: function(*args, **(kwargs or {})),
    "StandardError": Exception,
}
# Builtins that Python 3 has, and that meant something else.
CHANGED: dict[str, Any] = {"open": text.open, "round": _round, "sorted": _sorted, "__import__": _import}

# What a module's globals need beside its own names.
HELPERS: dict[str, Any] = {
    DIVIDE: divide, CALL: call, COMPARED: compared, DIVIDE_IN_PLACE: divide_in_place, STRINGS: (str, text.Bytes),
    NUMBER: as_number,
    FILES: io.IOBase,
}  # fmt: skip


# ---- pickles -----------------------------------------------------------------------------------------------------


def _buffer(file: Any) -> Any:
    return getattr(file, "buffer", file) if isinstance(file, (io.TextIOBase, text.File)) else file


def pickles() -> Iterator[tuple[types.ModuleType, str, Callable[..., Any]]]:
    """Yield (pickle, name, function) that take files opened as text, and strings that Python 2 has pickled."""
    load, loads, dump, reader = pickle.load, pickle.loads, pickle.dump, pickle.Unpickler

    def of_python2(kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"encoding": "latin1", **kwargs}

    class Unpickler(reader):  # type: ignore[valid-type, misc]
        def __init__(self, file: Any, **kwargs: Any) -> None:
            super().__init__(_buffer(file), **of_python2(kwargs))

    yield pickle, "load", lambda file, **kwargs: load(_buffer(file), **of_python2(kwargs))
    yield pickle, "loads", lambda data, **kwargs: loads(text.encoded(data), **of_python2(kwargs))
    yield pickle, "dump", lambda value, file, *args, **kwargs: dump(value, _buffer(file), *args, **kwargs)
    yield pickle, "Unpickler", Unpickler
