"""A transposed convolution is the adjoint of a convolution."""

import itertools

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run
from windowing import CASES, Case, last

ADJUSTED = Case({"kernel": 3, "stride": 2, "pad": 1, "adj": 1}, stride=(2, 2), heads=(1, 1), tails=(1, 1))
SIDES = Case({"kernel": 3, "stride": 3, "adj_h": 2, "adj_w": 1}, stride=(3, 3))


def spread(x, w, case, adjustment, group=1):
    """Each pixel times the filter, added up where its window lies; then the padding is cut off."""
    n, m, *size = x.shape
    ends = [(s - 1) * step + k + a for s, step, k, a in zip(size, case.stride, case.kernel, adjustment)]
    depth = w.shape[1]
    whole = np.zeros((n, depth * group, *ends))
    for row, column in itertools.product(*map(range, size)):
        at = [slice(p * s, p * s + k) for p, s, k in zip((row, column), case.stride, case.kernel)]
        for g in range(group):
            ins = slice(g * m // group, (g + 1) * m // group)
            share = np.einsum("nm,mcij->ncij", x[:, ins, row, column].astype("d"), w[ins])
            whole[(slice(None), slice(g * depth, (g + 1) * depth), *at)] += share
    cut = [slice(h, e - t) for h, t, e in zip(case.heads, case.tails, ends)]
    return whole[(slice(None), slice(None), *cut)]


WINDOWS = [(c, (0, 0)) for c in CASES] + [(ADJUSTED, (1, 1)), (SIDES, (2, 1))]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(("case", "adjustment"), WINDOWS, ids=lambda v: str(v[0]))
def test_formula(case, adjustment, group):
    x, w = floats(2, 4, 3, 4), floats(4, 3, *case.kernel)
    b = floats(3 * group)
    y = spread(x, w, case, adjustment, group) + b[:, None, None]
    args = {**case.args, "group": group}
    check("ConvTranspose", [x, w, b], [y], args, rtol=1e-4, atol=1e-5)
    check("ConvTranspose", [last(x), last(w), b], [last(y)], {**args, "order": "NHWC"}, rtol=1e-4, atol=1e-5)
    check_gradient("ConvTranspose", [values(2, 4, 3, 4), values(*w.shape), values(3 * group)], [0, 1, 2], **args)
    check_gradient("ConvTranspose", [last(values(2, 4, 3, 4)), last(values(*w.shape))], [0, 1], **args, order="NHWC")


@pytest.mark.parametrize("args", [{"kernel": 3}, {"kernel": 3, "stride": 2, "pad": 1}])
def test_it_is_the_adjoint_of_the_convolution(args):
    x, w = floats(1, 3, 7, 7), floats(4, 3, 3, 3)
    convolved = run("Conv", [x, w], args)[0]
    y = floats(*convolved.shape, seed=1)
    one = (convolved * y).sum(dtype="d")
    other = (x * run("ConvTranspose", [y, w], args)[0]).sum(dtype="d")
    assert one == pytest.approx(other, rel=1e-4)


def test_empty_batches_places_and_further_runs():
    w, b = floats(4, 3, 3, 3), floats(3)
    assert run("ConvTranspose", [floats(0, 4, 5, 5), w, b], {"kernel": 3})[0].shape == (0, 3, 7, 7)
    check_places("ConvTranspose", [floats(2, 4, 5, 5), w, b], {"kernel": 3})
    check_again("ConvTranspose", [floats(2, 4, 5, 5), w, b], [floats(1, 4, 3, 8), w, b], {"kernel": 3})


X, W = floats(2, 4, 5, 5), floats(4, 3, 3, 3)


@pytest.mark.parametrize(("inputs", "args", "words"), [
    ([X, W], {"kernel": 2}, r"filter has the shape \[4, 3, 3, 3\]; a window of \[2, 2\]"),
    ([X, floats(5, 3, 3, 3)], {"kernel": 3}, "4 channels and the filter takes 5"),
    ([X, W], {"kernel": 3, "group": 3}, "4 input channels cannot be divided among 3 groups"),
    ([X, W, floats(4)], {"kernel": 3}, r"bias has the shape \[4\].*3 channels"),
    ([X, W], {"kernel": 3, "stride": 2, "adj": 2}, r"adj must be smaller than the stride, got \[2, 2\] for strides \[2, 2\]"),
    ([X, W], {"kernel": 3, "adjs": [1]}, r"adj .*for each of 2 dimensions, got \[1\]"),
    ([floats(2, 4, 1, 1), W], {"kernel": 3, "pad": 2}, r"size \[-1, -1\]: the padding is too large"),
])  # fmt: skip
def test_refusals(inputs, args, words):
    refused("ConvTranspose", inputs, words, args)
    refused("ConvTransposeGradient", [*inputs[:2], floats(2, 3, 6, 6)], "shape|window|divided|adj|takes|size", args, 3)
