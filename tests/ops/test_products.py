"""Products of matrices take one thread of OpenBLAS where they are small, and leave its setting as it was."""

import numpy as np
import pytest

from caffe2lite.ops import _products

library = _products._openblas()


@pytest.mark.skipif(library is None, reason="this NumPy has another library for products")
@pytest.mark.parametrize("product", ["dot", "matmul", "bound_dot"])
@pytest.mark.parametrize(("rows", "alone"), [(100, True), (3000, False)])
def test_threads(product, rows, alone, monkeypatch):
    asked = []
    threads = library[0]()
    pair = (lambda: 2, asked.append)
    monkeypatch.setattr(_products, "_openblas", lambda: pair)
    a, b = np.random.RandomState(0).rand(2, rows, 100).astype("f")
    out = np.empty((rows, rows), "f")
    if product == "bound_dot":
        _products.bound_dot(a, b.T, out)()
    else:
        getattr(_products, product)(np, a, b.T, out)
    np.testing.assert_allclose(out, a.astype("d") @ b.T.astype("d"), rtol=1e-4)
    assert asked == ([1, 2] if alone else [])
    assert library[0]() == threads
