"""Sequence to sequence models: vocabularies, batches, and a model that learns to copy."""

import random

import numpy as np
import pytest
from caffe2.python import workspace
from caffe2.python.models.seq2seq import beam_search, seq2seq_util, train, translate
from caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper


@pytest.fixture
def corpora(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("a b c\nb a\nd e a b a a\nc\n")
    target.write_text("x y\ny\nx x y z z z\nz y\n")
    return str(source), str(target)


def test_vocabularies(corpora):
    vocab = seq2seq_util.gen_vocab(corpora[0], 1)
    assert dict(vocab) == {"<PAD>": 0, "<GO>": 1, "<EOS>": 2, "<UNK>": 3, "a": 4, "b": 5, "c": 6}
    assert seq2seq_util.get_numberized_sentence(" a b  zz\n", vocab) == [4, 5, 3]


def test_batches_are_full_and_of_similar_length(corpora):
    vocabularies = [seq2seq_util.gen_vocab(corpus, 0) for corpus in corpora]
    batches = train.gen_batches(*corpora, *vocabularies, batch_size=2, max_length=4)
    assert sorted(batches, key=lambda batch: len(batch[0][0])) == [
        [([6], [6, 5]), ([5, 4], [5])],
        [([4, 5, 6], [4, 5]), ([4, 5, 6], [4, 5])],
    ]


def test_sources_are_read_backwards_and_targets_have_ends():
    batch = train.prepare_batch([([5, 6, 7], [8, 9]), ([4], [3, 3, 3])])
    assert batch.encoder_inputs.T.tolist() == [[7, 6, 5], [4, 0, 0]]
    assert batch.decoder_inputs.T.tolist() == [[1, 8, 9, 0], [1, 3, 3, 3]]
    assert batch.targets.T.tolist() == [[8, 9, 2, 0], [3, 3, 3, 2]]
    assert batch.target_weights.T.tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert batch.encoder_lengths.tolist() == [3, 1] and batch.decoder_lengths.tolist() == [3, 4]


def test_parameters_may_stay_untrained():
    model = Seq2SeqModelHelper()
    trained = model.AddParam("trained", init_value=1.0)
    kept = model.AddParam("kept", init=("GaussianFill", {"shape": [3]}), trainable=False)
    assert model.params == [trained] and model.GetNonTrainableParams() == [kept]
    assert model.GetAllParams() == [trained, kept]
    with pytest.raises(ValueError, match="needs init"):
        model.AddParam("nothing")


@pytest.mark.parametrize(
    "num_gpus, attention, both_ways, layers",
    [(0, "regular", True, 1), (0, "recurrent", False, 2), (0, "none", False, 1), (2, "regular", True, 1)],
)
def test_a_model_learns_to_copy(gpus, tmp_path, num_gpus, attention, both_ways, layers):
    params = {
        "attention": attention,
        "encoder_type": {
            "encoder_layer_configs": [{"num_units": 8}] * layers,
            "use_bidirectional_encoder": both_ways,
        },
        "decoder_layer_configs": [{"num_units": 8}] * layers,
        "encoder_embedding_size": 6,
        "decoder_embedding_size": 6,
        "decoder_softmax_size": None,
        "batch_size": 4,
        "optimizer_params": {"learning_rate": 0.5},
        "max_gradient_norm": 5.0,
    }
    rng = random.Random(0)
    sentences = [[rng.randrange(4, 10) for _ in range(n)] for n in (2, 3, 1, 4)]
    batch = [(sentence, sentence) for sentence in sentences]
    with train.Seq2SeqModelCaffe2(params, 10, 10, num_gpus=num_gpus) as model:
        model.initialize_from_scratch()
        first = model.step(batch, forward_only=True)
        assert 10 < first < 100  # fourteen words out of ten: 14 * log(10) by chance
        for _ in range(60):
            model.step(batch, forward_only=False)
        last = model.step(batch, forward_only=True)
        assert last < first / 2
        path = model.save(str(tmp_path / "checkpoint"), 7)
        assert path.endswith("checkpoint-7")
    assert not workspace.Blobs()


def searched(log_probs, steps, beam, penalty=0.0, end=2, go=1):
    """Tokens, predecessors and scores of a beam search over a Markov chain, in NumPy."""
    tokens, scores, rows = np.array([go]), np.zeros(1), []
    for step in range(steps):
        table = log_probs[tokens] + scores[:, None]
        if step:
            table = table + penalty * (tokens == end)[:, None]
        best = np.argsort(-table, axis=None, kind="stable")[:beam]
        before, tokens = np.unravel_index(best, table.shape)
        scores = table.ravel()[best]
        rows.append((tokens, before, scores))
    return [np.array(column) for column in zip(*rows)]


@pytest.mark.parametrize("penalty", [None, -3.0])
def test_beam_search_finds_what_numpy_finds(penalty):
    beam, words, steps = 3, 6, 5
    rng = np.random.RandomState(0)
    chain = rng.randn(words, words).astype("f")
    model = Seq2SeqModelHelper(name="search")
    search = beam_search.BeamSearchForwardOnly(beam, model, eos_token_id=2, post_eos_penalty=penalty)
    step = search.get_step_model()
    rows = step.net.Squeeze(step.net.Gather(["chain", search.get_previous_tokens()], "rows3"), "rows", dims=[0])
    count = step.net.Add([step.net.AddExternalInput("count_prev"), "ones"], "count")
    attention = step.net.Copy("weights", "attention")
    link = beam_search.BeamSearchForwardOnly.LinkConfig
    results = search.apply(
        inputs="words",
        length="steps",
        log_probs=rows,
        attentions=attention,
        state_configs=[search.StateConfig("no_count", link("count_prev", 0, 1), link(count, 1, 1))],
        data_dependencies=["chain", "ones", "weights"],
    )
    for name, value in {
        "chain": chain,
        "ones": np.ones((1, beam, 1), "f"),
        "weights": rng.rand(beam, 4).astype("f"),
        "no_count": np.zeros((1, beam, 1), "f"),
        "words": np.zeros((4, 1), "i"),
        "steps": np.array([steps], "q"),
    }.items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    tokens, before, scores = (workspace.FetchBlob(blob).reshape(steps + 1, beam)[1:] for blob in results[:3])
    expected = searched(chain.astype("d"), steps, beam, penalty or 0.0)
    np.testing.assert_array_equal(tokens, expected[0])
    np.testing.assert_array_equal(before, expected[1])
    np.testing.assert_allclose(scores, expected[2], rtol=1e-5)
    assert workspace.FetchBlob(results[3]).shape == (steps + 1, beam, 4)


@pytest.mark.parametrize("attention, models", [("regular", 1), ("none", 1), ("recurrent", 2)])
def test_a_translation_scores_what_training_says(tmp_path, attention, models):
    params = {
        "attention": attention,
        "encoder_type": {"encoder_layer_configs": [{"num_units": 6}], "use_bidirectional_encoder": True},
        "decoder_layer_configs": [{"num_units": 8}],
        "encoder_embedding_size": 5,
        "decoder_embedding_size": 5,
        "decoder_softmax_size": None,
        "batch_size": 1,
        "optimizer_params": {"learning_rate": 0.1},
        "max_gradient_norm": 1.0,
    }
    vocab = {f"word{i}": i for i in range(8)}
    source = [5, 4, 7]
    with train.Seq2SeqModelCaffe2(params, 8, 8, num_gpus=0) as model:
        model.initialize_from_scratch()
        path = model.save(str(tmp_path / "checkpoint"), 0)
        decoder = translate.Seq2SeqModelCaffe2EnsembleDecoder(
            {
                "ensemble_models": [
                    {"source_vocab": vocab, "target_vocab": vocab, "model_params": params, "model_file": path}
                ]
                * models,
                "decoding_params": {"beam_size": 4, "word_reward": 0.0, "unk_reward": 0.0},
            }
        )
        decoder.load_models()
        tokens, weights, score = decoder.decode(source, 20)
        assert len(weights) == len(tokens)
        if attention != "none":
            np.testing.assert_allclose(np.sum(weights, axis=1), 1, rtol=1e-5)
        if tokens[-1] == seq2seq_util.EOS_ID:
            loss = model.step([(source, tokens[:-1])], forward_only=True)
            assert score == pytest.approx(float(loss), rel=1e-4)
        else:
            assert len(tokens) == 20
