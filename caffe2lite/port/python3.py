"""What only Python 3 can read, and what only Python 3 has."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from typing import Any

_NODES = (
    ast.JoinedStr, ast.AnnAssign, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await, ast.Nonlocal, ast.YieldFrom,
    ast.NamedExpr, ast.MatMult, ast.Match,
)  # fmt: skip
_CODING = re.compile(r"^[ \t\f]*#.*?coding[:=]")
_UNDERSCORED = re.compile(r"(?<![\w.\"'])\d+(?:_\d+)+(?![\w\"'])")


def reads(tree: ast.Module, source: str, futures: Collection[str] = (), cells: bool = False) -> bool:
    """Return whether no Python 2 can read a module; `futures` is what it takes from `__future__`.

    The source of a notebook's `cells` needs no coding line.
    """
    if not cells and not source.isascii() and not any(map(_CODING.match, source.split("\n", 2)[:2])):
        return True
    numbers = bool(_UNDERSCORED.search(source))
    prints = "print_function" in futures
    return any(
        isinstance(node, _NODES)
        or (isinstance(node, ast.FunctionDef) and _signature(node))
        or (isinstance(node, (ast.List, ast.Tuple, ast.Set)) and any(isinstance(e, ast.Starred) for e in node.elts))
        or (isinstance(node, ast.Dict) and None in node.keys)
        or (isinstance(node, ast.Raise) and node.cause is not None)
        or (isinstance(node, ast.ClassDef) and bool(node.keywords))
        or (isinstance(node, ast.Call) and _calls(node, prints))
        or (numbers and isinstance(node, ast.Constant) and _is_underscored(node, source))
        for node in ast.walk(tree)
    )


def _signature(node: ast.FunctionDef) -> bool:
    args = node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
    return bool(node.returns or args.kwonlyargs or args.posonlyargs or any(a.annotation for a in every))


def _calls(node: ast.Call, prints: bool) -> bool:
    unpacks = [i for i, a in enumerate(node.args) if isinstance(a, ast.Starred)]
    if unpacks and unpacks[0] < len(node.args) - 1 or sum(k.arg is None for k in node.keywords) > 1:
        return True  # Python 2 took one `*args`, the last
    called = node.func.id if isinstance(node.func, ast.Name) else ""
    return called == "print" and bool(node.keywords) and not prints


def _is_underscored(node: ast.Constant, source: str) -> bool:
    return isinstance(node.value, (int, float)) and "_" in (ast.get_source_segment(source, node) or "")


# ---- names -------------------------------------------------------------------------------------------------------

_BUILTINS = {
    "FileNotFoundError", "FileExistsError", "PermissionError", "IsADirectoryError", "NotADirectoryError", "ConnectionError",
    "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError", "ChildProcessError", "ProcessLookupError", "TimeoutError",
    "InterruptedError", "BlockingIOError", "ModuleNotFoundError", "RecursionError", "StopAsyncIteration", "ResourceWarning",
    "breakpoint", "ascii", "aiter", "anext", "ExceptionGroup",
}  # fmt: skip
# Not those that the package future, or a backport that many took, brought to Python 2 (configparser, enum, futures).
_MODULES = {
    "asyncio", "collections.abc", "contextvars", "dataclasses", "graphlib", "importlib.metadata", "importlib.resources",
    "importlib.util", "importlib.abc", "importlib.machinery", "pathlib", "secrets", "statistics", "tomllib", "tracemalloc", "typing",
    "unittest.mock", "urllib.parse", "urllib.request", "urllib.error", "zoneinfo", "html.parser", "http.server",
}  # fmt: skip
_OF_MODULES = {
    "contextlib": ("suppress", "ExitStack", "redirect_stdout", "redirect_stderr", "nullcontext"),
    "functools": ("lru_cache", "cache", "cached_property", "singledispatch", "partialmethod"),
    "inspect": ("signature", "getfullargspec"),
    "itertools": ("accumulate", "zip_longest", "filterfalse", "pairwise", "batched"),
    "math": ("isclose", "inf", "nan", "tau", "comb", "perm", "prod", "gcd", "log2", "dist"),
    "os": ("scandir", "cpu_count", "replace", "fspath", "get_terminal_size", "sched_getaffinity"),
    "random": ("choices",),
    "shutil": ("which", "get_terminal_size", "disk_usage"),
    "subprocess": ("run", "DEVNULL", "TimeoutExpired"),
    "tempfile": ("TemporaryDirectory",),
    "time": ("perf_counter", "monotonic", "process_time", "perf_counter_ns", "time_ns"),
}  # fmt: skip
_METHODS = {"casefold", "from_bytes", "to_bytes", "isidentifier", "removeprefix", "removesuffix"}
_BRIDGES = ("future", "builtins", "past", "six")  # they bring some of these names to Python 2


def has(tree: ast.Module, guarded: Collection[int]) -> bool:
    """Return whether a module takes for granted what only Python 3 has; nodes whose ids are in `guarded` do not."""
    imported: dict[str, str] = {}
    bridged = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {
                a.asname or a.name.partition(".")[0]: a.name if a.asname else a.name.partition(".")[0]
                for a in node.names
            }
            bridged |= any(a.name.partition(".")[0] in _BRIDGES for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            bridged |= (node.module or "").partition(".")[0] in _BRIDGES
    made = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} | set(imported)
    return any(
        isinstance(node, ast.Name) and node.id in _BUILTINS and node.id not in made  # also as what a `try` catches
        or (id(node) not in guarded and _only_here(node, imported, bridged))
        for node in ast.walk(tree)
    )  # fmt: skip


def _only_here(node: ast.AST, imported: dict[str, str], bridged: bool) -> bool:
    if isinstance(node, ast.Import):
        return not bridged and any(a.name in _MODULES for a in node.names)
    if isinstance(node, ast.ImportFrom):
        if node.level:
            return False
        names = _OF_MODULES.get(node.module or "", ())
        return any(a.name in names for a in node.names) or (not bridged and node.module in _MODULES)
    if isinstance(node, ast.Attribute):
        owner: Any = node.value
        return isinstance(owner, ast.Name) and node.attr in _OF_MODULES.get(imported.get(owner.id, ""), ())
    if isinstance(node, ast.Call):
        return _calls_new(node, imported)
    return False


def _calls_new(node: ast.Call, imported: dict[str, str]) -> bool:
    words = {k.arg for k in node.keywords}
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in _METHODS or (node.func.attr == "makedirs" and "exist_ok" in words)
    if isinstance(node.func, ast.Name):
        name = node.func.id
        if name == "super":
            return not node.args and name not in imported
        return name == "open" and name not in imported and not words.isdisjoint(("encoding", "errors", "newline"))
    return False
