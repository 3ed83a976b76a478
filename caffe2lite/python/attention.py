"""Attention over the outputs of an encoder.

Each kind scores every step of the encoder against the decoder's hidden state
and returns the encoder's outputs averaged with those scores, the *context*.
Blobs are laid out as (steps, batch, dimension), and transposed as (batch,
dimension, steps).
"""

from __future__ import annotations

from caffe2lite.python import brew


class AttentionType:
    """Kinds of attention."""

    Regular, Recurrent, Dot, SoftCoverage = range(4)


def s(scope, name):
    """Return a name in a scope."""
    return f"{scope}/{name}"


def _apply_fc_weight_for_sum_match(model, input, dim_in, dim_out, scope, name):
    """Project one step, and drop its axis of steps."""
    projected = brew.fc(model, input, s(scope, name), dim_in=dim_in, dim_out=dim_out, axis=2)
    return model.net.Squeeze(projected, projected, dims=[0])


def _calc_attention_logits_from_sum_match(model, decoder_hidden_encoder_outputs_sum, encoder_output_dim, scope):
    """Add the scores, of shape (batch, steps, 1), of a sum of projections."""
    activated = model.net.Tanh(decoder_hidden_encoder_outputs_sum, decoder_hidden_encoder_outputs_sum)
    # A bias would move every score alike, and the softmax would not see it.
    logits = brew.fc(
        model,
        activated,
        s(scope, "attention_logits"),
        dim_in=encoder_output_dim,
        dim_out=1,
        axis=2,
        freeze_bias=True,
    )
    return brew.transpose(model, logits, s(scope, "attention_logits_transposed"), axes=[1, 0, 2])


def _calc_attention_weights(model, attention_logits_transposed, scope, encoder_lengths=None):
    """Return the weights of the encoder's steps, none for steps past a sequence's length."""
    if encoder_lengths is not None:
        attention_logits_transposed = model.net.SequenceMask(
            [attention_logits_transposed, encoder_lengths], ["masked_attention_logits"], mode="sequence"
        )
    return brew.softmax(model, attention_logits_transposed, s(scope, "attention_weights_3d"), axis=1)


def _calc_weighted_context(model, encoder_outputs_transposed, encoder_output_dim, attention_weights_3d, scope):
    """Return the encoder's outputs averaged with the weights, as one step."""
    context = brew.batch_mat_mul(
        model,
        [encoder_outputs_transposed, attention_weights_3d],
        s(scope, "attention_weighted_encoder_context"),
    )
    context, _ = model.net.Reshape(
        context,
        [context, s(scope, "attention_weighted_encoder_context_old_shape")],
        shape=[1, -1, encoder_output_dim],
    )
    return context


def _weights_and_context(model, logits, encoder_outputs_transposed, encoder_output_dim, scope, encoder_lengths):
    weights = _calc_attention_weights(model, logits, scope, encoder_lengths)
    context = _calc_weighted_context(model, encoder_outputs_transposed, encoder_output_dim, weights, scope)
    return context, weights


def _project_hidden_state(model, hidden_state, hidden_state_dim, encoder_output_dim, scope):
    return _apply_fc_weight_for_sum_match(
        model, hidden_state, hidden_state_dim, encoder_output_dim, scope, "weighted_decoder_hidden_state"
    )


def apply_recurrent_attention(
    model,
    encoder_output_dim,
    encoder_outputs_transposed,
    weighted_encoder_outputs,
    decoder_hidden_state_t,
    decoder_hidden_state_dim,
    attention_weighted_encoder_context_t_prev,
    scope,
    encoder_lengths=None,
):
    """Attention that also looks at the context of the previous step."""
    previous = _apply_fc_weight_for_sum_match(
        model,
        attention_weighted_encoder_context_t_prev,
        encoder_output_dim,
        encoder_output_dim,
        scope,
        "weighted_prev_attention_context",
    )
    hidden = _project_hidden_state(model, decoder_hidden_state_t, decoder_hidden_state_dim, encoder_output_dim, scope)
    summed = model.net.Add([previous, hidden], s(scope, "decoder_hidden_encoder_outputs_sum_tmp"))
    summed = model.net.Add(
        [weighted_encoder_outputs, summed], s(scope, "decoder_hidden_encoder_outputs_sum"), broadcast=1
    )
    logits = _calc_attention_logits_from_sum_match(model, summed, encoder_output_dim, scope)
    context, weights = _weights_and_context(
        model, logits, encoder_outputs_transposed, encoder_output_dim, scope, encoder_lengths
    )
    return context, weights, [summed]


def apply_regular_attention(
    model,
    encoder_output_dim,
    encoder_outputs_transposed,
    weighted_encoder_outputs,
    decoder_hidden_state_t,
    decoder_hidden_state_dim,
    scope,
    encoder_lengths=None,
):
    """Attention that scores the sum of projections of the two sides."""
    hidden = _project_hidden_state(model, decoder_hidden_state_t, decoder_hidden_state_dim, encoder_output_dim, scope)
    summed = model.net.Add(
        [weighted_encoder_outputs, hidden],
        s(scope, "decoder_hidden_encoder_outputs_sum"),
        broadcast=1,
        use_grad_hack=1,
    )
    logits = _calc_attention_logits_from_sum_match(model, summed, encoder_output_dim, scope)
    context, weights = _weights_and_context(
        model, logits, encoder_outputs_transposed, encoder_output_dim, scope, encoder_lengths
    )
    return context, weights, [summed]


def apply_dot_attention(
    model,
    encoder_output_dim,
    encoder_outputs_transposed,
    decoder_hidden_state_t,
    decoder_hidden_state_dim,
    scope,
    encoder_lengths=None,
):
    """Attention that scores with a dot product."""
    if decoder_hidden_state_dim != encoder_output_dim:
        decoder_hidden_state_t = brew.fc(
            model,
            decoder_hidden_state_t,
            s(scope, "weighted_decoder_hidden_state"),
            dim_in=decoder_hidden_state_dim,
            dim_out=encoder_output_dim,
            axis=2,
        )
    hidden = model.net.Squeeze(decoder_hidden_state_t, s(scope, "squeezed_weighted_decoder_hidden_state"), dims=[0])
    hidden = model.net.ExpandDims(hidden, hidden, dims=[2])
    logits = model.net.BatchMatMul([encoder_outputs_transposed, hidden], s(scope, "attention_logits"), trans_a=1)
    context, weights = _weights_and_context(
        model, logits, encoder_outputs_transposed, encoder_output_dim, scope, encoder_lengths
    )
    return context, weights, []


def apply_soft_coverage_attention(
    model,
    encoder_output_dim,
    encoder_outputs_transposed,
    weighted_encoder_outputs,
    decoder_hidden_state_t,
    decoder_hidden_state_dim,
    scope,
    encoder_lengths,
    coverage_t_prev,
    coverage_weights,
):
    """Attention that looks at how much attention each step has had so far, its *coverage*."""
    hidden = _project_hidden_state(model, decoder_hidden_state_t, decoder_hidden_state_dim, encoder_output_dim, scope)
    summed = model.net.Add(
        [weighted_encoder_outputs, hidden], s(scope, "decoder_hidden_encoder_outputs_sum_tmp"), broadcast=1
    )
    coverage_2d = model.net.Squeeze(coverage_t_prev, s(scope, "coverage_t_prev_2d"), dims=[0])
    coverage = brew.transpose(model, coverage_2d, s(scope, "coverage_t_prev_transposed"))
    scaled = model.net.Mul([coverage_weights, coverage], s(scope, "scaled_coverage_weights"), broadcast=1, axis=0)
    summed = model.net.Add([summed, scaled], s(scope, "decoder_hidden_encoder_outputs_sum"))
    logits = _calc_attention_logits_from_sum_match(model, summed, encoder_output_dim, scope)
    context, weights = _weights_and_context(
        model, logits, encoder_outputs_transposed, encoder_output_dim, scope, encoder_lengths
    )
    weights_2d = model.net.Squeeze(weights, s(scope, "attention_weights_2d"), dims=[2])
    coverage_t = model.net.Add([coverage_t_prev, weights_2d], s(scope, "coverage_t"), broadcast=1)
    return context, weights, [summed], coverage_t
