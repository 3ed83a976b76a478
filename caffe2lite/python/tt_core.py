"""Tensor-train form of the weights of an FC layer, for the operator TT.

A core has rank i * input size i * output size i * rank i + 1 numbers; the cores come flat, one after the other.
"""

from __future__ import annotations

import math

import numpy as np


def init_tt_cores(inp_sizes, out_sizes, tt_ranks, seed=1234):
    """Random cores, all orthogonal but the last; float32."""
    if not len(inp_sizes) == len(out_sizes) == len(tt_ranks) - 1:
        raise AssertionError(
            f"{len(inp_sizes)} input sizes need as many output sizes (got {len(out_sizes)}) "
            f"and one more rank (got {len(tt_ranks)})"
        )
    np.random.seed(seed)
    carried = np.ones((1, 1))
    cores = []
    for i, (rows, columns) in enumerate(zip(inp_sizes, out_sizes)):
        draw = np.random.randn(tt_ranks[i], rows * columns * tt_ranks[i + 1])
        made = (carried @ draw if i else draw).reshape(-1, tt_ranks[i + 1])
        if i + 1 < len(inp_sizes):
            made, carried = np.linalg.qr(made)
        cores.append(made.ravel())
    scale = 0.1 / (math.prod(inp_sizes) * math.prod(tt_ranks)) ** (1 / len(inp_sizes))
    return (scale * np.concatenate(cores)).astype(np.float32)


def matrix_to_tt(W, inp_sizes, out_sizes, tt_ranks):
    """Return the cores of an FC's weight `W`, whose sizes are the products of `inp_sizes` and `out_sizes`.

    Exact when the ranks are high enough.  The last core comes first, each as (input, rank i + 1, rank i, output): the
    order in which TT multiplies.
    """
    n = len(inp_sizes)
    if not n == len(out_sizes) == len(tt_ranks) - 1:
        raise AssertionError(f"{n} input sizes, {len(out_sizes)} output sizes and {len(tt_ranks)} ranks do not fit")
    if W.shape != (math.prod(inp_sizes), math.prod(out_sizes)):
        raise AssertionError(f"W has shape {W.shape}, the sizes ask for {inp_sizes} by {out_sizes}")
    tensor = W.T.reshape([*inp_sizes, *out_sizes])
    interleaved = [axis for i in range(n) for axis in (n + i, i)]
    sizes = [rows * columns for rows, columns in zip(inp_sizes, out_sizes)]
    flat = tt_svd(tensor.transpose(interleaved), sizes, tt_ranks)
    ordered = []
    for i in range(n):
        shape = (tt_ranks[i], out_sizes[i], inp_sizes[i], tt_ranks[i + 1])
        made, flat = np.split(flat, [math.prod(shape)])
        ordered.append(made.reshape(shape).transpose(2, 3, 0, 1).ravel())
    return np.concatenate(ordered[::-1]).astype(np.float32)


def tt_svd(W, sizes, tt_ranks):
    """Return the cores of a tensor `W` with these sizes, by one truncated SVD a dimension."""
    rest = np.ascontiguousarray(W)
    cores = []
    for i, size in enumerate(sizes[:-1]):
        U, S, V = np.linalg.svd(rest.reshape(tt_ranks[i] * size, -1), full_matrices=False)
        rank = tt_ranks[i + 1]
        cores.append(U[:, :rank].ravel())
        rest = S[:rank, None] * V[:rank]
    return np.concatenate([*cores, rest.ravel()])


def fc_net_to_tt_net(net):
    """Not there (Caffe2's does nothing): decompose the weight by matrix_to_tt and build a net with TT."""
    raise NotImplementedError("fc_net_to_tt_net: use matrix_to_tt on the weight and the operator TT")
