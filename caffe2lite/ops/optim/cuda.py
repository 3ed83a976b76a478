"""CUDA kernels of the optimizers that nets use most: one launch, where CuPy's functions would need a dozen or hundreds."""

from __future__ import annotations

import functools
from typing import Any

from caffe2lite.ops.kit.cuda_kernels import Kernel
from caffe2lite.ops.kit.findings import find_outside
from caffe2lite.ops.kit.rows import outside

MOMENTUM = Kernel(
    "momentum",
    "T* new_g, T* new_m, T* new_p, const T* g, const T* m, const T* p, const T* rate, float mu, bool nesterov",
    """
    T old = m[i] * mu, now = old + g[i] * *rate;
    T step = nesterov ? now * (1 + mu) - old : now;
    new_g[i] = step;
    new_m[i] = now;
    if (new_p) new_p[i] = p[i] - step;
    """,
)

ADAM = Kernel(
    "adam",
    "T* new_p, T* new_m, T* new_v, T* steps, const T* p, const T* m, const T* v, const T* g, const T* rate, "
    "float b1, float b2, float c1, float c2, float epsilon, float correction",
    """
    T mean = m[i] * b1 + g[i] * c1, square = v[i] * b2 + g[i] * g[i] * c2;
    T step = mean / (sqrt(square) + epsilon) * correction;
    new_m[i] = mean;
    new_v[i] = square;
    if (steps) steps[i] = step;
    new_p[i] = p[i] + step * *rate;
    """,
)

ADAGRAD = Kernel(
    "adagrad",
    "T* new_p, T* new_m, T* rates, T* steps, const T* p, const T* m, const T* g, const T* rate, "
    "float epsilon, float keep, float weight_decay",
    """
    T decayed = p[i] * weight_decay + g[i], square = m[i] * keep + decayed * decayed;
    T effective = *rate / (sqrt(square) + epsilon);
    new_m[i] = square;
    if (rates) rates[i] = effective;
    if (steps) steps[i] = effective * decayed;
    new_p[i] = p[i] + effective * decayed;
    """,
)

_SPARSE = "const int64* found, T* p, T* m, const T* g, const I* ids, const int64* order, const T* rate, int64 width, "

# The first of a row's places in the order takes all of them, one by one, as the rows of an index that comes twice are
# stepped twice; the threads of its other places have nothing to do.
_COLUMN_OF_A_ROW = """
    if (found[0]) continue;  // an index that is no row: nothing is changed
    int64 k = i / width, column = i % width, row = ids[order[k]];
    if (k && ids[order[k - 1]] == row) continue;
    for (int64 at = row * width + column; k < n / width && ids[order[k]] == row; ++k) {
      int64 from = order[k] * width + column;
      STEP
    }
"""
_WHOLE_ROW = """
    if (found[0]) continue;
    int64 k = i, row = ids[order[k]];
    if (k && ids[order[k - 1]] == row) continue;
    for (T* at = p + row * width; k < n && ids[order[k]] == row; ++k) {
      const T* from = g + order[k] * width;
      T total = 0;
      STEP
    }
"""

SPARSE_MOMENTUM = Kernel(
    "sparse_momentum",
    f"{_SPARSE} T* steps, float mu, bool nesterov",
    _COLUMN_OF_A_ROW.replace(
        "STEP",
        """
      T old = m[at] * mu, now = old + g[from] * *rate;
      T step = nesterov ? now * (1 + mu) - old : now;
      m[at] = now;
      p[at] -= step;
      steps[from] = step;""",
    ),
)

SPARSE_ADAM = Kernel(
    "sparse_adam",
    f"{_SPARSE} T* v, T* steps, float b1, float b2, float c1, float c2, float epsilon, float correction, bool adapt",
    _COLUMN_OF_A_ROW.replace(
        "STEP",
        """
      T mean = m[at] * b1 + g[from] * c1, square = v[at] * b2 + g[from] * g[from] * c2;
      T step = correction * mean;
      if (adapt) step /= sqrt(square) + epsilon;
      m[at] = mean;
      v[at] = square;
      p[at] += *rate * step;
      if (steps) steps[from] = step;""",
    ),
)

SPARSE_ADAGRAD = Kernel(
    "sparse_adagrad",
    f"{_SPARSE} float epsilon, float weight_decay",
    _COLUMN_OF_A_ROW.replace(
        "STEP",
        """
      T decayed = g[from] + weight_decay * p[at];
      m[at] += decayed * decayed;
      p[at] += *rate * decayed / (sqrt(m[at]) + epsilon);""",
    ),
)

ROW_WISE_ADAGRAD = Kernel(
    "row_wise_adagrad",
    f"{_SPARSE} float epsilon, float weight_decay",
    _WHOLE_ROW.replace(
        "STEP",
        """
      for (int64 j = 0; j < width; ++j) {
        T decayed = from[j] + weight_decay * at[j];
        total += decayed * decayed;
      }
      m[row] += total / width;
      T step = *rate / (sqrt(m[row]) + epsilon);
      for (int64 j = 0; j < width; ++j) at[j] += step * (from[j] + weight_decay * at[j]);""",
    ),
)

ROW_WISE_ADAM = Kernel(
    "row_wise_adam",
    f"{_SPARSE} T* v, T* steps, float b1, float b2, float c1, float c2, float epsilon, float correction",
    _WHOLE_ROW.replace(
        "STEP",
        """
      for (int64 j = 0; j < width; ++j) total += from[j] * from[j];
      v[row] = v[row] * b2 + total / width * c2;
      T scale = correction / (sqrt(v[row]) + epsilon);
      for (int64 j = 0; j < width; ++j) {
        T* mean = m + row * width + j;
        *mean = *mean * b1 + from[j] * c1;
        at[j] += *rate * (scale * *mean);
        if (steps) steps[order[k] * width + j] = scale * *mean;
      }""",
    ),
)


def step_rows(xp: Any, kernel: Kernel, p: Any, m: Any, g: Any, ids: Any, rate: Any, *rest: Any) -> None:
    """Step the rows `ids` of the parameter, which are checked here; `rest` are the kernel's own arrays and numbers."""
    n = ids.size if kernel in (ROW_WISE_ADAGRAD, ROW_WISE_ADAM) else g.size
    found = find_outside(xp, ids, p.shape[0], functools.partial(outside, rows=p.shape[0]))
    kernel(xp, n, found, p, m, g, ids, xp.argsort(ids, kind="stable"), rate, g.shape[1], *rest)
