"""Training of sequence to sequence models.

    python -m caffe2.python.models.seq2seq.train --source-corpus FILE --target-corpus FILE …

A line of a corpus is a sentence; line i of the target corpus is the translation of line i of the source corpus.
"""

from __future__ import annotations

import argparse
import collections
import logging
import math
import random
import time

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, data_parallel_model, workspace
from caffe2lite.python.models.seq2seq import seq2seq_util
from caffe2lite.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)

Batch = collections.namedtuple(
    "Batch", "encoder_inputs encoder_lengths decoder_inputs decoder_lengths targets target_weights"
)
_TYPES = Batch(*[np.int32] * 5, np.float32)


def _columns(sequences, filler, dtype=np.int32):
    """Return sequences as the columns of a matrix, filled up at the end."""
    matrix = np.full((max(map(len, sequences)), len(sequences)), filler, dtype=dtype)
    for i, sequence in enumerate(sequences):
        matrix[: len(sequence), i] = sequence
    return matrix


def prepare_batch(batch):
    """Return a Batch of pairs of sentences, both lists of numbers: sources backwards, targets behind GO and before EOS."""
    sources = [source[::-1] for source, _ in batch]
    decoded = [[seq2seq_util.GO_ID, *target] for _, target in batch]
    targets = [[*target, seq2seq_util.EOS_ID] for _, target in batch]
    return Batch(
        encoder_inputs=_columns(sources, seq2seq_util.PAD_ID),
        encoder_lengths=np.array([len(s) for s in sources], dtype=np.int32),
        decoder_inputs=_columns(decoded, seq2seq_util.PAD_ID),
        decoder_lengths=np.array([len(d) for d in decoded], dtype=np.int32),
        targets=_columns(targets, seq2seq_util.PAD_ID),
        target_weights=_columns([[1.0] * len(t) for t in targets], 0.0, np.float32),
    )


def gen_batches(source_corpus, target_corpus, source_vocab, target_vocab, batch_size, max_length):
    """Return the batches, in random order, of pairs of sentences of about the same length.

    Longer pairs than `max_length` are left out; the last batch repeats its last pair until it is full.
    """
    with open(source_corpus) as sources, open(target_corpus) as targets:
        pairs = [
            (
                seq2seq_util.get_numberized_sentence(source, source_vocab),
                seq2seq_util.get_numberized_sentence(target, target_vocab),
            )
            for source, target in zip(sources, targets)
        ]
    pairs = [pair for pair in pairs if max(map(len, pair)) <= max_length]
    pairs.sort(key=lambda pair: len(pair[0]))
    while len(pairs) % batch_size:
        pairs.append(pairs[-1])
    batches = [pairs[i : i + batch_size] for i in range(0, len(pairs), batch_size)]
    random.shuffle(batches)
    return batches


class Seq2SeqModelCaffe2:
    """An encoder, a decoder and their training; with GPUs each has the model, and the embeddings are on the CPU.

    `model_params`: attention ("regular", "recurrent" or "none"), encoder_type (encoder_layer_configs,
    use_bidirectional_encoder), decoder_layer_configs, encoder_embedding_size, decoder_embedding_size,
    decoder_softmax_size, batch_size, optimizer_params (learning_rate), max_gradient_norm.
    """

    def __init__(self, model_params, source_vocab_size, target_vocab_size, num_gpus=1, num_cpus=1):
        self.model_params = model_params
        self.encoder_type = "rnn"
        self.encoder_params = model_params["encoder_type"]
        self.source_vocab_size = source_vocab_size
        self.target_vocab_size = target_vocab_size
        self.num_gpus = num_gpus
        self.num_cpus = num_cpus
        self.batch_size = model_params["batch_size"]

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        workspace.ResetWorkspace()

    # Building

    def initialize_from_scratch(self):
        """Build the nets with new parameters."""
        logger.info("Building the model with new parameters")
        self._build_model(init_params=True)
        self._init_model()
        logger.info("The model is built")

    def _build_model(self, init_params):
        model = Seq2SeqModelHelper(init_params=init_params)
        self._build_shared(model)
        self._build_embeddings(model)
        forward_model = Seq2SeqModelHelper(init_params=init_params)
        self._build_shared(forward_model)
        self._build_embeddings(forward_model)

        if self.num_gpus == 0:
            model.AddGradientOperators(self.model_build_fun(model))
            self.norm_clipped_grad_update(model, scope="norm_clipped_grad_update")
            self.forward_model_build_fun(forward_model)
        else:
            if self.batch_size % self.num_gpus != 0:
                raise AssertionError(
                    f"the batch of {self.batch_size} does not divide into as many parts as there are GPUs, {self.num_gpus}"
                )
            common = {"input_builder_fun": lambda model: None, "devices": list(range(self.num_gpus))}
            data_parallel_model.Parallelize_GPU(
                forward_model,
                forward_pass_builder_fun=self.forward_model_build_fun,
                param_update_builder_fun=None,
                **common,
            )
            data_parallel_model.Parallelize_GPU(
                model,
                forward_pass_builder_fun=lambda model, scale: self.model_build_fun(model, loss_scale=scale),
                param_update_builder_fun=lambda model: self.norm_clipped_grad_update(
                    model, scope="norm_clipped_grad_update"
                ),
                **common,
            )
        self.norm_clipped_sparse_grad_update(model, scope="norm_clipped_sparse_grad_update")
        self.model = model
        self.forward_net = forward_model.net

    def _build_shared(self, model):
        with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
            self.learning_rate = model.AddParam(
                name="learning_rate",
                init_value=float(self.model_params["optimizer_params"]["learning_rate"]),
                trainable=False,
            )
            self.global_step = model.AddParam(name="global_step", init_value=0, trainable=False)
            self.start_time = model.AddParam(name="start_time", init_value=time.time(), trainable=False)

    def _build_embeddings(self, model):
        with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
            bound = math.sqrt(3)
            for side, vocab_size in (("encoder", self.source_vocab_size), ("decoder", self.target_vocab_size)):
                name = f"{side}_embeddings"
                shape = [vocab_size, self.model_params[f"{side}_embedding_size"]]
                table = model.param_init_net.UniformFill([], name, shape=shape, min=-bound, max=bound)
                model.params.append(table)
                setattr(self, name, table)

    def model_build_fun(self, model, forward_only=False, loss_scale=None):
        """Build the model of one device; return its loss."""
        encoder_inputs, encoder_lengths, decoder_inputs, decoder_lengths, targets, target_weights = (
            model.net.AddExternalInput(core.ScopedName(name)) for name in Batch._fields
        )
        attention_type = self.model_params["attention"]
        if attention_type not in ("none", "regular", "recurrent"):
            raise AssertionError(f"Unknown attention type {attention_type}: it is none, regular or recurrent")
        outputs, weighted_outputs, hidden_states, cell_states, units = seq2seq_util.build_embedding_encoder(
            model=model,
            encoder_params=self.encoder_params,
            num_decoder_layers=len(self.model_params["decoder_layer_configs"]),
            inputs=encoder_inputs,
            input_lengths=encoder_lengths,
            vocab_size=self.source_vocab_size,
            embeddings=self.encoder_embeddings,
            embedding_size=self.model_params["encoder_embedding_size"],
            use_attention=attention_type != "none",
            num_gpus=self.num_gpus,
            forward_only=forward_only,
        )
        decoded, decoded_size = seq2seq_util.build_embedding_decoder(
            model=model,
            decoder_layer_configs=self.model_params["decoder_layer_configs"],
            inputs=decoder_inputs,
            input_lengths=decoder_lengths,
            encoder_lengths=encoder_lengths,
            encoder_outputs=outputs,
            weighted_encoder_outputs=weighted_outputs,
            final_encoder_hidden_states=hidden_states,
            final_encoder_cell_states=cell_states,
            encoder_units_per_layer=units,
            vocab_size=self.target_vocab_size,
            embeddings=self.decoder_embeddings,
            embedding_size=self.model_params["decoder_embedding_size"],
            attention_type=attention_type,
            forward_only=forward_only,
            num_gpus=self.num_gpus,
        )
        logits = seq2seq_util.output_projection(
            model=model,
            decoder_outputs=decoded,
            decoder_output_size=decoded_size,
            target_vocab_size=self.target_vocab_size,
            decoder_softmax_size=self.model_params["decoder_softmax_size"],
        )
        targets, _ = model.net.Reshape([targets], ["targets", "targets_old_shape"], shape=[-1])
        target_weights, _ = model.net.Reshape(
            [target_weights], ["target_weights", "target_weights_old_shape"], shape=[-1]
        )
        _, loss_per_word = model.net.SoftmaxWithLoss(
            [logits, targets, target_weights], ["OutputProbs_INVALID", "loss_per_word"], only_loss=True
        )
        num_words = model.net.SumElements([target_weights], "num_words")
        total_loss = model.net.Mul([loss_per_word, num_words], "total_loss_scalar")
        return [model.net.Scale([total_loss], "total_loss_scalar_weighted", scale=1.0 / self.batch_size)]

    def forward_model_build_fun(self, model, loss_scale=None):
        """Build the forward pass alone."""
        return self.model_build_fun(model=model, forward_only=True, loss_scale=loss_scale)

    # Updates

    def _calc_norm_ratio(self, model, params, scope, ONE):
        """Return what the gradients are multiplied with: at most 1, and less where their norm is too large."""
        with core.NameScope(scope):
            squares = []
            for i, param in enumerate(params):
                grad = model.param_to_grad[param]
                values = grad.values if isinstance(grad, core.GradientSlice) else grad
                squared = model.net.Sqr([values], f"grad_{i}_squared")
                squares.append(model.net.SumElements([squared], f"grad_{i}_squared_sum"))
            total = model.net.Sum(squares, "grad_squared_full_sum")
            norm = model.net.Pow([total], "global_norm", exponent=0.5)
            clip_norm = model.param_init_net.ConstantFill(
                [], "clip_norm", shape=[], value=float(self.model_params["max_gradient_norm"])
            )
            largest = model.net.Max([norm, clip_norm], "max_norm")
            return model.net.Div([clip_norm, largest], "norm_ratio")

    def _apply_norm_ratio(self, norm_ratio, model, params, learning_rate, scope, ONE):
        """Move the parameters against their gradients."""
        rate = model.net.Negative([learning_rate], "negative_learning_rate")
        with core.NameScope(scope):
            rate = model.net.Mul([rate, norm_ratio], "update_coeff", broadcast=1)
        for param in params:
            grad = model.param_to_grad[param]
            if isinstance(grad, core.GradientSlice):
                model.net.ScatterWeightedSum([param, ONE, grad.indices, grad.values, rate], param)
            else:
                model.net.WeightedSum([param, ONE, grad, rate], param)

    def _update(self, model, params, learning_rate, scope):
        one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
        ratio = self._calc_norm_ratio(model, params, scope, one)
        self._apply_norm_ratio(ratio, model, params, learning_rate, scope, one)

    def norm_clipped_grad_update(self, model, scope):
        """Update the dense parameters of the current device."""
        learning_rate = self.learning_rate
        if self.num_gpus:
            learning_rate = model.CopyCPUToGPU(learning_rate, "LR")
        params = [
            param
            for param in model.GetParams(top_scope=True)
            if param in model.param_to_grad and not isinstance(model.param_to_grad[param], core.GradientSlice)
        ]
        self._update(model, params, learning_rate, scope)

    def norm_clipped_sparse_grad_update(self, model, scope):
        """Update the embeddings, by the gradients of all devices."""
        params = [self.encoder_embeddings, self.decoder_embeddings]
        with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
            self._update(model, params, self.learning_rate, scope)

    # Running

    def _init_model(self):
        workspace.RunNetOnce(self.model.param_init_net)
        for net in (self.model.net, self.forward_net):
            for blob in net.Proto().external_input:
                workspace.CreateBlob(blob)
            workspace.CreateNet(net)

    def total_loss_scalar(self):
        """Return the summed loss of all words of the batch."""
        if self.num_gpus == 0:
            return workspace.FetchBlob("total_loss_scalar")
        return sum(workspace.FetchBlob(f"gpu_{i}/total_loss_scalar") for i in range(self.num_gpus))

    def step(self, batch, forward_only):
        """Train on pairs of sentences, or only measure the loss; return it."""
        if self.num_gpus == 0:
            self._feed(prepare_batch(batch), "", core.DeviceOption(caffe2_pb2.CPU))
        else:
            part = len(batch) // self.num_gpus
            for i in range(self.num_gpus):
                device = core.DeviceOption(workspace.GpuDeviceType, i)
                self._feed(prepare_batch(batch[i * part : (i + 1) * part]), f"gpu_{i}/", device)
        workspace.RunNet(self.forward_net if forward_only else self.model.net)
        return self.total_loss_scalar()

    def _feed(self, batch, prefix, device):
        on_cpu = {"encoder_inputs", "decoder_inputs"}  # the embeddings are looked up there
        for name, values, dtype in zip(Batch._fields, batch, _TYPES):
            where = core.DeviceOption(caffe2_pb2.CPU) if name in on_cpu else device
            workspace.FeedBlob(prefix + name, np.array(values, dtype=dtype), device_option=where)

    def get_current_step(self):
        """Return how many batches were trained on."""
        return workspace.FetchBlob(self.global_step)[0]

    def inc_current_step(self):
        """Count a batch."""
        workspace.FeedBlob(self.global_step, np.array([self.get_current_step() + 1]))

    def save(self, checkpoint_path_prefix, current_step):
        """Save the parameters in PREFIX-STEP, a database of type minidb; return its name."""
        path = f"{checkpoint_path_prefix}-{current_step}"
        workspace.RunOperatorOnce(
            core.CreateOperator("Save", self.model.GetAllParams(), [], absolute_path=True, db=path, db_type="minidb")
        )
        logger.info("Saved checkpoint file to %s", path)
        return path


def _layers(num_layers, num_units):
    return [{"num_units": num_units} for _ in range(num_layers)]


def _params_of(args):
    return {
        "attention": "regular" if args.use_attention else "none",
        "decoder_layer_configs": _layers(args.decoder_num_layers, args.decoder_cell_num_units),
        "encoder_type": {
            "encoder_layer_configs": _layers(args.encoder_num_layers, args.encoder_cell_num_units),
            "use_bidirectional_encoder": args.use_bidirectional_encoder,
        },
        "batch_size": args.batch_size,
        "optimizer_params": {"learning_rate": args.learning_rate},
        "encoder_embedding_size": args.encoder_embedding_size,
        "decoder_embedding_size": args.decoder_embedding_size,
        "decoder_softmax_size": args.decoder_softmax_size,
        "max_gradient_norm": args.max_gradient_norm,
    }


def run_seq2seq_model(args, model_params=None):
    """Train by the command's arguments, and measure the loss on other sentences after each epoch."""
    source_vocab = seq2seq_util.gen_vocab(args.source_corpus, args.unk_threshold)
    target_vocab = seq2seq_util.gen_vocab(args.target_corpus, args.unk_threshold)
    logger.info("Source vocab size %d, target vocab size %d", len(source_vocab), len(target_vocab))
    vocabularies = (source_vocab, target_vocab, args.batch_size, args.max_length)
    batches = gen_batches(args.source_corpus, args.target_corpus, *vocabularies)
    batches_eval = gen_batches(args.source_corpus_eval, args.target_corpus_eval, *vocabularies)
    with Seq2SeqModelCaffe2(
        model_params=_params_of(args) if model_params is None else model_params,
        source_vocab_size=len(source_vocab),
        target_vocab_size=len(target_vocab),
        num_gpus=args.num_gpus,
        num_cpus=20,
    ) as model:
        model.initialize_from_scratch()
        for epoch in range(args.epochs):
            total_loss = sum(float(model.step(batch=batch, forward_only=False)) for batch in batches)
            for _ in batches:
                model.inc_current_step()
            logger.info("Epoch %d: training loss %s", epoch, total_loss)
            total_loss = sum(float(model.step(batch=batch, forward_only=True)) for batch in batches_eval)
            logger.info("Epoch %d: evaluation loss %s", epoch, total_loss)
            if args.checkpoint is not None:
                model.save(args.checkpoint, epoch)


def main():
    """The command line."""
    random.seed(31415)
    parser = argparse.ArgumentParser(description="Caffe2: Seq2Seq Training")

    def option(name, kind, default, text):
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)

    for name, text in (
        ("source-corpus", "Sentences to train on, a line each"),
        ("target-corpus", "Their translations, line by line"),
        ("source-corpus-eval", "Sentences to evaluate the model with"),
        ("target-corpus-eval", "Their translations"),
    ):
        parser.add_argument(f"--{name}", type=str, default=None, help=text, required=True)
    option("max-length", int, 100, "Most words of a sentence")
    option("unk-threshold", int, 50, "Words that do not occur more often are unknown")
    option("batch-size", int, 32, "Sentences in a batch")
    option("epochs", int, 10, "Passes over the training data")
    option("learning-rate", float, 0.5, "Learning rate")
    option("max-gradient-norm", float, 1.0, "Largest norm of all gradients; larger ones are scaled down")
    option("num-gpus", int, 0, "GPUs that train together")
    seq2seq_util.add_model_options(parser)
    option("checkpoint", str, None, "Where to save the parameters after each epoch")
    run_seq2seq_model(parser.parse_args())


if __name__ == "__main__":
    main()
