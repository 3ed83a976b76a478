"""Quantized tables."""

from __future__ import annotations


def fused_8bit_rowwise_quantized_to_float(model, blob_in, blob_out):
    """Return the rows of 8-bit values with their scale and offset, as floats."""
    return model.net.Fused8BitRowwiseQuantizedToFloat(blob_in, blob_out)
