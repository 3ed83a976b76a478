"""Recurrent networks out of cells.

A cell is one step; ``LSTM``, ``MILSTM``, ``BasicRNN`` and the others build a
layer or more of cells and apply them over a sequence of shape (steps, batch,
dimension).  ``cudnn_LSTM`` is an LSTM in one operator of cuDNN's.
"""

from __future__ import annotations

import functools

import numpy as np

from caffe2lite.python import workspace
from caffe2lite.python._rnn.attention import AttentionCell, LSTMWithAttentionCell, MILSTMWithAttentionCell
from caffe2lite.python._rnn.cell import LSTMInitializer, RNNCell
from caffe2lite.python._rnn.cell import RectifyName as _RectifyName
from caffe2lite.python._rnn.cell import RectifyNames as _RectifyNames
from caffe2lite.python._rnn.composition import DropoutCell, MultiRNNCell, MultiRNNCellInitializer, UnrolledCell
from caffe2lite.python._rnn.cudnn import cudnn_LSTM
from caffe2lite.python._rnn.layers import recurrent_layers as _LSTM
from caffe2lite.python._rnn.lstm import (
    BasicRNNCell,
    GetLSTMParamNames,
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


LSTM = functools.partial(_LSTM, LSTMCell)
BasicRNN = functools.partial(_LSTM, BasicRNNCell)
MILSTM = functools.partial(_LSTM, MILSTMCell)
LayerNormLSTM = functools.partial(_LSTM, LayerNormLSTMCell)
LayerNormMILSTM = functools.partial(_LSTM, LayerNormMILSTMCell)


def InitFromLSTMParams(lstm_pblobs, param_values):
    """Feed the parameters of an LSTM.

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
    """Return an LSTM decoder that attends to an encoder's outputs.

    ``decoder_inputs`` has shape (steps, batch, decoder_input_dim) and
    ``encoder_outputs`` (encoder steps, batch, encoder_output_dim).  The states
    are the hidden state, the cell state, the attention's context, and for
    soft coverage the coverage.  Return for each state a blob with its value
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
    """Add layers of LSTMs, each over the whole output sequence of the one below.

    ``initial_states`` are those of each layer in turn.  If they are those of
    the first layer only, a layer starts from the last states of the one below.
    Return what ``create_lstm`` does for the last layer.
    """
    dims = list(dim_out) if isinstance(dim_out, (list, tuple)) else [dim_out]
    if return_params and len(dims) > 1:
        raise AssertionError(f"return_params works for one layer, got dim_out {dims}")
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
