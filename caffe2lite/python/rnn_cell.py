"""Recurrent networks out of cells.

A cell is one step; ``LSTM``, ``MILSTM``, ``BasicRNN`` and the others build a
layer or more of cells and apply them over a sequence of shape (steps, batch,
dimension).  ``cudnn_LSTM`` is an LSTM in one operator of cuDNN's.
"""

from __future__ import annotations

import functools
import random

import numpy as np

from caffe2lite.python import core, workspace
from caffe2lite.python._rnn.attention import AttentionCell, LSTMWithAttentionCell, MILSTMWithAttentionCell
from caffe2lite.python._rnn.cell import LSTMInitializer, RNNCell
from caffe2lite.python._rnn.cell import RectifyName as _RectifyName
from caffe2lite.python._rnn.cell import RectifyNames as _RectifyNames
from caffe2lite.python._rnn.composition import DropoutCell, MultiRNNCell, MultiRNNCellInitializer, UnrolledCell
from caffe2lite.python._rnn.lstm import (
    BasicRNNCell,
    LayerNormLSTMCell,
    LayerNormMILSTMCell,
    LSTMCell,
    MILSTMCell,
)
from caffe2lite.python.attention import (
    AttentionType,
    apply_dot_attention,
    apply_recurrent_attention,
    apply_regular_attention,
    apply_soft_coverage_attention,
)
from caffe2lite.python.modeling.initializers import Initializer

__all__ = [
    "LSTM",
    "MILSTM",
    "AttentionCell",
    "AttentionType",
    "BasicRNN",
    "BasicRNNCell",
    "DropoutCell",
    "GetLSTMParamNames",
    "InitFromLSTMParams",
    "LSTMCell",
    "LSTMInitializer",
    "LSTMWithAttention",
    "LSTMWithAttentionCell",
    "LayerNormLSTM",
    "LayerNormLSTMCell",
    "LayerNormMILSTM",
    "LayerNormMILSTMCell",
    "MILSTMCell",
    "MILSTMWithAttentionCell",
    "MultiRNNCell",
    "MultiRNNCellInitializer",
    "RNNCell",
    "UnrolledCell",
    "_RectifyName",
    "_RectifyNames",
    "apply_dot_attention",
    "apply_recurrent_attention",
    "apply_regular_attention",
    "apply_soft_coverage_attention",
    "cudnn_LSTM",
    "layered_LSTM",
]


def _LSTM(
    cell_class,
    model,
    input_blob,
    seq_lengths,
    initial_states,
    dim_in,
    dim_out,
    scope=None,
    outputs_with_grads=(0,),
    return_params=False,
    memory_optimization=False,
    forget_bias=0.0,
    forward_only=False,
    drop_states=False,
    return_last_layer_only=True,
    static_rnn_unroll_size=None,
    **cell_kwargs,
):
    """Adds a recurrent network of one layer or more of a class of cells.

    ``input_blob`` has shape (steps, batch, dim_in); ``seq_lengths``, if it is
    not None, says for each sequence of the batch how many steps it has.
    ``initial_states`` are the states before the first step, in the order of
    the layers; None learns them.  ``dim_out`` is the size of the state, or a
    list with one for each layer.

    Returns for each state a blob with its value after every step and one with
    that after the last; of the last layer, or with
    ``return_last_layer_only=False`` of all.  ``outputs_with_grads`` are the
    indices of those returned that a gradient will be given for.
    ``return_params`` adds the names of the parameters to what is returned.

    ``memory_optimization`` recomputes the gates in the backward pass.
    ``drop_states`` makes the states zero after the end of a sequence, in
    place of keeping its last one.  ``static_rnn_unroll_size`` writes out that
    many steps in place of using a recurrent operator.
    """
    dims = [dim_out] if not isinstance(dim_out, (list, tuple)) else list(dim_out)
    layered = len(dims) > 1
    if layered and return_params:
        raise ValueError("return_params is for a single layer")
    cells = []
    for size_in, size_out in zip([dim_in] + dims[:-1], dims):
        named = {} if layered else {"name": scope}
        cells.append(
            cell_class(
                input_size=size_in,
                hidden_size=size_out,
                forget_bias=forget_bias,
                memory_optimization=memory_optimization,
                forward_only=forward_only,
                drop_states=drop_states,
                **named,
                **cell_kwargs,
            )
        )
    cell = MultiRNNCell(cells, name=scope, forward_only=forward_only) if layered else cells[0]
    unrolled = cell if static_rnn_unroll_size is None else UnrolledCell(cell, static_rnn_unroll_size)

    states = len(cells[-1].get_state_names())
    hidden = 2 * (len(cell.get_state_names()) - states) if return_last_layer_only else 0
    _, results = unrolled.apply_over_sequence(
        model=model,
        inputs=input_blob,
        seq_lengths=seq_lengths,
        initial_states=initial_states,
        outputs_with_grads=[hidden + i for i in outputs_with_grads],
    )
    results = results[hidden:]
    if return_params:
        results = results + ({"input": cells[-1].get_input_params(), "recurrent": cells[-1].get_recurrent_params()},)
    return tuple(results)


LSTM = functools.partial(_LSTM, LSTMCell)
BasicRNN = functools.partial(_LSTM, BasicRNNCell)
MILSTM = functools.partial(_LSTM, MILSTMCell)
LayerNormLSTM = functools.partial(_LSTM, LayerNormLSTMCell)
LayerNormMILSTM = functools.partial(_LSTM, LayerNormMILSTMCell)


def GetLSTMParamNames():
    """Names of the parameters of an LSTM, in the order in which the gates are stacked."""
    gates = ("input_gate", "forget_gate", "output_gate", "cell")
    return {
        "weights": [f"{gate}_w" for gate in gates],
        "biases": [f"{gate}_b" for gate in gates],
    }


def InitFromLSTMParams(lstm_pblobs, param_values):
    """Feeds the parameters of an LSTM.

    ``lstm_pblobs`` is what ``LSTM`` returns for ``return_params``;
    ``param_values`` has "input" and "recurrent", each a dictionary of arrays
    by the names of ``GetLSTMParamNames``, of any shape.  The blobs have to be
    there, with the shapes the values take.
    """
    names = GetLSTMParamNames()
    for part, values in param_values.items():
        for kind in ("weights", "biases"):
            blob = lstm_pblobs[part][kind]
            current = workspace.FetchBlob(blob)
            stacked = np.concatenate([np.ravel(values[name]) for name in names[kind]])
            workspace.FeedBlob(blob, stacked.reshape(current.shape).astype(current.dtype))


def _cudnn_parameter_shapes(num_layers, dim_in, dim_out):
    """Yields (input or recurrent, parameter, layer, number of elements)."""
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
    """An LSTM as one cuDNN operator, for the GPU.

    ``initial_states`` are the hidden and the cell states of all layers.
    ``input_params`` and ``recurrent_params`` map names of
    ``GetLSTMParamNames`` to blobs with the values of the parameters, or with
    more layers to a blob for each layer; what is not given is made here.  Returns the output and the last
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
        shapes = list(_cudnn_parameter_shapes(num_layers, dim_in, dim_out))
        total = sum(size for _, _, _, size in shapes)
        weights = model.create_param(
            "lstm_weight",
            shape=[total],
            initializer=Initializer("UniformFill"),
        )
        given = {"input": input_params, "recurrent": recurrent_params}
        parameters = {kind: {} for kind in given}
        extract = core.Net(f"{model.net.Name()}_lstm_params")
        for kind, name, layer, size in shapes:
            value = (given[kind] or {}).get(name)
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

        if initial_states is None:
            raise ValueError("A cuDNN LSTM needs initial states")
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
    return results + ((extract, parameters),) if return_params else results


def LSTMWithAttention(
    model,
    decoder_inputs,
    decoder_input_lengths,
    initial_decoder_hidden_state,
    initial_decoder_cell_state,
    initial_attention_weighted_encoder_context,
    encoder_output_dim,
    encoder_outputs,
    encoder_lengths,
    decoder_input_dim,
    decoder_state_dim,
    scope,
    attention_type=AttentionType.Regular,
    outputs_with_grads=(0, 4),
    weighted_encoder_outputs=None,
    lstm_memory_optimization=False,
    attention_memory_optimization=False,
    forget_bias=0.0,
    forward_only=False,
):
    """An LSTM decoder that attends to an encoder's outputs.

    ``decoder_inputs`` has shape (steps, batch, decoder_input_dim) and
    ``encoder_outputs`` (encoder steps, batch, encoder_output_dim).  The states
    are the hidden state, the cell state, the attention's context, and for
    soft coverage the coverage.  Returns for each state a blob with its value
    after every step and one with that after the last.
    """
    cell = LSTMWithAttentionCell(
        encoder_output_dim=encoder_output_dim,
        encoder_outputs=encoder_outputs,
        encoder_lengths=encoder_lengths,
        decoder_input_dim=decoder_input_dim,
        decoder_state_dim=decoder_state_dim,
        name=scope,
        attention_type=attention_type,
        weighted_encoder_outputs=weighted_encoder_outputs,
        forget_bias=forget_bias,
        lstm_memory_optimization=lstm_memory_optimization,
        attention_memory_optimization=attention_memory_optimization,
        forward_only=forward_only,
    )
    initial_states = [
        initial_decoder_hidden_state,
        initial_decoder_cell_state,
        initial_attention_weighted_encoder_context,
    ]
    if attention_type == AttentionType.SoftCoverage:
        initial_states.append(cell.build_initial_coverage(model))
    _, results = cell.apply_over_sequence(
        model=model,
        inputs=decoder_inputs,
        seq_lengths=decoder_input_lengths,
        initial_states=initial_states,
        outputs_with_grads=outputs_with_grads,
    )
    return results


def _layered_LSTM(
    model,
    input_blob,
    seq_lengths,
    initial_states,
    dim_in,
    dim_out,
    scope,
    outputs_with_grads=(0,),
    return_params=False,
    memory_optimization=False,
    forget_bias=0.0,
    forward_only=False,
    drop_states=False,
    create_lstm=None,
):
    """Layers of LSTMs, each over the whole output sequence of the one below.

    ``initial_states`` are those of each layer in turn.  If they are those of
    the first layer only, a layer starts from the last states of the one below.
    Returns what ``create_lstm`` does for the last layer.
    """
    dims = list(dim_out) if isinstance(dim_out, (list, tuple)) else [dim_out]
    assert not (return_params and len(dims) > 1), f"return_params works for one layer, got dim_out {dims}"
    states_of = [initial_states] + [None] * (len(dims) - 1)
    if initial_states is not None and len(initial_states) > 2:
        states_of = [initial_states[i : i + 2] for i in range(0, len(initial_states), 2)]
        if len(states_of) != len(dims):
            raise ValueError(f"{len(dims)} layers have no use for {len(initial_states)} initial states")
    results = None
    for i, (size_in, size_out) in enumerate(zip([dim_in] + dims[:-1], dims)):
        top = i == len(dims) - 1
        states = states_of[i]
        # Below the top, what goes on to the next layer has a gradient.
        with_grads = outputs_with_grads if top else (0,)
        if i > 0 and states is None:
            states = (results[1], results[3])
        if not top and states_of[i + 1] is None:
            with_grads = (0, 1, 3)
        results = create_lstm(
            model=model,
            input_blob=input_blob if i == 0 else results[0],
            seq_lengths=seq_lengths,
            initial_states=states,
            dim_in=size_in,
            dim_out=size_out,
            scope=f"{scope}_layer_{i}" if i > 0 else scope,
            outputs_with_grads=with_grads,
            return_params=return_params,
            memory_optimization=memory_optimization,
            forget_bias=forget_bias,
            forward_only=forward_only,
            drop_states=drop_states,
        )
    return results


layered_LSTM = functools.partial(_layered_LSTM, create_lstm=LSTM)
