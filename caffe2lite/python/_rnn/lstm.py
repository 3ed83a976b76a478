"""LSTM cells, and the plain recurrent cell."""

from __future__ import annotations

from caffe2lite.python import brew
from caffe2lite.python._rnn.cell import LSTMInitializer, RNNCell
from caffe2lite.python.modeling.initializers import Initializer


def unit_inputs(hidden, others, seq_lengths, timestep):
    """Return the inputs of LSTMUnit and GRUUnit; the lengths may be left out."""
    lengths = [] if seq_lengths is None else [seq_lengths]
    return [hidden] + others + lengths + [timestep]


class _GatedCell(RNNCell):
    """What the LSTM cells share: two states, four gates."""

    def __init__(
        self,
        input_size,
        hidden_size,
        forget_bias,
        memory_optimization,
        drop_states=False,
        initializer=None,
        **kwargs,
    ):
        super().__init__(initializer=initializer, **kwargs)
        self.initializer = initializer or LSTMInitializer(hidden_size=hidden_size)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.forget_bias = float(forget_bias)
        self.drop_states = drop_states
        self.gates_size = 4 * hidden_size
        self.memory_optimization = memory_optimization
        if memory_optimization:
            self.recompute_blobs = [self.scope("gates_t")]

    def prepare_input(self, model, input_blob):
        return brew.fc(
            model,
            input_blob,
            self.scope("i2h"),
            dim_in=self.input_size,
            dim_out=4 * self.hidden_size,
            axis=2,
        )

    def get_input_params(self):
        """Return {"weights", "biases"}: the names of the parameters that the input meets."""
        return {"weights": self.scope("i2h") + "_w", "biases": self.scope("i2h") + "_b"}

    def get_recurrent_params(self):
        """Return {"weights", "biases"}: the names of the parameters that the state meets."""
        return {"weights": self.scope("gates_t") + "_w", "biases": self.scope("gates_t") + "_b"}

    def get_output_dim(self):
        return self.hidden_size

    def _step_input(self, model, hidden_prev, extra_inputs):
        """Return the hidden state joined with the extra inputs, and the size of that."""
        if extra_inputs is None:
            return hidden_prev, self.hidden_size
        blobs, sizes = zip(*extra_inputs)
        joined = brew.concat(model, [hidden_prev] + list(blobs), "gates_concatenated_input_t", axis=2)
        return joined, self.hidden_size + sum(sizes)

    def _gates(self, model, input_t, hidden_prev, extra_inputs):
        step_input, size = self._step_input(model, hidden_prev, extra_inputs)
        gates_t = brew.fc(
            model,
            step_input,
            "gates_t",
            dim_in=size,
            dim_out=4 * self.hidden_size,
            axis=2,
        )
        return brew.sum(model, [gates_t, input_t], gates_t)

    def _multiplicative_gates(self, model, input_t, hidden_prev, extra_inputs):
        """Add gates out of the product of what the input and the states say.

        alpha * input * prev + beta1 * prev + beta2 * input + b
        """
        step_input, size = self._step_input(model, hidden_prev, extra_inputs)
        gates_size = 4 * self.hidden_size
        prev_t = brew.fc(model, step_input, "prev_t", dim_in=size, dim_out=gates_size, axis=2)
        scales = {
            name: model.create_param(
                name,
                shape=[gates_size],
                initializer=Initializer("ConstantFill", value=0.0 if name == "b" else 1.0),
            )
            for name in ("alpha", "beta1", "beta2", "b")
        }
        by_input = model.net.ElementwiseLinear(
            [input_t, scales["alpha"], scales["beta1"]],
            "alpha_by_input_t_plus_beta_h",
            axis=2,
        )
        product = model.net.Mul([by_input, prev_t], "alpha_by_input_t_plus_beta_h_by_prev_t")
        rest = model.net.ElementwiseLinear([input_t, scales["beta2"], scales["b"]], "beta_i_by_input_t_plus_b", axis=2)
        return brew.sum(model, [product, rest], "gates_t")

    def _normalized(self, model, gates_t):
        normalized, _, _ = brew.layer_norm(
            model,
            gates_t,
            "gates_t_norm",
            dim_in=4 * self.hidden_size,
            axis=-1,
        )
        return normalized

    def _unit(self, model, states, gates_t, seq_lengths, timestep, outputs, **kwargs):
        hidden_prev, cell_prev = states
        if seq_lengths is None:
            kwargs["sequence_lengths"] = False
        new_states = model.net.LSTMUnit(
            unit_inputs(hidden_prev, [cell_prev, gates_t], seq_lengths, timestep),
            list(outputs),
            forget_bias=self.forget_bias,
            drop_states=self.drop_states,
            **kwargs,
        )
        return new_states


class LSTMCell(_GatedCell):
    """The usual LSTM."""

    def apply_override(self, model, input_t, seq_lengths, states, timestep, extra_inputs=None):
        gates_t = self._gates(model, input_t, states[0], extra_inputs)
        return self._unit(
            model,
            states,
            gates_t,
            seq_lengths,
            timestep,
            ("hidden_state", "cell_state"),
            sequence_lengths=seq_lengths is not None,
        )

    def get_state_names_override(self):
        return ["hidden_t", "cell_t"]


class LayerNormLSTMCell(_GatedCell):
    """An LSTM whose gates are normalized."""

    def apply_override(self, model, input_t, seq_lengths, states, timestep, extra_inputs=None):
        gates_t = self._normalized(model, self._gates(model, input_t, states[0], extra_inputs))
        return self._unit(model, states, gates_t, seq_lengths, timestep, ("hidden_t", "cell_t"))

    def get_state_names(self):
        return (self.scope("hidden_t"), self.scope("cell_t"))


class MILSTMCell(LSTMCell):
    """An LSTM with multiplicative integration: gates out of products of input and state."""

    def apply_override(self, model, input_t, seq_lengths, states, timestep, extra_inputs=None):
        gates_t = self._multiplicative_gates(model, input_t, states[0], extra_inputs)
        return self._multiplicative_unit(model, states, gates_t, seq_lengths, timestep)

    def _multiplicative_unit(self, model, states, gates_t, seq_lengths, timestep):
        states = self._unit(model, states, gates_t, seq_lengths, timestep, ("hidden_t_intermediate", "cell_t"))
        # Listed as Caffe2 lists them, the cell state first.
        model.net.AddExternalOutputs(*reversed(states))
        return states


class LayerNormMILSTMCell(MILSTMCell):
    """An LSTM with multiplicative integration whose gates are normalized."""

    def apply_override(self, model, input_t, seq_lengths, states, timestep, extra_inputs=None):
        gates_t = self._multiplicative_gates(model, input_t, states[0], extra_inputs)
        gates_t = self._normalized(model, gates_t)
        return self._multiplicative_unit(model, states, gates_t, seq_lengths, timestep)


class BasicRNNCell(RNNCell):
    """The plain recurrent cell: an activation of a linear map of input and state."""

    def __init__(
        self,
        input_size,
        hidden_size,
        forget_bias,
        memory_optimization,
        drop_states=False,
        initializer=None,
        activation=None,
        **kwargs,
    ):
        super().__init__(initializer=initializer, **kwargs)
        self.drop_states = drop_states
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.activation = activation
        if activation not in ("relu", "tanh"):
            raise RuntimeError(f"BasicRNNCell with unknown activation function ({activation})")

    def apply_override(self, model, input_t, seq_lengths, states, timestep, extra_inputs=None):
        (hidden_prev,) = states
        gates_t = brew.fc(model, hidden_prev, "gates_t", dim_in=self.hidden_size, dim_out=self.hidden_size, axis=2)
        gates_t = brew.sum(model, [gates_t, input_t], gates_t)
        activate = {"relu": model.net.Relu, "tanh": model.net.Tanh}[self.activation]
        if seq_lengths is None:
            return (activate(gates_t, "hidden_t"),)
        # A gradient needs the activation's own output, the state may not overwrite it.
        active = activate(gates_t, "hidden_t" if self.forward_only else "hidden_active")
        return (self._masked(model, active, hidden_prev, seq_lengths, timestep),)

    def _masked(self, model, hidden, hidden_prev, seq_lengths, timestep):
        """Return the new state for sequences that have this step; for others the one before, or zero."""
        net = model.net
        timestep = net.CopyFromCPUInput(timestep, "timestep_gpu")
        valid = net.GT([seq_lengths, timestep], "valid_b", broadcast=1)
        invalid = net.LE([seq_lengths, timestep], "invalid_b", broadcast=1)
        valid = net.Cast(valid, "valid", to="float")
        invalid = net.Cast(invalid, "invalid", to="float")
        if not self.forward_only:
            valid, invalid = net.StopGradient(valid, valid), net.StopGradient(invalid, invalid)
        hidden = net.Mul([hidden, valid], "hidden_valid", broadcast=1, axis=1)
        if self.drop_states:
            return hidden
        kept = net.Mul([hidden_prev, invalid], "hidden_invalid", broadcast=1, axis=1)
        return net.Add([hidden, kept], "hidden_t")

    def prepare_input(self, model, input_blob):
        return brew.fc(
            model,
            input_blob,
            self.scope("i2h"),
            dim_in=self.input_size,
            dim_out=self.hidden_size,
            axis=2,
        )

    def get_state_names(self):
        return (self.scope("hidden_t"),)

    def get_output_dim(self):
        return self.hidden_size


def GetLSTMParamNames():
    """Return the names of the parameters of an LSTM, in the order in which the gates are stacked."""
    gates = ("input_gate", "forget_gate", "output_gate", "cell")
    return {
        "weights": [f"{gate}_w" for gate in gates],
        "biases": [f"{gate}_b" for gate in gates],
    }
