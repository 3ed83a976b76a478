"""Modules of Python 2, the bridges between it and 3 (six, future, past), and others that are gone, for where they are not
installed.

Only what scripts use of them.  An installed package always comes first.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import itertools
import operator
import os
import shlex
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

from caffe2lite.port import gone, text
from caffe2lite.port.meaning import BUILTINS, divide
from caffe2lite.port.python2 import execfile


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what nobody else has found: it stands last in `sys.meta_path`."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname in gone.RENAMED or fullname in _MADE:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname in _PACKAGES)
        return None

    def create_module(self, spec: Any) -> None:
        """The import system makes it."""

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__
        if name in _MADE:
            vars(module).update(_MADE[name]())
        else:
            vars(module).update(_public(importlib.import_module(gone.RENAMED[name])))


# ---- the bridges -------------------------------------------------------------------------------------------------


def _methods(*names: str) -> dict[str, Callable[..., Any]]:
    return {f"{lead}{name}": operator.methodcaller(name) for name in names for lead in ("view", "iter")}


def _with_metaclass(meta: Any, *bases: Any) -> Any:
    """Return a base class whose subclasses have the metaclass."""

    class Made(type):
        def __new__(cls, name: str, _: Any, body: Any) -> Any:
            return meta(name, bases, body)

        @classmethod
        def __prepare__(cls, name: str, _: Any) -> Any:
            return meta.__prepare__(name, bases)

    return type.__new__(Made, "base_with_metaclass", (), {})


def _add_metaclass(meta: Any) -> Callable[[type], Any]:
    """Decorator: the same class, made by the metaclass."""

    def make(cls: type) -> Any:
        body = {n: v for n, v in vars(cls).items() if n not in ("__dict__", "__weakref__")}
        return meta(cls.__name__, cls.__bases__, body)

    return make


def _reraise(kind: Any, value: Any, traceback: Any = None) -> None:
    raise (kind() if value is None else value).with_traceback(traceback)


def _raise_from(value: BaseException, cause: BaseException | None) -> None:
    raise value from cause


def _ensure_str(value: Any, encoding: str = "utf-8", errors: str = "strict") -> str:
    return value.decode(encoding, errors) if isinstance(value, bytes) else value


def _ensure_binary(value: Any, encoding: str = "utf-8", errors: str = "strict") -> bytes:
    return value.encode(encoding, errors) if isinstance(value, str) else value


def _common() -> dict[str, Any]:
    return {
        "PY2": False,
        "PY3": True,
        "string_types": (str,),
        "integer_types": (int,),
        "class_types": (type,),
        "text_type": str,
        "binary_type": bytes,
        "python_2_unicode_compatible": lambda cls: cls,
        "with_metaclass": _with_metaclass,
        "raise_from": _raise_from,
        "next": next,
        "advance_iterator": next,
        "callable": callable,
        "get_next": next,
        **_methods("items", "keys", "values"),
        "iterlists": operator.methodcaller("lists"),
    }


def _six() -> dict[str, Any]:
    return {
        **_common(),
        "__version__": "1.16.0",
        "__path__": [],
        "PY34": True,
        "MAXSIZE": sys.maxsize,
        "unichr": chr,
        "int2byte": lambda i: bytes((i,)),
        "byte2int": operator.itemgetter(0),
        "indexbytes": operator.getitem,
        "iterbytes": iter,
        "b": lambda value: value.encode("latin-1"),
        "u": lambda value: value,
        "StringIO": io.StringIO,
        "BytesIO": io.BytesIO,
        "add_metaclass": _add_metaclass,
        "reraise": _reraise,
        "ensure_str": _ensure_str,
        "ensure_text": _ensure_str,
        "ensure_binary": _ensure_binary,
        "exec_": exec,
        "print_": print,
        "wraps": functools.wraps,
        "get_method_function": operator.attrgetter("__func__"),
        "get_method_self": operator.attrgetter("__self__"),
        "get_function_code": operator.attrgetter("__code__"),
        "get_function_defaults": operator.attrgetter("__defaults__"),
        "get_unbound_function": lambda function: function,
        "create_bound_method": types.MethodType,
        "assertCountEqual": lambda self, *args, **kwargs: self.assertCountEqual(*args, **kwargs),
        "assertRaisesRegex": lambda self, *args, **kwargs: self.assertRaisesRegex(*args, **kwargs),
        "assertRegex": lambda self, *args, **kwargs: self.assertRegex(*args, **kwargs),
        "moves": importlib.import_module("six.moves"),
    }


_MOVED = {
    "configparser": "configparser",
    "queue": "queue",
    "cPickle": "pickle",
    "builtins": "builtins",
    "urllib": "urllib",
    "urllib.request": "urllib.request",
    "urllib.parse": "urllib.parse",
    "urllib.error": "urllib.error",
    "http_client": "http.client",
    "html_parser": "html.parser",
    "socketserver": "socketserver",
    "copyreg": "copyreg",
    "_thread": "_thread",
    "tkinter": "tkinter",
    "xmlrpc_client": "xmlrpc.client",
}


def _moves() -> dict[str, Any]:
    return {
        "__path__": [],
        "range": range,
        "xrange": range,
        "zip": zip,
        "map": map,
        "filter": filter,
        "input": input,
        "reduce": functools.reduce,
        "intern": sys.intern,
        "getcwd": os.getcwd,
        "getcwdb": os.getcwdb,
        "reload_module": importlib.reload,
        "shlex_quote": shlex.quote,
        "zip_longest": itertools.zip_longest,
        "filterfalse": itertools.filterfalse,
        "StringIO": io.StringIO,
        "cStringIO": io.StringIO,
        "UserDict": importlib.import_module("collections").UserDict,
        **{n: importlib.import_module(m) for n, m in _MOVED.items() if n not in ("tkinter",) and "." not in n},
    }


def _future_utils() -> dict[str, Any]:
    return {
        **_common(),
        "native": lambda value: value,
        "native_str": str,
        "native_bytes": bytes,
        "bytes_to_native_str": _ensure_str,
        "native_str_to_bytes": _ensure_binary,
        "text_to_native_str": _ensure_str,
        "old_div": divide,
        "lrange": lambda *args: list(range(*args)),
        "lmap": lambda *args: list(map(*args)),
        "lzip": lambda *args: list(zip(*args)),
        "lfilter": lambda *args: list(filter(*args)),
        "listitems": lambda mapping: list(mapping.items()),
        "listkeys": lambda mapping: list(mapping.keys()),
        "listvalues": lambda mapping: list(mapping.values()),
        "istext": lambda value: isinstance(value, str),
        "isbytes": lambda value: isinstance(value, bytes),
    }


def _public(module: types.ModuleType) -> dict[str, Any]:
    return {n: v for n, v in vars(module).items() if not n.startswith("_")}


def _nothing(*args: Any, **kwargs: Any) -> None:
    """What `install_aliases` has to do here."""


def _package(**more: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"__path__": [], **more}


# ---- modules that are gone ---------------------------------------------------------------------------------------


def _load_source(name: str, path: str, file: Any = None) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _imp() -> dict[str, Any]:
    return {
        "load_source": _load_source,
        "reload": importlib.reload,
        "new_module": types.ModuleType,
        "is_builtin": lambda name: int(name in sys.builtin_module_names),
        "acquire_lock": _nothing,
        "release_lock": _nothing,
        "get_suffixes": lambda: [(s, "r", 1) for s in importlib.machinery.SOURCE_SUFFIXES],
    }


def _text_io() -> dict[str, Any]:
    return {"StringIO": text.StringIO, "BytesIO": io.BytesIO}


def _urllib2() -> dict[str, Any]:
    places = [importlib.import_module(f"urllib.{name}") for name in ("parse", "error", "request")]
    return {name: value for place in places for name, value in _public(place).items()}


def _commands() -> dict[str, Any]:
    return {"getoutput": subprocess.getoutput, "getstatusoutput": subprocess.getstatusoutput}


def _cgi() -> dict[str, Any]:
    import html

    return {"escape": lambda value, quote=False: html.escape(value, quote)}


def _hash(name: str) -> Callable[[], dict[str, Any]]:
    import hashlib

    def new(data: Any = b"") -> Any:
        return hashlib.new(name, _ensure_binary(data))

    return lambda: {"new": new, name: new}


def _onnx_mapping() -> dict[str, Any]:
    """Return tables between ONNX's types, NumPy's and the fields of a TensorProto."""
    import onnx
    from onnx import helper

    kinds = [k for k in onnx.TensorProto.DataType.values() if 0 < k <= onnx.TensorProto.COMPLEX128]
    types_of = {k: helper.tensor_dtype_to_np_dtype(k) for k in kinds}
    return {
        "TENSOR_TYPE_TO_NP_TYPE": types_of,
        "NP_TYPE_TO_TENSOR_TYPE": {dtype: k for k, dtype in types_of.items()},
        "TENSOR_TYPE_TO_STORAGE_TENSOR_TYPE": {k: helper.tensor_dtype_to_storage_tensor_dtype(k) for k in kinds},
        "STORAGE_TENSOR_TYPE_TO_FIELD": {
            k: helper.tensor_dtype_to_field(k) for k in kinds if helper.tensor_dtype_to_storage_tensor_dtype(k) == k
        },
    }


_MADE: dict[str, Callable[[], dict[str, Any]]] = {
    "six": _six,
    "six.moves": _moves,
    **{
        f"six.moves.{name}": (lambda real=real: {"__path__": [], **_public(importlib.import_module(real))})
        for name, real in _MOVED.items()
    },
    "future": _package(),
    "future.utils": _future_utils,
    "future.builtins": lambda: _public(builtins),
    "future.standard_library": _package(install_aliases=_nothing, install_hooks=_nothing, remove_hooks=_nothing),
    "future.moves": _package(),
    "past": _package(),
    "past.builtins": lambda: {**_public(builtins), **BUILTINS, "execfile": execfile},
    "past.utils": lambda: {"old_div": divide, "PY2": False, "PY3": True},
    "StringIO": _text_io,
    "cStringIO": _text_io,
    "commands": _commands,
    "urllib2": _urllib2,
    "sets": lambda: {"Set": set, "ImmutableSet": frozenset},
    "md5": _hash("md5"),
    "sha": _hash("sha1"),
    "imp": _imp,
    "onnx.mapping": _onnx_mapping,
    "pipes": lambda: {"quote": shlex.quote},
    "cgi": _cgi,
    "exceptions": lambda: {
        n: v for n, v in vars(builtins).items() if isinstance(v, type) and issubclass(v, BaseException)
    },
}
_PACKAGES = {"six", "six.moves", "six.moves.urllib", "future", "future.standard_library", "future.moves", "past"}
