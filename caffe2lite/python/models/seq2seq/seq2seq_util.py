"""Vocabularies, encoders and decoders of sequence to sequence models.

Sequences have the shape (steps, batch, dimension).
"""

from __future__ import annotations

import collections

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import attention, brew, core, rnn_cell

PAD_ID = 0
PAD = "<PAD>"
GO_ID = 1
GO = "<GO>"
EOS_ID = 2
EOS = "<EOS>"
UNK_ID = 3
UNK = "<UNK>"


def gen_vocab(corpus, unk_threshold):
    """Return numbers for the words of a file that occur more than `unk_threshold` times, a defaultdict.

    The first are those of the special words, then it goes by the first occurrence.
    """
    with open(corpus) as sentences:
        counts = collections.Counter(word for sentence in sentences for word in sentence.strip().split())
    vocab = collections.defaultdict(lambda: len(vocab))
    for special, number in ((PAD, PAD_ID), (GO, GO_ID), (EOS, EOS_ID), (UNK, UNK_ID)):
        if vocab[special] != number:
            raise AssertionError(f"the token {special!r} has the number {number}, got {vocab[special]}")
    for word, count in counts.items():
        if count > unk_threshold:
            vocab[word]  # a new word gets the next number
    return vocab


def get_numberized_sentence(sentence, vocab):
    """Return the numbers of a sentence's words; a word that is unknown has UNK's."""
    return [vocab[word] if word in vocab else vocab[UNK] for word in sentence.strip().split()]


def _join(scope, name):
    return f"{scope}/{name}" if scope else name


def get_layer_scope(scope, layer_type, i):
    """Return the name scope of layer `i` of a kind, under `scope`."""
    return _join(scope, f"{layer_type}/layer{i}")


def lstm_cell(num_units, input_size, dropout_keep_prob, forward_only, name=None, dropout_name=None):
    """Return an LSTM cell, with dropout of its outputs where `dropout_keep_prob` says so."""
    cell = rnn_cell.LSTMCell(
        name=name,
        input_size=input_size,
        hidden_size=num_units,
        forget_bias=0.0,
        memory_optimization=False,
        forward_only=forward_only,
    )
    if not dropout_keep_prob:
        return cell
    return rnn_cell.DropoutCell(
        internal_cell=cell,
        dropout_ratio=1.0 - dropout_keep_prob,
        name=dropout_name,
        forward_only=forward_only,
        is_test=False,
    )


def rnn_unidirectional_layer(
    model,
    inputs,
    input_lengths,
    input_size,
    num_units,
    dropout_keep_prob,
    forward_only,
    return_sequence_output,
    return_final_state,
    scope=None,
):
    """Add an LSTM; return its outputs, and the last hidden and cell states.

    The flags say which of these a gradient will be given for.
    """
    with core.NameScope(scope or ""):
        cell_state, hidden_state = (
            model.param_init_net.ConstantFill([], name, shape=[num_units], value=0.0)
            for name in ("initial_cell_state", "initial_hidden_state")
        )
    cell = lstm_cell(
        num_units, input_size, dropout_keep_prob, forward_only, _join(scope, "lstm"), _join(scope, "dropout")
    )
    outputs, (_, final_hidden, _, final_cell) = cell.apply_over_sequence(
        model=model,
        inputs=inputs,
        seq_lengths=input_lengths,
        initial_states=(hidden_state, cell_state),
        outputs_with_grads=[0] * bool(return_sequence_output) + [1, 3] * bool(return_final_state),
    )
    return outputs, final_hidden, final_cell


def rnn_bidirectional_layer(
    model,
    inputs,
    input_lengths,
    input_size,
    num_units,
    dropout_keep_prob,
    forward_only,
    return_sequence_output,
    return_final_state,
    scope=None,
):
    """Add two LSTMs, one of which reads the sequences backwards; return what both give, joined, or None."""
    layer = (input_size, num_units, dropout_keep_prob, forward_only, return_sequence_output, return_final_state)
    outside = [core.BlobReference(str(blob)) for blob in (inputs, input_lengths)]
    forwards = rnn_unidirectional_layer(model, inputs, input_lengths, *layer, scope=_join(scope, "fw"))
    with core.NameScope(scope or ""):
        reversed_inputs = model.net.ReversePackedSegs(outside, ["reversed_inputs"])
    backwards = rnn_unidirectional_layer(model, reversed_inputs, input_lengths, *layer, scope=_join(scope, "bw"))
    with core.NameScope(scope or ""):
        outputs_backwards = model.net.ReversePackedSegs([backwards[0], outside[1]], ["outputs_bw"])

        def joined(name, *parts):
            return model.net.Concat(list(parts), [name, f"{name}_dim"], axis=2)[0]

        outputs = joined("outputs", forwards[0], outputs_backwards) if return_sequence_output else None
        if not return_final_state:
            return outputs, None, None
        return (
            outputs,
            joined("final_hidden_state", forwards[1], backwards[1]),
            joined("final_cell_state", forwards[2], backwards[2]),
        )


def build_embeddings(model, vocab_size, embedding_size, name, freeze_embeddings):
    """Return a table of word vectors; frozen it is no parameter."""
    embeddings = model.param_init_net.GaussianFill([], name, shape=[vocab_size, embedding_size], std=0.1)
    if not freeze_embeddings:
        model.params.append(embeddings)
    return embeddings


def _look_up(model, embeddings, inputs, name, num_gpus):
    """Return the words' vectors; with GPUs the table stays on the CPU."""
    if num_gpus == 0:
        return model.net.Gather([embeddings, inputs], [name])
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
        found = model.net.Gather([embeddings, inputs], [f"{name}_cpu"])
    return model.CopyCPUToGPU(found, name)


def build_embedding_encoder(
    model,
    encoder_params,
    num_decoder_layers,
    inputs,
    input_lengths,
    vocab_size,
    embeddings,
    embedding_size,
    use_attention,
    num_gpus=0,
    forward_only=False,
    scope=None,
):
    """Add LSTMs over word vectors, the first of which may read both ways.

    Return the outputs (None if nobody attends to them and the last layer reads both ways), None,
    and for each layer the last hidden state, the last cell state (None where no decoder starts from them)
    and the number of units.
    """
    with core.NameScope(scope or ""):
        layer_inputs = _look_up(model, embeddings, inputs, "embedded_encoder_inputs", num_gpus)
    layers = encoder_params["encoder_layer_configs"]
    input_size = embedding_size
    hidden_states, cell_states, units = [], [], []
    for i, config in enumerate(layers):
        both_ways = i == 0 and encoder_params.get("use_bidirectional_encoder", False)
        build = rnn_bidirectional_layer if both_ways else rnn_unidirectional_layer
        layer_inputs, hidden, cell = build(
            model=model,
            inputs=layer_inputs,
            input_lengths=input_lengths,
            input_size=input_size,
            num_units=config["num_units"],
            dropout_keep_prob=config.get("dropout_keep_prob", None),
            forward_only=forward_only,
            return_sequence_output=i < len(layers) - 1 or use_attention,
            return_final_state=i >= len(layers) - num_decoder_layers,
            scope=get_layer_scope(scope, "encoder", i),
        )
        input_size = config["num_units"] * (2 if both_ways else 1)
        hidden_states.append(hidden)
        cell_states.append(cell)
        units.append(input_size)
    return layer_inputs, None, hidden_states, cell_states, units


class LSTMWithAttentionDecoder:
    """Layers of cells, which attend to the encoder's outputs unless `attention_type` is "none"."""

    def __init__(
        self,
        encoder_outputs,
        encoder_output_dim,
        encoder_lengths,
        vocab_size,
        attention_type,
        embedding_size,
        decoder_num_units,
        decoder_cells,
        residual_output_layers=None,
        name=None,
        weighted_encoder_outputs=None,
    ):
        self.name = name
        self.num_layers = len(decoder_cells)
        layers = rnn_cell.MultiRNNCell(
            decoder_cells, name=self.scope("decoder"), residual_output_layers=residual_output_layers
        )
        self.use_attention = attention_type != "none"
        self.decoder_output_dim = decoder_num_units
        self.output_indices = layers.output_indices
        if not self.use_attention:
            self.cell = layers
            return
        self.cell = rnn_cell.AttentionCell(
            encoder_output_dim=encoder_output_dim,
            encoder_outputs=encoder_outputs,
            encoder_lengths=encoder_lengths,
            decoder_cell=layers,
            decoder_state_dim=decoder_num_units,
            name=self.scope("attention_decoder"),
            attention_type=self._get_attention_type(attention_type),
            weighted_encoder_outputs=weighted_encoder_outputs,
            attention_memory_optimization=True,
        )
        self.decoder_output_dim += encoder_output_dim
        self.output_indices = [*self.output_indices, 2 * self.num_layers]

    def _get_attention_type(self, attention_type_as_string):
        types = {
            "regular": attention.AttentionType.Regular,
            "recurrent": attention.AttentionType.Recurrent,
        }
        if attention_type_as_string not in types:
            raise AssertionError(f"Unknown attention type {attention_type_as_string}: it is one of {list(types)}")
        return types[attention_type_as_string]

    def scope(self, name):
        """Return a name within the decoder."""
        return f"{self.name}/{name}" if self.name is not None else name

    def get_state_names(self):
        """Return the names of the states."""
        return self.cell.get_state_names()

    def get_outputs_with_grads(self):
        """Return the indices of the recurrent outputs that make up the decoder's output."""
        return [2 * i for i in self.output_indices]

    def get_output_dim(self):
        """Return how many numbers a step puts out."""
        return self.decoder_output_dim

    def get_attention_weights(self):
        """Return the blob of the weights of the encoder's outputs."""
        if not self.use_attention:
            raise AssertionError("A decoder without attention has no weights")
        return self.cell.get_attention_weights()

    def apply(self, model, input_t, seq_lengths, states, timestep):
        """Add one step; return the states."""
        return self.cell.apply(model=model, input_t=input_t, seq_lengths=seq_lengths, states=states, timestep=timestep)

    def apply_over_sequence(self, model, inputs, seq_lengths, initial_states):
        """Add all steps; return the outputs, then the states."""
        return self.cell.apply_over_sequence(
            model=model,
            inputs=inputs,
            seq_lengths=seq_lengths,
            initial_states=initial_states,
            outputs_with_grads=self.get_outputs_with_grads(),
        )


def build_initial_rnn_decoder_states(
    model,
    encoder_units_per_layer,
    decoder_units_per_layer,
    final_encoder_hidden_states,
    final_encoder_cell_states,
    use_attention,
):
    """Return what the decoder's layers start from: the states of the top layers of the encoder.

    States of another size are projected; where the encoder has none, they are zero.
    """
    above = max(0, len(encoder_units_per_layer) - len(decoder_units_per_layer))
    encoder_units = encoder_units_per_layer[above:]
    final_states = list(zip(final_encoder_hidden_states, final_encoder_cell_states))[above:]
    states = []
    for i, units in enumerate(decoder_units_per_layer):
        encoder_states = final_states[i] if i < len(final_states) else (None, None)
        for kind, state in zip(("hidden", "cell"), encoder_states):
            name = f"decoder_initial_{kind}_state_{i}"
            if state is None:
                state = model.param_init_net.ConstantFill([], name, shape=[units], value=0.0)
                model.params.append(state)
            elif encoder_units[i] != units:
                state = brew.fc(model, state, name, encoder_units[i], units, axis=2)
            states.append(state)
    if use_attention:
        context = model.param_init_net.ConstantFill(
            [], "initial_attention_weighted_encoder_context", shape=[encoder_units_per_layer[-1]], value=0.0
        )
        model.params.append(context)
        states.append(context)
    return states


def build_embedding_decoder(
    model,
    decoder_layer_configs,
    inputs,
    input_lengths,
    encoder_lengths,
    encoder_outputs,
    weighted_encoder_outputs,
    final_encoder_hidden_states,
    final_encoder_cell_states,
    encoder_units_per_layer,
    vocab_size,
    embeddings,
    embedding_size,
    attention_type,
    forward_only,
    num_gpus=0,
    scope=None,
):
    """Add a decoder over word vectors; return its outputs, (steps * batch, dimension), and the dimension."""
    with core.NameScope(scope or ""):
        embedded = _look_up(model, embeddings, inputs, "embedded_decoder_inputs", num_gpus)

    units = [config["num_units"] for config in decoder_layer_configs]
    cells = [
        lstm_cell(size, below, config.get("dropout_keep_prob", None), forward_only, dropout_name="dropout")
        for size, below, config in zip(units, [embedding_size, *units], decoder_layer_configs)
    ]
    states = build_initial_rnn_decoder_states(
        model=model,
        encoder_units_per_layer=encoder_units_per_layer,
        decoder_units_per_layer=units,
        final_encoder_hidden_states=final_encoder_hidden_states,
        final_encoder_cell_states=final_encoder_cell_states,
        use_attention=attention_type != "none",
    )
    decoder = LSTMWithAttentionDecoder(
        encoder_outputs=encoder_outputs,
        encoder_output_dim=encoder_units_per_layer[-1],
        encoder_lengths=encoder_lengths,
        vocab_size=vocab_size,
        attention_type=attention_type,
        embedding_size=embedding_size,
        decoder_num_units=units[-1],
        decoder_cells=cells,
        weighted_encoder_outputs=weighted_encoder_outputs,
        name=scope,
    )
    outputs, _ = decoder.apply_over_sequence(
        model=model, inputs=embedded, seq_lengths=input_lengths, initial_states=states
    )
    flat, _ = model.net.Reshape(
        [outputs],
        ["decoder_outputs_flattened", "decoder_outputs_and_contexts_combination_old_shape"],
        shape=[-1, decoder.get_output_dim()],
    )
    return flat, decoder.get_output_dim()


def output_projection(model, decoder_outputs, decoder_output_size, target_vocab_size, decoder_softmax_size):
    """Return a score for each word; with `decoder_softmax_size` by way of a layer of that size."""
    if decoder_softmax_size is not None:
        decoder_outputs = brew.fc(
            model,
            decoder_outputs,
            "decoder_outputs_scaled",
            dim_in=decoder_output_size,
            dim_out=decoder_softmax_size,
        )
        decoder_output_size = decoder_softmax_size
    weight = model.param_init_net.XavierFill([], "output_projection_w", shape=[target_vocab_size, decoder_output_size])
    bias = model.param_init_net.XavierFill([], "output_projection_b", shape=[target_vocab_size])
    model.params.extend([weight, bias])
    return model.net.FC([decoder_outputs, weight, bias], ["output_logits"])


def add_model_options(parser):
    """Add to an argparse parser what training and translation must say alike: the sizes and kinds of the layers."""

    def option(name, kind, default, text):
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)

    parser.add_argument(
        "--use-bidirectional-encoder", action="store_true", help="The first layer of the encoder reads both ways"
    )
    parser.add_argument("--use-attention", action="store_true", help="The decoder attends to the encoder's outputs")
    option("encoder-cell-num-units", int, 512, "Units of a layer of the encoder")
    option("encoder-num-layers", int, 2, "Layers of the encoder")
    option("decoder-cell-num-units", int, 512, "Units of a layer of the decoder")
    option("decoder-num-layers", int, 2, "Layers of the decoder")
    option("encoder-embedding-size", int, 256, "Size of the source words' vectors")
    option("decoder-embedding-size", int, 512, "Size of the target words' vectors")
    option("decoder-softmax-size", int, None, "Size of a layer before the scores of the words; none without it")
