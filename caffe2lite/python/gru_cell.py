"""Gated recurrent units."""

from __future__ import annotations

import functools

from caffe2lite.python import brew, rnn_cell
from caffe2lite.python._rnn.layers import recurrent_layers
from caffe2lite.python._rnn.lstm import unit_inputs as _unit_inputs


class GRUCell(rnn_cell.RNNCell):
    """A gated recurrent unit.

    The reset gate scales the state that goes into the output gate; with
    ``linear_before_reset`` it scales what the output gate makes of the state,
    which is how cuDNN does it.
    """

    def __init__(
        self,
        input_size,
        hidden_size,
        forget_bias,
        memory_optimization,
        drop_states=False,
        linear_before_reset=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.forget_bias = float(forget_bias)
        self.memory_optimization = memory_optimization
        self.drop_states = drop_states
        self.linear_before_reset = linear_before_reset

    def _gate(self, model, hidden, name):
        return brew.fc(
            model,
            hidden,
            name,
            dim_in=self.hidden_size,
            dim_out=self.hidden_size,
            axis=2,
        )

    def apply_override(self, model, input_t, seq_lengths, states, timestep, extra_inputs=None):
        if extra_inputs is not None:
            raise NotImplementedError("A GRUCell takes no extra inputs")
        (hidden_prev,) = states
        net = model.net
        reset_input, update_input, output_input = net.Split(
            [input_t],
            [f"input_t_{gate}" for gate in ("reset", "update", "output")],
            axis=2,
        )
        reset = self._gate(model, hidden_prev, "reset_gate_t")
        update = self._gate(model, hidden_prev, "update_gate_t")
        reset = net.Sum([reset, reset_input], reset)
        reset_sigmoid = net.Sigmoid(reset, "reset_gate_t_sigmoid")
        if self.linear_before_reset:
            output = self._gate(model, hidden_prev, "output_gate_t")
            output = net.Mul([reset_sigmoid, output], "output_gate_t_mul")
        else:
            modified = net.Mul([reset_sigmoid, hidden_prev], "modified_hidden_t_prev")
            output = self._gate(model, modified, "output_gate_t")
        update = net.Sum([update, update_input], update)
        output = net.Sum([output, output_input], "output_gate_t_summed")
        gates, _ = net.Concat([reset, update, output], ["gates_t", "_gates_t_concat_dims"], axis=2)
        # GRUUnit applies the activations of the update and output gates itself.
        hidden = net.GRUUnit(
            _unit_inputs(hidden_prev, [gates], seq_lengths, timestep),
            "hidden_t",
            forget_bias=self.forget_bias,
            drop_states=self.drop_states,
            sequence_lengths=seq_lengths is not None,
        )
        return (hidden,)

    def prepare_input(self, model, input_blob):
        return brew.fc(
            model,
            input_blob,
            self.scope("i2h"),
            dim_in=self.input_size,
            dim_out=3 * self.hidden_size,
            axis=2,
        )

    def get_state_names(self):
        return (self.scope("hidden_t"),)

    def get_output_dim(self):
        return self.hidden_size


GRU = functools.partial(recurrent_layers, GRUCell)
