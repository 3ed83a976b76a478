"""Dropout."""

from __future__ import annotations


def dropout(model, blob_in, blob_out, use_cudnn=False, **kwargs):
    """Dropout; `is_test` is required, the mask is blob _OUT_mask."""
    if "is_test" not in kwargs:
        raise AssertionError("Argument 'is_test' is required")
    kwargs["engine"] = "CUDNN" if use_cudnn else "DEFAULT"
    return model.net.Dropout(blob_in, [blob_out, "_" + blob_out + "_mask"], **kwargs)[0]
