"""What kernels find wrong in values on a GPU: told when the run ends, as the host would have to wait to know it at once.

A kernel writes into `found`, int64 [2], whether there is a fault, and the value at fault.  Kernels that change a tensor in
place look into it first, so that a refused call leaves its operands as they were.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from caffe2lite.devices.base import Array, GpuArray
from caffe2lite.ops.kit.cuda_kernels import Kernel

_OUTSIDE = Kernel(
    "find_outside",
    "int64* found, const I* indices, int64 rows",
    """
    if (indices[i] < 0 || indices[i] >= rows) {
      found[0] = 1;
      found[1] = indices[i];
    }
    """,
)

_LENGTHS = Kernel(
    "find_wrong_lengths",
    "int64* found, const int64* counts, const int64* ends, int64 rows, bool exact",
    """
    if (counts[i] < 0) {
      found[0] = 1;
      found[1] = counts[i];
    } else if (i == n - 1 && (exact ? ends[i] != rows : ends[i] > rows)) {
      found[0] = 1;
      found[1] = ends[i];
    }
    """,
)


class Finding(NamedTuple):
    """What a kernel may have found, and what it would mean."""

    owner: Any  # the operator
    found: GpuArray
    sentence: Callable[[int], str]


_where = threading.local()


def begin(findings: list[Finding], owner: Any) -> Any:
    """From now on this thread's findings are that operator's, and go into that list; returns what `end` wants."""
    before = getattr(_where, "now", None)
    _where.now = findings, owner
    return before


def end(before: Any) -> None:
    """The operator of `begin` is done."""
    _where.now = before


def _note(found: GpuArray, sentence: Callable[[int], str]) -> None:
    now = getattr(_where, "now", None)
    if now is None:  # nobody would ask later
        wrong, value = found.get()
        if wrong:
            raise ValueError(sentence(int(value)))
        return
    findings, owner = now
    findings.append(Finding(owner, found, sentence))


def find_outside(xp: ModuleType, indices: Array, rows: int, sentence: Callable[[int], str]) -> Any:
    """Look for indices outside of the rows; returns `found`, for kernels that must not run then."""
    found = xp.zeros(2, "int64")
    _OUTSIDE(xp, indices.size, found, indices, rows)
    _note(found, sentence)
    return found


def find_wrong_lengths(
    xp: ModuleType, counts: Array, ends: Array, rows: int, exact: bool, sentence: Callable[[int], str]
) -> None:
    """Look whether lengths, with their sums, are negative or do not fit the rows."""
    found = xp.zeros(2, "int64")
    _LENGTHS(xp, counts.size, found, counts, ends, rows, exact)
    _note(found, sentence)
