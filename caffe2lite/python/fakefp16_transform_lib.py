"""Nets for hardware that computes in half precision, of which none is left: `fakeFp16FuseOps` says so."""

from __future__ import annotations


def fakeFp16FuseOps(net):
    """Raises: the operators of half-precision accelerators (Fp16FC and the like) exist nowhere any more."""
    raise RuntimeError(
        f"cannot turn net {net.name!r} into one of simulated half-precision operators: Caffe2's fakelowp operators were for "
        "accelerators that no longer exist; use HalfToFloat and FloatToHalf around the operators to be tried"
    )
