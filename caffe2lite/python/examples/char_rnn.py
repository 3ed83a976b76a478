"""A recurrent net that learns to write like a text, letter by letter.

    python -m caffe2.python.examples.char_rnn --train_data book.txt --hidden_size 100 --seq_length 25

The text is cut into `batch_size` strands that are read side by side; the LSTM's state goes on from one piece of a
strand to the next (truncated backpropagation through time).
"""

from __future__ import annotations

import argparse
import logging

import numpy as np

from caffe2lite.python import brew, core, optimizer, workspace
from caffe2lite.python.model_helper import ModelHelper
from caffe2lite.python.rnn_cell import LSTM

log = logging.getLogger("char_rnn")
log.setLevel(logging.INFO)


class CharRNN:
    """The model, and what it has read.

    text, hidden_size, seq_length, batch_size, iters_to_report    as on the command line
    """

    def __init__(self, text, hidden_size=100, seq_length=25, batch_size=1, iters_to_report=500):
        if len(text) < batch_size * (seq_length + 1):
            raise ValueError(
                f"the text has {len(text)} letters; {batch_size} strands of at least {seq_length + 1} letters are needed"
            )
        self.text = text
        self.letters = sorted(set(text))
        self.number = {letter: i for i, letter in enumerate(self.letters)}
        self.hidden_size, self.seq_length = hidden_size, seq_length
        self.batch_size, self.iters_to_report = batch_size, iters_to_report

    @property
    def size(self):
        """How many letters there are."""
        return len(self.letters)

    def CreateModel(self):
        """Build the training net and the net that predicts, and create them."""
        model = ModelHelper(name="char_rnn")
        letters, lengths, hidden, cell, target = model.net.AddScopedExternalInputs(
            "input_blob", "seq_lengths", "hidden_init", "cell_init", "target"
        )
        every_hidden, last_hidden, _, last_cell = LSTM(
            model, letters, lengths, (hidden, cell), self.size, self.hidden_size, scope="LSTM"
        )
        output = brew.fc(model, every_hidden, None, self.hidden_size, self.size, axis=2)
        # One row a letter: (length * batch, letters).
        flat, _ = model.net.Reshape(output, ["output_flat", "_"], shape=[-1, self.size])
        softmax = model.net.Softmax(flat, "softmax")
        self.predict_net = core.Net(model.net.Proto())
        loss = model.AveragedLoss(model.LabelCrossEntropy([softmax, target], "xent"), "loss")
        model.AddGradientOperators([loss])
        optimizer.build_adagrad(model, base_learning_rate=0.1 * self.batch_size)
        # The next piece of a strand begins with the state that this one ends with.
        model.net.Copy(last_hidden, hidden)
        model.net.Copy(last_cell, cell)
        self.model, self.loss, self.softmax = model, loss, softmax
        self.hidden, self.cell, self.last = hidden, cell, (last_hidden, last_cell)

        self._reset(self.batch_size)
        self._feed(np.zeros((self.seq_length, self.batch_size), np.int32))
        workspace.FeedBlob("target", np.zeros(self.seq_length * self.batch_size, np.int32))
        workspace.RunNetOnce(model.param_init_net)
        workspace.CreateNet(model.net)
        workspace.CreateNet(self.predict_net)

    def _reset(self, strands):
        for blob in (self.hidden, self.cell):
            workspace.FeedBlob(blob, np.zeros((1, strands, self.hidden_size), np.float32))

    def _feed(self, numbers):
        """Feed letters, (length, strands) of numbers, as one-hot rows."""
        workspace.FeedBlob("input_blob", np.eye(self.size, dtype=np.float32)[numbers])
        workspace.FeedBlob("seq_lengths", np.full(numbers.shape[1], len(numbers), np.int32))

    def TrainModel(self, iterations=None):
        """Train for so many iterations (None: until interrupted); the loss, smoothed over some hundred iterations."""
        numbers = np.array([self.number[letter] for letter in self.text])
        strand = (len(numbers) - 1) // self.batch_size
        places = np.arange(self.batch_size) * strand
        smoothed, at, done = np.log(self.size), 0, 0
        self._reset(self.batch_size)
        while iterations is None or done < iterations:
            if at + self.seq_length > strand:
                at = 0
                self._reset(self.batch_size)
            window = places[None, :] + np.arange(at, at + self.seq_length)[:, None]
            self._feed(numbers[window])
            workspace.FeedBlob("target", numbers[window + 1].ravel().astype(np.int32))
            workspace.RunNet(self.model.net)
            smoothed += 0.01 * (float(workspace.FetchBlob(self.loss)) - smoothed)
            at += self.seq_length
            done += 1
            if done % self.iters_to_report == 0:
                log.info("iteration %d: loss %.4f", done, smoothed)
                state = [workspace.FetchBlob(b) for b in (self.hidden, self.cell)]
                print(self.GenerateText(200, self.text[0]))
                for blob, value in zip((self.hidden, self.cell), state):
                    workspace.FeedBlob(blob, value)
        return smoothed

    def GenerateText(self, num_characters, ch):
        """Return the text that the model writes after the letter `ch`."""
        self._reset(1)
        written = ch
        for _ in range(num_characters):
            self._feed(np.array([[self.number[ch]]]))
            workspace.RunNet(self.predict_net)
            for blob, last in zip((self.hidden, self.cell), self.last):
                workspace.FeedBlob(blob, workspace.FetchBlob(last))
            odds = workspace.FetchBlob(self.softmax)[0].astype(np.float64)
            ch = self.letters[np.random.choice(self.size, p=odds / odds.sum())]
            written += ch
        return written


def main(argv=None):
    """The command line."""
    parser = argparse.ArgumentParser(description="Trains a net that writes text, letter by letter.")
    parser.add_argument("--train_data", required=True, help="a text file to learn from")
    parser.add_argument("--seq_length", type=int, default=25, help="letters a step looks back")
    parser.add_argument("--batch_size", type=int, default=1, help="sequences a batch")
    parser.add_argument("--iters_to_report", type=int, default=500, help="iterations between two reports")
    parser.add_argument("--hidden_size", type=int, default=100, help="units of the LSTM")
    parser.add_argument("--gpu", action="store_true", help="train on GPU 0")
    parser.add_argument("--iters", type=int, help="Stop after so many iterations (default: never)")
    args = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s")
    with open(args.train_data, encoding="utf-8") as f:
        text = f.read()
    with core.DeviceScope(core.DeviceOption(workspace.GpuDeviceType if args.gpu else 0, 0)):
        model = CharRNN(text, args.hidden_size, args.seq_length, args.batch_size, args.iters_to_report)
        model.CreateModel()
        loss = model.TrainModel(args.iters)
        print(f"loss {loss:.4f}")


if __name__ == "__main__":
    workspace.GlobalInit(["caffe2", "--caffe2_log_level=2"])
    main()
