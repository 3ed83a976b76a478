"""Stacked LSTM and GRU layers under cuDNN's name, with all parameters in one vector as cuDNN lays them out.

For each layer and direction come the weights of the input and then of the hidden state, all gates below each other;
after the weights of all layers come their biases in the same order.  Gates are input, forget, cell, output for an LSTM;
reset, update, new for a GRU.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from caffe2lite.ops.kit.arguments import fields_of
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.nn.recurrent_units import sigmoid

_GATES = {"lstm": 4, "gru": 3}
_PARAMETERS = {
    "lstm": ("input_gate", "forget_gate", "cell", "output_gate"),
    "gru": ("reset_gate", "update_gate", "output"),
}


class Layers(NamedTuple):
    """The arguments that say which layers there are."""

    hidden_size: int = 0
    num_layers: int = 0
    bidirectional: bool = False
    rnn_mode: str = "lstm"
    input_mode: str = "linear"
    dropout: float = 1.0


fields_of(Layers)


class _Layer(NamedTuple):
    """Where the parameters of one layer in one direction are: (begin, shape) each."""

    reverse: bool
    W: tuple[int, tuple[int, ...]]
    R: tuple[int, tuple[int, ...]]
    b_input: tuple[int, tuple[int, ...]]
    b_recurrent: tuple[int, tuple[int, ...]]

    def of(self, vector: Any) -> tuple[Any, ...]:
        """Views of the four in a vector of all parameters."""
        return tuple(vector[at : at + math.prod(shape)].reshape(shape) for at, shape in self[1:])


class _Stack:
    """The layers that the arguments of an operator describe."""

    def __init__(self, features: int, layers: Layers) -> None:
        hidden_size, num_layers, bidirectional, rnn_mode, input_mode, dropout = layers
        if hidden_size < 1 or num_layers < 1:
            raise ValueError(f"hidden_size and num_layers must be positive, got {hidden_size} and {num_layers}")
        if rnn_mode not in _GATES:
            raise ValueError(f"rnn_mode must be one of {', '.join(_GATES)}, got {rnn_mode!r}")
        if input_mode not in ("linear", "skip"):
            raise ValueError(f"input_mode must be linear or skip, got {input_mode!r}")
        if input_mode == "skip" and features != hidden_size:
            raise ValueError(
                f"with input_mode skip the input must have hidden_size {hidden_size} features, not {features}"
            )
        if dropout != 1 and num_layers > 1:
            raise ValueError(f"dropout between layers is not supported: 1 (keep everything) is expected, got {dropout}")
        self.features, self.hidden, self.mode = features, hidden_size, rnn_mode
        self.directions = 1 + bidirectional
        self.count = num_layers * self.directions
        self.skip = input_mode == "skip"
        gates = _GATES[rnn_mode] * hidden_size
        weights, at = [], 0
        for k in range(self.count):
            width = features if k < self.directions else hidden_size * self.directions
            rows = 0 if self.skip and k < self.directions else gates
            weights.append(((at, (rows, width)), (at + rows * width, (gates, hidden_size))))
            at += rows * width + gates * hidden_size
        self.layers = [
            _Layer(
                k % self.directions == 1,
                *weights[k],
                (at + 2 * k * gates, (gates,)),
                (at + (2 * k + 1) * gates, (gates,)),
            )
            for k in range(self.count)
        ]
        self.size = at + 2 * self.count * gates

    def check(self, X: Any, states: Any, weights: Any) -> None:
        """ValueError where the operands do not fit."""
        if weights.size != self.size:
            raise ValueError(
                f"{self.count} layers and directions of {self.hidden} cells on {self.features} features have "
                f"{self.size} parameters; there are {weights.size}"
            )
        for state in states:
            if state.size != self.count * X.shape[1] * self.hidden:
                raise ValueError(
                    f"initial states must be [{self.count}, {X.shape[1]}, {self.hidden}], got {list(state.shape)}"
                )

    def states(self, X: Any, *states: Any) -> list[Any]:
        """The states as [layers * directions, batch, hidden]."""
        return [s.reshape(self.count, X.shape[1], self.hidden) for s in states]


def _check_input(X: Any) -> None:
    if X.ndim != 3:
        raise ValueError(f"the input must be [time, batch, features], got shape {list(X.shape)}")


class _Trace(NamedTuple):
    """What a layer computed at each step, in its own order of time."""

    inputs: Any
    before: list[Any]  # hidden states
    cells: list[Any]  # cell states before, for an LSTM
    gates: list[tuple[Any, ...]]


def _run(
    xp: Any, stack: _Stack, layer: _Layer, parameters: Any, X: Any, h: Any, c: Any
) -> tuple[Any, Any, Any, _Trace]:
    """(outputs, last hidden state, last cell, trace) of one layer in one direction."""
    W, R, bW, bR = parameters
    steps = X[::-1] if layer.reverse else X
    given = xp.tile(steps, (1, 1, _GATES[stack.mode])) if not W.size and stack.skip else steps @ W.T
    given = given + bW
    made = xp.empty((*X.shape[:2], stack.hidden), X.dtype)
    trace = _Trace(steps, [], [], [])
    for t in range(len(steps)):
        recurrent = h @ R.T + bR
        trace.before.append(h)
        if stack.mode == "lstm":
            i, f, g, o = xp.split(given[t] + recurrent, 4, axis=1)
            i, f, g, o = sigmoid(xp, i), sigmoid(xp, f), xp.tanh(g), sigmoid(xp, o)
            trace.cells.append(c)
            c = f * c + i * g
            top = xp.tanh(c)
            h = o * top
            trace.gates.append((i, f, g, o, top))
        else:
            (r, u, n), (rr, ru, rn) = xp.split(given[t], 3, axis=1), xp.split(recurrent, 3, axis=1)
            r, u = sigmoid(xp, r + rr), sigmoid(xp, u + ru)
            n = xp.tanh(n + r * rn)
            h = n + u * (h - n)
            trace.gates.append((r, u, n, rn))
        made[t] = h
    return (made[::-1] if layer.reverse else made), h, c, trace


def _forward(xp: Any, stack: _Stack, X: Any, hidden: Any, cell: Any, weights: Any) -> tuple[Any, Any, Any, list[Any]]:
    """(outputs, hidden states, cells, traces)."""
    vector = weights.reshape(-1)
    last, cells, traces, steps = [], [], [], X
    for first in range(0, stack.count, stack.directions):
        sides = []
        for k in range(first, first + stack.directions):
            layer = stack.layers[k]
            c = cell[k] if cell is not None else None
            made, h, c, trace = _run(xp, stack, layer, layer.of(vector), steps, hidden[k], c)
            sides.append(made)
            last.append(h)
            cells.append(c)
            traces.append(trace)
        steps = sides[0] if len(sides) == 1 else xp.concatenate(sides, axis=2)
    return steps, last, cells, traces


@operator(
    "output hidden_output cell_output rnn_scratch dropout_states",
    types={"X": "float32", "hidden": "=X", "cell": "=X", "weights": "=X"},
    gradient=single("RecurrentGradient", "I0 I1 I2 I3 O3 O0 GO0 -> GI0 GI1 GI2 GI3 O4 O3"),
)
def Recurrent(xp, X, hidden, cell, weights, *, layers: Layers, out):
    """Layers of LSTM or GRU over a sequence, from initial states on; a GRU does not look at `cell`.

    X [T, N, D], hidden and cell [layers * directions, N, H], weights [size] (see the head of this file), output
    [T, N, directions * H], hidden_output and cell_output as the states; float32, dropout_states [1] uint8.
    ValueError where the weights or the states have another size, or an argument names no such mode.
    """
    _check_input(X)
    stack = _Stack(X.shape[2], layers)
    lstm = stack.mode == "lstm"
    stack.check(X, (hidden, cell) if lstm else (hidden,), weights)
    h, c = (*stack.states(X, hidden), *(stack.states(X, cell) if lstm else [None]))
    steps, last, cells, _ = _forward(xp, stack, X, h, c, weights)
    Y = out[0](steps.shape, X.dtype)
    Y[...] = steps
    H = out[1](hidden.shape, X.dtype)
    H[...] = xp.stack(last).reshape(hidden.shape)
    C = out[2](cell.shape, X.dtype)
    C[...] = xp.stack(cells).reshape(cell.shape) if lstm else 0
    return Y, H, C, *_nothing(out[3:])


def _nothing(outs: Any) -> tuple[Any, ...]:
    """What cuDNN keeps for itself: nothing is needed here."""
    made = tuple(o((1,), dtype) for o, dtype in zip(outs, ("float32", "uint8")))
    for array in made:
        array[...] = 0
    return made


@operator(
    "dX dhidden dcell dweights dropout_states rnn_scratch",
    inplace=[(4, 5)],
    types={"X": "float32", "hidden": "=X", "cell": "=X", "weights": "=X", "dY": "=X"},
)
def RecurrentGradient(xp, X, hidden, cell, weights, rnn_scratch, Y, dY, *, layers: Layers, out):
    """Gradients of Recurrent by input, initial states and parameters, from that of the outputs; runs the layers again.

    Shapes as in Recurrent, dY [T, N, directions * H], the gradients as what they are of; float32.  ValueError where
    the weights or the states have another size.
    """
    _check_input(X)
    stack = _Stack(X.shape[2], layers)
    lstm = stack.mode == "lstm"
    stack.check(X, (hidden, cell) if lstm else (hidden,), weights)
    h, c = (*stack.states(X, hidden), *(stack.states(X, cell) if lstm else [None]))
    _, _, _, traces = _forward(xp, stack, X, h, c, weights)
    dX, dH, dC, dW = (o(a.shape, X.dtype) for o, a in zip(out, (X, hidden, cell, weights)))
    dC[...] = 0
    dh = stack.states(X, dH)[0]
    dc = stack.states(X, dC)[0] if lstm else None
    vector, gradient = weights.reshape(-1), dW.reshape(-1)
    above = dY
    for first in reversed(range(0, stack.count, stack.directions)):
        below = xp.zeros((*X.shape[:2], traces[first].inputs.shape[2]), X.dtype)
        for side in range(stack.directions):
            k = first + side
            layer = stack.layers[k]
            mine = above[:, :, side * stack.hidden : (side + 1) * stack.hidden]
            W, R, *_ = layer.of(vector)
            dgiven, drecurrent, dh[k], d = _back(xp, stack, traces[k], R, mine[::-1] if layer.reverse else mine)
            if lstm:
                dc[k] = d
            flat, before = dgiven.reshape(-1, dgiven.shape[2]), xp.stack(traces[k].before).reshape(-1, stack.hidden)
            gW, gR, gbW, gbR = layer.of(gradient)
            if W.size:
                gW[...] = flat.T @ traces[k].inputs.reshape(-1, W.shape[1])
                part = dgiven @ W
            else:
                part = dgiven.reshape(*X.shape[:2], -1, stack.hidden).sum(axis=2)
            drec = drecurrent.reshape(flat.shape)
            gR[...] = drec.T @ before
            gbW[...] = flat.sum(axis=0)
            gbR[...] = drec.sum(axis=0)
            below += part[::-1] if layer.reverse else part
        above = below
    dX[...] = above
    scratch, states = _nothing((out[5], out[4]))
    return dX, dH, dC, dW, states, scratch


def _back(xp: Any, stack: _Stack, trace: _Trace, R: Any, dY: Any) -> tuple[Any, Any, Any, Any]:
    """(gradients of what inputs give to the gates, of what hidden states give, of the first hidden state, of the cell)."""
    dgiven = xp.empty((*dY.shape[:2], R.shape[0]), dY.dtype)
    drecurrent = dgiven if stack.mode == "lstm" else xp.empty_like(dgiven)
    dh = xp.zeros(dY.shape[1:], dY.dtype)
    dc = xp.zeros(dY.shape[1:], dY.dtype)
    for t in reversed(range(len(dY))):
        dh = dh + dY[t]
        if stack.mode == "lstm":
            i, f, g, o, top = trace.gates[t]
            dc = dc + dh * o * (1 - top * top)
            by_gates = (
                dc * g * i * (1 - i),
                dc * trace.cells[t] * f * (1 - f),
                dc * i * (1 - g * g),
                dh * top * o * (1 - o),
            )
            dc = dc * f
            kept = 0
        else:
            r, u, n, rn = trace.gates[t]
            dn = dh * (1 - u) * (1 - n * n)
            by_gates = dn * rn * r * (1 - r), dh * (trace.before[t] - n) * u * (1 - u), dn
            drecurrent[t] = xp.concatenate([*by_gates[:2], dn * r], axis=1)
            kept = dh * u
        dgiven[t] = xp.concatenate(by_gates, axis=1)
        dh = drecurrent[t] @ R + kept
    return dgiven, drecurrent, dh, dc


# ---- single parameters -------------------------------------------------------------------------------------------


def _part(X: Any, weights: Any, layers: Layers, kind: str, source: str, layer: int) -> Any:
    """A view of one gate's weights or biases in the vector of all parameters."""
    _check_input(X)
    stack = _Stack(X.shape[2], layers)
    stack.check(X, (), weights)
    names = _PARAMETERS[stack.mode]
    gate, _, what = kind.rpartition("_")
    if gate not in names or what not in ("w", "b"):
        raise ValueError(
            f"param_type must be one of {', '.join(f'{n}_{e}' for e in 'wb' for n in names)}, got {kind!r}"
        )
    if source not in ("input", "recurrent"):
        raise ValueError(f"input_type must be input or recurrent, got {source!r}")
    if not 0 <= layer < stack.count:
        raise ValueError(f"layer must be from 0 to {stack.count - 1}, got {layer}")
    where = ("input", "recurrent").index(source) + 2 * (what == "b")
    matrix = stack.layers[layer].of(weights.reshape(-1))[where]
    return matrix.reshape(len(names), -1, *matrix.shape[1:])[names.index(gate)]


@operator("param", types={"input": "float32", "all_params": "float32"}, anywhere="input")
def RecurrentParamGet(
    xp, input, all_params, *, layers: Layers, param_type: str = "", input_type: str = "", layer: int = 0, out
):
    """The weights or biases of one gate of one layer.

    input [T, N, D] (only its shape counts), all_params [size], param [H, ...] for weights and [H] for biases;
    float32.  ValueError where param_type, input_type or layer names none, or all_params has another size.
    """
    part = _part(input, all_params, layers, param_type, input_type, layer)
    made = out(part.shape, part.dtype)
    made[...] = part
    return made


@operator(
    "all_params",
    mutates=[(1, 0)],
    anywhere="input",
    types={"input": "float32", "all_params": "float32", "param": "float32"},
)
def RecurrentParamSet(
    xp, input, all_params, param, *, layers: Layers, param_type: str = "", input_type: str = "", layer: int = 0
):
    """Write the weights or biases of one gate of one layer.

    input [T, N, D] (only its shape counts), all_params [size], param [H, ...] for weights and [H] for biases;
    float32.  ValueError where param_type, input_type or layer names none, or param has another size.
    """
    part = _part(input, all_params, layers, param_type, input_type, layer)
    if param.size != part.size:
        raise ValueError(f"{part.size} values are needed, of shape {list(part.shape)}, got {list(param.shape)}")
    part[...] = param.reshape(part.shape)
    return all_params
