"""Search for the likeliest sequences with a beam of hypotheses."""

from __future__ import annotations

from collections import namedtuple

from caffe2lite.python import core
from caffe2lite.python.models.seq2seq import seq2seq_util
from caffe2lite.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper

_FLOAT, _INT32, _INT64 = core.DataType.FLOAT, core.DataType.INT32, core.DataType.INT64


class BeamSearchForwardOnly:
    """Keeps the `beam_size` best beginnings of a sequence and extends each by one token at a time.

    Add what scores the next token to `get_step_model()`: it reads `get_previous_tokens()`, (1, beam_size), and states
    of its own.  Then `apply` adds to `model` the operator that repeats the step.
    `post_eos_penalty` is added to the scores of what follows an end of sequence.
    """

    # A state's initial value, and the links of what a step reads and of what it writes.
    StateConfig = namedtuple("StateConfig", ["initial_value", "state_prev_link", "state_link"])
    LinkConfig = namedtuple("LinkConfig", ["blob", "offset", "window"])

    def __init__(self, beam_size, model, eos_token_id, go_token_id=seq2seq_util.GO_ID, post_eos_penalty=None):
        self.beam_size = beam_size
        self.model = model
        self.eos_token_id = eos_token_id
        self.go_token_id = go_token_id
        self.post_eos_penalty = post_eos_penalty
        self.step_model = step = Seq2SeqModelHelper(name="step_model", param_model=model)
        (
            self.timestep,
            self.scores_t_prev,
            self.tokens_t_prev,
            self.hypo_t_prev,
            self.attention_t_prev,
        ) = step.net.AddExternalInputs("timestep", "scores_t_prev", "tokens_t_prev", "hypo_t_prev", "attention_t_prev")
        tokens = step.net.Cast(self.tokens_t_prev, "tokens_t_prev_int32", to=_INT32)
        self.tokens_t_prev_int32_flattened, _ = step.net.Reshape(
            [tokens], [tokens, "input_t_int32_old_shape"], shape=[1, -1]
        )

    def get_step_model(self):
        """Return the model of one step of decoding."""
        return self.step_model

    def get_previous_tokens(self):
        """Return the blob of the tokens that each hypothesis ended with, (1, beam_size)."""
        return self.tokens_t_prev_int32_flattened

    def get_timestep(self):
        """Return the blob of the number of the step."""
        return self.timestep

    def _constant(self, name, value, dtype, shape=(1,)):
        return self.model.param_init_net.ConstantFill([], name, shape=list(shape), value=value, dtype=dtype)

    def _outside(self, *blobs):
        """Return the blobs that a step reads but does not make."""
        for blob in blobs:
            self.step_model.net.AddExternalInput(blob)

    def _reshaped(self, blob, name, shape, old_shape=None):
        old_shape = old_shape or f"{blob}_old_shape"
        return self.step_model.net.Reshape([blob], [name, old_shape], shape=shape)[0]

    def apply(
        self,
        inputs,
        length,
        log_probs,
        attentions,
        state_configs,
        data_dependencies,
        word_rewards=None,
        possible_translation_tokens=None,
        go_token_id=None,
    ):
        """Search for as many steps as the blob `length`, int64, says.

        inputs: the encoder's input.  log_probs: the step's scores of the next token, (beam_size, tokens).
        attentions: its attention weights, (beam_size, …).  state_configs: the states of the step.
        data_dependencies: what else it reads.  word_rewards: blob of what is added to each token's score.
        possible_translation_tokens: blob of the tokens that the scores are of; default all.
        go_token_id: blob of the first token, in place of that given before.

        Returns, for each step and hypothesis, its token, the hypothesis it extends, its score and its attention.
        """
        net = self.step_model.net
        zero = self._constant("ZERO", 0, _INT32)
        self._outside(zero)
        on_initial_step = net.EQ([zero, self.timestep], "on_initial_step")
        if self.post_eos_penalty is not None:
            log_probs = self._penalize_after_end(log_probs, on_initial_step)
        scores, indices = net.TopK(
            log_probs, ["best_scores_per_hypo", "best_tokens_per_hypo_indices"], k=self.beam_size
        )
        tokens = indices
        if possible_translation_tokens:
            self._outside(possible_translation_tokens)
            tokens = net.Gather([possible_translation_tokens, indices], "best_tokens_per_hypo")

        before = self._reshaped(self.scores_t_prev, "scores_t_prev_squeezed", [self.beam_size])
        total = net.Add([scores, before], "output_scores", broadcast=1, axis=0)
        if word_rewards is not None:
            self._outside(word_rewards)
            rewards = net.Gather([word_rewards, indices], "word_rewards_for_best_tokens_per_hypo")
            total = net.Add([total, rewards], total)
        hypotheses, best = self._choose(total, zero, on_initial_step)

        attention = net.Gather([attentions, hypotheses], "attention_t")
        attention = self._reshaped(attention, attention, [1, self.beam_size, -1])
        flat = self._reshaped(tokens, "best_tokens_per_hypo_flatten", [-1], "best_tokens_per_hypo_old_shape")
        tokens_t = net.Cast(net.Gather([flat, best], "tokens_t_int32"), "tokens_t", to=_FLOAT)
        states = [self._follow(config, hypotheses) for config in state_configs]
        states += self._own_states(inputs, tokens_t, attention, go_token_id)
        return self._repeat(length, states, data_dependencies)

    def _penalize_after_end(self, log_probs, on_initial_step):
        net = self.step_model.net
        end = self._constant("eos_token", self.eos_token_id, _INT32, [self.beam_size])
        penalty = self._constant("finished_penalty", float(self.post_eos_penalty), _FLOAT)
        none = self._constant("ZERO_FLOAT", 0.0, _FLOAT)
        self._outside(none, penalty, end)
        penalty = net.Conditional([on_initial_step, none, penalty], "possible_finished_penalty")
        previous = net.Cast(net.FlattenToVec(self.tokens_t_prev, "tokens_t_flat"), "tokens_t_flat_int", to=_INT32)
        ended = net.Cast(net.EQ([previous, end], "predecessor_is_eos"), "predecessor_is_eos_float", to=_FLOAT)
        penalty = net.Mul([ended, penalty], "predecessor_is_eos_penalty", broadcast=1)
        return net.Add([log_probs, penalty], "log_probs_penalized", broadcast=1, axis=0)

    def _choose(self, total, zero, on_initial_step):
        """Return the best extensions of all hypotheses: which hypothesis each is of, and its place among all.

        At the first step all hypotheses are the same, and only the extensions of the first one count.
        """
        net = self.step_model.net
        beam_size = self._constant("beam_size", self.beam_size, _INT32)
        whole = self._constant("MINUS_ONE_INT32", -1, _INT32)
        beam_size_64 = self.model.param_init_net.Cast(beam_size, "BEAM_SIZE_64", to=_INT64)
        self._outside(beam_size, whole, beam_size_64)
        total = self._reshaped(total, total, [-1])
        end = net.Conditional([on_initial_step, beam_size, whole], "slice_end")
        total = net.Slice([total, zero, end], "output_scores_flattened_slice")
        total = self._reshaped(total, total, [1, -1])
        self.scores_t, best = net.TopK(total, ["scores_t", "best_indices"], k=self.beam_size)
        hypotheses = net.Div([best, beam_size_64], "hypo_t_int32", broadcast=1)
        self.hypo_t = net.Cast(hypotheses, "hypo_t", to=_FLOAT)
        return hypotheses, best

    def _follow(self, config, hypotheses):
        """Return the state of a step, in the order of the hypotheses that go on."""
        state = config.state_link.blob
        state = self._reshaped(state, state, [self.beam_size, -1])
        chosen = self.step_model.net.Gather([state, hypotheses], f"{state}_chosen_per_hypo")
        return config._replace(state_link=config.state_link._replace(blob=chosen))

    def _own_states(self, inputs, tokens_t, attention, go_token_id):
        scores = self._constant("initial_scores", 0.0, _FLOAT)
        if go_token_id:
            tokens = self.model.net.Cast([go_token_id], "initial_tokens", to=_FLOAT)
        else:
            tokens = self._constant("initial_tokens", float(self.go_token_id), _FLOAT)
        hypotheses = self._constant("initial_hypo", 0.0, _FLOAT)
        flat, _ = self.model.net.Reshape([inputs], ["encoder_inputs_flattened", "encoder_inputs_old_shape"], shape=[-1])
        no_attention = self.model.net.ConstantFill(flat, "init_attention", value=0.0, dtype=_FLOAT)
        return [
            self.StateConfig(initial, self.LinkConfig(read, 0, 1), self.LinkConfig(written, 1, 1))
            for initial, read, written in (
                (scores, self.scores_t_prev, self.scores_t),
                (tokens, self.tokens_t_prev, tokens_t),
                (hypotheses, self.hypo_t_prev, self.hypo_t),
                (no_attention, self.attention_t_prev, attention),
            )
        ]

    def _repeat(self, length, states, data_dependencies):
        # The operator wants an input that has as many steps as there are to be.
        steps = self.model.net.ConstantFill(
            [length],
            "beam_search_fake_input",
            input_as_shape=True,
            extra_shape=[self.beam_size, 1],
            value=0.0,
            dtype=_FLOAT,
        )
        names = [f"{state.state_prev_link.blob}_states" for state in states]
        links = [
            (str(link.blob), name, link.offset, link.window)
            for state, name in zip(states, names)
            for link in (state.state_prev_link, state.state_link)
        ]
        internal, external, offsets, windows = map(list, zip(*links))
        kept = ("scores_t", "tokens_t", "hypo_t", "attention_t")
        scores, tokens, hypotheses, attentions, _ = self.model.net.RecurrentNetwork(
            [steps, *(state.initial_value for state in states), *data_dependencies],
            [*(f"{name}_all" for name in kept), "step_workspaces"],
            param=[],
            alias_src=names[-len(kept) :],
            alias_dst=[f"{name}_all" for name in kept],
            alias_offset=[0] * len(kept),
            recurrent_states=names,
            initial_recurrent_state_ids=list(range(1, len(states) + 1)),
            link_internal=internal,
            link_external=external,
            link_offset=offsets,
            link_window=windows,
            backward_link_internal=[],
            backward_link_external=[],
            backward_link_offset=[],
            step_net=self.step_model.net.Proto(),
            timestep=str(self.timestep),
            outputs_with_grads=[],
            enable_rnn_executor=1,
            rnn_executor_debug=0,
        )
        net = self.model.net
        tokens = net.Cast(tokens, "output_token_beam_list", to=_INT32)
        hypotheses = net.Cast(hypotheses, "output_prev_index_beam_list", to=_INT32)
        scores = net.Alias(scores, "output_score_beam_list")
        return tokens, hypotheses, scores, net.Alias(attentions, "output_attention_weights_beam_list")
