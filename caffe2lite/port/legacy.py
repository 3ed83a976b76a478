"""Names that newer Python and NumPy dropped, put back while legacy code runs."""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import errno
import fractions
import functools
import importlib
import inspect
import itertools
import math
import os
import string
import sys
import time
import types
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from caffe2lite.port import gone, libraries, meaning, stand_ins

_ArgSpec = collections.namedtuple("_ArgSpec", "args varargs keywords defaults")
_MISSING = object()
_OF_URLLIB = [
    "ContentTooShortError", "FancyURLopener", "URLopener", "getproxies", "pathname2url", "quote", "quote_plus", "unquote",
    "unquote_plus", "url2pathname", "urlcleanup", "urlencode", "urlopen", "urlretrieve",
]  # fmt: skip


def _argspec(function: Any) -> Any:
    return _ArgSpec(*inspect.getfullargspec(function)[:4])


def _numpy_names() -> Iterator[tuple[str, Any]]:
    by_hand = {
        "asfarray": lambda a, dtype=np.float64: np.asarray(a, dtype),
        "asscalar": lambda a: a.item(),
        "msort": lambda a: np.sort(a, axis=0),
        "cast": _Cast(),
        "find_common_type": lambda array_types, scalar_types: np.result_type(*array_types, *scalar_types),
        "deprecate": lambda *args, **kwargs: args[0] if args and callable(args[0]) else lambda function: function,
        "typeDict": np.sctypeDict,
        "NINF": -np.inf,
        "PZERO": 0.0,
        "NZERO": -0.0,
    }
    builtin = {kind.__name__: kind for kind in (int, float, bool, object, str, complex)}
    for name, instead in gone.NUMPY.items():
        if name in by_hand:
            yield name, by_hand[name]
        elif instead in builtin:
            yield name, builtin[instead]
        else:
            value = getattr(np, instead.removeprefix("np."), None)
            if value is not None:
                yield name, value


class _Cast(dict):
    """`np.cast["float32"](x)`."""

    def __missing__(self, kind: Any) -> Any:
        return functools.partial(np.asarray, dtype=kind)


def _standard_names() -> Iterator[tuple[Any, str, Any]]:
    for name in (n.partition(".")[2] for n in gone.NAMES if n.startswith("collections.")):
        yield collections, name, getattr(collections.abc, name)
    yield inspect, "getargspec", _argspec
    yield time, "clock", time.perf_counter
    yield fractions, "gcd", math.gcd
    for old, new in {
        "izip": zip,
        "imap": map,
        "ifilter": filter,
        "izip_longest": itertools.zip_longest,
        "ifilterfalse": itertools.filterfalse,
    }.items():
        yield itertools, old, new
    yield os, "getcwdu", os.getcwd
    yield os, "errno", errno
    yield sys, "maxint", sys.maxsize
    for kind in ("letters", "lowercase", "uppercase"):
        yield string, kind, getattr(string, f"ascii_{kind}")
    yield string, "maketrans", str.maketrans
    for name in ("join", "joinfields"):
        yield string, name, lambda words, sep=" ": sep.join(words)
    yield string, "atoi", int
    yield string, "atof", float
    for name in (n.partition(".")[2] for n, instead in gone.NAMES.items() if instead.startswith("a str's ")):
        if hasattr(str, name):
            yield string, name, getattr(str, name)
    yield sys, "setdefaultencoding", lambda encoding: None
    yield sys, "exc_clear", lambda: None
    for name, kind in {
        "StringType": bytes,
        "UnicodeType": str,
        "StringTypes": (str,),
        "ListType": list,
        "IntType": int,
        "DictType": dict,
        "TupleType": tuple,
        "FloatType": float,
        "NoneType": type(None),
    }.items():
        yield types, name, kind
    urllib = importlib.import_module("urllib")
    for place in (importlib.import_module(f"urllib.{name}") for name in ("error", "parse", "request")):
        for name in (n for n in vars(place) if n in _OF_URLLIB):
            yield urllib, name, getattr(place, name)
    base64 = importlib.import_module("base64")
    yield base64, "encodestring", base64.encodebytes
    yield base64, "decodestring", base64.decodebytes
    for old, instead in gone.UNITTEST.items():
        new = getattr(unittest.TestCase, instead, None)
        if new is not None:
            yield unittest.TestCase, old, new


@contextlib.contextmanager
def names() -> Iterator[None]:
    """While it is entered, legacy names of NumPy and the standard library exist, and modules of Python 2 import."""
    added: list[tuple[Any, str]] = []

    def put(place: Any, name: str, value: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of some names that it still has
            there = getattr(place, name, _MISSING)
        if there is _MISSING:
            setattr(place, name, value)
            added.append((place, name))

    for name, value in _numpy_names():
        put(np, name, value)
    for place, name, value in _standard_names():
        put(place, name, value)
    changed = [(place, name, getattr(place, name)) for place, name, _ in meaning.pickles()]
    for place, name, value in list(meaning.pickles()):
        setattr(place, name, value)
    finder, cures = stand_ins.Finder(), libraries.Cures()
    sys.meta_path.insert(0, cures)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        sys.meta_path.remove(cures)
        for undo in reversed(cures.undo):
            undo()
        for place, name, value in changed:
            setattr(place, name, value)
        for place, name in added:
            delattr(place, name)


_forever = contextlib.ExitStack()


def put_back() -> None:
    """As `names`, for as long as the process lives."""
    _forever.enter_context(names())
