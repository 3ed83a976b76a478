"""Row-wise quantised tables: what goes in comes out to half a step, and sums are those of what comes out."""

import numpy as np
import pytest
from running import check_again, refused, run

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 8)).astype("f")
LENGTHS = np.array([2, 0, 3], "int32")
IDS = np.array([5, 0, 3, 3, 1])
W = RNG.random(5).astype("f")

PAIRS = [  # quantiser, its type, what gives the values back, their type, levels, bytes a row of 8 values takes
    ("FloatToFused8BitRowwiseQuantized", "f", "Fused8BitRowwiseQuantizedToFloat", "f", 255, 16),
    ("HalfFloatToFused8BitRowwiseQuantized", "e", "Fused8BitRowwiseQuantizedToHalfFloat", "e", 255, 16),
    ("FloatToFused8BitRowwiseQuantizedHalfScaleBias", "f", "Fused8BitRowwiseQuantizedHalfScaleBiasToFloat", "f", 255, 12),
    ("HalfFloatToFused8BitRowwiseQuantizedHalfScaleBias", "e", "Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat", "f",
     255, 12),
    ("FloatToFused4BitRowwiseQuantized", "f", "Fused4BitRowwiseQuantizedToFloat", "f", 15, 8),
    ("HalfToFused4BitRowwiseQuantized", "e", "Fused4BitRowwiseQuantizedToHalf", "e", 15, 8),
    ("FloatToFused2BitRowwiseQuantized", "f", "Fused2BitRowwiseQuantizedToFloat", "f", 3, 6),
    ("HalfToFused2BitRowwiseQuantized", "e", "Fused2BitRowwiseQuantizedToHalf", "e", 3, 6),
]  # fmt: skip


def steps(rows, levels):
    return (rows.max(axis=1, keepdims=True) - rows.min(axis=1, keepdims=True)).astype("f") / levels


@pytest.mark.parametrize(("quantise", "kind", "back", "made", "levels", "size"), PAIRS)
def test_rows_come_back_to_half_a_step(quantise, kind, back, made, levels, size):
    x = X.astype(kind)
    (rows,) = run(quantise, [x])
    assert rows.shape == (6, size) and rows.dtype == np.uint8
    (values,) = run(back, [rows])
    assert values.dtype == made
    assert (np.abs(values.astype("f") - x.astype("f")) <= steps(x, levels) * 0.52 + 4e-3).all()
    np.testing.assert_allclose(run(back, run(quantise, [np.full((2, 8), 3, kind)]))[0], 3, rtol=1e-3)
    np.testing.assert_array_equal(run(quantise, [x.reshape(2, 3, 8)])[0], rows.reshape(2, 3, size))
    check_again(quantise, [x], [x[:2]])


@pytest.mark.parametrize(("bits", "levels"), [(4, 15), (2, 3)])
@pytest.mark.parametrize(("kind", "name"), [("f", "Float"), ("e", "Half")])
def test_few_bits_in_a_byte_each(bits, levels, kind, name):
    (rows,) = run(f"{name}ToFused{bits}BitFakeRowwiseQuantized", [X.astype(kind)])
    assert rows.shape == (6, 16) and rows[:, :8].max() == levels
    scale, bias = np.ascontiguousarray(rows[:, 8:]).view("f").T
    values = rows[:, :8] * scale[:, None] + bias[:, None]
    assert (np.abs(values - X) <= steps(X, levels) * 0.52 + 4e-3).all()


def summed(rows, weights=None, mean=False, ids=IDS):
    weights = np.ones(len(ids), "f") if weights is None else weights
    parts = np.split(rows[ids] * weights[:, None], np.cumsum(LENGTHS)[:-1])
    return np.stack([p.sum(axis=0) / (max(len(p), 1) if mean else 1) for p in parts])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("bits", [8, 4, 2])
def test_sums_of_rows(bits, dtype):
    (table,) = run(f"FloatToFused{bits}BitRowwiseQuantized", [X])
    (rows,) = run(f"Fused{bits}BitRowwiseQuantizedToFloat", [table])
    ids = IDS.astype(dtype)
    for kind, weights, mean in (("Sum", None, False), ("Mean", None, True), ("WeightedSum", W, False)):
        more = [] if weights is None else [weights]
        want = summed(rows, weights, mean)
        (Y,) = run(f"SparseLengths{kind}Fused{bits}BitRowwise", [table, *more, ids, LENGTHS])
        np.testing.assert_allclose(Y, want, rtol=1e-5, atol=1e-5)
        pruned = f"SparseLengths{kind}{bits}BitRowwiseSparse"
        (Y,) = run(pruned, [table, *more, ids, LENGTHS, np.zeros(1, "int32")])  # nothing is pruned
        np.testing.assert_allclose(Y, want, rtol=1e-5, atol=1e-5)
        mapping = np.array([1, -1, 2, 0, 4, 3], "int32")
        (Y,) = run(pruned, [table, *more, ids, LENGTHS, mapping])
        seen = np.where(mapping[:, None] < 0, 0, rows[mapping])
        np.testing.assert_allclose(Y, summed(seen, weights, mean), rtol=1e-5, atol=1e-5)


def test_rows_gathered():
    (table,) = run("FloatToFused8BitRowwiseQuantized", [X])
    (rows,) = run("Fused8BitRowwiseQuantizedToFloat", [table])
    np.testing.assert_array_equal(run("GatherFused8BitRowwise", [table, IDS])[0], rows[IDS], strict=True)


def test_look_up_in_a_pruned_table():
    mapping = np.array([1, -1, 2, 0, 4, 3], "int32")
    ids, lengths, weights = run("SparseLengthsSumSparseLookup", [IDS, LENGTHS, mapping, W], outputs=3)
    there = mapping[IDS] >= 0
    assert ids.tolist() == mapping[IDS][there].tolist() and weights.tolist() == W[there].tolist()
    assert lengths.tolist() == [p.sum() for p in np.split(there, np.cumsum(LENGTHS)[:-1])]


def test_scale_and_bias_in_a_tensor_of_their_own():
    x = X.reshape(6, 2, 4)
    table, pairs = run("FloatToRowwiseQuantized8Bits", [x], outputs=2)
    (rows,) = run("Rowwise8BitQuantizedToFloat", [table, pairs])
    assert (np.abs(rows - x).reshape(6, 8) <= steps(X, 255) * 0.51).all()
    for kind, weights, mean in (("Sum", None, 0), ("Mean", None, 1), ("WeightedSum", W, 0), ("WeightedMean", W, 1)):
        more = [] if weights is None else [weights]
        (Y,) = run(f"SparseLengths{kind}8BitsRowwise", [table, *more, IDS, LENGTHS, pairs])
        np.testing.assert_allclose(Y.reshape(3, 8), summed(rows.reshape(6, 8), weights, mean), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [8, 5])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_random_rounding_is_right_on_average(bits, width):
    x = X[:, :width].copy()
    tries = []
    for random in (0, *[1] * 200):
        (rows,) = run("FloatToFusedRandRowwiseQuantized", [x], {"bitwidth": bits, "random": random})
        assert rows.shape == (6, 10 + -(-width * bits // 8))
        tries.append(run("FusedRandRowwiseQuantizedToFloat", [rows])[0])
    step = steps(x, (1 << bits) - 1)
    assert (np.abs(tries[0] - x) <= 0.51 * step).all()
    assert (np.abs(np.array(tries[1:]) - x) <= 1.01 * step).all()
    assert (np.abs(np.mean(tries[1:], axis=0) - x) <= 0.25 * step).all()


def test_bytes_between_two_bounds():
    codes = np.arange(6, dtype=np.uint8)
    (Y,) = run("ByteWeightDequant", [codes], {"min": -1.0, "max": 2.0, "shape": [2, 3]})
    np.testing.assert_allclose(Y, (-1 + codes * 3 / 255).reshape(2, 3), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32"])
def test_code_books(dtype):
    book, codes = np.array([10, 20, 30], "f"), [np.array([2, 0, 2], dtype), np.array([[1]], dtype)]
    for have, c in zip(run("QuantDecode", [book, *codes], outputs=2), codes):
        np.testing.assert_array_equal(have, book[c], strict=True)
    gradients = [np.array([1, 2, 4], "f"), np.array([[8]], "f")]
    assert run("QuantDecodeGradient", [book, *codes, *gradients])[0].tolist() == [2, 8, 5]


TABLE = np.zeros((6, 12), np.uint8)


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args"),
    [
        ("rows have 5 values; 2 go into a byte", "FloatToFused4BitRowwiseQuantized", [X[:, :5]], {}),
        (r"a matrix, found the shape \[8\]", "FloatToFused4BitFakeRowwiseQuantized", [X[0]], {}),
        ("rows have 3 bytes, fewer than the 8", "Fused8BitRowwiseQuantizedToFloat", [TABLE[:, :3]], {}),
        (
            r"with 8 bytes of scale and bias, got shape \[6, 3\]",
            "SparseLengthsSumFused8BitRowwise",
            [TABLE[:, :3], IDS, LENGTHS],
            {},
        ),
        (r"quantised rows \[N, bytes\].* got shape \[12\]", "GatherFused8BitRowwise", [TABLE[0], IDS], {}),
        (
            "index 6 is outside of the data, which has 6 rows",
            "SparseLengthsSumFused4BitRowwise",
            [TABLE, IDS + 1, LENGTHS],
            {},
        ),
        (
            "the lengths sum to 5, and there are 4 rows",
            "SparseLengthsSumFused2BitRowwise",
            [TABLE, IDS[1:], LENGTHS],
            {},
        ),
        (r"each of 5 indices, got \[4\]", "SparseLengthsWeightedSumFused8BitRowwise", [TABLE, W[1:], IDS, LENGTHS], {}),
        (
            "index 5 is outside of the data, which has 4 rows",
            "SparseLengthsSum8BitRowwiseSparse",
            [TABLE, IDS, LENGTHS, np.zeros(4, "int32")],
            {},
        ),
        (
            r"scale and a bias for each row: \[6, 12\] and \[6\]",
            "Rowwise8BitQuantizedToFloat",
            [TABLE, X[:, 0].copy()],
            {},
        ),
        (r"must have rows, got shape \[\]", "FloatToRowwiseQuantized8Bits", [X[0, 0]], {}),
        ("bitwidth must be 1, 2, 4 or 8, got 3", "FloatToFusedRandRowwiseQuantized", [X], {"bitwidth": 3}),
        ("the rows say 0 bits a value", "FusedRandRowwiseQuantizedToFloat", [TABLE], {}),
        (r"rows of at least 10 bytes, got shape \[6, 3\]", "FusedRandRowwiseQuantizedToFloat", [TABLE[:, :3]], {}),
        (r"shape \[73\] has 73 elements, and the input only 72", "ByteWeightDequant", [TABLE], {"shape": [73]}),
        ("index 3 is outside of the data, which has 3 rows", "QuantDecode", [X[0, :3], np.array([3], "int32")], {}),
        ("4 inputs and 1 outputs do not go together", "QuantDecodeGradient", [X[0], TABLE, TABLE, TABLE], {}),
    ],
)
def test_refusals(words, kind, inputs, args):
    refused(kind, inputs, words, args, outputs=2 if kind == "FloatToRowwiseQuantized8Bits" else 1)
