"""Translation with trained sequence to sequence models.

    python -m caffe2.python.models.seq2seq.translate --source-corpus FILE --target-corpus FILE --checkpoint FILE …

The corpora are those of the training, which the vocabularies come from; sentences are read from the standard input.
"""

from __future__ import annotations

import argparse
import logging
import sys
from abc import ABCMeta, abstractmethod

import numpy as np

from caffe2lite.python import core, workspace
from caffe2lite.python.models.seq2seq import seq2seq_util
from caffe2lite.python.models.seq2seq.beam_search import BeamSearchForwardOnly
from caffe2lite.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)


def _weighted_sum(model, values, weight, output_name):
    """Return the sum of blobs, each times the one weight."""
    operands = [operand for value in values for operand in (value, weight)]
    return model.net.WeightedSum(operands, output_name)


class Seq2SeqModelCaffe2EnsembleDecoderBase(metaclass=ABCMeta):
    """What decoders of several models have in common: word rewards, loading."""

    @abstractmethod
    def get_model_file(self, model):
        """The database with a model's parameters."""

    @abstractmethod
    def get_db_type(self):
        """The type of the databases."""

    def build_word_rewards(self, vocab_size, word_reward, unk_reward):
        """Return what is added to the score of each word."""
        rewards = np.full(vocab_size, word_reward, dtype=np.float32)
        rewards[[seq2seq_util.PAD_ID, seq2seq_util.GO_ID, seq2seq_util.EOS_ID]] = 0
        rewards[seq2seq_util.UNK_ID] = word_reward + unk_reward
        return rewards

    def load_models(self):
        """Load the parameters of all models; call it before `decode`."""
        workspace.RunNetOnce(self.model.param_init_net)
        for model, scope in zip(self.models, self.decoder_scope_names):
            prefix = f"{scope}/"
            params = [str(param) for param in self.model.GetAllParams() if str(param).startswith(prefix)]
            path = self.get_model_file(model)
            workspace.RunOperatorOnce(
                core.CreateOperator(
                    "Load",
                    [],
                    params,
                    source_blob_names=[param[len(prefix) :] for param in params],
                    absolute_path=True,
                    db=path,
                    db_type=self.get_db_type(),
                )
            )
            logger.info("Model %s is loaded from a checkpoint %s", scope, path)
        workspace.FeedBlob("word_rewards", self.word_reward_values)
        for blob in self.model.net.Proto().external_input:
            workspace.CreateBlob(blob)
        workspace.CreateNet(self.model.net)


class Seq2SeqModelCaffe2EnsembleDecoder(Seq2SeqModelCaffe2EnsembleDecoderBase):
    """Translates with the mean of the scores of several models.

    `translate_params`: ensemble_models, a list of {model_params, model_file, source_vocab, target_vocab}, and
    decoding_params: beam_size, word_reward (for each word) and unk_reward (for each unknown one, as a rule below 0).
    """

    def __init__(self, translate_params):
        self.models = translate_params["ensemble_models"]
        decoding = translate_params["decoding_params"]
        self.beam_size = decoding["beam_size"]
        if not self.models:
            raise AssertionError("An ensemble needs at least one model")
        vocabularies = [(model["source_vocab"], model["target_vocab"]) for model in self.models]
        if not all(pair == vocabularies[0] for pair in vocabularies):
            raise AssertionError("All models must have the same vocabularies")
        self.source_vocab, self.target_vocab = vocabularies[0]

        self.model = Seq2SeqModelHelper(init_params=True)
        self.encoder_inputs, self.encoder_lengths, self.max_output_seq_len = self.model.net.AddExternalInputs(
            "encoder_inputs", "encoder_lengths", "max_output_seq_len"
        )
        search = BeamSearchForwardOnly(beam_size=self.beam_size, model=self.model, eos_token_id=seq2seq_util.EOS_ID)
        state_configs, log_probs, attentions = self._build_decoders(search)
        self.word_reward_values = self.build_word_rewards(
            len(self.target_vocab), decoding["word_reward"], decoding["unk_reward"]
        )
        (
            self.output_token_beam_list,
            self.output_prev_index_beam_list,
            self.output_score_beam_list,
            self.output_attention_weights_beam_list,
        ) = self._search(search, state_configs, log_probs, attentions)

    def _build_decoders(self, search):
        """Add the models to the step: all state configs, the log probabilities and attention weights of each model."""
        # The step decodes one token of each hypothesis: no sequence ends before that.
        fake_seq_lengths = self.model.param_init_net.ConstantFill(
            [], "fake_seq_lengths", shape=[self.beam_size], value=100000, dtype=core.DataType.INT32
        )
        step_model = search.get_step_model()
        self.decoder_scope_names, state_configs, log_probs, attentions = [], [], [], []
        for i, ensemble_model in enumerate(self.models):
            scope = f"model{i}"
            self.decoder_scope_names.append(scope)
            configs, scores, weights = self._build_decoder(
                model=self.model,
                step_model=step_model,
                model_params=ensemble_model["model_params"],
                scope=scope,
                previous_tokens=search.get_previous_tokens(),
                timestep=search.get_timestep(),
                fake_seq_lengths=fake_seq_lengths,
            )
            state_configs.extend(configs)
            log_probs.append(scores)
            if weights is not None:
                attentions.append(weights)
        return state_configs, log_probs, attentions

    def _search(self, search, state_configs, log_probs, attentions):
        """Add the search over the means of the models' scores; return its outputs."""
        step_model = search.get_step_model()
        word_rewards = self.model.param_init_net.ConstantFill(
            [], "word_rewards", shape=[len(self.target_vocab)], value=0.0, dtype=core.DataType.FLOAT
        )
        mean_log_probs = self._mean(step_model, log_probs, "num_decoders_blob", "output_log_probs_average")
        if attentions:
            attention = self._mean(
                step_model, attentions, "num_decoders_with_attention_blob", "attention_weights_average"
            )
        else:
            attention = self._no_attention(step_model)
        return search.apply(
            inputs=self.encoder_inputs,
            length=self.max_output_seq_len,
            log_probs=mean_log_probs,
            attentions=attention,
            state_configs=state_configs,
            data_dependencies=self._read_by(step_model, state_configs),
            word_rewards=word_rewards,
        )

    def scope(self, scope_name, blob_name):
        """Return a blob's name within a model of the ensemble."""
        return f"{scope_name}/{blob_name}" if scope_name is not None else blob_name

    def _mean(self, step_model, values, weight_name, output_name):
        weight = self.model.param_init_net.ConstantFill([], weight_name, value=1.0 / len(values), shape=[1])
        step_model.net.AddExternalInput(weight)
        return _weighted_sum(step_model, values, weight, output_name)

    def _no_attention(self, step_model):
        """Return weights for a decoder that has none: zeros, (beam_size, source words, 1)."""
        tiled = self.model.net.Tile(
            self.model.net.Cast(self.encoder_inputs, "encoder_inputs_float", to=core.DataType.FLOAT),
            "encoder_inputs_tiled",
            tiles=self.beam_size,
            axis=1,
        )
        zeros = self.model.net.Scale(tiled, "no_attention", scale=0.0)
        weights = self.model.net.ExpandDims(
            self.model.net.Transpose(zeros, "no_attention_transposed"), "no_attention_3d", dims=[2]
        )
        step_model.net.AddExternalInput(weights)
        return step_model.net.Copy(weights, "attention_weights_average")

    @staticmethod
    def _read_by(step_model, state_configs):
        """Return what the step reads from outside, but for its states and what the search adds."""
        own = {str(config.state_prev_link.blob) for config in state_configs}
        own |= {"timestep", "scores_t_prev", "tokens_t_prev", "hypo_t_prev", "attention_t_prev"}
        return [name for name in step_model.net.Proto().external_input if name not in own]

    def _build_decoder(self, model, step_model, model_params, scope, previous_tokens, timestep, fake_seq_lengths):
        """Add a model of the ensemble: its state configs, log probabilities, and attention weights or None."""
        use_attention = model_params["attention"] != "none"
        encoder = self._encode(model, model_params, scope, use_attention)
        decoder_embeddings = self._embeddings(model, model_params, scope, "decoder", self.target_vocab)
        with core.NameScope(scope):
            encoder_outputs, weighted_encoder_outputs, initial_states = self._tile(
                model, model_params, encoder, use_attention
            )
            embedded = step_model.net.Gather([decoder_embeddings, previous_tokens], "embedded_tokens_t_prev")

        decoder_units = [config["num_units"] for config in model_params["decoder_layer_configs"]]
        sizes = zip(decoder_units, [model_params["decoder_embedding_size"], *decoder_units])
        decoder = seq2seq_util.LSTMWithAttentionDecoder(
            encoder_outputs=encoder_outputs,
            encoder_output_dim=encoder[-1][-1],
            encoder_lengths=None,
            vocab_size=len(self.target_vocab),
            attention_type=model_params["attention"],
            embedding_size=model_params["decoder_embedding_size"],
            decoder_num_units=decoder_units[-1],
            decoder_cells=[seq2seq_util.lstm_cell(size, below, None, forward_only=True) for size, below in sizes],
            weighted_encoder_outputs=weighted_encoder_outputs,
            name=scope,
        )
        previous = [
            step_model.net.AddExternalInput(self.scope(scope, f"{name}_prev")) for name in decoder.get_state_names()
        ]
        outputs, states = decoder.apply(
            model=step_model,
            input_t=embedded,
            seq_lengths=fake_seq_lengths,
            states=previous,
            timestep=timestep,
        )
        link = BeamSearchForwardOnly.LinkConfig
        state_configs = [
            BeamSearchForwardOnly.StateConfig(initial, link(before, 0, 1), link(after, 1, 1))
            for initial, before, after in zip(initial_states, previous, states)
        ]
        with core.NameScope(scope):
            log_probs = self._log_probs(step_model, model_params, outputs, decoder.get_output_dim())
        return state_configs, log_probs, decoder.get_attention_weights() if use_attention else None

    @staticmethod
    def _embeddings(model, model_params, scope, side, vocab):
        return seq2seq_util.build_embeddings(
            model,
            len(vocab),
            model_params[f"{side}_embedding_size"],
            f"{scope}/{side}_embeddings",
            freeze_embeddings=False,
        )

    def _encode(self, model, model_params, scope, use_attention):
        """Return (outputs, weighted outputs, hidden states, cell states, units by layer) of the encoder."""
        return seq2seq_util.build_embedding_encoder(
            model=model,
            encoder_params=model_params["encoder_type"],
            num_decoder_layers=len(model_params["decoder_layer_configs"]),
            inputs=self.encoder_inputs,
            input_lengths=self.encoder_lengths,
            vocab_size=len(self.source_vocab),
            embeddings=self._embeddings(model, model_params, scope, "encoder", self.source_vocab),
            embedding_size=model_params["encoder_embedding_size"],
            use_attention=use_attention,
            num_gpus=0,
            forward_only=True,
            scope=scope,
        )

    def _tile(self, model, model_params, encoder, use_attention):
        """Give each hypothesis of the beam the one source sentence: (outputs, weighted outputs, initial states)."""
        outputs, weighted_outputs, hidden_states, cell_states, units = encoder

        def tiled(blob, name):
            return None if blob is None else model.net.Tile(blob, name, tiles=self.beam_size, axis=1)

        if use_attention:
            outputs = tiled(outputs, "encoder_outputs_tiled")
            weighted_outputs = tiled(weighted_outputs, "weighted_encoder_outputs_tiled")
        initial_states = seq2seq_util.build_initial_rnn_decoder_states(
            model=model,
            encoder_units_per_layer=units,
            decoder_units_per_layer=[config["num_units"] for config in model_params["decoder_layer_configs"]],
            final_encoder_hidden_states=[
                tiled(h, f"final_encoder_hidden_tiled_{i}") for i, h in enumerate(hidden_states)
            ],
            final_encoder_cell_states=[tiled(c, f"final_encoder_cell_tiled_{i}") for i, c in enumerate(cell_states)],
            use_attention=use_attention,
        )
        return outputs, weighted_outputs, initial_states

    def _log_probs(self, step_model, model_params, outputs, output_dim):
        """Return the log probabilities of the next word, of the decoder's outputs."""
        flat, _ = step_model.net.Reshape(
            [outputs],
            ["decoder_outputs_flattened", "decoder_outputs_and_contexts_combination_old_shape"],
            shape=[-1, output_dim],
        )
        logits = seq2seq_util.output_projection(
            model=step_model,
            decoder_outputs=flat,
            decoder_output_size=output_dim,
            target_vocab_size=len(self.target_vocab),
            decoder_softmax_size=model_params["decoder_softmax_size"],
        )
        return step_model.net.Log(step_model.net.Softmax(logits, "output_probs"), "output_log_probs")

    def get_model_file(self, model):
        return model["model_file"]

    def get_db_type(self):
        return "minidb"

    def decode(self, numberized_input, max_output_seq_len):
        """Return the best translation: (its tokens, the weights of the source's words for each, minus its score).

        It ends with EOS, or else has `max_output_seq_len` tokens.
        """
        reversed_input = np.array(numberized_input, dtype=np.int32)[::-1, np.newaxis]
        workspace.FeedBlob(self.encoder_inputs, np.ascontiguousarray(reversed_input))
        workspace.FeedBlob(self.encoder_lengths, np.array([len(numberized_input)], dtype=np.int32))
        workspace.FeedBlob(self.max_output_seq_len, np.array([max_output_seq_len], dtype=np.int64))
        workspace.RunNet(self.model.net)

        shape = (max_output_seq_len + 1, self.beam_size)
        tokens, previous, scores = (
            workspace.FetchBlob(blob).reshape(shape)
            for blob in (
                self.output_token_beam_list,
                self.output_prev_index_beam_list,
                self.output_score_beam_list,
            )
        )
        attention = workspace.FetchBlob(self.output_attention_weights_beam_list).reshape(*shape, -1)

        best, best_score = None, -np.inf
        for t in range(1, max_output_seq_len + 1):
            for hypothesis in range(self.beam_size):
                ended = tokens[t, hypothesis] == seq2seq_util.EOS_ID
                if not (ended or t == max_output_seq_len) or scores[t, hypothesis] <= best_score:
                    continue
                path = self._trace(previous, t, hypothesis)
                if all(tokens[step, at] != seq2seq_util.EOS_ID for step, at in path[:-1]):
                    best, best_score = path, scores[t, hypothesis]
        return (
            [int(tokens[step, at]) for step, at in best],
            [attention[step, at, ::-1].tolist() for step, at in best],  # in the order of the words again
            -best_score,
        )

    @staticmethod
    def _trace(previous, step, hypothesis):
        """Return the (step, hypothesis) of each token of a hypothesis."""
        path = []
        while step > 0:
            path.append((step, hypothesis))
            hypothesis = previous[step, hypothesis]
            step -= 1
        return path[::-1]


def run_seq2seq_beam_decoder(args, model_params, decoding_params):
    """Translate the sentences of the standard input."""
    source_vocab = seq2seq_util.gen_vocab(args.source_corpus, args.unk_threshold)
    target_vocab = seq2seq_util.gen_vocab(args.target_corpus, args.unk_threshold)
    words = {number: word for word, number in target_vocab.items()}
    decoder = Seq2SeqModelCaffe2EnsembleDecoder(
        {
            "ensemble_models": [
                {
                    "source_vocab": source_vocab,
                    "target_vocab": target_vocab,
                    "model_params": model_params,
                    "model_file": args.checkpoint,
                }
            ],
            "decoding_params": decoding_params,
        }
    )
    decoder.load_models()
    for line in sys.stdin:
        sentence = seq2seq_util.get_numberized_sentence(line, source_vocab)
        if not sentence:
            print()
            continue
        tokens, _, _ = decoder.decode(sentence, 2 * len(sentence) + 5)
        print(" ".join(words[token] for token in tokens if token != seq2seq_util.EOS_ID))


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description="Caffe2: Seq2Seq Translation")

    def option(name, kind, default, text, **kwargs):
        parser.add_argument(f"--{name}", type=kind, default=default, help=text, **kwargs)

    option("source-corpus", str, None, "Sentences the model was trained on, a line each", required=True)
    option("target-corpus", str, None, "Their translations, line by line", required=True)
    option("unk-threshold", int, 50, "Words that do not occur more often are unknown")
    seq2seq_util.add_model_options(parser)
    option("beam-size", int, 6, "Hypotheses that are kept")
    option("word-reward", float, 0.0, "Added to the score for each word")
    option("unk-reward", float, 0.0, "Added to the score for each unknown word, as a rule below 0")
    option("checkpoint", str, None, "File with the trained parameters", required=True)
    args = parser.parse_args()
    run_seq2seq_beam_decoder(
        args,
        model_params={
            "attention": "regular" if args.use_attention else "none",
            "decoder_layer_configs": [{"num_units": args.decoder_cell_num_units}] * args.decoder_num_layers,
            "encoder_type": {
                "encoder_layer_configs": [{"num_units": args.encoder_cell_num_units}] * args.encoder_num_layers,
                "use_bidirectional_encoder": args.use_bidirectional_encoder,
            },
            "encoder_embedding_size": args.encoder_embedding_size,
            "decoder_embedding_size": args.decoder_embedding_size,
            "decoder_softmax_size": args.decoder_softmax_size,
        },
        decoding_params={
            "beam_size": args.beam_size,
            "word_reward": args.word_reward,
            "unk_reward": args.unk_reward,
        },
    )


if __name__ == "__main__":
    main()
