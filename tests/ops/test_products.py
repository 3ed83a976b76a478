"""Products of matrices take one thread where they are small or the machine is busy, and leave the setting as it was."""

import numpy as np
import pytest

from caffe2lite.devices import cores
from caffe2lite.ops.kit import products

library = cores._openblas()


@pytest.mark.skipif(library is None, reason="this NumPy has another library for products")
@pytest.mark.parametrize("product", ["dot", "matmul", "bound_dot"])
@pytest.mark.parametrize(
    ("rows", "crowded", "alone"), [(40, True, None), (100, False, True), (3000, False, False), (3000, True, True)]
)
def test_threads(product, rows, crowded, alone, monkeypatch):
    asked = []
    before = library[0]()
    pair = (lambda: 2, asked.append)
    monkeypatch.setattr(cores, "_openblas", lambda: pair)
    monkeypatch.setattr(cores, "cores", lambda: 2)
    monkeypatch.setattr(cores, "fixed", lambda: None)
    monkeypatch.setattr(cores, "crowded", lambda: crowded)
    a, b = np.random.RandomState(0).rand(2, rows, 100).astype("f")
    out = np.empty((rows, rows), "f")
    if product == "bound_dot":
        products.bound_dot(a, b.T, out)()
    else:
        getattr(products, product)(np, a, b.T, out)
    np.testing.assert_allclose(out, a.astype("d") @ b.T.astype("d"), rtol=1e-4)
    assert asked == ([1, 2] if alone else [])
    assert library[0]() == before
