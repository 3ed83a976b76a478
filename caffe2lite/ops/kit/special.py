"""Functions that NumPy lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from caffe2lite.ops.kit.compiled import exp32, loop
from caffe2lite.ops.kit.cuda_kernels import Kernel, usable

_ERF = Kernel("error_function", "T* y, const T* x", "y[i] = erf(x[i]);")
# erfc(z) = t exp(-z^2 + p(t)), t = 1 / (1 + z / 2): Numerical Recipes' fit, relative error below 1.2e-7
_ERFC = (
    0.17087277,
    -0.82215223,
    1.48851587,
    -1.13520398,
    0.27886807,
    -0.18628806,
    0.09678418,
    0.37409196,
    1.00002368,
    -1.26551223,
)
_SERIES = [(-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(9, -1, -1)]  # of erf(x) sqrt(pi) / 2 x, in x^2


def _polynomial(coefficients: Sequence[float], T: np.ndarray) -> np.ndarray:
    value = T * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        value = value * T + c
    return value


def erf(xp: ModuleType, X: np.ndarray) -> np.ndarray:
    """The error function, to single precision."""
    if usable(xp, X):
        made = xp.empty(X.shape, X.dtype)
        _ERF(xp, X.size, made, X)
        return made
    Z = abs(X)
    T = 1 / (1 + Z / 2)
    far = xp.copysign(1 - T * xp.exp(_polynomial(_ERFC, T) - X * X), X)
    near = X * _polynomial(_SERIES, X * X) * (2 / math.sqrt(math.pi))
    return xp.where(Z < 0.75, near, far)


_E0, _E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9 = map(np.float32, _ERFC)
_S0, _S1, _S2, _S3, _S4, _S5, _S6, _S7, _S8, _S9 = map(np.float32, _SERIES)


@loop(reorder=True)
def erf32(x):  # type: ignore[no-untyped-def]
    """Within a loop: `erf` of a float32."""
    z, s = abs(x), x * x
    few = np.float32(z < np.float32(0.75))  # both ways are computed: a branch would leave the vector unit idle
    t = np.float32(1) / (np.float32(1) + z * np.float32(0.5))
    p = ((((_E0 * t + _E1) * t + _E2) * t + _E3) * t + _E4) * t + _E5
    p = (((p * t + _E6) * t + _E7) * t + _E8) * t + _E9
    far = np.float32(1) - t * exp32(p - s)
    s = min(s, np.float32(1))
    p = ((((_S0 * s + _S1) * s + _S2) * s + _S3) * s + _S4) * s + _S5
    p = (((p * s + _S6) * s + _S7) * s + _S8) * s + _S9
    near = min(z, np.float32(1)) * p * np.float32(2 / math.sqrt(math.pi))
    size = few * near + (np.float32(1) - few) * far
    return size if x > 0 else -size


def keep_where(xp: ModuleType, mask: np.ndarray, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Y = X where the mask is set, 0 elsewhere, whatever X is there: a product would make NaN of infinity.

    By bits, since NumPy's `where` branches at each element, which takes several times as long.
    """
    if xp is not np:
        Y[...] = xp.where(mask, X, X.dtype.type(0))
        return Y
    bits = np.dtype(f"i{X.dtype.itemsize}")
    np.bitwise_and(X.view(bits), -mask.astype(bits), Y.view(bits))
    return Y
