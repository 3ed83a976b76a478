"""Concatenation."""

from __future__ import annotations


def concat(model, blobs_in, blob_out, **kwargs):
    """Join blobs along the channels, or along `axis`."""
    if "axis" in kwargs:
        kwargs.pop("order", None)  # the operator takes one of the two
    return model.net.Concat(blobs_in, [blob_out, "_" + blob_out + "_concat_dims"], **kwargs)[0]


def depth_concat(model, blobs_in, blob_out, **kwargs):
    """Return the older name of `concat`."""
    print("depth_concat is the older name of concat")
    return concat(model, blobs_in, blob_out, **kwargs)
