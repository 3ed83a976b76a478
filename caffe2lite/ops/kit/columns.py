"""Convolution as matrix products: the pixels under each window position become a column.

Work goes block by block, some images or some rows of one image at a time, so that the columns stay in the cache and
nothing large is allocated (Chellapilla, Puri and Simard, 2006, for the idea).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import numpy as np

from caffe2lite.ops.kit import column_kernels
from caffe2lite.ops.kit.products import matmul
from caffe2lite.ops.kit.windows import Place

_BLOCK = 1 << 20  # elements of columns in a block
_BLOCK_ON_GPU = 1 << 28
_SMALL = (
    512  # images with fewer positions, or with 64 times as few elements of columns as a block, go several at a time
)


class Block(NamedTuple):
    """Images `first` to `last`, positions in rows `top` to `bottom` of each."""

    first: int
    last: int
    top: int
    bottom: int


def blocks(xp: ModuleType, batch: int, depth: int, place: Place) -> Iterator[Block]:
    """Blocks that cover a batch; `depth` is the length of a column.

    A GPU has no use for blocks that stay in a cache, but each costs launches: it takes as many images as memory allows.
    """
    rows = place.out[0]
    across = math.prod(place.out[1:])
    positions = rows * across
    if positions < _SMALL or 64 * depth * positions < _BLOCK or xp is not np:
        together = max(1, (_BLOCK if xp is np else _BLOCK_ON_GPU) // max(1, depth * positions))
        for first in range(0, batch, together):
            yield Block(first, min(batch, first + together), 0, rows)
        return
    step = min(rows, max(1, _BLOCK // max(1, depth * across)))
    for image in range(batch):
        for top in range(0, rows, step):
            yield Block(image, image + 1, top, min(rows, top + step))


def _rows(place: Place, block: Block) -> tuple[int, int]:
    """The rows of the padded image that a block looks at."""
    return block.top * place.stride[0], (block.bottom - 1) * place.stride[0] + place.reach[0]


def _inside(place: Place, block: Block) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """(where in the image, where in the padded block) the real pixels of a block are."""
    begin, end = _rows(place, block)
    image, padded = [], []
    for i, size in enumerate(place.size):
        low = (begin if i == 0 else 0) - place.heads[i]
        high = end - place.heads[i] if i == 0 else _padded_size(place, i) - place.heads[i]
        start, stop = max(0, low), max(0, min(size, high))
        image.append(slice(start, max(start, stop)))
        padded.append(slice(start - low, max(start, stop) - low))
    return tuple(image), tuple(padded)


def _padded_size(place: Place, i: int) -> int:
    return (place.out[i] - 1) * place.stride[i] + place.reach[i]


def _block_shape(place: Place, block: Block) -> tuple[int, ...]:
    begin, end = _rows(place, block)
    return (end - begin, *(_padded_size(place, i) for i in range(1, len(place.size))))


def padded_block(xp: ModuleType, X: np.ndarray, place: Place, block: Block) -> np.ndarray:
    """(channels, images, rows, …): the pixels that a block looks at, with padding around."""
    images = X[block.first : block.last].swapaxes(0, 1)
    inside, where = _inside(place, block)
    shape = _block_shape(place, block)
    if all(w.start == 0 and w.stop == s for w, s in zip(where, shape)):
        return images[(slice(None), slice(None), *inside)]
    padded = xp.zeros((X.shape[1], block.last - block.first, *shape), X.dtype)
    padded[(slice(None), slice(None), *where)] = images[(slice(None), slice(None), *inside)]
    return padded


def window_views(xp: ModuleType, padded: np.ndarray, place: Place, block: Block) -> np.ndarray:
    """A view (channels, kernel…, images, positions…) of what is under each tap of the window."""
    n = len(place.kernel)
    out = (block.bottom - block.top, *place.out[1:])
    steps = padded.strides[2:]
    return xp.lib.stride_tricks.as_strided(
        padded,
        shape=(padded.shape[0], *place.kernel, padded.shape[1], *out),
        strides=(
            padded.strides[0],
            *(steps[i] * place.dilation[i] for i in range(n)),
            padded.strides[1],
            *(steps[i] * place.stride[i] for i in range(n)),
        ),
    )


def columns(xp: ModuleType, X: np.ndarray, place: Place, block: Block, group: int) -> np.ndarray:
    """(group, channels of a group × kernel, positions of the block), in working memory."""
    images = X[block.first : block.last]
    if column_kernels.fits(xp, place, images):
        made = xp.empty((X.shape[1], *place.kernel, len(images), *place.out), X.dtype)
        column_kernels.fill_columns(xp, images, made, place)
    else:
        view = window_views(xp, padded_block(xp, X, place, block), place, block)
        made = xp.empty(view.shape, X.dtype)
        xp.copyto(made, view)
    depth = X.shape[1] * math.prod(place.kernel)
    return made.reshape(group, depth // group, made.size // depth if depth else 0)


def fold(xp: ModuleType, dcol: np.ndarray, dX: np.ndarray, place: Place, block: Block) -> None:
    """Add columns back to the pixels that they were taken from."""
    images = block.last - block.first
    if column_kernels.fits(xp, place, dX, dcol):
        column_kernels.add_columns(xp, dcol, dX[block.first : block.last], place)
        return
    shape = _block_shape(place, block)
    padded = xp.zeros((dX.shape[1], images, *shape), dX.dtype)
    out = (block.bottom - block.top, *place.out[1:])
    taps = dcol.reshape(dX.shape[1], *place.kernel, images, *out)
    for tap in taps_of(place.kernel):
        steps = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, place.dilation, out, place.stride)
        )
        target = padded[(slice(None), slice(None), *steps)]
        at: tuple[slice | int, ...] = (slice(None), *tap)
        xp.add(target, taps[at], out=target)
    inside, where = _inside(place, block)
    target = dX[block.first : block.last].swapaxes(0, 1)[(slice(None), slice(None), *inside)]
    xp.add(target, padded[(slice(None), slice(None), *where)], out=target)


def taps_of(kernel: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if not kernel:
        yield ()
        return
    for i in range(kernel[0]):
        for rest in taps_of(kernel[1:]):
            yield (i, *rest)


def convolve(xp: ModuleType, X: np.ndarray, W: np.ndarray, Y: np.ndarray, place: Place, group: int) -> None:
    """Y = X convolved with W.  X (N, C, …), W (M, C / group, kernel…), Y (N, M, …), views of any order."""
    batch, channels = X.shape[:2]
    taps = math.prod(place.kernel)
    filters = W.reshape(group, W.shape[0] // group, -1)
    flat = Y.reshape(batch, group, Y.shape[1] // group, -1) if Y.flags.c_contiguous else None
    if place.trivial and X.flags.c_contiguous and flat is not None and flat.shape[-1] >= _SMALL:
        matmul(xp, filters, X.reshape(batch, group, channels // group, -1), out=flat)
        return
    across = math.prod(place.out[1:])
    for block in blocks(xp, batch, channels * taps, place):
        col = columns(xp, X, place, block, group)
        if flat is not None and block.last == block.first + 1:
            matmul(xp, filters, col, out=flat[block.first, :, :, block.top * across : block.bottom * across])
            continue
        product = xp.empty((*filters.shape[:2], col.shape[2]), Y.dtype)
        matmul(xp, filters, col, out=product)
        block_of(Y, block)[...] = product.reshape(
            Y.shape[1], block.last - block.first, block.bottom - block.top, *place.out[1:]
        )


def block_of(Y: np.ndarray, block: Block) -> np.ndarray:
    """A view (channels, images, rows, …) of a block of a result."""
    return Y[block.first : block.last].swapaxes(0, 1)[:, :, block.top : block.bottom]


def _gradient_block(xp: ModuleType, dY: np.ndarray, block: Block, place: Place, group: int) -> np.ndarray:
    """(group, channels of a group, positions) of the gradient of a block's results."""
    across = math.prod(place.out[1:])
    if dY.flags.c_contiguous and block.last == block.first + 1:
        flat = dY[block.first].reshape(group, dY.shape[1] // group, -1)
        return flat[:, :, block.top * across : block.bottom * across]
    view = block_of(dY, block)
    made = xp.empty(view.shape, dY.dtype)
    xp.copyto(made, view)
    return made.reshape(group, dY.shape[1] // group, -1)


def convolve_gradient(
    xp: ModuleType,
    X: np.ndarray,
    W: np.ndarray,
    dY: np.ndarray,
    dW: np.ndarray,
    dX: np.ndarray | None,
    place: Place,
    group: int,
) -> None:
    """Gradients of `convolve`: fills dW (M, C / group, kernel…, contiguous) and, unless None, dX."""
    batch, channels = X.shape[:2]
    taps = math.prod(place.kernel)
    filters = W.reshape(group, W.shape[0] // group, -1)
    total = dW.reshape(filters.shape)
    total[...] = 0
    backward = filters.transpose(0, 2, 1)
    direct = place.trivial and dX is not None and dX.flags.c_contiguous and dY.flags.c_contiguous
    direct = direct and X.flags.c_contiguous and math.prod(place.out) >= _SMALL
    if dX is not None and direct:
        matmul(
            xp,
            backward,
            dY.reshape(batch, group, dY.shape[1] // group, -1),
            out=dX.reshape(batch, group, channels // group, -1),
        )
    elif dX is not None:
        dX[...] = 0
    part = xp.empty(total.shape, total.dtype)
    for block in blocks(xp, batch, channels * taps, place):
        g = _gradient_block(xp, dY, block, place, group)
        if place.trivial and X.flags.c_contiguous and block.last == block.first + 1:
            across = math.prod(place.out[1:])
            col = X[block.first].reshape(group, channels // group, -1)
            col = col[:, :, block.top * across : block.bottom * across]
        else:
            col = columns(xp, X, place, block, group)
        matmul(xp, g, col.transpose(0, 2, 1), out=part)
        xp.add(total, part, out=total)
        if dX is not None and not direct:
            dcol = xp.empty(col.shape, col.dtype)
            matmul(xp, backward, g, out=dcol)
            fold(xp, dcol, dX, place, block)


def convolve_transposed(xp: ModuleType, X: np.ndarray, W: np.ndarray, Y: np.ndarray, place: Place, group: int) -> None:
    """Y, zeroed here, gets what each pixel of X spreads by W: the gradient of `convolve` by its input.

    X (N, M, …), W (M, C / group, kernel…), Y (N, C, …); `place` is the window on Y.
    """
    Y[...] = 0
    filters = W.reshape(group, W.shape[0] // group, -1).transpose(0, 2, 1)
    for block in blocks(xp, X.shape[0], Y.shape[1] * math.prod(place.kernel), place):
        g = _gradient_block(xp, X, block, place, group)
        dcol = xp.empty((group, filters.shape[1], g.shape[2]), Y.dtype)
        matmul(xp, filters, g, out=dcol)
        fold(xp, dcol, Y, place, block)
