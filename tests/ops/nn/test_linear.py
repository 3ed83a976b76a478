"""Products of matrices are NumPy's."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run

LAYERS = [((3, 4), 1, (5, 4)), ((0, 4), 1, (5, 4)), ((2, 3, 4), 1, (5, 12)), ((2, 3, 4), 2, (5, 4)), ((2, 3, 4), -1, (5, 4)),
          ((1, 4), 1, (5, 4)), ((2, 3, 2), 1, (5, 3, 2))]  # fmt: skip


@pytest.mark.parametrize(("shape", "axis", "weights"), LAYERS)
def test_fully_connected(shape, axis, weights):
    x, w, b = floats(*shape), floats(*weights), floats(5)
    rows, columns = int(np.prod(shape[: axis % len(shape)])), int(np.prod(shape[axis % len(shape) :]))
    y = (x.reshape(rows, columns).astype("d") @ w.reshape(5, -1).T + b).reshape(*shape[: axis % len(shape)], 5)
    check("FC", [x, w, b], [y], {"axis": axis})
    turned = np.ascontiguousarray(w.reshape(5, -1).T)
    check("FCTransposed", [x, turned, b], [y], {"axis": axis})


@pytest.mark.parametrize(("shape", "axis", "weights"), [layer for layer in LAYERS if np.prod(layer[0])])
def test_gradients_of_fully_connected(shape, axis, weights):
    check_gradient("FC", [values(*shape), values(*weights), values(5)], [0, 1, 2], axis=axis)
    turned = values(int(np.prod(weights[1:])), 5)
    check_gradient("FCTransposed", [values(*shape), turned, values(5)], [0, 1, 2], axis=axis)


def test_fully_connected_again():
    check_places("FC", [floats(3, 4), floats(5, 4), floats(5)])
    check_again("FC", [floats(3, 4), floats(5, 4), floats(5)], [floats(7, 2), floats(1, 2), floats(1)])


def test_a_layer_is_linear():
    x, z, w, b = floats(3, 4), floats(3, 4, seed=1), floats(5, 4), np.zeros(5, "f")
    both = run("FC", [2 * x + z, w, b])[0]
    np.testing.assert_allclose(both, 2 * run("FC", [x, w, b])[0] + run("FC", [z, w, b])[0], rtol=1e-5, atol=1e-5)


TRANSPOSED = [(a, b) for a in (0, 1) for b in (0, 1)]


@pytest.mark.parametrize(("trans_a", "trans_b"), TRANSPOSED)
def test_matmul(trans_a, trans_b):
    a, b = floats(*((4, 3) if trans_a else (3, 4))), floats(*((2, 4) if trans_b else (4, 2)))
    args = {"trans_a": trans_a, "trans_b": trans_b}
    check("MatMul", [a, b], [(a.T if trans_a else a).astype("d") @ (b.T if trans_b else b)], args)
    check_gradient("MatMul", [a.astype("d"), b.astype("d")], [0, 1], **args)


def test_matmul_of_tensors():
    a, b = floats(2, 3, 4), floats(2, 2, 5)
    check("MatMul", [a, b], [a.reshape(6, 4).astype("d") @ b.reshape(4, 5)], {"axis_a": 2, "axis_b": 2})
    check("MatMul", [floats(0, 4), floats(4, 2)], [np.zeros((0, 2))])
    check("MatMul", [floats(3, 0), floats(0, 2)], [np.zeros((3, 2))])
    shaped = run("MatMul", [floats(4, 3), floats(3, 6), np.zeros((2, 2, 6), "f")])[0]
    np.testing.assert_array_equal(shaped.reshape(4, 6), run("MatMul", [floats(4, 3), floats(3, 6)])[0])


@pytest.mark.parametrize(("trans_a", "trans_b"), TRANSPOSED)
def test_batch_matmul(trans_a, trans_b):
    a, b = floats(2, 3, *((5, 4) if trans_a else (4, 5))), floats(2, 3, *((2, 5) if trans_b else (5, 2)))
    args = {"trans_a": trans_a, "trans_b": trans_b}
    product = (a.swapaxes(2, 3) if trans_a else a).astype("d") @ (b.swapaxes(2, 3) if trans_b else b)
    check("BatchMatMul", [a, b], [product], args)
    check_gradient("BatchMatMul", [a.astype("d"), b.astype("d")], [0, 1], **args)


@pytest.mark.parametrize(
    ("a", "b"), [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 4, 5))]
)
def test_batch_matmul_with_broadcast(a, b):
    x, y = floats(*a), floats(*b, seed=1)
    product = np.matmul(x.astype("d"), y)
    check("BatchMatMul", [x, y], [product.reshape(product.shape or (1,))], {"broadcast": 1})


def test_elementwise_linear():
    x, w, b = floats(3, 2, 4), floats(8), floats(8, seed=1)
    check("ElementwiseLinear", [x, w, b], [x * w.reshape(2, 4) + b.reshape(2, 4)])
    check("ElementwiseLinear", [x, w[:4], b[:4]], [x * w[:4] + b[:4]], {"axis": 2})
    check_gradient("ElementwiseLinear", [values(3, 4), values(4), values(4)], [0, 1, 2])
    check_places("ElementwiseLinear", [x, w, b])
    check_again("ElementwiseLinear", [x, w, b], [floats(5, 2), w[:2], b[:2]])


def test_products_of_pairs():
    xs = [floats(3, 4, seed=s) for s in range(3)]
    pairs = np.array([0, 5, 7, 1], "int32")
    wanted = np.stack([(xs[p // 3] * xs[p % 3]).sum(axis=1) for p in pairs], axis=1)
    check("ConcatBatchMatMulBatchGatherOp", [pairs, *xs], [wanted])


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("FC", [floats(2, 3), floats(4, 5), floats(4)], {}, r"W must be \[4, 3\]"),
    ("FC", [floats(2, 3), floats(4, 3), floats(5)], {}, r"the bias is \[5\]: it must be \[4\]"),
    ("FCTransposed", [floats(2, 3), floats(4, 3), floats(3)], {}, r"W must be \[3, 3\]"),
    ("FC", [floats(2, 3), floats(4, 3), floats(4)], {"axis": 3}, "axis 3 is out of range for 2 dimensions"),
    ("FCGradient", [floats(2, 3), floats(4, 3), floats(2, 5)], {}, r"dY \[2, 5\]"),
    ("MatMul", [floats(2, 3), floats(4, 2)], {}, "3 columns.*4 rows"),
    ("MatMul", [floats(2, 3), floats(2, 3)], {}, "with trans_b=1 it would fit"),
    ("MatMul", [floats(2, 3), floats(3, 2)], {"axis_b": 5}, r"axis_b is 5, and B has the shape \[3, 2\]"),
    ("MatMul", [floats(2, 3), floats(3, 2), floats(5)], {}, r"\[2, 2\], which does not fit the shape \[5\]"),
    ("BatchMatMul", [floats(2, 3, 4), floats(2, 5, 2)], {}, "4 and 5"),
    ("BatchMatMul", [floats(2, 3, 4), floats(3, 4, 2)], {}, "batches of one shape"),
    ("BatchMatMul", [floats(), floats(2, 2)], {}, "scalar"),
    ("ElementwiseLinear", [floats(2, 3), floats(2), floats(3)], {}, r"w \[2\] and b \[3\].*3 columns"),
    ("ConcatBatchMatMulBatchGatherOp", [np.array([4], "int32"), floats(2, 3), floats(2, 3)], {}, "from 0 to 3.*found 4 to 4"),
    ("ConcatBatchMatMulBatchGatherOp", [np.array([0], "int32"), floats(2, 3), floats(2, 4)], {}, r"found \[\[2, 3\], \[2, 4\]\]"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args, outputs=3 if kind == "FCGradient" else 1)
