"""Layers whose weights are a tensor train: a product of small cores (Oseledets, 2011; Novikov et al., 2015)."""

from __future__ import annotations

import math

from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.shapes import fitted


@operator("Y", types={"X": "float32", "b": "float32", "cores": "float32"})
def TT(xp, X, b, cores, *, inp_sizes: list[int], out_sizes: list[int], tt_ranks: list[int], out):
    """Y = X W + b, W being the product of the cores, which lie in `cores` one behind the other, the last one first.

    As in Caffe2 the values of a batch of several rows come out in the order of the transposed [rows, outputs].

    X [N, K], K being the product of inp_sizes, b [M], M that of out_sizes, cores [size], Y [N, M]; float32.
    ValueError where there is not one rank more than sizes, or X, b or cores does not have the sizes that these say.
    """
    if not len(inp_sizes) == len(out_sizes) == len(tt_ranks) - 1:
        raise ValueError(
            f"there must be one rank more than sizes: {len(inp_sizes)} inputs, {len(out_sizes)} outputs, "
            f"{len(tt_ranks)} ranks"
        )
    if min((*inp_sizes, *out_sizes, *tt_ranks), default=0) < 1:
        raise ValueError(f"sizes and ranks must be positive: {list(inp_sizes)}, {list(out_sizes)}, {list(tt_ranks)}")
    if X.ndim < 1 or X.size != X.shape[0] * math.prod(inp_sizes):
        raise ValueError(f"X {list(X.shape)} must have rows of {math.prod(inp_sizes)} values, the product of inp_sizes")
    rows, width = X.shape[0], math.prod(out_sizes)
    if b.shape != (width,):
        raise ValueError(f"b must have {width} values, the product of out_sizes, it has the shape {list(b.shape)}")
    y, at = X, 0
    flat = cores.reshape(-1)
    for i in reversed(range(len(inp_sizes))):
        shape = inp_sizes[i] * tt_ranks[i + 1], tt_ranks[i] * out_sizes[i]
        core = flat[at : at + math.prod(shape)]
        if core.size < math.prod(shape):
            raise ValueError(f"the sizes and ranks need more values than the {flat.size} in `cores`")
        y = (y.reshape(-1, shape[0]) @ core.reshape(shape)).reshape(-1, out_sizes[i]).T
        at += math.prod(shape)
    Y = out((rows, width), X.dtype)
    return xp.add(y.reshape(rows, width).T.reshape(rows, width), b, out=Y)


@operator("dX*", num_inputs=(0, MANY), num_outputs=(0, MANY))
def TTLinearGradient(xp, *inputs, out):
    """Caffe2 names it and has not written it: TT cannot be trained.

    Inputs of any shape and any dtype: ValueError always.
    """
    raise ValueError("there is no gradient of TT, in Caffe2 neither: only TTSparseLengthsSum can be trained")


# ---- a table of embeddings -----------------------------------------------------------------------------------------


def _check(cores, factor_i, factor_j, ranks):
    if not len(factor_i) == len(factor_j) == len(ranks) - 1 == 3 or min((*factor_i, *factor_j, *ranks)) < 1:
        raise ValueError(
            f"three factors and four ranks, all above 0, are needed, found {list(factor_i)}, {list(factor_j)}, {list(ranks)}"
        )
    for k, core in enumerate(cores):
        shape = (factor_i[k], ranks[k], factor_j[k], ranks[k + 1])
        if core.size != math.prod(shape):
            raise ValueError(f"core {k} must have the shape {list(shape)}, it is {list(core.shape)}")


def _segments(xp, lengths, count):
    """For each row the number of its segment."""
    if lengths.ndim != 1 or (lengths.size and int(lengths.min()) < 0):
        raise ValueError(f"lengths must be a vector without negative numbers, found {lengths.tolist()}")
    if int(lengths.sum()) != count:
        raise ValueError(f"the lengths add up to {int(lengths.sum())}, and there are {count} indices")
    return xp.repeat(xp.arange(lengths.size), lengths.tolist())


def _tables(cores, factor_i, factor_j, ranks):
    return [c.reshape(factor_i[k], ranks[k], factor_j[k], ranks[k + 1]) for k, c in enumerate(cores)]


_CORES = {"core0": "float32", "core1": "float32", "core2": "float32", "lengths": "int32"}


@operator(
    "OUTPUT core0_output core1_output indices",
    types={**_CORES, "index": "int64"},
    gradient=lambda g: g.single(
        "TTSparseLengthsSumGradient",
        [g.I(0), g.I(1), g.I(2), g.I(4), g.O(1), g.O(2), g.O(3), g.GO(0)],
        [g.GI(0), g.GI(1), g.GI(2)],
    ),
)
def TTSparseLengthsSum(
    xp,
    core0,
    core1,
    core2,
    index,
    lengths,
    *,
    factor_i: list[int] = (1, 1, 1),
    factor_j: list[int] = (1, 1, 1),
    ranks: list[int] = (1, 1, 1, 1),
    emb_size: int = 64,
    out,
):
    """Sums of rows of a table by segments; a row is the product of one slice of each of three cores.

    core k [factor_i[k], ranks[k], factor_j[k], ranks[k + 1]], index [n] (int64), lengths [segments] (int32), OUTPUT
    [segments, emb_size], core0_output and core1_output the products so far, indices [n, 3] (int64); else float32.
    ValueError where a core does not have its size, an index is no row, or the lengths do not add up to n.
    """
    if math.prod(factor_j) != emb_size or not len(factor_i) == len(factor_j) == len(ranks) - 1 == 3:
        raise ValueError(
            f"there are three factors and four ranks, and the factors_j make emb_size: got {factor_i}, {factor_j}, "
            f"{ranks} and {emb_size}"
        )
    _check((core0, core1, core2), factor_i, factor_j, ranks)
    if index.ndim != 1:
        raise ValueError(f"the indices must be a vector, found the shape {list(index.shape)}")
    n = index.size
    if n and not 0 <= int(index.min()) <= int(index.max()) < math.prod(factor_i):
        raise ValueError(
            f"indices must be from 0 to {math.prod(factor_i) - 1}, found {int(index.min())} to {int(index.max())}"
        )
    segment = _segments(xp, lengths, n)
    chosen = out[3]((n, 3), "int64")
    chosen[:, 0] = index % factor_i[0]
    chosen[:, 1] = index // factor_i[0] % factor_i[1]
    chosen[:, 2] = index // (factor_i[0] * factor_i[1])
    tables = _tables((core0, core1, core2), factor_i, factor_j, ranks)
    parts = [table[chosen[:, k]].reshape(n, ranks[k], -1) for k, table in enumerate(tables)]
    first = out[1]((n, factor_j[0], ranks[1]), "float32")
    first[...] = parts[0].reshape(first.shape)
    second = out[2]((n, factor_j[0] * factor_j[1], ranks[2]), "float32")
    second[...] = (first @ parts[1]).reshape(second.shape)
    Y = out[0]((lengths.size, emb_size), "float32")
    Y[...] = 0
    xp.add.at(Y, segment, (second @ parts[2]).reshape(n, emb_size))
    return Y, first, second, chosen


@operator(
    "dcore0 dcore1 dcore2",
    types={**_CORES, "core0_output": "float32", "core1_output": "float32", "indices": "int64", "dY": "float32"},
    infer=like(0, 1, 2),
)
def TTSparseLengthsSumGradient(
    xp,
    core0,
    core1,
    core2,
    lengths,
    core0_output,
    core1_output,
    indices,
    dY,
    *,
    factor_i: list[int] = (),
    factor_j: list[int] = (),
    ranks: list[int] = (),
    emb_size: int = 0,
    out,
):
    """Gradients by the cores: each slice gets those of the rows that it had a part in.

    Without the arguments the cores say the sizes: (factor_i, rank, factor_j, next rank) each.

    lengths [segments] (int32), indices [n, 3] (int64), dY [segments, emb_size], the gradients as the cores; else
    float32.  ValueError where a core does not have its size, or the lengths do not add up to n.
    """
    if indices.ndim != 2 or indices.shape[1] != 3 or dY.ndim != 2 or lengths.ndim != 1 or dY.shape[0] != lengths.size:
        raise ValueError(
            f"indices must be [n, 3] and dY [segments, width], found {list(indices.shape)} and {list(dY.shape)} for "
            f"lengths {list(lengths.shape)}"
        )
    n = indices.shape[0]
    if not factor_i:
        cores = (core0, core1, core2)
        if any(core.ndim != 4 for core in cores):
            raise ValueError("without factor_i, factor_j and ranks the cores must have four dimensions")
        factor_i, factor_j = ([core.shape[axis] for core in cores] for axis in (0, 2))
        ranks = [core0.shape[1], *(core.shape[3] for core in cores)]
    _check((core0, core1, core2), factor_i, factor_j, ranks)
    for k, most in enumerate(factor_i):
        if n and not 0 <= int(indices[:, k].min()) <= int(indices[:, k].max()) < most:
            raise ValueError(f"an index of core {k} is not from 0 to {most - 1}")
    core0_output = fitted(core0_output, (n, factor_j[0], ranks[1]), "core0_output")
    core1_output = fitted(core1_output, (n, factor_j[0] * factor_j[1], ranks[2]), "core1_output")
    fitted(dY, (lengths.size, math.prod(factor_j)), "dY")
    _, middle, last = _tables((core0, core1, core2), factor_i, factor_j, ranks)
    rows = dY[_segments(xp, lengths, n)].reshape(n, factor_j[0] * factor_j[1], factor_j[2])
    d2 = core1_output.swapaxes(1, 2) @ rows
    left = rows @ last[indices[:, 2]].reshape(n, ranks[2], factor_j[2]).swapaxes(1, 2)
    left = left.reshape(n, factor_j[0], factor_j[1] * ranks[2])
    d1 = core0_output.swapaxes(1, 2) @ left
    d0 = left @ middle[indices[:, 1]].reshape(n, ranks[1], -1).swapaxes(1, 2)
    made = []
    for k, (core, part) in enumerate(zip((core0, core1, core2), (d0, d1, d2))):
        total = out[k](core.shape, core.dtype)
        total[...] = 0
        xp.add.at(total.reshape(factor_i[k], -1), indices[:, k], part.reshape(n, -1))
        made.append(total)
    return tuple(made)
