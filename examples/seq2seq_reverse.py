"""A sequence-to-sequence model with attention that learns to spell words backwards, and a beam search that does it.

python seq2seq_reverse.py --steps 300
"""

import argparse
import os
import random
import tempfile

from caffe2.python.models.seq2seq import seq2seq_util, train, translate

LETTERS = 8
FIRST = 4  # the numbers before stand for padding, go, end and unknown words
PARAMS = {
    "attention": "regular",
    "encoder_type": {"encoder_layer_configs": [{"num_units": 32}], "use_bidirectional_encoder": True},
    "decoder_layer_configs": [{"num_units": 64}],
    "encoder_embedding_size": 16,
    "decoder_embedding_size": 16,
    "decoder_softmax_size": None,
}


def word(rng):
    """A word of 3 to 5 letters, as numbers."""
    return [rng.randrange(FIRST, FIRST + LETTERS) for _ in range(rng.randint(3, 5))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    rng = random.Random(0)
    size = FIRST + LETTERS
    training = {
        **PARAMS,
        "batch_size": args.batch,
        "optimizer_params": {"learning_rate": 0.5},
        "max_gradient_norm": 1.0,
    }
    with tempfile.TemporaryDirectory() as folder:
        with train.Seq2SeqModelCaffe2(training, size, size, num_gpus=0) as model:
            model.initialize_from_scratch()
            for step in range(1, args.steps + 1):
                words = [word(rng) for _ in range(args.batch)]
                loss = model.step([(w, w[::-1]) for w in words], forward_only=False)
                if step % 50 == 0:
                    print(f"step {step}: loss {loss:.3f}")
            checkpoint = model.save(os.path.join(folder, "model"), args.steps)
        vocab = {i: str(i) for i in range(size)}
        decoder = translate.Seq2SeqModelCaffe2EnsembleDecoder(
            {
                "ensemble_models": [
                    {
                        "source_vocab": vocab,
                        "target_vocab": vocab,
                        "model_params": PARAMS,
                        "model_file": checkpoint,
                    }
                ],
                "decoding_params": {"beam_size": 3, "word_reward": 0, "unk_reward": 0},
            }
        )
        decoder.load_models()
        right = 0
        for _ in range(20):
            source = word(rng)
            tokens, _attention, _score = decoder.decode(source, len(source) + 1)
            right += tokens == [*source[::-1], seq2seq_util.EOS_ID]
        print(f"{right} of 20 new words spelt backwards")


if __name__ == "__main__":
    main()
