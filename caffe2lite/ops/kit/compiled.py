"""The engine NUMBA: kernels that go over memory once, in loops that Numba compiles (the extra `fast`).

They are taken by themselves where Numba is installed and the operands are large, since compiling costs seconds the
first time and NumPy is as quick on small ones.  They may differ from the plain kernels by rounding, in nothing else.
CAFFE2LITE_NUMBA=0 in the environment switches them off.

Compiling one costs up to seconds, once for a machine: it is kept on disk.  Numba is imported, and kernels are compiled
or read, on a thread, and plain kernels serve until they are ready; where that takes long, a line says so once.  With
CAFFE2LITE_NUMBA=wait a process waits for each.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import importlib.util
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from caffe2lite.devices import cores
from caffe2lite.ops.kit import memory, registry
from caffe2lite.ops.kit.aside import Worker

LEAST = 1 << 14  # elements of the largest operand from which on a compiled loop is worth its call
_DTYPES = frozenset(np.dtype(t) for t in ("float32", "int32", "int64"))


@functools.cache
def available() -> bool:
    """Whether Numba is installed and not switched off."""
    return os.environ.get("CAFFE2LITE_NUMBA", "1") != "0" and importlib.util.find_spec("numba") is not None


def _waits() -> bool:
    return os.environ.get("CAFFE2LITE_NUMBA") == "wait"


@functools.cache
def _fits() -> bool:
    """Whether Numba can be imported, which it cannot where it is older than NumPy."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def loaded() -> bool:
    """Whether Numba is there to be called; if not, it will be, some time, where it is available."""
    if not available():
        return False
    if _waits():
        return _fits()
    job = _ready.get("numba")
    if job is None:
        job = _submit("numba", _fits)
    return job.done() and _fits()


def worthwhile(kernel: Callable[..., Any], operands: Sequence[Any]) -> bool:
    """Whether the compiled kernel of an operator is to be taken for these operands."""
    accepted, largest = kernel.dtypes, 0  # type: ignore[attr-defined]
    for a in operands:
        if a is not None:
            if getattr(a, "dtype", None) not in accepted:
                return False
            largest = max(largest, a.size)
    return largest * kernel.work >= LEAST and available()  # type: ignore[attr-defined]


_BEGIN = 0.5  # seconds from the first wish for a kernel to the import of Numba: short programs do without
_LONG = 2.0  # seconds from which on it is said that kernels are being compiled: what is on disk takes no longer
_compiler = Worker(pause=_BEGIN)
_ready: dict[Any, concurrent.futures.Future[Any]] = {}


def _submit(key: Any, work: Callable[..., Any], *args: Any) -> concurrent.futures.Future[Any]:
    if not _ready:
        timer = threading.Timer(_LONG, _tell)
        timer.daemon = True
        timer.start()
    job = _ready[key] = _compiler.submit(work, *args)
    return job


def _tell() -> None:
    if not all(job.done() for job in list(_ready.values())):
        print(
            "caffe2lite: kernels are being compiled for this machine, once; until then plain ones serve "
            "(CAFFE2LITE_NUMBA=wait waits for them, =0 does without)",
            file=sys.stderr,
        )


def ready(kernel: Callable[..., Any], record: registry.Operator, operands: Sequence[Any], args: dict[str, Any]) -> bool:
    """Whether the compiled kernel can be called for operands of these types; if not, it will be, some time."""
    if _waits():
        return _fits()
    key = (kernel, *[None if a is None else (a.dtype, a.ndim) for a in operands])
    job = _ready.get(key)
    if job is None:
        job = _submit(key, _rehearse, kernel, record, operands, args)
    return job.done() and _fits()


def _rehearse(
    kernel: Callable[..., Any], record: registry.Operator, operands: Sequence[Any], args: dict[str, Any]
) -> None:
    """Call the kernel on operands like these, for which all its loops are compiled; its results go nowhere.

    Indices are copied, since they have been checked and the net may write others meanwhile; what is written is new.
    """
    if not _fits():
        return
    written = {i for i, _ in record.enforced}
    stand_ins = [
        a if a is None else np.zeros_like(a) if i in written else a.copy() if a.dtype.kind in "iu" else a
        for i, a in enumerate(operands)
    ]
    new = registry.NewArray(np)
    given = {**args, "out": tuple(new for _ in args["out"]) if isinstance(args.get("out"), tuple) else new}
    if "out" not in args:
        del given["out"]
    with np.errstate(all="ignore"), contextlib.suppress(Exception):  # what is wrong will be said where it is called
        kernel(np, *stand_ins, **given)


def pays(xp: Any, *operands: Any) -> bool:
    """Whether a part of an operator that many share is worth a compiled loop: for NumPy's arrays of numbers, if large."""
    if xp is not np or max(a.size for a in operands) < LEAST:
        return False
    return all(a.dtype.kind in "fiub" and a.dtype != np.float16 for a in operands) and loaded()


class Loop:
    """A function of arrays and numbers that Numba compiles when it is called first."""

    def __init__(self, function: Callable[..., Any], reorder: bool) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._reorder = reorder
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        run = self._compiled or self._compile()
        return run(*args)

    def _compile(self, inner: bool = False) -> Callable[..., Any]:
        """What Numba makes of it, which becomes part of its caller where it is an inner one."""
        import numba

        function = self._function
        known = {name: function.__globals__.get(name) for name in function.__code__.co_names}
        called: dict[str, Any] = {
            name: _INTRINSICS[title]()
            for name, f in known.items()
            if (title := getattr(f, "__name__", "")) in _INTRINSICS
        }
        called |= {name: f._compile(inner=True) for name, f in known.items() if isinstance(f, Loop)}
        if called:
            names = {**function.__globals__, **called}
            function = functools.update_wrapper(types.FunctionType(function.__code__, names), function)
        options: dict[str, Any] = {
            "nogil": True,
            "error_model": "numpy",
            "fastmath": {"reassoc", "contract"} if self._reorder else False,
        }
        if inner:
            return numba.njit(function, forceinline=True, **options)
        try:
            self._compiled = numba.njit(function, cache=True, **options)
        except RuntimeError:  # neither this package's folder nor the user's cache can be written
            self._compiled = numba.njit(function, **options)
        return self._compiled


def loop(function: Callable[..., Any] | None = None, *, reorder: bool = False) -> Any:
    """Decorator: a loop for Numba.  With `reorder` its sums may be added up in another order, which is quicker."""
    if function is None:
        return lambda f: Loop(f, reorder)
    return Loop(function, reorder)


# ---- what loops may call -------------------------------------------------------------------------------------------


def prefetch(array: np.ndarray, index: int) -> None:
    """Within a loop: an element of a flat array will be needed soon.  Rows in random places come in time that way."""


def widen(bits: int) -> float:  # type: ignore[empty-body]
    """Within a loop: the float32 of a float16, which comes as its bits (uint16); a float32 is what it is."""


def narrow(value: float) -> int:  # type: ignore[empty-body]
    """Within a loop: the bits (uint16) of the float16 nearest to a float32."""


@loop(reorder=True)
def exp32(x):  # type: ignore[no-untyped-def]
    """Within a loop: e to the x for a float32, to the last bit but one, in vectors of the processor's width.

    e^x = 2^n e^r with |r| <= log(2) / 2, where 2^n is two factors, since n may be beyond the exponents of a float32.
    """
    x = min(max(x, np.float32(-104)), np.float32(89))
    n = np.floor(x * np.float32(1.4426950408889634) + np.float32(0.5))
    r = x - n * np.float32(0.693359375)  # log(2) in two parts, of which the first times n is exact
    r = r + n * np.float32(2.12194440e-4)
    p = np.float32(1 / 5040) * r + np.float32(1 / 720)
    p = p * r + np.float32(1 / 120)
    p = p * r + np.float32(1 / 24)
    p = p * r + np.float32(1 / 6)
    p = p * r + np.float32(0.5)
    p = p * r * r + r + np.float32(1)
    k = np.int32(n)
    half = k >> 1
    return p * np.int32((half + 127) << 23).view(np.float32) * np.int32((k - half + 127) << 23).view(np.float32)


@loop(reorder=True)
def sigmoid32(x):  # type: ignore[no-untyped-def]
    """Within a loop: 1 / (1 + e to the -x) for a float32."""
    return np.float32(1) / (np.float32(1) + exp32(-x))


@loop(reorder=True)
def tanh32(x):  # type: ignore[no-untyped-def]
    """Within a loop: the hyperbolic tangent of a float32, to the last bit but one; near 0 by a polynomial fit in x^2."""
    z = x * x
    p = np.float32(-0.00604908029) * z + np.float32(0.0209518764)
    p = p * z + np.float32(-0.0538364574)
    p = p * z + np.float32(0.133325994)
    p = p * z + np.float32(-0.333333224)
    size = abs(x)
    far = np.float32(1) - np.float32(2) / (exp32(size + size) + np.float32(1))
    return x + x * z * p if size < np.float32(0.625) else (far if x > 0 else -far)


@functools.cache
def _prefetch_intrinsic() -> Any:
    from llvmlite import ir
    from numba import types as numba_types
    from numba.core import cgutils
    from numba.extending import intrinsic

    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)

    @intrinsic
    def prefetch(context, array, index):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            place = builder.bitcast(builder.gep(data, [args[1]]), byte)
            kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            builder.call(function, [place, word(0), word(3), word(1)])  # for reading, into all caches, data
            return context.get_dummy_value()

        return numba_types.void(array, numba_types.intp), generate

    return prefetch


@functools.cache
def _widen_intrinsic() -> Any:
    from llvmlite import ir
    from numba import types as numba_types
    from numba.extending import intrinsic

    @intrinsic
    def widen(context, bits):  # type: ignore[no-untyped-def]
        if bits is numba_types.float32:
            return bits(bits), lambda context, builder, signature, args: args[0]

        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

        return numba_types.float32(numba_types.uint16), generate

    return widen


@functools.cache
def _narrow_intrinsic() -> Any:
    from llvmlite import ir
    from numba import types as numba_types
    from numba.extending import intrinsic

    @intrinsic
    def narrow(context, value):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

        return numba_types.uint16(numba_types.float32), generate

    return narrow


_INTRINSICS = {"prefetch": _prefetch_intrinsic, "widen": _widen_intrinsic, "narrow": _narrow_intrinsic}


def halves() -> bool:
    """Whether loops may call `widen` and `narrow`, which without instructions of the processor would need a library."""
    return loaded() and _converts_halves()


@functools.cache
def _converts_halves() -> bool:
    import platform

    from llvmlite import binding

    return platform.machine() not in ("x86_64", "AMD64") or bool(binding.get_host_cpu_features().get("f16c"))


# ---- several cores -----------------------------------------------------------------------------------------------


def together(parts: Sequence[Callable[[], Any]]) -> None:
    """Run the parts of one loop at once, each on a thread; the first on the caller's."""
    first, *others = parts
    waiting = [_workers().submit(part) for part in others]
    first()
    for part in waiting:
        part.result()


@functools.cache
def _workers() -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(max(1, cores.cores() - 1), "caffe2lite-loop")


def _forget() -> None:
    """Threads do not survive a fork, nor what they were at."""
    _workers.cache_clear()
    for key in [key for key, job in _ready.items() if not job.done()]:
        del _ready[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def compiled(
    *operators: registry.Operator, also: str = "", work: int = 1
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is the compiled kernel of these operators.

    Where it does not fit, it calls the operator itself, which is the plain kernel: `return Adam(xp, ..., out=out)`.

    also    types of operands that it takes besides float32, int32 and int64
    work    how many steps of the loop there are to an element of the largest operand, about
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        function.dtypes = _DTYPES | {np.dtype(t) for t in also.split()}  # type: ignore[attr-defined]
        function.work = work  # type: ignore[attr-defined]
        for record in operators:
            record.engine("NUMBA", registry.CPU)(function)
        return function

    return add


def pointwise(record: registry.Operator, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: a loop `(inputs…, Y, arguments…)` over flat arrays of one shape and type is the compiled kernel.

    names    the operator's arguments that the loop takes, as numbers of the operands' type
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        run, plain = Loop(function, reorder=False), record.kernels["", None]
        defaults = inspect.unwrap(plain).__kwdefaults__ or {}

        @functools.wraps(plain)
        def kernel(xp: Any, *operands: Any, out: Any, **args: Any) -> Any:
            first = operands[0]
            if any(o.shape != first.shape or o.dtype != first.dtype for o in operands[1:]):
                return plain(xp, *operands, out=out, **args)
            given = {**defaults, **args}
            numbers = [first.dtype.type(given[n]) for n in names]
            Y = out(first.shape, first.dtype)
            flats, made = [o.reshape(-1) for o in operands], Y.reshape(-1)
            if not any(np.may_share_memory(o, Y) for o in operands):
                run(*flats, made, *numbers)
                return Y
            scratch = np.empty(memory.BLOCK, Y.dtype)  # where it reads what it writes, a loop gets no vectors
            for part in memory.blocks(np, Y.size):
                some = scratch[: part.stop - part.start]
                run(*[o[part] for o in flats], some, *numbers)
                made[part] = some
            return Y

        compiled(record)(kernel)
        return function

    return add
