"""Windows that slide over an image, tap by tap: what convolutions and pools are checked against."""

from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """Arguments of an operator, and the window that they mean (for images [height, width])."""

    args: dict
    kernel: tuple = (3, 3)
    stride: tuple = (1, 1)
    dilation: tuple = (1, 1)
    heads: tuple = (0, 0)
    tails: tuple = (0, 0)


CASES = [
    Case({"kernel": 3}),
    Case({"kernel": 1}, (1, 1)),
    Case({"kernel": 3, "stride": 2, "pad": 1}, stride=(2, 2), heads=(1, 1), tails=(1, 1)),
    Case({"kernel_h": 2, "kernel_w": 3, "stride_h": 1, "stride_w": 2}, (2, 3), (1, 2)),
    Case({"kernel": 3, "pad_t": 1, "pad_l": 2, "pad_b": 0, "pad_r": 1}, heads=(1, 2), tails=(0, 1)),
    Case({"kernels": [3, 2], "strides": [2, 1], "pads": [2, 0, 1, 1]}, (3, 2), (2, 1), heads=(2, 0), tails=(1, 1)),
]
DILATED = Case({"kernel": 3, "dilation": 2, "pad": 2}, dilation=(2, 2), heads=(2, 2), tails=(2, 2))


def positions(size, case):
    """Number of positions along each dimension."""
    return tuple(
        (s + h + t - d * (k - 1) - 1) // step + 1
        for s, k, step, d, h, t in zip(size, case.kernel, case.stride, case.dilation, case.heads, case.tails)
    )


def taps(x, case, fill=0.0):
    """(tap, what it sees at each position) of an image [N, C, ...], in double precision; `fill` is outside of it."""
    size = x.shape[2:]
    padded = np.pad(np.asarray(x, "d"), [(0, 0), (0, 0), *zip(case.heads, case.tails)], constant_values=fill)
    for tap in np.ndindex(case.kernel):
        at = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, case.dilation, positions(size, case), case.stride)
        ]
        yield tap, padded[(slice(None), slice(None), *at)]


def convolve(x, w, case, group=1):
    """The convolution of images [N, C, ...] with a filter [M, C / group, kernel ...]."""
    made = np.zeros((x.shape[0], w.shape[0], *positions(x.shape[2:], case)))
    depth, outputs = x.shape[1] // group, w.shape[0] // group
    for tap, seen in taps(x, case):
        for g in range(group):
            ins, outs = slice(g * depth, (g + 1) * depth), slice(g * outputs, (g + 1) * outputs)
            made[:, outs] += np.einsum("nc...,mc->nm...", seen[:, ins], w[(outs, slice(None), *tap)])
    return made


def last(array):
    """Channels last."""
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))
