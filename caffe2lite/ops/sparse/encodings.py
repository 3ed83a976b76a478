"""Positions, channels, keys and paths in other forms."""

from __future__ import annotations

import math

from caffe2lite.ops.kit.gradient import NO_GRADIENT
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.rows import check_range


@operator("Y", types="int32 int64", infer=lambda args, inputs: [
    Spec((*inputs[0].shape, args.get("embedding_size", 100)), "float32")])  # fmt: skip
def SinusoidPositionEncoding(
    xp, positions, *, embedding_size: int = 100, alpha: float = 10000.0, amplitude: float = 1.0, out
):
    """Y[n, :, k] = amplitude * sine (cosine for odd k) of position n / alpha^(k / size).

    positions [N, M] int32 or int64, of which the first column counts -> Y [N, M, embedding_size] float32; NaN for
    negative positions and where alpha is not above 0. ValueError where the positions are no matrix.

    A. Vaswani et al., "Attention is all you need", 2017.
    """
    if positions.ndim != 2:
        raise ValueError(f"a matrix of positions is needed, found {list(positions.shape)}")
    check_result((embedding_size,), "int64")
    Y = out((*positions.shape, embedding_size), "float32")
    k = xp.arange(embedding_size)
    if not Y.size:
        return Y
    first = positions[:, :1].astype("float64")
    if alpha <= 0:
        first[...] = math.nan
    angle = xp.where(first < 0, math.nan, first / xp.power(max(float(alpha), 0.0), k / embedding_size))
    Y[...] = (amplitude * xp.where(k % 2 == 0, xp.sin(angle), xp.cos(angle)))[:, None]
    return Y


# ---- paths -------------------------------------------------------------------------------------------------------


@operator("path", types={"scores": "float32", "transitions": "float32"}, gradient=NO_GRADIENT)
def ViterbiPath(xp, scores, transitions, *, out):
    """The path through states with the highest sum of scores and transitions, int32.

    scores [steps, states] float32, transitions [states, states] float32 -> path [steps]. ValueError where the shapes do
    not fit.

    A. Viterbi, "Error bounds for convolutional codes and an asymptotically optimum decoding algorithm", 1967.
    """
    if scores.ndim != 2 or transitions.shape != (scores.shape[1],) * 2:
        raise ValueError(
            f"scores must be steps by states and transitions states by states, found {list(scores.shape)} and "
            f"{list(transitions.shape)}"
        )
    steps = scores.shape[0]
    path = out((steps,), "int32")
    if not steps:
        return path
    best, origins = scores[0], []
    for row in scores[1:]:
        through = best[:, None] + transitions
        origins.append(through.argmax(axis=0))
        best = through.max(axis=0) + row
    state = int(best.argmax())
    path[steps - 1] = state
    for t in range(steps - 2, -1, -1):
        state = int(origins[t][state])
        path[t] = state
    return path


@operator("Y", types={"scores": "float32", "path": "int32"}, infer=like(0), gradient=NO_GRADIENT)
def SwapBestPath(xp, scores, path, *, out):
    """Y = scores, where in each row the best one and that of the path have changed places.

    scores [steps, states] float32, path [steps] int32 -> Y of the scores' shape. ValueError where there is not one
    state for each step, or one is not in [0, states).
    """
    if scores.ndim != 2 or path.shape != scores.shape[:1]:
        raise ValueError(f"one state a row is needed: scores {list(scores.shape)}, path {list(path.shape)}")
    check_range(path, scores.shape[1], "a state of the path")
    Y = out(scores.shape, scores.dtype)
    xp.copyto(Y, scores)
    rows, best = xp.arange(len(scores)), scores.argmax(axis=1) if scores.size else path
    Y[rows, path] = scores[rows, best]
    Y[rows, best] = scores[rows, path]
    return Y


# ---- keys --------------------------------------------------------------------------------------------------------


@operator("places*", types="int64", num_outputs=(1, MANY), limits="categorical_limit > 0")
def KeySplit(xp, keys, *, categorical_limit: int = 0, out):
    """Output k = where the key k is, int32, for all keys below categorical_limit.

    keys [...] int64 -> as many places [count] int32 as categorical_limit says. ValueError where there are not that many
    outputs, or a key is not in [0, categorical_limit).
    """
    if len(out) != categorical_limit:
        raise ValueError(f"categorical_limit={categorical_limit} outputs are needed, one a key; found {len(out)}")
    flat = keys.reshape(-1)
    check_range(flat, categorical_limit, "a key")
    results = []
    for k, place in enumerate(out):
        found = xp.nonzero(flat == k)[0]
        Y = place(found.shape, "int32")
        Y[...] = found
        results.append(Y)
    return tuple(results)


@operator("lengths ids", types="float32", gradient=NO_GRADIENT)
def DenseVectorToIdList(xp, X, *, out):
    """Which columns of each row are not 0 (once 0.5 is added and the fraction cut): how many, their numbers, int32.

    X [N, D] float32 -> lengths [N] int32, ids [sum of lengths] int32. ValueError where X is no matrix.
    """
    if X.ndim != 2:
        raise ValueError(f"a matrix is needed, found the shape {list(X.shape)}")
    rows, columns = xp.nonzero(xp.trunc(X + X.dtype.type(0.5)))
    lengths, ids = out[0]((X.shape[0],), "int32"), out[1](columns.shape, "int32")
    lengths[...] = xp.bincount(rows, minlength=X.shape[0])
    ids[...] = columns
    return lengths, ids
