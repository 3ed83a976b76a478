"""A stack of LSTM layers in one operator, with the weights as PyTorch has them."""

from __future__ import annotations

from caffe2lite.ops.kit.gradient import NO_GRADIENT
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.nn.recurrent_units import sigmoid


def _run(xp, steps, h, c, weights, backwards):
    """(outputs of all steps, last hidden state, last cell): gates are input, forget, cell, output."""
    w_in, w_hidden, *biases = weights
    gates = 4 * h.shape[1]
    wanted = [(gates, steps.shape[2]), (gates, h.shape[1]), *[(gates,)] * len(biases)]
    if [w.shape for w in weights] != wanted:
        raise ValueError(
            f"the weights of a layer must be {[list(w) for w in wanted]}, they are {[list(w.shape) for w in weights]}"
        )
    gates_in = steps @ w_in.T + sum(biases)
    made = xp.empty((*steps.shape[:2], h.shape[1]), steps.dtype)
    for t in reversed(range(len(steps))) if backwards else range(len(steps)):
        i, f, g, o = xp.split(gates_in[t] + h @ w_hidden.T, 4, axis=1)
        c = sigmoid(xp, f) * c + sigmoid(xp, i) * xp.tanh(g)
        h = sigmoid(xp, o) * xp.tanh(c)
        made[t] = h
    return made, h, c


@operator(
    "output hidden cell", num_inputs=(1, MANY), types={"inputs": "float32", "rest": "float32"}, gradient=NO_GRADIENT
)
def InferenceLSTM(
    xp,
    inputs,
    *rest,
    num_layers: int = 1,
    has_biases: bool = True,
    batch_first: bool = False,
    bidirectional: bool = False,
):
    """The outputs of the last layer, and the last hidden states and cells of all [layers * directions, batch, width].

    After the inputs [time, batch, features] come the initial hidden states and cells, then for each layer and direction
    the weights of the inputs and of the hidden state, and with has_biases two biases.

    inputs [T, N, D] (batch_first: [N, T, D]), states [layers * directions, N, H], weights [4 H, D] and [4 H, H],
    biases [4 H], output [T, N, directions * H]; float32.  ValueError where the number of inputs or a number of
    dimensions differs.
    """
    directions = 2 if bidirectional else 1
    each = 4 if has_biases else 2
    wanted = 2 + num_layers * directions * each
    if len(rest) != wanted or inputs.ndim != 3:
        raise ValueError(
            f"{num_layers} layers in {directions} directions take {1 + wanted} inputs, the first of three dimensions; "
            f"there are {1 + len(rest)}, the first {list(inputs.shape)}"
        )
    hidden, cell, *weights = rest
    for k, weight in enumerate(weights):
        if weight.ndim != (2 if k % each < 2 else 1):
            raise ValueError(
                f"weights are matrices and biases vectors; input {3 + k} has the shape {list(weight.shape)}"
            )
    steps = inputs.swapaxes(0, 1) if batch_first else inputs
    if hidden.shape != cell.shape or hidden.ndim != 3 or hidden.shape[:2] != (num_layers * directions, steps.shape[1]):
        raise ValueError(
            f"hidden states and cells must be [{num_layers * directions}, {steps.shape[1]}, width], they are "
            f"{list(hidden.shape)} and {list(cell.shape)}"
        )
    states, cells = [], []
    for layer in range(num_layers):
        sides = []
        for direction in range(directions):
            k = layer * directions + direction
            parts = weights[k * each : (k + 1) * each]
            made, h, c = _run(xp, steps, hidden[k], cell[k], parts, direction == 1)
            sides.append(made)
            states.append(h)
            cells.append(c)
        steps = xp.concatenate(sides, axis=2)
    output = xp.ascontiguousarray(steps.swapaxes(0, 1)) if batch_first else steps
    return output, xp.stack(states), xp.stack(cells)
