"""Programs that Caffe2 ran: comparing what came of them there and here."""

import gzip
import itertools
import json
import math
import re

RELATIVE, ABSOLUTE = 2e-3, 2e-4
_FIRST = {"errors": 0, "nets": 1, "shown": 2}  # causes before effects


def _floats(x):
    return [float(v) for v in x]


def _near(a, b, scale):
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b):
        return str(a) == str(b)
    return abs(a - b) <= ABSOLUTE + RELATIVE * max(abs(a), abs(b), scale)


def _unwritten(x):
    """Whether it is memory that a failing operator left as it found it."""
    numbers = _floats(x[3]) if isinstance(x, list) and x[:1] == ["array"] and x[1] in ("f4", "f8", "f2") else []
    return any(abs(v) > 1e12 and math.isfinite(v) or 0 < abs(v) < 1e-30 for v in numbers)


def _arrays_differ(a, b):
    if a[1:3] != b[1:3]:
        return f"{a[1]}{a[2]} there, {b[1]}{b[2]} here"
    if a[1] == "text" or len(a[3]) != len(b[3]):
        return None if a[3] == b[3] else f"{a[3]} there, {b[3]} here"
    there, here = _floats(a[3]), _floats(b[3])
    scale = there[-1] if len(there) > 6 else 0.0  # sums of what cancels out
    scales = [0.0] * min(len(there), 6) + [0.0 if math.isnan(scale) else scale] * max(len(there) - 6, 0)
    if all(map(_near, there, here, scales)):
        return None
    return f"{a[1]}{a[2]} {a[3]} there, {b[3]} here"


def difference(there, here, path=""):
    """Where two results differ first, as text; None where they do not."""
    if _unwritten(there) or _unwritten(here) and "uninitialized" in str(there):
        return None
    if isinstance(there, list) and there[:1] == ["array"] and isinstance(here, list) and here[:1] == ["array"]:
        found = _arrays_differ(there, here)
        return found and f"{path}: {found}"
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted(there.keys() | here.keys(), key=lambda k: (_FIRST.get(k, 9), k)):
            if key not in here:
                return f"{path}/{key}: only there: {str(there[key])[:300]}"
            if key not in there:
                return f"{path}/{key}: only here: {str(here[key])[:300]}"
            found = difference(there[key], here[key], f"{path}/{key}")
            if found:
                return found
        return None
    if isinstance(there, list) and isinstance(here, list):
        for i, (a, b) in enumerate(zip(there, here)):
            found = difference(a, b, f"{path}[{i}]")
            if found:
                return found
        if len(there) != len(here):
            longer, side = (there, "there") if len(there) > len(here) else (here, "here")
            return (
                f"{path}: {len(there)} there, {len(here)} here, first only {side}: {longer[min(len(there), len(here))]}"
            )
        return None
    if (
        isinstance(there, float)
        and isinstance(here, (int, float))
        or isinstance(here, float)
        and isinstance(there, int)
    ):
        return None if _near(float(there), float(here), 0.0) else f"{path}: {there} there, {here} here"
    return None if there == here else f"{path}: {_around(str(there), str(here))}"


def _around(there, here):
    """Both texts from a little before they part."""
    same = next((i for i, (a, b) in enumerate(zip(there, here)) if a != b), min(len(there), len(here)))
    begin = max(0, same - 120)
    return f"{there[begin : begin + 400]!r} there, {here[begin : begin + 400]!r} here"


def outcome(result):
    """What of a result is compared: of errors the class alone."""
    if isinstance(result, str):
        return result
    result = _numbered(result)
    return {**result, "errors": {step: e[0] for step, e in result["errors"].items()}}


def _numbered(result):
    """The result without what has no order in Caffe2, which takes it from sets and hash tables of strings.

    That are the numbers of memonger's shared blobs, the copies of parameters to other devices, sums of gradients of
    one operator, the blobs of Do, and the inputs of extracted nets.
    """
    numbers = {}
    text = json.dumps([result["shown"], result["nets"], result])
    text = re.sub(r"__m\d+_shared", lambda m: f"__m{numbers.setdefault(m[0], len(numbers))}_shared", text)
    return _sorted(json.loads(text)[2])


def _unordered(op):
    return isinstance(op, str) and (op.startswith("Copy(") or "is_auto_gen_sum_ops" in op)


def _sorted(x):
    if isinstance(x, list):
        return [_sorted(v) for v in x]
    if isinstance(x, str) and x.startswith("Do("):
        return sorted(re.findall(r"[^\s,;()\[\]'{}=]+", re.sub(r"outer_blobs_idx=ints \[[^]]*\]", "", x)))
    if not isinstance(x, dict):
        return x
    if "net" in x and "op" in x:
        runs = itertools.groupby(x["op"], key=_unordered)
        operators = [op for unordered, run in runs for op in (sorted(run) if unordered else run)]
        return {**x, "op": _sorted(operators), "in": sorted(x["in"]), "out": sorted(x["out"])}
    return {k: _sorted(v) for k, v in x.items()}


def read(path):
    """[[family, steps, outcome in Caffe2]] of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f]
