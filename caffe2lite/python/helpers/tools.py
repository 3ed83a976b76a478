"""Images and videos from a database."""

from __future__ import annotations


def image_input(model, blob_in, blob_out, order="NCHW", use_gpu_transform=False, **kwargs):
    """Decoded, scaled and cropped images, `blob_out` = [images, labels, …]; `is_test` is required."""
    if "is_test" not in kwargs:
        raise AssertionError("Argument 'is_test' is required")
    if order == "NCHW" and not use_gpu_transform:
        images, *rest = blob_out
        outputs = model.net.ImageInput(blob_in, [images + "_nhwc", *rest], **kwargs)
        return (model.net.NHWC2NCHW(outputs[0], images), *outputs[1:])
    if order == "NCHW":
        kwargs["use_gpu_transform"] = 1  # which turns NHWC to NCHW itself
    return model.net.ImageInput(blob_in, blob_out, **kwargs)


def video_input(model, blob_in, blob_out, **kwargs):
    """Decoded clips, `blob_out` = [clips, labels, …]."""
    return model.net.VideoInput(blob_in, blob_out, **kwargs)
