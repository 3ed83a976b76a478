"""The arithmetic of one time step: LSTMUnit and GRUUnit, with their gradients.

Hochreiter and Schmidhuber, Long Short-Term Memory, 1997; Cho et al., Learning Phrase Representations using RNN
Encoder-Decoder, 2014.  Sequences of a batch have lengths of their own: past its end a sequence keeps its state, or
loses it with `drop_states`.
"""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, loop, sigmoid32, tanh32
from caffe2lite.ops.kit.cuda_kernels import usable
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.nn import recurrent_cuda


def sigmoid(xp, x):
    return 1 / (1 + xp.exp(-x))


def _split(rest, sequence_lengths, count):
    """(lengths or None, the other inputs): lengths are left out where sequence_lengths is 0."""
    have = len(rest)
    if have != count + bool(sequence_lengths):
        raise ValueError(
            f"with sequence_lengths={int(bool(sequence_lengths))} there must be "
            f"{count + bool(sequence_lengths)} inputs after the gates, got {have}"
        )
    lengths, others = (rest[0], rest[1:]) if sequence_lengths else (None, rest)
    for what, operand in (("lengths", lengths), ("the timestep", others[0])):
        if operand is not None and operand.dtype != "int32":
            raise TypeError(f"{what} must be int32, found {operand.dtype}")
    for operand in others[1:]:
        if operand.dtype != "float32":
            raise TypeError(f"results and gradients must be float32, found {operand.dtype}")
    if not others[0].size:
        raise ValueError(f"the timestep must be one value, found the shape {list(others[0].shape)}")
    return lengths, others


def _now(lengths, timestep, N):
    """The time step (0 without lengths); ValueError where there is not a length for each sequence."""
    if lengths is None:
        return 0
    if lengths.size != N:
        raise ValueError(f"one length for each of {N} sequences is needed, found {list(lengths.shape)}")
    return int(timestep.reshape(-1)[0])


def _valid(lengths, now):
    """Which sequences are not at their end, as a column; None where all are."""
    if lengths is None:
        return None
    valid = lengths > now
    return None if bool(valid.all()) else valid.reshape(1, -1, 1)


def _check(H_prev, X, gates):
    if H_prev.ndim != 3 or X.shape != (*H_prev.shape[:2], gates * H_prev.shape[2]):
        raise ValueError(
            f"the state has the shape {list(H_prev.shape)} and the gates {list(X.shape)}; expected [1, N, D] and "
            f"[1, N, {gates} * D]"
        )


def _check_states(H_prev, **states):
    _check_types(H_prev, **states)
    for what, state in states.items():
        if state.shape != H_prev.shape:
            raise ValueError(f"{what} must have the shape of H_prev, {list(H_prev.shape)}, found {list(state.shape)}")


def _check_types(H_prev, **states):
    for what, state in states.items():
        if state.dtype != H_prev.dtype:
            raise TypeError(f"{what} must be {H_prev.dtype} as H_prev is, found {state.dtype}")


def _lstm_gates(xp, X, D, forget_bias):
    i, f, o = (
        sigmoid(xp, X[..., k * D : (k + 1) * D] + b) for k, b in ((0, 0), (1, X.dtype.type(forget_bias)), (2, 0))
    )
    return i, f, o, xp.tanh(X[..., 3 * D :])


def _lstm_gradient(g):
    lengths = [g.I(3)] if g.arg("sequence_lengths", 1) else []
    shared = [g.I(0), g.I(1), g.I(2), *lengths, g.I(3 + len(lengths))]
    return g.single("LSTMUnitGradient", [*shared, g.O(0), g.O(1), g.GO(0), g.GO(1)], [g.GI(0), g.GI(1), g.GI(2)])


@operator(
    "H C",
    num_inputs=(4, 5),
    types={"H_prev": "float32", "C_prev": "=H_prev", "X": "=H_prev"},
    anywhere="lengths_and_timestep",  # the timestep is on the CPU
    infer=lambda args, inputs: [Spec(inputs[0].shape), Spec(inputs[1].shape)],
    gradient=_lstm_gradient,
)
def LSTMUnit(
    xp,
    H_prev,
    C_prev,
    X,
    *lengths_and_timestep,
    forget_bias: float = 0.0,
    sequence_lengths: bool = True,
    drop_states: bool = False,
    out,
):
    """C = f * C_prev + i * g, H = o * tanh(C), where X holds the gates i, f (plus forget_bias), o and g, before
    sigmoid and tanh.

    H_prev, C_prev, H and C [1, N, D], X [1, N, 4 D], lengths [N] and timestep [1]; float32, the last two int32.
    ValueError where the shapes do not fit or lengths are given against sequence_lengths; TypeError where the last two
    are not int32.
    """
    lengths, (timestep,) = _split(lengths_and_timestep, sequence_lengths, 1)
    _check(H_prev, X, 4)
    _check_states(H_prev, C_prev=C_prev)
    now, D = _now(lengths, timestep, X.shape[1]), H_prev.shape[2]
    H, C = out[0](H_prev.shape, X.dtype), out[1](C_prev.shape, X.dtype)
    if usable(xp):
        recurrent_cuda.LSTM(xp, H.size, H, C, H_prev, C_prev, X, forget_bias, lengths, now, D, drop_states)
        return H, C
    i, f, o, g = _lstm_gates(xp, X, D, forget_bias)
    c = f * C_prev
    c += i * g
    h = xp.tanh(c)
    h *= o
    valid = _valid(lengths, now)
    if valid is not None:
        h = xp.where(valid, h, 0 if drop_states else H_prev)
        c = xp.where(valid, c, 0 if drop_states else C_prev)
    H[...], C[...] = h, c
    return H, C


@compiled(LSTMUnit, work=8)
def _lstm_compiled(
    xp,
    H_prev,
    C_prev,
    X,
    *lengths_and_timestep,
    forget_bias: float = 0.0,
    sequence_lengths: bool = True,
    drop_states: bool = False,
    out,
):
    lengths, (timestep,) = _split(lengths_and_timestep, sequence_lengths, 1)
    _check(H_prev, X, 4)
    _check_states(H_prev, C_prev=C_prev)
    H, C = out[0](H_prev.shape, X.dtype), out[1](C_prev.shape, X.dtype)
    ended = _ended(lengths, _now(lengths, timestep, X.shape[1]), X.shape[1])
    _lstm_loop(H_prev[0], C_prev[0], X[0], ended, np.float32(forget_bias), drop_states, H[0], C[0])
    return H, C


def _ended(lengths, now, N):
    """Which sequences are at their end."""
    valid = _valid(lengths, now)
    return np.zeros(N, np.bool_) if valid is None else ~valid.reshape(-1)


@loop(reorder=True)
def _lstm_loop(H_prev, C_prev, X, ended, forget_bias, drop_states, H, C):
    D = H.shape[1]
    for n in range(H.shape[0]):
        h, c, before = H[n], C[n], C_prev[n]
        i, f, o, g = X[n, :D], X[n, D : 2 * D], X[n, 2 * D : 3 * D], X[n, 3 * D :]
        if ended[n]:
            for d in range(D):
                h[d], c[d] = (np.float32(0), np.float32(0)) if drop_states else (H_prev[n, d], before[d])
        else:
            for d in range(D):
                state = sigmoid32(f[d] + forget_bias) * before[d] + sigmoid32(i[d]) * tanh32(g[d])
                c[d] = state
                h[d] = sigmoid32(o[d]) * tanh32(state)


@operator(
    "dH_prev dC_prev dX",
    num_inputs=(8, 9),
    types={"H_prev": "float32", "C_prev": "=H_prev", "X": "=H_prev"},
    anywhere="rest",
    infer=like(0, 1, 2),
)
def LSTMUnitGradient(
    xp,
    H_prev,
    C_prev,
    X,
    *rest,
    forget_bias: float = 0.0,
    sequence_lengths: bool = True,
    drop_states: bool = False,
    out,
):
    """Gradients by the previous states and the gates.

    Inputs are those of LSTMUnit, its outputs and their gradients: all [1, N, D] but X and dX [1, N, 4 D], lengths [N]
    and timestep [1]; float32, the last two int32.  ValueError where the shapes or the number of inputs do not fit.
    """
    lengths, (timestep, H, C, dH, dC) = _split(rest, sequence_lengths, 5)
    _check_types(H_prev, H=H)  # which is not read, of whatever shape
    _check(H_prev, X, 4)
    _check_states(H_prev, C_prev=C_prev, C=C, dH=dH, dC=dC)
    now, D = _now(lengths, timestep, X.shape[1]), H_prev.shape[2]
    dH_prev, dC_prev, dX = out[0](H_prev.shape, X.dtype), out[1](C_prev.shape, X.dtype), out[2](X.shape, X.dtype)
    if usable(xp):
        step = (forget_bias, lengths, now, D, drop_states)
        recurrent_cuda.LSTM_GRADIENT(xp, dH.size, dH_prev, dC_prev, dX, C_prev, X, C, dH, dC, *step)
        return dH_prev, dC_prev, dX
    i, f, o, g = _lstm_gates(xp, X, D, forget_bias)
    t = xp.tanh(C)
    c = dC + dH * o * (1 - t * t)
    parts = (c * g * i * (1 - i), c * C_prev * f * (1 - f), dH * t * o * (1 - o), c * i * (1 - g * g))
    valid = _valid(lengths, now)
    for k, part in enumerate(parts):
        dX[..., k * D : (k + 1) * D] = part if valid is None else xp.where(valid, part, 0)
    before = c * f
    if valid is None:
        dH_prev[...], dC_prev[...] = 0, before
    else:
        dH_prev[...] = xp.where(valid, 0, 0 * dH if drop_states else dH)
        dC_prev[...] = xp.where(valid, before, 0 * dC if drop_states else dC)
    return dH_prev, dC_prev, dX


@compiled(LSTMUnitGradient, work=8)
def _lstm_gradient_compiled(
    xp,
    H_prev,
    C_prev,
    X,
    *rest,
    forget_bias: float = 0.0,
    sequence_lengths: bool = True,
    drop_states: bool = False,
    out,
):
    lengths, (timestep, H, C, dH, dC) = _split(rest, sequence_lengths, 5)
    _check_types(H_prev, H=H)  # which is not read, of whatever shape
    _check(H_prev, X, 4)
    _check_states(H_prev, C_prev=C_prev, C=C, dH=dH, dC=dC)
    dH_prev, dC_prev, dX = out[0](H_prev.shape, X.dtype), out[1](C_prev.shape, X.dtype), out[2](X.shape, X.dtype)
    ended = _ended(lengths, _now(lengths, timestep, X.shape[1]), X.shape[1])
    states = (C_prev[0], X[0], C[0], dH[0], dC[0])
    _lstm_gradient_loop(*states, ended, np.float32(forget_bias), drop_states, dH_prev[0], dC_prev[0], dX[0])
    return dH_prev, dC_prev, dX


@loop(reorder=True)
def _lstm_gradient_loop(C_prev, X, C, dH, dC, ended, forget_bias, drop_states, dH_prev, dC_prev, dX):
    """Each inner loop has few arrays: with more of them the compiler makes no vectors."""
    D, one = C.shape[1], np.float32(1)
    gi, gf, go, gg, tc, dc = np.empty((6, D), np.float32)
    for n in range(C.shape[0]):
        if ended[n]:
            dX[n, :] = 0
            for d in range(D):
                kept = np.float32(0) if drop_states else one
                dH_prev[n, d], dC_prev[n, d] = kept * dH[n, d], kept * dC[n, d]
            continue
        dH_prev[n, :] = 0
        part = X[n, :D]
        for d in range(D):
            gi[d] = sigmoid32(part[d])
        part = X[n, D : 2 * D]
        for d in range(D):
            gf[d] = sigmoid32(part[d] + forget_bias)
        part = X[n, 2 * D : 3 * D]
        for d in range(D):
            go[d] = sigmoid32(part[d])
        part = X[n, 3 * D :]
        for d in range(D):
            gg[d] = tanh32(part[d])
        dh = dH[n]
        for d in range(D):
            tc[d] = tanh32(C[n, d])
            dc[d] = dC[n, d] + dh[d] * go[d] * (one - tc[d] * tc[d])
        step = dX[n, :D]
        for d in range(D):
            step[d] = dc[d] * gg[d] * gi[d] * (one - gi[d])
        step = dX[n, D : 2 * D]
        for d in range(D):
            step[d] = dc[d] * C_prev[n, d] * gf[d] * (one - gf[d])
            dC_prev[n, d] = dc[d] * gf[d]
        step = dX[n, 2 * D : 3 * D]
        for d in range(D):
            step[d] = dh[d] * tc[d] * go[d] * (one - go[d])
        step = dX[n, 3 * D :]
        for d in range(D):
            step[d] = dc[d] * gi[d] * (one - gg[d] * gg[d])


def _gru_gradient(g):
    lengths = [g.I(2)] if g.arg("sequence_lengths", 1) else []
    shared = [g.I(0), g.I(1), *lengths, g.I(2 + len(lengths))]
    return g.single("GRUUnitGradient", [*shared, g.O(0), g.GO(0)], [g.GI(0), g.GI(1)])


@operator(
    "H",
    num_inputs=(3, 4),
    types={"H_prev": "float32", "X": "=H_prev"},
    anywhere="lengths_and_timestep",
    infer=lambda args, inputs: [Spec(inputs[0].shape)],
    gradient=_gru_gradient,
)
def GRUUnit(xp, H_prev, X, *lengths_and_timestep, sequence_lengths: bool = True, drop_states: bool = False, out):
    """H = u * H_prev + (1 - u) * tanh(o), where X holds the gates reset, u (before a sigmoid) and o.

    H_prev and H [1, N, D], X [1, N, 3 D], lengths [N] and timestep [1]; float32, the last two int32.  ValueError
    where the shapes do not fit or lengths are given against sequence_lengths; TypeError where the last two are not
    int32.
    """
    lengths, (timestep,) = _split(lengths_and_timestep, sequence_lengths, 1)
    _check(H_prev, X, 3)
    now, D = _now(lengths, timestep, X.shape[1]), H_prev.shape[2]
    H = out(H_prev.shape, X.dtype)
    if usable(xp):
        recurrent_cuda.GRU(xp, H.size, H, H_prev, X, lengths, now, D, drop_states)
        return H
    u, o = sigmoid(xp, X[..., D : 2 * D]), xp.tanh(X[..., 2 * D :])
    h = o + u * (H_prev - o)
    valid = _valid(lengths, now)
    H[...] = h if valid is None else xp.where(valid, h, 0 if drop_states else H_prev)
    return H


@operator(
    "dH_prev dX", num_inputs=(5, 6), types={"H_prev": "float32", "X": "=H_prev"}, anywhere="rest", infer=like(0, 1)
)
def GRUUnitGradient(xp, H_prev, X, *rest, sequence_lengths: bool = True, drop_states: bool = False, out):
    """Gradients by the previous state and the gates (none by the reset gate, which acts before).

    Inputs are those of GRUUnit, H and its gradient: all [1, N, D] but X and dX [1, N, 3 D], lengths [N] and timestep
    [1]; float32, the last two int32.  ValueError where the shapes or the number of inputs do not fit.
    """
    lengths, (timestep, _, dH) = _split(rest, sequence_lengths, 3)
    _check(H_prev, X, 3)
    _check_states(H_prev, dH=dH)
    now, D = _now(lengths, timestep, X.shape[1]), H_prev.shape[2]
    dH_prev, dX = out[0](H_prev.shape, X.dtype), out[1](X.shape, X.dtype)
    if usable(xp):
        recurrent_cuda.GRU_GRADIENT(xp, dH.size, dH_prev, dX, H_prev, X, dH, lengths, now, D, drop_states)
        return dH_prev, dX
    u, o = sigmoid(xp, X[..., D : 2 * D]), xp.tanh(X[..., 2 * D :])
    valid = _valid(lengths, now)
    by_u, by_o = dH * (H_prev - o) * u * (1 - u), dH * (1 - u) * (1 - o * o)
    dX[..., :D] = 0
    dX[..., D : 2 * D] = by_u if valid is None else xp.where(valid, by_u, 0)
    dX[..., 2 * D :] = by_o if valid is None else xp.where(valid, by_o, 0)
    dH_prev[...] = dH * u if valid is None else xp.where(valid, dH * u, 0 * dH if drop_states else dH)
    return dH_prev, dX
