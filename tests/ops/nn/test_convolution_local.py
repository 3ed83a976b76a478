"""A locally connected layer has a filter for each position; a deformable convolution moves its taps."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run
from windowing import CASES, DILATED, Case, convolve, last, positions, taps

WINDOWS = [CASES[0], CASES[2], CASES[3], CASES[4]]
X = (2, 4, 5, 6)


def local(x, w, case, group):
    """Each position's own product: w is [positions ..., M, C / group, kernel ...]."""
    outputs, depth = w.shape[len(case.kernel)] // group, x.shape[1] // group
    made = np.zeros((x.shape[0], w.shape[len(case.kernel)], *positions(x.shape[2:], case)))
    for tap, seen in taps(x, case):
        for g in range(group):
            ins, outs = slice(g * depth, (g + 1) * depth), slice(g * outputs, (g + 1) * outputs)
            filters = w[(..., outs, slice(None), *tap)]
            made[:, outs] += np.einsum("ncij,ijmc->nmij" if x.ndim == 4 else "nci,imc->nmi", seen[:, ins], filters)
    return made


def filters_last(w, n):
    return np.ascontiguousarray(np.moveaxis(w, n + 1, -1))


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("case", WINDOWS, ids=lambda c: str(c.args))
def test_locally_connected(case, group):
    places = positions(X[2:], case)
    x, w, b = floats(*X), floats(*places, 6, 4 // group, *case.kernel), floats(*places, 6)
    y = local(x, w, case, group) + np.moveaxis(b, -1, 0)
    args = {**case.args, "group": group}
    check("LC", [x, w, b], [y], args, rtol=1e-4, atol=1e-5)
    check("LC2D", [x, w], [local(x, w, case, group)], args, rtol=1e-4, atol=1e-5)
    check("LC", [last(x), filters_last(w, 2), b], [last(y)], {**args, "order": "NHWC"}, rtol=1e-4, atol=1e-5)
    wide = [values(*X), values(*w.shape), values(*b.shape)]
    check_gradient("LC", wide, [0, 1, 2], **args)
    check_gradient("LC", wide[:2], [0, 1], **args)
    check_gradient("LC", [last(wide[0]), filters_last(wide[1], 2), wide[2]], [0, 1, 2], **args, order="NHWC")


def test_equal_filters_make_a_convolution():
    case, w = CASES[2], floats(3, 4, 3, 3)
    places = positions(X[2:], case)
    everywhere = np.broadcast_to(w, (*places, *w.shape)).copy()
    np.testing.assert_allclose(
        run("LC", [floats(*X), everywhere], case.args)[0],
        run("Conv", [floats(*X), w], case.args)[0],
        rtol=1e-4,
        atol=1e-5,
    )


def test_locally_connected_in_one_and_three_dimensions():
    lists = {"kernels": [3], "strides": [2], "pads": [1, 0]}
    case = Case({}, (3,), (2,), (1,), (1,), (0,))
    x = floats(2, 3, 7)
    w = floats(*positions((7,), case), 4, 3, 3)
    check("LC1D", [x, w], [local(x, w, case, 1)], lists, rtol=1e-4, atol=1e-5)
    check_gradient("LC1D", [values(2, 3, 7), values(*w.shape), values(w.shape[0], 4)], [0, 1, 2], **lists)
    lists = {"kernels": [2, 1, 2], "strides": [1, 1, 1], "pads": [0] * 6}
    check_gradient(
        "LC3D", [values(1, 2, 3, 2, 3), values(2, 2, 2, 3, 2, 2, 1, 2), values(2, 2, 2, 3)], [0, 1, 2], **lists
    )


def test_again_and_empty():
    case = CASES[0]
    w = floats(*positions((5, 6), case), 6, 4, 3, 3)
    check_places("LC", [floats(*X), w], case.args)
    check_again("LC", [floats(*X), w], [floats(1, 4, 4, 4), floats(2, 2, 3, 4, 3, 3)], case.args)
    assert run("LC", [floats(0, 4, 5, 6), w], case.args)[0].shape == (0, 6, 3, 4)


# ---- deformable convolution ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("case", [CASES[0], CASES[2], DILATED], ids=lambda c: str(c.args))
def test_without_offsets_it_is_a_convolution(case, group):
    places = positions(X[2:], case)
    x, w, b = floats(*X), floats(6, 4 // group, 3, 3), floats(6)
    args = {**case.args, "group": group, "deformable_group": 2}
    still = np.zeros((2, 2 * 9 * 2, *places), "f")
    y = convolve(x, w, case, group) + b[:, None, None]
    check("DeformConv", [x, still, w, b], [y], args, rtol=1e-4, atol=1e-5)


def test_whole_offsets_move_the_taps():
    """By one to the right: what a convolution of the image moved to the left sees."""
    x, w = floats(*X), floats(6, 4, 3, 3)
    offset = np.zeros((2, 9, 2, 3, 4), "f")
    offset[:, :, 1] = 1
    moved = np.pad(x, [(0, 0), (0, 0), (0, 0), (0, 1)])[..., 1:]
    found = run("DeformConv", [x, offset.reshape(2, 18, 3, 4), w], {"kernel": 3})[0]
    np.testing.assert_allclose(found, convolve(moved, w, CASES[0]), rtol=1e-4, atol=1e-5)


def test_half_offsets_are_between_pixels():
    x = np.arange(6, dtype="f").reshape(1, 1, 1, 6)
    offset = np.zeros((1, 2, 1, 6), "f")
    offset[:, 1] = 0.5
    y = run("DeformConv", [x, offset, np.ones((1, 1, 1, 1), "f")], {"kernel": 1})[0]
    np.testing.assert_allclose(y[0, 0, 0, :5], [0.5, 1.5, 2.5, 3.5, 4.5])


@pytest.mark.parametrize("group", [1, 2])
def test_gradients_of_deformable_convolution(group):
    """Offsets are such that no tap comes near a whole pixel, where the derivative jumps."""
    offset = values(1, 2 * 4 * 2, 3, 4, low=0.2, high=0.8)
    inputs = [values(1, 4, 4, 5), offset, values(6, 4 // group, 2, 2), values(6)]
    check_gradient("DeformConv", inputs, [0, 1, 2, 3], kernel=2, group=group, deformable_group=2)
    check_gradient("DeformConv", inputs[:3], [0, 1, 2], kernel=2, group=group, deformable_group=2)


W = floats(3, 4, 6, 4, 3, 3)


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("LC", [floats(*X), floats(3, 4, 6, 4, 2, 3)], {"kernel": 3}, r"\[3, 4, 6, 4, 2, 3\].*= \[3, 4, 6, 4, 3, 3\]"),
    ("LC", [floats(*X), W, floats(6)], {"kernel": 3}, r"bias has the shape \[6\]; expected \[3, 4, 6\]"),
    ("LC", [floats(*X), W], {"kernel": 3, "group": 3}, "it must be"),
    ("LC", [floats(*X), W], {}, "size of the window is missing"),
    ("DeformConv", [floats(*X), floats(2, 18, 3, 3), floats(6, 4, 3, 3)], {"kernel": 3}, r"expected \[2, 18, 3, 4\]"),
    ("DeformConv", [floats(*X), floats(2, 18, 3, 4), floats(6, 3, 3, 3)], {"kernel": 3}, "4 channels do not fit 1 deformable"),
    ("DeformConv", [floats(*X), floats(2, 18, 3, 4), floats(6, 4, 3, 3)], {"kernel": 3, "order": "NHWC"}, "order NCHW only"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args)
