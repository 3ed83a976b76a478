"""Pooling."""

from __future__ import annotations


def average_pool(model, blob_in, blob_out, use_cudnn=False, order="NCHW", **kwargs):
    """Mean over windows."""
    if use_cudnn:
        kwargs["engine"] = "CUDNN"
    return model.net.AveragePool(blob_in, blob_out, order=order, **kwargs)


def max_pool(model, blob_in, blob_out, use_cudnn=False, order="NCHW", **kwargs):
    """Greatest value of windows."""
    if use_cudnn:
        kwargs["engine"] = "CUDNN"
    return model.net.MaxPool(blob_in, blob_out, order=order, **kwargs)


def max_pool_with_index(model, blob_in, blob_out, order="NCHW", **kwargs):
    """Greatest value of windows; where it stood goes to OUT_index."""
    return model.net.MaxPoolWithIndex(blob_in, [blob_out, blob_out + "_index"], order=order, **kwargs)[0]
