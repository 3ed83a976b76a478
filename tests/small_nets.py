"""Small nets that are trained for some steps; run by genuine Caffe2 (Python 3.9) and by us.

    python small_nets.py OUT.npz

writes the losses and the trained parameters of all nets.  tests/golden/small_nets.npz is what genuine Caffe2 wrote.
Every net has the parameters that `values_of` draws from their names, so that both start at the same place.
"""

import hashlib
import sys

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, crf, gru_cell, model_helper, optimizer, rnn_cell, workspace

rng = np.random.RandomState(1)
BATCH = rng.randn(6, 8).astype("f")
IMAGES = rng.randn(4, 3, 12, 12).astype("f")
SEQUENCE = rng.randn(5, 3, 4).astype("f")
PROBABILITIES = rng.rand(6, 5).astype("f")
FEEDS = {
    "x": BATCH,
    "images": IMAGES,
    "label": rng.randint(0, 5, 6).astype("i"),
    "label4": rng.randint(0, 5, 4).astype("i"),
    "label15": rng.randint(0, 5, 15).astype("i"),
    "target": PROBABILITIES / PROBABILITIES.sum(axis=1, keepdims=True),
    "weights": rng.rand(6).astype("f"),
    "zero_or_one": rng.randint(0, 2, (6, 5)).astype("f"),
    "signs": (rng.randint(0, 2, (6, 5)) * 2 - 1).astype("i"),
    "sign": np.array([1, -1, 1, 1, -1, 1], "i"),
    "two": np.stack([np.full(6, 0.3), np.full(6, 0.7)], axis=1).astype("f"),
    "indices": rng.randint(0, 20, 15),
    "row": rng.randint(0, 20, 6),
    "lengths": np.array([3, 2, 0, 5, 4, 1], "i"),
    "lookup_weights": rng.rand(15).astype("f"),
    "sequence": SEQUENCE,
    "steps": np.array([5, 3, 4], "i"),
    "h0": np.zeros((1, 3, 6), "f"),
    "c0": np.zeros((1, 3, 6), "f"),
    "context0": np.zeros((1, 3, 6), "f"),
    "encoded": rng.randn(7, 3, 6).astype("f"),
    "encoded_steps": np.array([7, 5, 6], "i"),
    "channel": np.array([0.1, 0.2, 0.3, 0.4], "f"),
}


def values_of(name, shape):
    draw = np.random.RandomState(int(hashlib.md5(name.encode()).hexdigest()[:8], 16))
    return (draw.standard_normal(shape) * 0.2 if len(shape) > 1 else draw.rand(*shape) * 0.5 + 0.1).astype("f")


def softmax_loss(model, scores, label="label"):
    return model.net.SoftmaxWithLoss([scores, label], ["probabilities", "loss"])[1]


def momentum(model):
    optimizer.build_sgd(model, 0.1, momentum=0.9)


def sgd(model, **policy):
    optimizer.build_sgd(model, 0.1, **policy)


def dense(layer):
    """x, fully connected, the layer, fully connected, softmax."""

    def build(model):
        hidden = layer(model, model.net, brew.fc(model, "x", "f1", 8, 10))
        return softmax_loss(model, brew.fc(model, hidden, "f2", 10, 5))

    return build


DENSE = {
    "relu": lambda m, n, h: brew.relu(m, h, "a"),
    "tanh": lambda m, n, h: brew.tanh(m, h, "a"),
    "sigmoid": lambda m, n, h: n.Sigmoid(h, "a"),
    "elu": lambda m, n, h: n.Elu(h, "a", alpha=0.7),
    "prelu": lambda m, n, h: brew.prelu(m, h, "a", num_channels=10),
    "selu": lambda m, n, h: n.Selu(h, "a"),
    "leaky_relu": lambda m, n, h: n.LeakyRelu(h, "a", alpha=0.1),
    "softplus": lambda m, n, h: n.Softplus(h, "a"),
    "swish": lambda m, n, h: n.Swish(h, "a"),
    "gelu": lambda m, n, h: n.Gelu(h, "a"),
    "hard_sigmoid": lambda m, n, h: n.HardSigmoid(h, "a"),
    "softsign": lambda m, n, h: n.Softsign(h, "a"),
    "relu_n": lambda m, n, h: n.ReluN(h, "a", n=1.0),
    "cube": lambda m, n, h: n.Cube(h, "a"),
    "mish": lambda m, n, h: n.Mish(h, "a"),
    "logit": lambda m, n, h: n.Logit(n.Sigmoid(h, "s"), "a"),
    "sqr": lambda m, n, h: n.Sqr(h, "a"),
    "max": lambda m, n, h: n.Max([h, n.Negative(h, "minus")], "a"),
    "min": lambda m, n, h: n.Min([h, n.Negative(h, "minus")], "a"),
    "layer_norm": lambda m, n, h: brew.layer_norm(m, h, "a", dim_in=10)[0],
    "less_mean": lambda m, n, h: n.Sub([h, n.ReduceBackMean(h, "mean")], "a", broadcast=1, axis=0),
    "normalize": lambda m, n, h: n.Normalize(h, "a"),
    "pow": lambda m, n, h: n.Pow(h, "a", exponent=2.0),
    "clip": lambda m, n, h: n.Clip(h, "a", min=-0.3, max=0.5),
    "scale": lambda m, n, h: n.Scale(h, "a", scale=0.5),
    "exp": lambda m, n, h: n.Exp(n.Negative(h, "minus"), "a"),
    "div": lambda m, n, h: n.Div([h, n.Softplus(h, "positive")], "a"),
    "matmul": lambda m, n, h: n.MatMul([n.MatMul([h, h], "square", trans_b=1), h], "a"),
}


def image(layer):
    """images, convolution, the layer, the mean of each channel, fully connected, softmax."""

    def build(model):
        made = layer(model, model.net, brew.conv(model, "images", "c1", 3, 4, 3, pad=1))
        pooled = model.net.AveragePool(made, "pooled", global_pooling=1)
        return softmax_loss(model, brew.fc(model, model.net.Flatten(pooled, "flat"), "f2", 4, 5), "label4")

    return build


IMAGE = {
    "spatial_bn": lambda m, n, h: brew.relu(m, brew.spatial_bn(m, h, "bn", 4, is_test=False), "r"),
    "spatial_bn_test": lambda m, n, h: brew.spatial_bn(m, h, "bn", 4, is_test=True),
    "lrn": lambda m, n, h: brew.lrn(m, h, "l", size=3, alpha=0.1, beta=0.75, bias=1.0),
    "lrn_even": lambda m, n, h: brew.lrn(m, h, "l", size=4, alpha=0.1, beta=0.75, bias=1.0),
    "instance_norm": lambda m, n, h: brew.instance_norm(m, h, "in", 4),
    "max_pool": lambda m, n, h: brew.max_pool(m, h, "p", kernel=3, stride=2, pad=1),
    "average_pool": lambda m, n, h: brew.average_pool(m, h, "p", kernel=2, stride=2),
    "lp_pool": lambda m, n, h: n.LpPool(h, "p", kernel=2, stride=2, p=2.0),
    "group_conv": lambda m, n, h: brew.group_conv(m, h, "g", 4, 4, 3, group=2, pad=1),
    "depthwise": lambda m, n, h: brew.conv(m, h, "g", 4, 4, 3, group=4, pad=1),
    "dilated": lambda m, n, h: brew.conv(m, h, "g", 4, 4, 3, dilation=2, pad=2),
    "strided": lambda m, n, h: brew.conv(m, h, "g", 4, 4, [3, 2], stride=2),
    "conv_transpose": lambda m, n, h: brew.conv_transpose(m, h, "g", 4, 4, 3, stride=2, pad=1),
    "no_bias": lambda m, n, h: brew.conv(m, h, "g", 4, 4, 1, no_bias=1),
    "resize_nearest": lambda m, n, h: n.ResizeNearest(h, "u", width_scale=2.0, height_scale=2.0),
    "upsample_bilinear": lambda m, n, h: n.UpsampleBilinear(h, "u", width_scale=2.0, height_scale=2.0),
    "pad_image": lambda m, n, h: n.PadImage(h, "u", pad=1, mode="reflect"),
    "channel_shuffle": lambda m, n, h: n.ChannelShuffle(h, "u", group=2, kernel=1),
    "nhwc": lambda m, n, h: n.NHWC2NCHW(n.Softmax(n.NCHW2NHWC(h, "last"), "s", axis=3), "first"),
    "concat": lambda m, n, h: n.Slice(
        n.Concat([h, h], ["c", "_"], axis=1)[0], "s", starts=[0, 2, 0, 0], ends=[-1, 6, -1, -1]
    ),
    "split": lambda m, n, h: n.Sum(n.Split(h, ["left", "right"], axis=2), "s"),
    "tile": lambda m, n, h: n.Tile(h, "t", tiles=2, axis=2),
    "transpose": lambda m, n, h: n.Transpose(h, "t", axes=[0, 1, 3, 2]),
    "reshape": lambda m, n, h: n.Reshape(h, ["t", "_"], shape=[0, 4, 6, 24])[0],
    "squeeze": lambda m, n, h: n.Squeeze(n.ExpandDims(h, "e", dims=[0]), "t", dims=[0]),
    "reduce_mean": lambda m, n, h: n.ReduceMean(h, "t", axes=[2], keepdims=1),
    "reduce_max": lambda m, n, h: n.ReduceMax(h, "t", axes=[2], keepdims=1),
    "reduce_l2": lambda m, n, h: n.ReduceL2(h, "t", axes=[2], keepdims=1),
    "residual": lambda m, n, h: brew.sum(m, [h, brew.conv(m, h, "c2", 4, 4, 3, pad=1)], "t"),
    "gate": lambda m, n, h: n.Mul([h, n.Sigmoid(h, "g")], "t"),
    "add_channel": lambda m, n, h: n.Add([h, "channel"], "t", broadcast=1, axis=1),
    "space_to_batch": lambda m, n, h: n.BatchToSpace(n.SpaceToBatch(h, "s", block_size=2), "t", block_size=2),
}


def scores(measure):
    """x, fully connected, the loss of each row, their mean."""

    def build(model):
        return model.net.AveragedLoss(measure(model.net, brew.fc(model, "x", "f1", 8, 5)), "loss")

    return build


LOSSES = {
    "label_cross_entropy": lambda n, h: n.LabelCrossEntropy([n.Softmax(h, "s"), "label"], "l"),
    "cross_entropy": lambda n, h: n.CrossEntropy([n.Softmax(h, "s"), "target"], "l"),
    "squared_l2": lambda n, h: n.SquaredL2Distance([h, "target"], "l"),
    "l1": lambda n, h: n.L1Distance([h, "target"], "l"),
    "sigmoid_cross_entropy": lambda n, h: n.SigmoidCrossEntropyWithLogits([h, "zero_or_one"], "l"),
    "weighted_sigmoid": lambda n, h: n.WeightedSigmoidCrossEntropyWithLogits([h, "zero_or_one", "target"], "l"),
    "cosine": lambda n, h: n.CosineSimilarity([h, "target"], "l"),
    "dot": lambda n, h: n.DotProduct([h, "target"], "l"),
    "weighted_softmax": lambda n, h: n.SoftmaxWithLoss([h, "label", "weights"], ["s", "l"])[1],
    "label_prob": lambda n, h: n.SoftmaxWithLoss([h, "target"], ["s", "l"], label_prob=1)[1],
    "jsd": lambda n, h: n.BernoulliJSD([n.Sigmoid(h, "s"), "target"], "l"),
    "margin_ranking": lambda n, h: n.MarginRankingCriterion([n.Sum([h, h], "h2"), "target", "signs"], "l", margin=0.3),
    "cosine_embedding": lambda n, h: n.CosineEmbeddingCriterion(
        [n.CosineSimilarity([h, "target"], "c"), "sign"], "l", margin=0.1
    ),
    "two_classes": lambda n, h: n.CrossEntropy(
        [n.MakeTwoClass(n.Sigmoid(n.Slice(h, "first", starts=[0, 0], ends=[-1, 1]), "s"), "c"), "two"], "l"
    ),
}

OPTIMIZERS = {
    "sgd": sgd,
    "momentum": momentum,
    "nesterov": lambda m: sgd(m, momentum=0.9, nesterov=1),
    "lars": lambda m: sgd(m, lars=0.5),
    "step": lambda m: sgd(m, policy="step", stepsize=1, gamma=0.5),
    "inv": lambda m: sgd(m, policy="inv", gamma=0.1, power=0.75),
    "exp": lambda m: sgd(m, policy="exp", gamma=0.9),
    "poly": lambda m: sgd(m, policy="poly", power=2.0, max_iter=10),
    "linear_warmup": lambda m: sgd(m, policy="linearWarmup", start_multiplier=0.1, num_iter=3),
    "constant_warmup": lambda m: sgd(m, policy="constantWarmup", num_iter=2, multiplier=0.3),
    "hill": lambda m: sgd(m, policy="hill", num_iter=2, start_multiplier=0.1, gamma=0.9, power=1.0, end_multiplier=0.1),
    "slope": lambda m: sgd(m, policy="slope", num_iter_1=1, multiplier_1=0.5, num_iter_2=3, multiplier_2=0.1),
    "cyclical": lambda m: sgd(m, policy="cyclical", stepsize=2, max_lr=0.5),
    "cosine": lambda m: sgd(m, policy="cosine", max_lr=0.1, min_lr=0.01, period=4, t_mult=1.0, lr_shrink=0.9),
    "alter": lambda m: sgd(m, policy="alter", active_period=1, inactive_period=1, active_first=True),
    "multi_precision": lambda m: optimizer.build_multi_precision_sgd(m, 0.1),
    "adagrad": lambda m: optimizer.build_adagrad(m, 0.1),
    "decay_adagrad": lambda m: optimizer.build_adagrad(m, 0.1, decay=0.9),
    "adam": lambda m: optimizer.build_adam(m, 0.01),
    "radam": lambda m: optimizer.build_adam(m, 0.01, enableRAdam=True),
    "rms_prop": lambda m: optimizer.build_rms_prop(m, 0.01),
    "adadelta": lambda m: optimizer.build_adadelta(m, 0.1),
    "wngrad": lambda m: optimizer.build_wngrad(m, 0.1),
    "storm": lambda m: optimizer.build_storm(m, 0.1),
    "yellowfin": lambda m: optimizer.build_yellowfin(m),
    "ftrl": lambda m: optimizer.build_ftrl(m, engine="", lambda1=0.01, lambda2=0.01),
    "gftrl": lambda m: optimizer.build_gftrl(m, engine="", lambda1=0.01, lambda2=0.01),
    "weight_decay": lambda m: (optimizer.add_weight_decay(m, 0.01), sgd(m)),
}
SPARSE = [
    "sgd", "momentum", "nesterov", "step", "adagrad", "adam", "radam", "adadelta", "wngrad", "storm", "ftrl", "cosine",
]  # fmt: skip


def lookup(pool):
    """Rows of a table, pooled, fully connected, softmax."""

    def build(model):
        table = model.param_init_net.XavierFill([], "table", shape=[20, 8])
        model.params.append(table)
        return softmax_loss(model, brew.fc(model, pool(model.net, table), "f2", 8, 5))

    return build


LOOKUPS = {
    "mean": lambda n, t: n.SparseLengthsMean([t, "indices", "lengths"], "pooled"),
    "weighted": lambda n, t: n.SparseLengthsWeightedSum([t, "lookup_weights", "indices", "lengths"], "pooled"),
    "gather": lambda n, t: n.Gather([t, "row"], "pooled"),
}


def recurrent(layer):
    """A sequence, the recurrent layer, each step fully connected, softmax."""

    def build(model):
        rows = model.net.Reshape(layer(model), ["rows", "_"], shape=[-1, 6])[0]
        return softmax_loss(model, brew.fc(model, rows, "f2", 6, 5), "label15")

    return build


def _lstm(kind, **options):
    return lambda m: kind(m, "sequence", "steps", ("h0", "c0"), 4, 6, "cell", **options)[0]


def _attention(kind):
    def layer(model):
        made = rnn_cell.LSTMWithAttention(
            model,
            "sequence",
            "steps",
            "h0",
            "c0",
            "context0",
            encoder_output_dim=6,
            encoder_outputs="encoded",
            encoder_lengths="encoded_steps",
            decoder_input_dim=4,
            decoder_state_dim=6,
            scope="cell",
            attention_type=kind,
        )
        return model.net.Sum([made[0], made[4]], "both")

    return layer


def conditional_field(model):
    field = crf.CRFWithLoss(model, 5)
    return model.net.AveragedLoss(field.crf_loss(brew.fc(model, "x", "f1", 8, 5), "label"), "loss")


RECURRENT = {
    "lstm": _lstm(rnn_cell.LSTM),
    "lstm_memory": _lstm(rnn_cell.LSTM, memory_optimization=True, forget_bias=0.5),
    "lstm_drop": _lstm(rnn_cell.LSTM, drop_states=True),
    "mi_lstm": _lstm(rnn_cell.MILSTM),
    "layer_norm_lstm": _lstm(rnn_cell.LayerNormLSTM),
    "two_layers": lambda m: rnn_cell.LSTM(m, "sequence", "steps", None, 4, [6, 6], "cell")[0],
    "attention": _attention(rnn_cell.AttentionType.Regular),
    "attention_recurrent": _attention(rnn_cell.AttentionType.Recurrent),
    "attention_dot": _attention(rnn_cell.AttentionType.Dot),
    "attention_coverage": _attention(rnn_cell.AttentionType.SoftCoverage),
    "gru": lambda m: gru_cell.GRU(m, "sequence", "steps", ("h0",), 4, 6, "cell")[0],
}

NETS = {
    **{f"dense/{name}": (dense(layer), momentum, 3) for name, layer in DENSE.items()},
    **{f"image/{name}": (image(layer), momentum, 3) for name, layer in IMAGE.items()},
    **{f"loss/{name}": (scores(measure), sgd, 3) for name, measure in LOSSES.items()},
    **{f"optimizer/{name}": (dense(DENSE["tanh"]), build, 6) for name, build in OPTIMIZERS.items()},
    **{
        f"sparse/{name}": (
            lookup(lambda n, t: n.SparseLengthsSum([t, "indices", "lengths"], "pooled")),
            OPTIMIZERS[name],
            4,
        )
        for name in SPARSE
    },
    **{f"lookup/{name}": (lookup(pool), OPTIMIZERS["adagrad"], 3) for name, pool in LOOKUPS.items()},
    **{f"recurrent/{name}": (recurrent(layer), sgd, 4) for name, layer in RECURRENT.items()},
    "field": (conditional_field, sgd, 3),
}


CPU = core.DeviceOption(caffe2_pb2.CPU)


def train(name, device=CPU):
    """{blob: array}: the losses of each step, and the parameters after the last."""
    build, optimize, steps = NETS[name]
    workspace.ResetWorkspace()
    for blob, value in FEEDS.items():
        workspace.FeedBlob(blob, value, device)
    with core.DeviceScope(device):
        model = model_helper.ModelHelper(name=name.replace("/", "_"), arg_scope={"order": "NCHW"})
        model.AddGradientOperators([build(model)])
        optimize(model)
    workspace.RunNetOnce(model.param_init_net)
    for param in map(str, model.params):
        if workspace.FetchBlob(param).dtype == np.float32:
            workspace.FeedBlob(param, values_of(param, workspace.FetchBlob(param).shape), device)
    workspace.CreateNet(model.net)
    losses = []
    for _ in range(steps):
        workspace.RunNet(model.net)
        losses.append(workspace.FetchBlob("loss").sum())
    return {"loss": np.array(losses, "f"), **{p: workspace.FetchBlob(p) for p in map(str, model.params)}}


if __name__ == "__main__":
    np.savez_compressed(sys.argv[1], **{f"{net}|{blob}": value for net in NETS for blob, value in train(net).items()})
