"""Pictures of image batches by matplotlib."""

from __future__ import annotations

import numpy as np


def _pyplot():
    try:
        from matplotlib import cm, pyplot
    except ImportError as e:
        raise ImportError("showing images needs the package matplotlib: pip install matplotlib") from e
    return pyplot, cm


def ChannelFirst(arr):
    """Return axes (..., H, W, C) to (..., C, H, W)."""
    return np.moveaxis(arr, -1, -3)


def ChannelLast(arr):
    """Return axes (..., C, H, W) to (..., H, W, C)."""
    return np.moveaxis(arr, -3, -1)


class PatchVisualizer:
    """Shows patches side by side, `gap` pixels apart. Colour images have their channels last."""

    def __init__(self, gap=1):
        self.gap = gap

    def ShowSingle(self, patch, cmap=None):
        """Return one patch: (H, W), (H, W, 1) or (H, W, 3)."""
        return self.ShowMultiple(patch[None], 1, cmap)

    def ShowMultiple(self, patches, ncols=None, cmap=None, bg_func=np.mean):
        """Show patches (N, H, W) or (N, H, W, C) in rows of `ncols`; `bg_func` of the patches fills the gaps."""
        patches = np.asarray(patches)
        pyplot, cm = _pyplot()
        if ncols is None:
            ncols = int(np.ceil(np.sqrt(patches.shape[0])))
        nrows = int(np.ceil(patches.shape[0] / ncols))
        height, width = patches.shape[1:3]
        down, right = height + self.gap, width + self.gap
        canvas = np.zeros((down * nrows - self.gap, right * ncols - self.gap, *patches.shape[3:]), dtype=patches.dtype)
        canvas += bg_func(patches).astype(patches.dtype)
        for i, patch in enumerate(patches):
            row, column = divmod(i, ncols)
            canvas[row * down : row * down + height, column * right : column * right + width] = patch
        if canvas.ndim == 3 and canvas.shape[-1] == 1:
            canvas = canvas[..., 0]
        if canvas.ndim == 2 and cmap is None:
            cmap = cm.gray
        pyplot.imshow(canvas, interpolation="nearest", cmap=cmap)
        pyplot.axis("off")
        return canvas

    def ShowImages(self, patches, *args, **kwargs):
        """ShowMultiple with values stretched to [0, 1]."""
        patches = np.asarray(patches, dtype=np.float32)
        patches = patches - patches.min()
        peak = patches.max()
        return self.ShowMultiple(patches / peak if peak else patches, *args, **kwargs)

    def ShowChannels(self, patch, cmap=None, bg_func=np.mean):
        """Each channel of one patch (H, W, C) as an image of its own."""
        if patch.ndim != 3:
            raise ValueError(f"The input patch should be 3-dimensional, got shape {patch.shape}")
        return self.ShowMultiple(np.moveaxis(patch, -1, 0), cmap=cmap, bg_func=bg_func)

    def get_patch_shape(self, patch):
        """Return (height, width) of a patch; a flat one is taken to be square."""
        if patch.ndim > 1:
            return patch.shape[:2]
        side = int(np.sqrt(patch.size))
        return side, side


_default_visualizer = PatchVisualizer()


class NHWC:
    """Images with channels last, by the default visualizer."""

    @staticmethod
    def ShowSingle(*args, **kwargs):
        """PatchVisualizer.ShowSingle."""
        return _default_visualizer.ShowSingle(*args, **kwargs)

    @staticmethod
    def ShowMultiple(*args, **kwargs):
        """PatchVisualizer.ShowMultiple."""
        return _default_visualizer.ShowMultiple(*args, **kwargs)

    @staticmethod
    def ShowImages(*args, **kwargs):
        """PatchVisualizer.ShowImages."""
        return _default_visualizer.ShowImages(*args, **kwargs)

    @staticmethod
    def ShowChannels(*args, **kwargs):
        """PatchVisualizer.ShowChannels."""
        return _default_visualizer.ShowChannels(*args, **kwargs)


class NCHW:
    """Images with channels first, by the default visualizer."""

    @staticmethod
    def ShowSingle(patch, *args, **kwargs):
        """PatchVisualizer.ShowSingle."""
        return _default_visualizer.ShowSingle(ChannelLast(patch), *args, **kwargs)

    @staticmethod
    def ShowMultiple(patch, *args, **kwargs):
        """PatchVisualizer.ShowMultiple."""
        return _default_visualizer.ShowMultiple(ChannelLast(patch), *args, **kwargs)

    @staticmethod
    def ShowImages(patch, *args, **kwargs):
        """PatchVisualizer.ShowImages."""
        return _default_visualizer.ShowImages(ChannelLast(patch), *args, **kwargs)

    @staticmethod
    def ShowChannels(patch, *args, **kwargs):
        """PatchVisualizer.ShowChannels."""
        return _default_visualizer.ShowChannels(ChannelLast(patch), *args, **kwargs)
