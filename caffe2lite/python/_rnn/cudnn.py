"""LSTMs as one operator of cuDNN's."""

from __future__ import annotations

import random

from caffe2lite.python import core
from caffe2lite.python._rnn.lstm import GetLSTMParamNames
from caffe2lite.python.modeling.initializers import Initializer


def _parameter_shapes(num_layers, dim_in, dim_out):
    """Yield (input or recurrent, parameter, layer, number of elements)."""
    names = GetLSTMParamNames()
    for kind in ("input", "recurrent"):
        for name in names["weights"]:
            for layer in range(num_layers):
                columns = dim_in if kind == "input" and layer == 0 else dim_out
                yield kind, name, layer, dim_out * columns
        for name in names["biases"]:
            for layer in range(num_layers):
                yield kind, name, layer, dim_out


def cudnn_LSTM(
    model,
    input_blob,
    initial_states,
    dim_in,
    dim_out,
    scope,
    recurrent_params=None,
    input_params=None,
    num_layers=1,
    return_params=False,
):
    """Add an LSTM as one cuDNN operator, for the GPU.

    ``initial_states`` are the hidden and the cell states of all layers.
    ``input_params`` and ``recurrent_params`` map names of
    ``GetLSTMParamNames`` to blobs with the values of the parameters, or with
    more layers to a blob for each layer; what is not given is made here.  Return the output and the last
    hidden and cell states; with ``return_params`` also a net that takes the
    parameters out of the weights they are packed into, and their blobs.
    """
    with core.NameScope(scope):
        config = {
            "hidden_size": dim_out,
            "rnn_mode": "lstm",
            "bidirectional": 0,
            "dropout": 1.0,
            "input_mode": "linear",
            "num_layers": num_layers,
            "engine": "CUDNN",
        }
        shapes = list(_parameter_shapes(num_layers, dim_in, dim_out))
        weights = model.create_param(
            "lstm_weight",
            shape=[sum(size for _, _, _, size in shapes)],
            initializer=Initializer("UniformFill"),
        )
        given = {"input": input_params or {}, "recurrent": recurrent_params or {}}
        packed = _pack(model, given, shapes, input_blob, weights, config, return_params)
        if initial_states is None:
            raise ValueError("cudnn_LSTM needs initial_states, the hidden and the cell states of all layers; got None")
        hidden, cell = initial_states
        output, hidden_output, cell_output, scratch, dropout_states = model.net.Recurrent(
            [input_blob, hidden, cell, weights],
            [
                "lstm_output",
                "lstm_hidden_output",
                "lstm_cell_output",
                "lstm_rnn_scratch",
                "lstm_dropout_states",
            ],
            seed=random.randint(0, 100000),
            **config,
        )
        model.net.AddExternalOutputs(hidden_output, cell_output, scratch, dropout_states)
    results = (output, hidden_output, cell_output)
    return (*results, packed) if return_params else results


def _pack(model, given, shapes, input_blob, weights, config, return_params):
    """Put the parameters into the weights; return the net that takes them out again, and their blobs."""
    parameters = {kind: {} for kind in given}
    extract = core.Net(f"{model.net.Name()}_lstm_params")
    for kind, name, layer, size in shapes:
        value = given[kind].get(name)
        if isinstance(value, (list, tuple, dict)):
            value = value[layer]
        if value is None:
            value = model.param_init_net.UniformFill([], f"lstm_init_{kind}_{name}_{layer}", shape=[size])
        of = dict(layer=layer, input_type=kind, param_type=name, **config)
        model.param_init_net.RecurrentParamSet([input_blob, weights, value], weights, **of)
        if return_params:
            parameters[kind].setdefault(name, {})[layer] = extract.RecurrentParamGet(
                [input_blob, weights], f"lstm_{kind}_{name}_{layer}", **of
            )
    return extract, parameters
