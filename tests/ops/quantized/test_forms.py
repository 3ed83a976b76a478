"""Packing of quantised rows, and the greedy search for their range."""

import numpy as np
import pytest

from caffe2lite.ops.quantized import forms

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("form", [forms.EIGHT, forms.FOUR, forms.TWO], ids=["8", "4", "2"])
def test_packed_values_come_out_again(form):
    values = RNG.integers(0, form.levels + 1, (3, 8), dtype=np.uint8)
    packed = forms.pack(np, values, form)
    assert packed.shape == (3, 8 // form.per_byte)
    rows = np.concatenate([packed, np.zeros((3, form.tail), np.uint8)], axis=1)
    np.testing.assert_array_equal(forms.unpack(np, rows, form)[0], values)


@pytest.mark.parametrize("form", [forms.FOUR, forms.TWO], ids=["4", "2"])
def test_the_search_never_makes_the_error_larger(form):
    rows = np.concatenate([RNG.standard_normal((20, 31)), np.full((20, 1), 6.0)], axis=1).astype("f")  # with an outlier

    def error(search):
        Y = forms.quantise(np, rows, form, lambda shape, dtype: np.empty(shape, dtype), search)
        return ((forms.dequantise(np, Y, form) - rows) ** 2).sum(axis=1)

    assert (error(True) <= error(False) * 1.001).all() and error(True).sum() < error(False).sum()


def test_rows_that_cannot_be_packed():
    with pytest.raises(ValueError, match="rows have 3 values; 2 go into a byte"):
        forms.check_rows(np.zeros((2, 3)), forms.FOUR)
    with pytest.raises(ValueError, match=r"at least one value, got shape \[2, 0\]"):
        forms.check_rows(np.zeros((2, 0)), forms.EIGHT)
    with pytest.raises(ValueError, match="rows have 3 bytes, fewer than the 8 of scale and bias"):
        forms.unpack(np, np.zeros((2, 3), np.uint8), forms.EIGHT)
