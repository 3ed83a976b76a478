"""A tensor train is a matrix (or a table) that is the product of small cores."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, floats, refused, run

INP, OUT, RANKS = [2, 3, 4], [3, 2, 2], [1, 2, 3, 1]
ROWS, WIDTHS = [3, 2, 4], [2, 3, 2]


def cores(inputs=INP, outputs=OUT, ranks=RANKS):
    return [floats(ranks[k], inputs[k], outputs[k], ranks[k + 1], seed=k) for k in range(3)]


def whole(parts):
    """The matrix [inputs, outputs] of cores [rank, input, output, next rank]."""
    made = np.einsum("aipb,bjqc,ckrd->ijkpqr", *[np.asarray(c, "d") for c in parts])
    return made.reshape(int(np.prod(made.shape[:3])), -1)


def flat(parts):
    """As Caffe2 keeps them: the last core first, each [input, next rank, rank, output]."""
    return np.concatenate([c.transpose(1, 3, 0, 2).reshape(-1) for c in reversed(parts)])


def test_a_layer():
    parts, x, b = cores(), floats(1, 24), floats(12)
    args = {"inp_sizes": INP, "out_sizes": OUT, "tt_ranks": RANKS}
    check("TT", [x, b, flat(parts)], [x.astype("d") @ whole(parts) + b], args, rtol=1e-4)
    several = floats(5, 24)
    product = several.astype("d") @ whole(
        parts
    )  # several rows come out in the order of the transposed one, as in Caffe2
    check("TT", [several, b, flat(parts)], [product.T.reshape(5, 12).T.reshape(5, 12) + b], args, rtol=1e-4, atol=1e-5)
    check_again("TT", [x, b, flat(parts)], [several, b, flat(parts)], args)


def table():
    """(cores as the operator takes them, the table [rows, width] that they make; digits of a row: the first one fastest)."""
    parts = [values(ROWS[k], RANKS[k], WIDTHS[k], RANKS[k + 1]) for k in range(3)]
    made = np.einsum("iapb,jbqc,kcrd->kjipqr", *parts)
    return parts, made.reshape(int(np.prod(ROWS)), int(np.prod(WIDTHS)))


ARGS = {"factor_i": ROWS, "factor_j": WIDTHS, "ranks": RANKS, "emb_size": 12}
INDEX, LENGTHS = np.array([1, 5, 23, 5, 0]), np.array([2, 0, 3], "int32")


def test_sums_of_rows():
    parts, rows = table()
    sums = np.stack([rows[INDEX[:2]].sum(axis=0), np.zeros(12), rows[INDEX[2:]].sum(axis=0)])
    digits = np.stack([INDEX % 3, INDEX // 3 % 2, INDEX // 6], axis=1)
    inputs = [*[p.astype("f") for p in parts], INDEX, LENGTHS]
    check("TTSparseLengthsSum", inputs, [sums, None, None, digits], ARGS, rtol=1e-4, atol=1e-5)
    check_gradient(
        "TTSparseLengthsSum", [*parts, INDEX, LENGTHS], [0, 1, 2], outputs=4, **ARGS, tolerance=1e-3, step=1e-3
    )


def test_sizes_of_gradients_come_from_the_cores():
    """Without the arguments, and with them, alike."""
    parts = [p.astype("f") for p in table()[0]]
    _, *made = run("TTSparseLengthsSum", [*parts, INDEX, LENGTHS], ARGS, 4)
    inputs = [*parts, LENGTHS, *made, floats(3, 12)]
    for one, other in zip(*(run("TTSparseLengthsSumGradient", inputs, args, 3) for args in (ARGS, {}))):
        np.testing.assert_array_equal(one, other)


PARTS = [p.astype("f") for p in table()[0]]


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("TT", [floats(1, 24), floats(12), floats(5)], {"inp_sizes": INP, "out_sizes": OUT, "tt_ranks": RANKS}, "more values than the 5"),
    ("TT", [floats(1, 23), floats(12), floats(5)], {"inp_sizes": INP, "out_sizes": OUT, "tt_ranks": RANKS}, "rows of 24 values"),
    ("TT", [floats(1, 24), floats(11), floats(5)], {"inp_sizes": INP, "out_sizes": OUT, "tt_ranks": RANKS}, r"12 values.*\[11\]"),
    ("TT", [floats(1, 24), floats(12), floats(5)], {"inp_sizes": INP, "out_sizes": OUT, "tt_ranks": [1, 1]}, "3 outputs, 2 ranks"),
    ("TTLinearGradient", [floats(1)], {}, "no gradient of TT"),
    ("TTSparseLengthsSum", [*PARTS, INDEX + 1, LENGTHS], ARGS, "from 0 to 23, found 1 to 24"),
    ("TTSparseLengthsSum", [*PARTS, INDEX, LENGTHS[:2]], ARGS, "add up to 2, and there are 5 indices"),
    ("TTSparseLengthsSum", [*PARTS, INDEX, LENGTHS], {**ARGS, "emb_size": 11}, "and 11"),
    ("TTSparseLengthsSum", [PARTS[0][:2], *PARTS[1:], INDEX, LENGTHS], ARGS, r"core 0 must have the shape \[3, 1, 2, 2\]"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args, outputs=4 if kind == "TTSparseLengthsSum" else 1)
