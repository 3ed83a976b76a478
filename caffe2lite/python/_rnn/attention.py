"""Decoder cells that attend to the outputs of an encoder."""

from __future__ import annotations

from caffe2lite.python import brew, core
from caffe2lite.python._rnn.cell import RNNCell
from caffe2lite.python._rnn.lstm import LSTMCell, MILSTMCell
from caffe2lite.python.attention import (
    AttentionType,
    apply_dot_attention,
    apply_recurrent_attention,
    apply_regular_attention,
    apply_soft_coverage_attention,
)


class AttentionCell(RNNCell):
    """Gives a decoder cell the context that attention makes of its last state.

    ``encoder_outputs`` has shape (steps, batch, encoder_output_dim).
    ``weighted_encoder_outputs`` is their projection, made here if it is None.
    The context of the step before goes into the decoder cell with its input;
    the output joins the decoder's with the context.  States beyond those of
    the decoder cell: the context, and for soft coverage the coverage.
    """

    def __init__(
        self,
        encoder_output_dim,
        encoder_outputs,
        encoder_lengths,
        decoder_cell,
        decoder_state_dim,
        attention_type,
        weighted_encoder_outputs,
        attention_memory_optimization,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if attention_type not in (
            AttentionType.Regular,
            AttentionType.Recurrent,
            AttentionType.Dot,
            AttentionType.SoftCoverage,
        ):
            raise AssertionError(f"Unknown attention type {attention_type}: it is one of AttentionType's")
        self.encoder_output_dim = encoder_output_dim
        self.encoder_outputs = encoder_outputs
        self.encoder_lengths = encoder_lengths
        self.decoder_cell = decoder_cell
        self.decoder_state_dim = decoder_state_dim
        self.weighted_encoder_outputs = weighted_encoder_outputs
        self.encoder_outputs_transposed = None
        self.attention_type = attention_type
        self.attention_memory_optimization = attention_memory_optimization

    def _apply(self, model, input_t, seq_lengths, states, timestep, extra_inputs=None):
        input_t, seq_lengths, states, timestep, extra_inputs = self._rectify_apply_inputs(
            input_t, seq_lengths, states, timestep, extra_inputs
        )
        extra_states = 2 if self.attention_type == AttentionType.SoftCoverage else 1
        decoder_prev, own_prev = states[:-extra_states], states[-extra_states:]
        context_prev = own_prev[0]
        if extra_inputs is not None:
            raise AssertionError(f"an attention cell takes no extra inputs, got {extra_inputs}")

        decoder_states = self.decoder_cell._apply(
            model,
            input_t,
            seq_lengths,
            decoder_prev,
            timestep,
            extra_inputs=[(context_prev, self.encoder_output_dim)],
        )
        self.hidden_t_intermediate = hidden = self.decoder_cell._prepare_output(model, decoder_states)
        own_states, self.attention_weights_3d, recomputable = self._attend(model, hidden, *own_prev)
        if self.attention_memory_optimization:
            self.recompute_blobs.extend(recomputable)

        # The hidden state leaves under a name of its own: the decoder's may be
        # an input of the gradient of attention as well as of the next step.
        output = list(decoder_states)
        index = self.decoder_cell.get_output_state_index()
        output[index] = model.net.Copy(output[index], self.scope("hidden_t_external"))
        output.extend(own_states)
        model.net.AddExternalOutputs(*output)
        return output

    def _attend(self, model, hidden, context_prev, coverage_prev=None):
        """Return the states that attention adds, the weights, and what can be recomputed."""
        common = {
            "model": model,
            "encoder_output_dim": self.encoder_output_dim,
            "encoder_outputs_transposed": self.encoder_outputs_transposed,
            "decoder_hidden_state_t": hidden,
            "decoder_hidden_state_dim": self.decoder_state_dim,
            "scope": self.name,
            "encoder_lengths": self.encoder_lengths,
        }
        if self.attention_type == AttentionType.Dot:
            context, weights, recomputable = apply_dot_attention(**common)
            return [context], weights, recomputable
        common["weighted_encoder_outputs"] = self.weighted_encoder_outputs
        if self.attention_type == AttentionType.Recurrent:
            context, weights, recomputable = apply_recurrent_attention(
                attention_weighted_encoder_context_t_prev=context_prev, **common
            )
            return [context], weights, recomputable
        if self.attention_type == AttentionType.Regular:
            context, weights, recomputable = apply_regular_attention(**common)
            return [context], weights, recomputable
        context, weights, recomputable, coverage = apply_soft_coverage_attention(
            coverage_t_prev=coverage_prev, coverage_weights=self.coverage_weights, **common
        )
        return [context, coverage], weights, recomputable

    def get_attention_weights(self):
        """Return the weights of the encoder's steps, of the step applied last: (batch, steps, 1)."""
        return self.attention_weights_3d

    def prepare_input(self, model, input_blob):
        if self.encoder_outputs_transposed is None:
            self.encoder_outputs_transposed = brew.transpose(
                model, self.encoder_outputs, self.scope("encoder_outputs_transposed"), axes=[1, 2, 0]
            )
        if self.weighted_encoder_outputs is None and self.attention_type != AttentionType.Dot:
            self.weighted_encoder_outputs = self._projected_encoder_outputs(model, "weighted_encoder_outputs")
        return self.decoder_cell.prepare_input(model, input_blob)

    def _projected_encoder_outputs(self, model, name):
        return brew.fc(
            model,
            self.encoder_outputs,
            self.scope(name),
            dim_in=self.encoder_output_dim,
            dim_out=self.encoder_output_dim,
            axis=2,
        )

    def build_initial_coverage(self, model):
        """Coverage before the first step: none.

        Its width is that of the encoder's steps, so it has to be made here
        before the cell is applied.
        """
        if self.attention_type != AttentionType.SoftCoverage:
            raise AssertionError(
                f"only AttentionType.SoftCoverage has an initial coverage, this cell has {self.attention_type}"
            )
        self.coverage_weights = self._projected_encoder_outputs(model, "coverage_weights")
        shape = model.net.Shape(self.encoder_outputs)
        steps = model.net.Slice(shape, starts=[0], ends=[1])
        return model.net.ConstantFill(steps, self.scope("initial_coverage"), value=0.0, input_as_shape=1)

    def get_state_names(self):
        names = list(self.decoder_cell.get_state_names())
        names[self.get_output_state_index()] = self.scope("hidden_t_external")
        names.append(self.scope("attention_weighted_encoder_context_t"))
        if self.attention_type == AttentionType.SoftCoverage:
            names.append(self.scope("coverage_t"))
        return names

    def get_output_dim(self):
        return self.decoder_state_dim + self.encoder_output_dim

    def get_output_state_index(self):
        return self.decoder_cell.get_output_state_index()

    def _with_context(self, model, output, context):
        with core.NameScope(self.name or ""):
            return brew.concat(model, [output, context], "states_and_context_combination", axis=2)

    def _prepare_output(self, model, states):
        # The output of the step applied last, as the decoder cell prepared it then.
        context = states[len(self.decoder_cell.get_state_names())]
        return self._with_context(model, self.hidden_t_intermediate, context)

    def _prepare_output_sequence(self, model, state_outputs):
        decoder_outputs = 2 * len(self.decoder_cell.get_state_names())
        output = self.decoder_cell._prepare_output_sequence(model, state_outputs[:decoder_outputs])
        return self._with_context(model, output, state_outputs[decoder_outputs])


class LSTMWithAttentionCell(AttentionCell):
    """An LSTM whose output attends to an encoder's outputs (encoder steps, batch, encoder_output_dim)."""

    _inner = LSTMCell

    def __init__(
        self,
        encoder_output_dim,
        encoder_outputs,
        encoder_lengths,
        decoder_input_dim,
        decoder_state_dim,
        name,
        attention_type,
        weighted_encoder_outputs,
        forget_bias,
        lstm_memory_optimization,
        attention_memory_optimization,
        forward_only=False,
    ):
        super().__init__(
            encoder_output_dim=encoder_output_dim,
            encoder_outputs=encoder_outputs,
            encoder_lengths=encoder_lengths,
            decoder_cell=self._inner(
                name=f"{name}/decoder",
                input_size=decoder_input_dim,
                hidden_size=decoder_state_dim,
                forget_bias=forget_bias,
                memory_optimization=lstm_memory_optimization,
            ),
            decoder_state_dim=decoder_state_dim,
            name=name,
            attention_type=attention_type,
            weighted_encoder_outputs=weighted_encoder_outputs,
            attention_memory_optimization=attention_memory_optimization,
            forward_only=forward_only,
        )


class MILSTMWithAttentionCell(LSTMWithAttentionCell):
    """As LSTMWithAttentionCell, of a multiplicative LSTM and encoder outputs of one length."""

    _inner = MILSTMCell

    def __init__(
        self,
        encoder_output_dim,
        encoder_outputs,
        decoder_input_dim,
        decoder_state_dim,
        name,
        attention_type,
        weighted_encoder_outputs,
        forget_bias,
        lstm_memory_optimization,
        attention_memory_optimization,
        forward_only=False,
    ):
        super().__init__(
            encoder_output_dim,
            encoder_outputs,
            None,
            decoder_input_dim,
            decoder_state_dim,
            name,
            attention_type,
            weighted_encoder_outputs,
            forget_bias,
            lstm_memory_optimization,
            attention_memory_optimization,
            forward_only,
        )
