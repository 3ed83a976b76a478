"""Quantization of a row to a few bits in NumPy, to compare the operators with."""

import numpy as np


def _compress_uniform_simplified(X, bit_rate, xmin, xmax, fp16_scale_bias=True):
    """Return (values after quantization within [xmin, xmax], norm of what that changes)."""
    bias = np.float16(xmin).astype(np.float32) if fp16_scale_bias else xmin
    levels = 2**bit_rate - 1
    scale = (xmax - bias) / np.float32(levels)
    if fp16_scale_bias:
        scale = np.float16(scale).astype(np.float32)
    inverse = np.float32(1) / scale if scale else np.float32(1)
    made = np.clip(np.rint((X - bias) * inverse), 0, levels).astype(np.float32) * scale + bias
    return made.astype(np.float32), np.linalg.norm(X - made).astype(np.float32)


def param_search_greedy(x, bit_rate, n_bins=200, ratio=0.16):
    """Return the range of a row that loses least: its ends move inwards, always the one that costs less.

    Ends when the range is `ratio` narrower than that of the values.
    """
    low, high = np.min(x), np.max(x)
    step = (high - low) / np.float32(n_bins)
    narrowest = np.float32(n_bins * (1 - ratio)) * step
    loss = lambda a, b: _compress_uniform_simplified(x, bit_rate, a, b)[1]
    best, best_range, here = loss(low, high), (low, high), loss(low, high)
    while low + narrowest < high:
        right, left = loss(low + step, high), loss(low, high - step)
        if here < right and here < left and here < best:
            best, best_range = here, (low, high)
        if right < left:
            low, here = low + step, right
        else:
            high, here = high - step, left
    return best_range
