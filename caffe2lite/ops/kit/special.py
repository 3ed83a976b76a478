"""Functions that NumPy lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType

import numpy as np

# erfc(z) = t exp(-z^2 + p(t)), t = 1 / (1 + z / 2): Numerical Recipes' fit, relative error below 1.2e-7
_ERFC = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368,
    -1.26551223,
)  # fmt: skip
_SERIES = [(-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(9, -1, -1)]  # of erf(x) sqrt(pi) / 2 x, in x^2


def _polynomial(coefficients: Sequence[float], T: np.ndarray) -> np.ndarray:
    value = T * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        value = value * T + c
    return value


def erf(xp: ModuleType, X: np.ndarray) -> np.ndarray:
    """The error function, to single precision."""
    Z = abs(X)
    T = 1 / (1 + Z / 2)
    far = xp.copysign(1 - T * xp.exp(_polynomial(_ERFC, T) - X * X), X)
    near = X * _polynomial(_SERIES, X * X) * (2 / math.sqrt(math.pi))
    return xp.where(Z < 0.75, near, far)
