"""How many entries a second an LSTM learns from, with data that waits in queues.

    python -m caffe2.python.lstm_benchmark --implementation own --seq_length 20 --batch_size 128

An entry is one step of one sequence.
"""

from __future__ import annotations

import argparse
import logging
import time

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import brew, core, recurrent, rnn_cell, workspace
from caffe2lite.python.model_helper import ModelHelper

log = logging.getLogger("lstm_bench")


def generate_data(T, shape, num_labels, fixed_shape):
    """Return (queue, label queue, entries a batch): `T` random batches of shape (steps, batch, size), steps drawn if not fixed."""
    log.info(f"Generating T={T} sequence batches")
    net = core.Net("queue")
    queue, label_queue = (net.CreateBlobsQueue([], name, capacity=T, num_blobs=1) for name in ("sequences", "labels"))
    workspace.RunNetOnce(net)
    entries = []
    steps, batch, size = shape
    for _ in range(T):
        drawn = steps if fixed_shape else np.random.randint(1, steps + 1)
        workspace.FeedBlob("scratch", np.random.rand(drawn, batch, size).astype(np.float32))
        workspace.RunOperatorOnce(core.CreateOperator("EnqueueBlobs", [queue, "scratch"], ["scratch"]))
        workspace.FeedBlob("label_scratch", np.random.randint(num_labels, size=drawn * batch).astype(np.int32))
        workspace.RunOperatorOnce(
            core.CreateOperator("EnqueueBlobs", [label_queue, "label_scratch"], ["label_scratch"])
        )
        entries.append(drawn * batch)
    log.info("Finished data generation")
    return queue, label_queue, entries


def create_model(args, queue, label_queue, input_shape):
    """Return (model, output) of an LSTM of the implementation that `args` name, with a loss and gradients unless forward only."""
    steps, _, size = input_shape
    model = ModelHelper(name="LSTM_bench")
    sequence_lengths, labels = model.net.AddExternalInputs("seq_lengths", "label")
    sequences = model.net.DequeueBlobs(queue, "input_data")
    model.net.DequeueBlobs(label_queue, labels)
    cudnn = args.implementation == "cudnn"  # one operator with the states of all layers
    states_shape = [args.num_layers if cudnn else 1, args.batch_size, args.hidden_dim]
    states = [
        model.param_init_net.ConstantFill([], f"{kind}_init_{layer}", value=0.0, shape=states_shape)
        for layer in range(1 if cudnn else args.num_layers)
        for kind in ("hidden", "cell")
    ]
    if cudnn:
        output, *_ = rnn_cell.cudnn_LSTM(
            model, sequences, states, size, args.hidden_dim, scope="cudnnlstm", num_layers=args.num_layers
        )
    elif args.implementation in ("own", "static", "static_dag"):
        unrolled = args.implementation != "own"
        if unrolled and not args.fixed_shape:
            raise ValueError("a static RNN is written out for one length of sequences: give --fixed_shape")
        output, *_ = rnn_cell.LSTM(
            model,
            sequences,
            sequence_lengths,
            states,
            size,
            [args.hidden_dim] * args.num_layers,
            "lstm1",
            memory_optimization=args.memory_optimization,
            forward_only=args.forward_only,
            drop_states=True,
            return_last_layer_only=True,
            static_rnn_unroll_size=steps if unrolled else None,
        )
        if args.implementation == "static_dag":
            model.net.Proto().type, model.net.Proto().num_workers = "dag", 4
    else:
        raise ValueError(f"--implementation is own, cudnn, static or static_dag, and not {args.implementation!r}")
    scores = brew.fc(
        model, model.net.Reshape(output, ["flat", "_"], shape=[-1, args.hidden_dim])[0], "pred", args.hidden_dim, 10
    )
    _, loss = model.net.SoftmaxWithLoss([scores, labels], ["softmax", "loss"])
    if not args.forward_only:
        model.AddGradientOperators([loss])
    for op in model.net.Proto().op if args.rnn_executor else ():
        if op.type.startswith("RecurrentNetwork"):
            recurrent.set_rnn_executor_config(op, args.rnn_executor_num_threads, args.rnn_executor_max_cuda_streams)
    return model, output


def Caffe2LSTM(args):
    """Run the benchmark: the entries a second, without the first iteration."""
    batches = args.data_size // args.seq_length // args.batch_size
    if batches < 2:
        raise ValueError(
            f"--data_size {args.data_size} is less than two batches of {args.seq_length} × {args.batch_size}"
        )
    shape = [args.seq_length, args.batch_size, args.input_dim]
    queue, label_queue, entries = generate_data(batches, shape, 10, args.fixed_shape)
    workspace.FeedBlob("seq_lengths", np.full(args.batch_size, args.seq_length, np.int32))
    workspace.FeedBlob("input_data", np.zeros(shape, np.float32))  # cuDNN's parameters are laid out for its size
    workspace.CreateBlob("label")
    model, _ = create_model(args, queue, label_queue, shape)
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)

    start = since = time.perf_counter()
    for i in range(batches):
        workspace.RunNet(model.net.Proto().name)
        now = time.perf_counter()
        if i == 0:
            start = now
        if i % args.iters_to_report == 0:
            done = sum(entries[max(0, i + 1 - args.iters_to_report) : i + 1])
            log.info(f"Iter: {i + 1} / {batches}. Entries Per Second: {done / (now - since) / 1000:.1f}k.")
            since = now
    rate = sum(entries[1:]) / (time.perf_counter() - start)
    log.info(f"Done. Total EPS excluding 1st iteration: {rate / 1000:.1f}k")
    return rate


def Benchmark(args):
    """Return the entries a second, of a workspace of its own, on GPU 0 if `args` say so."""
    with core.DeviceScope(core.DeviceOption(workspace.GpuDeviceType if args.gpu else caffe2_pb2.CPU, 0)):
        return Caffe2LSTM(args)


def GetArgumentParser():
    """Return the command line."""
    parser = argparse.ArgumentParser(description="LSTM benchmark.")
    for name, default, what in (
        ("hidden_dim", 800, "size of the state"),
        ("input_dim", 40, "size of an entry"),
        ("batch_size", 128, "sequences a batch"),
        ("seq_length", 20, "the most steps of a sequence"),
        ("data_size", 1000000, "entries to generate"),
        ("iters_to_report", 20, "iterations between reports"),
        ("num_layers", 1, "layers, all of hidden_dim"),
        ("rnn_executor_num_threads", None, "threads of the executor of recurrent nets"),
        ("rnn_executor_max_cuda_streams", None, "CUDA streams of the executor of recurrent nets"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=what)
    for name, what in (
        ("gpu", "run on GPU 0"),
        ("fixed_shape", "all sequences have seq_length steps"),
        ("memory_optimization", "compute the gates again in the backward pass"),
        ("forward_only", "no gradients"),
        ("rnn_executor", "set the executor of recurrent nets"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=what)
    parser.add_argument("--implementation", type=str, default="own", help="own, cudnn, static or static_dag")
    return parser


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    arguments, extra = GetArgumentParser().parse_known_args()
    workspace.GlobalInit(["caffe2", "--caffe2_log_level=0", "--caffe2_print_blob_sizes_at_exit=0", *extra])
    Benchmark(arguments)
