"""Windows that slide over an image: kernel, stride, dilation and padding of convolutions and pools.

The arguments are Caffe2's: `kernels` for any number of dimensions, or `kernel`, or `kernel_h` and `kernel_w`; the
others alike.  Paddings are first those before each dimension, then those after (top, left, bottom, right).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from caffe2lite.ops.kit.arguments import Arg, group, read
from caffe2lite.ops.kit.shapes import check_order

NOTSET, VALID, SAME, CAFFE_LEGACY_POOLING = range(4)

WINDOW_ARGS: dict[str, Arg] = {
    **{name: Arg(name, "list[int]", ()) for name in ("kernels", "strides", "dilations", "pads")},
    **{
        name: Arg(name, "int", 0, seldom=True)
        for name in (
            "kernel", "kernel_h", "kernel_w", "stride", "stride_h", "stride_w", "dilation", "dilation_h", "dilation_w",
            "pad", "pad_t", "pad_l", "pad_b", "pad_r", "legacy_pad", "global_pooling",
        )
    },
    "group": Arg("group", "int", 1),
    "order": Arg("order", "str", "NCHW"),
}  # fmt: skip


class Window(NamedTuple):
    """A sliding window, as its arguments say it."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[int, ...]
    legacy_pad: int
    whole: bool  # global_pooling: the window is the image
    group: int
    channels_last: bool


Pool = PoolGradient = Window  # those of pools, which are made of the same arguments by other rules


class Place(NamedTuple):
    """A window on an image of a certain size."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    heads: tuple[int, ...]
    tails: tuple[int, ...]
    size: tuple[int, ...]  # of the image
    out: tuple[int, ...]  # number of positions in each dimension

    @property
    def reach(self) -> tuple[int, ...]:
        """Extent of a dilated window."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation))

    @property
    def trivial(self) -> bool:
        """Whether it looks at each pixel alone."""
        return not any(self.heads) and not any(self.tails) and set(self.kernel) == {1} and set(self.stride) == {1}


def parse(args: Mapping[str, Any]) -> Window:
    """The window that an operator's arguments describe; ValueError where they contradict each other."""
    return _parse(tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in args.items() if k in WINDOW_ARGS))


@functools.lru_cache(maxsize=4096)
def _parse(items: tuple[tuple[str, Any], ...]) -> Window:
    args = dict(items)
    whole = bool(read(args.get("global_pooling", 0)))
    kernel = _sides(args, "kernels", "kernel") or ((0, 0) if whole else ())
    stride = _sides(args, "strides", "stride") or (1,) * len(kernel)
    dilation = _sides(args, "dilations", "dilation") or (1,) * len(kernel)
    legacy_pad = read(args.get("legacy_pad", NOTSET))
    pads = tuple(args.get("pads", ()))
    each = all(f"pad_{s}" in args for s in "tlbr")
    if "pad" in args:
        pads = (*pads[:4], *(read(args["pad"]),) * (4 - len(pads)))
    elif each:
        pads += tuple(read(args[f"pad_{s}"]) for s in "tlbr")
    if legacy_pad in (VALID, SAME) and (each or "pad" in args or "pads" in args):
        raise ValueError("with legacy_pad VALID or SAME the padding follows from the sizes: do not give pad or pads")
    if not NOTSET <= legacy_pad <= CAFFE_LEGACY_POOLING:
        raise ValueError(f"legacy_pad must be from 0 to 3, got {legacy_pad}")
    order = args.get("order", "NCHW")
    check_order(order)
    if whole:
        if any(pads) or any(d != 1 for d in dilation) or any(s != 1 for s in stride):
            raise ValueError("with global_pooling the window is the image: pads must be 0, strides and dilations 1")
    elif not kernel:
        raise ValueError("the size of the window is missing: give kernel, kernel_h and kernel_w, or kernels")
    if len(stride) != len(kernel) or len(dilation) != len(kernel):
        raise ValueError(
            f"{len(kernel)} kernel sizes are given, {len(stride)} strides and {len(dilation)} dilations: they must agree"
        )
    pads = pads or (0,) * (2 * len(kernel))
    if len(pads) != 2 * len(kernel):
        raise ValueError(f"{len(pads)} pads are given for {len(kernel)} dimensions: there must be two for each")
    for what, values in (("kernel", kernel), ("stride", stride), ("dilation", dilation)):
        if min(values) < (0 if whole and what == "kernel" else 1):
            raise ValueError(f"{what} sizes must be positive, got {list(values)}")
    groups = args.get("group", 1)
    if groups < 1:
        raise ValueError(f"group must be positive, got {groups}")
    return Window(kernel, stride, dilation, pads, legacy_pad, whole, groups, order == "NHWC")


def _sides(args: dict[str, Any], many: str, one: str) -> tuple[int, ...]:
    """Where an argument is given in more than one way, the list comes first, as in Caffe2."""
    sides = tuple(args.get(many, ()))
    if one in args:
        return (*sides[:2], *(read(args[one]),) * (2 - len(sides)))
    if f"{one}_h" in args and f"{one}_w" in args:
        return (*sides, read(args[f"{one}_h"]), read(args[f"{one}_w"]))
    return sides


def _of_pool(args: Mapping[str, Any]) -> Window:
    """The window of a pool, which has no groups; without a known rule of padding it has no positions."""
    rule = read(args.get("legacy_pad", NOTSET))
    known = NOTSET <= rule <= CAFFE_LEGACY_POOLING
    window = parse({name: value for name, value in args.items() if name != "group" and (known or name != "legacy_pad")})
    return window._replace(legacy_pad=rule)


def of_pool(args: Mapping[str, Any]) -> Window:
    """The window of a pool, which has no groups and no dilation."""
    window = _of_pool(args)
    if any(d != 1 for d in window.dilation):
        raise ValueError(f"a pool has no dilation: it must be 1, got {list(window.dilation)}")
    return window


def _of_pool_gradient(args: Mapping[str, Any]) -> Window:
    """The same for the gradient of a pool, which passes over a dilation."""
    window = _of_pool(args)
    return window._replace(dilation=(1,) * len(window.dilation))


group("Window", WINDOW_ARGS, parse)
group("Pool", WINDOW_ARGS, of_pool)
group("PoolGradient", WINDOW_ARGS, _of_pool_gradient)


@functools.lru_cache(maxsize=4096)
def place(window: Window, size: tuple[int, ...]) -> Place:
    """The window on an image; ValueError where it does not fit."""
    if window.whole:
        n = len(size)
        return Place(size, (1,) * n, (1,) * n, (0,) * n, (0,) * n, size, (1,) * n)
    n = len(window.kernel)
    if len(size) != n:
        raise ValueError(f"the window has {n} dimensions and the image {len(size)} (besides batch and channels)")
    heads, tails, out = [], [], []
    for i in range(n):
        reach = window.dilation[i] * (window.kernel[i] - 1) + 1
        head, tail, count = _along(
            size[i], reach, window.stride[i], window.pads[i], window.pads[i + n], window.legacy_pad
        )
        if count < 1 and NOTSET <= window.legacy_pad <= CAFFE_LEGACY_POOLING:
            raise ValueError(
                f"a window of {reach} does not fit into {size[i]} pixels with padding {head} and {tail} "
                f"(dimension {i} of the image)"
            )
        heads.append(head)
        tails.append(tail)
        out.append(count)
    return Place(window.kernel, window.stride, window.dilation, tuple(heads), tuple(tails), size, tuple(out))


def _along(size: int, reach: int, stride: int, head: int, tail: int, legacy: int) -> tuple[int, int, int]:
    """(padding before, padding after, number of positions) along one dimension."""
    if legacy == VALID:
        head = tail = 0
    elif legacy == SAME:
        needed = (-(-size // stride) - 1) * stride + reach - size
        head, tail = needed // 2, needed - needed // 2
    if legacy == CAFFE_LEGACY_POOLING:
        count = -(-(size + 2 * head - reach) // stride) + 1
        if head > 0 and (count - 1) * stride >= size + head:
            count -= 1
        return head, max(head, (count - 1) * stride + reach - size - head), count
    if legacy not in (NOTSET, VALID, SAME):
        return head, tail, 0  # Caffe2 knows no such rule, and leaves the size at 0
    return head, tail, (size + head + tail - reach) // stride + 1


def first_dimensions(window: Window, n: int) -> Window:
    """The window for images of `n` dimensions: `kernel` alone means two, of which a pool of one takes the first.

    Its padding, before and after, is the first of the pads: top and left of an image.
    """
    if len(window.kernel) <= n:
        return window
    return window._replace(
        kernel=window.kernel[:n], stride=window.stride[:n], dilation=window.dilation[:n], pads=window.pads[: 2 * n]
    )


def split_shape(shape: tuple[int, ...], window: Window, what: str) -> tuple[int, int, tuple[int, ...]]:
    """(batch, channels, image size) of a tensor's shape."""
    if len(shape) < 3:
        raise ValueError(f"{what} must have a batch, channels and an image, got shape {list(shape)}")
    if window.channels_last:
        return shape[0], shape[-1], shape[1:-1]
    return shape[0], shape[1], shape[2:]


def join_shape(batch: int, channels: int, size: tuple[int, ...], window: Window) -> tuple[int, ...]:
    """The shape of a tensor."""
    return (batch, *size, channels) if window.channels_last else (batch, channels, *size)


def channels_first(array: np.ndarray, window: Window) -> np.ndarray:
    """A view of a tensor (or filter) with channels before the image, whatever its order."""
    if not window.channels_last:
        return array
    return array.transpose(0, array.ndim - 1, *range(1, array.ndim - 1))
