"""Times of the convnets of Soumith Chintala's convnet-benchmarks, and of a wide MLP.

python -m caffe2.python.convnet_benchmarks --batch_size 8 --model AlexNet --cpu
"""

from __future__ import annotations

import argparse
import sys

from caffe2lite.python import brew, cnn, core, workspace
from caffe2lite.python.cnn import CNNModelHelper

# (layer, …): a convolution is (name, in, out, kernel, further arguments), a pool (name, kernel, stride, pad)
_ALEXNET = [
    ("conv1", 3, 64, 11, {"stride": 4, "pad": 2}), ("pool1", 3, 2, 0), ("conv2", 64, 192, 5, {"pad": 2}),
    ("pool2", 3, 2, 0), ("conv3", 192, 384, 3, {"pad": 1}), ("conv4", 384, 256, 3, {"pad": 1}),
    ("conv5", 256, 256, 3, {"pad": 1}), ("pool5", 3, 2, 0),
]  # fmt: skip
_OVERFEAT = [
    ("conv1", 3, 96, 11, {"stride": 4}), ("pool1", 2, 2, 0), ("conv2", 96, 256, 5, {}), ("pool2", 2, 2, 0),
    ("conv3", 256, 512, 3, {"pad": 1}), ("conv4", 512, 1024, 3, {"pad": 1}), ("conv5", 1024, 1024, 3, {"pad": 1}),
    ("pool5", 2, 2, 0),
]  # fmt: skip
_VGGA = [
    ("conv1", 3, 64, 3, {"pad": 1}), ("pool1", 2, 2, 0), ("conv2", 64, 128, 3, {"pad": 1}), ("pool2", 2, 2, 0),
    ("conv3", 128, 256, 3, {"pad": 1}), ("conv4", 256, 256, 3, {"pad": 1}), ("pool4", 2, 2, 0),
    ("conv5", 256, 512, 3, {"pad": 1}), ("conv6", 512, 512, 3, {"pad": 1}), ("pool6", 2, 2, 0),
    ("conv7", 512, 512, 3, {"pad": 1}), ("conv8", 512, 512, 3, {"pad": 1}), ("pool8", 2, 2, 0),
]  # fmt: skip


def _helper(name, order, cudnn_ws):
    return cnn.CNNModelHelper(order, name=name, use_cudnn=True, cudnn_exhaustive_search=True, ws_nbytes_limit=cudnn_ws)


def _layers(model, layers, blob="data"):
    """Convolutions, each followed by a Relu, and pools, one after the other; the name of the last blob."""
    xavier, zero = ("XavierFill", {}), ("ConstantFill", {})
    for name, *rest in layers:
        if isinstance(rest[-1], dict):
            dim_in, dim_out, kernel, more = rest
            blob = model.Relu(model.Conv(blob, name, dim_in, dim_out, kernel, xavier, zero, **more), name)
        else:
            kernel, stride, pad = rest
            blob = model.MaxPool(blob, name, kernel=kernel, stride=stride, **({"pad": pad} if pad else {}))
    return blob


def _classifier(model, blob, layers):
    """Fully connected layers with Relus between them, the softmax and the loss."""
    for i, (name, dim_in, dim_out) in enumerate(layers):
        blob = model.FC(blob, name, dim_in, dim_out, ("XavierFill", {}), ("ConstantFill", {}))
        if i < len(layers) - 1:
            blob = model.Relu(blob, name)
    model.AveragedLoss(model.LabelCrossEntropy([model.Softmax(blob, "pred"), "label"], "xent"), "loss")


def AlexNet(order, cudnn_ws):
    """Return (model, size of its images)."""
    model = _helper("alexnet", order, cudnn_ws)
    _classifier(model, _layers(model, _ALEXNET), [("fc6", 9216, 4096), ("fc7", 4096, 4096), ("fc8", 4096, 1000)])
    return model, 224


def OverFeat(order, cudnn_ws):
    """Return (model, size of its images)."""
    model = _helper("overfeat", order, cudnn_ws)
    _classifier(model, _layers(model, _OVERFEAT), [("fc6", 36864, 3072), ("fc7", 3072, 4096), ("fc8", 4096, 1000)])
    return model, 231


def VGGA(order, cudnn_ws):
    """Return (model, size of its images)."""
    model = _helper("vgga", order, cudnn_ws)
    _classifier(model, _layers(model, _VGGA), [("fcix", 25088, 4096), ("fcx", 4096, 4096), ("fcxi", 4096, 1000)])
    return model, 231


def _InceptionModule(model, input_blob, input_depth, output_name, conv1_depth, conv3_depths, conv5_depths, pool_depth):
    """Add convolutions of 1, 3 and 5 pixels and a pool, side by side."""

    def conv(blob, name, dim_in, dim_out, kernel):
        more = {"pad": kernel // 2} if kernel > 1 else {}
        return _layers(model, [(f"{output_name}:{name}", dim_in, dim_out, kernel, more)], blob)

    one = conv(input_blob, "conv1", input_depth, conv1_depth, 1)
    three = conv(conv(input_blob, "conv3_reduce", input_depth, conv3_depths[0], 1), "conv3", *conv3_depths, 3)
    five = conv(conv(input_blob, "conv5_reduce", input_depth, conv5_depths[0], 1), "conv5", *conv5_depths, 5)
    pool = model.MaxPool(input_blob, f"{output_name}:pool", kernel=3, stride=1, pad=1)
    return model.Concat([one, three, five, conv(pool, "pool_proj", input_depth, pool_depth, 1)], output_name)


def Inception(order, cudnn_ws):
    """Return (model, size of its images)."""
    model = _helper("inception", order, cudnn_ws)
    blob = _layers(
        model,
        [
            ("conv1", 3, 64, 7, {"stride": 2, "pad": 3}),
            ("pool1", 3, 2, 1),
            ("conv2a", 64, 64, 1, {}),
            ("conv2", 64, 192, 3, {"pad": 1}),
            ("pool2", 3, 2, 1),
        ],
    )
    for name, *depths in (
        ("inc3", 192, 64, [96, 128], [16, 32], 32),
        ("inc4", 256, 128, [128, 192], [32, 96], 64),
        ("pool5",),
        ("inc5", 480, 192, [96, 208], [16, 48], 64),
        ("inc6", 512, 160, [112, 224], [24, 64], 64),
        ("inc7", 512, 128, [128, 256], [24, 64], 64),
        ("inc8", 512, 112, [144, 288], [32, 64], 64),
        ("inc9", 528, 256, [160, 320], [32, 128], 128),
        ("pool9",),
        ("inc10", 832, 256, [160, 320], [32, 128], 128),
        ("inc11", 832, 384, [192, 384], [48, 128], 128),
    ):
        if depths:
            blob = _InceptionModule(model, blob, depths[0], name, *depths[1:])
        else:
            blob = model.MaxPool(blob, name, kernel=3, stride=2, pad=1)
    blob = model.AveragePool(blob, "pool11", kernel=7, stride=1)
    _classifier(model, blob, [("fc", 1024, 1000)])
    return model, 224


def MLP(order, cudnn_ws):
    """Return (model, size of its input): three stacks of twenty layers, side by side."""
    model = CNNModelHelper(order, name="MLP")
    size, depth, width = 256, 20, 3
    fill = ("XavierFill", {})
    ends = []
    for i in range(1, depth + 1):
        for j in range(width):
            before = "data" if i == 1 else f"fc_{i - 1}_{j}"
            blob = model.FC(before, f"fc_{i}_{j}", size, size, fill, fill)
            if i == depth:
                ends.append(blob)
    last = model.FC(model.Sum(ends, "sum"), "last", size, 1000, fill, fill)
    model.AveragedLoss(model.net.LabelCrossEntropy([last, "label"], "xent"), "loss")
    return model, size


def AddParameterUpdate(model):
    """Plain gradient descent by a tiny rate: the time counts, not the model."""
    iteration = brew.iter(model, "iter")
    rate = model.LearningRate(iteration, "LR", base_lr=-1e-8, policy="step", stepsize=10000, gamma=0.999)
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    for parameter in model.params:
        model.WeightedSum([parameter, one, model.param_to_grad[parameter], rate], parameter)


def Benchmark(model_gen, arg):
    """Return the milliseconds of a run of a model that `model_gen(order, cudnn_ws)` builds; prints them too."""
    model, size = model_gen(arg.order, arg.cudnn_ws)
    model.Proto().type, model.Proto().num_workers = arg.net_type, arg.num_workers
    channels = [3, size, size] if arg.order == "NCHW" else [size, size, 3]
    shape = [arg.batch_size, size] if arg.model == "MLP" else [arg.batch_size, *channels]
    model.param_init_net.GaussianFill([], "data", shape=shape, mean=0.0, std=1.0)
    model.param_init_net.UniformIntFill([], "label", shape=[arg.batch_size], min=0, max=999)
    if arg.forward_only:
        print(f"{arg.model}: running forward only.")
    else:
        print(f"{arg.model}: running forward-backward.")
        model.AddGradientOperators(["loss"])
        AddParameterUpdate(model)
    if not arg.cpu:
        for net in (model.param_init_net, model.net):
            net.RunAllOnGPU()
    if arg.engine:
        for op in model.net.Proto().op:
            op.engine = arg.engine
    if arg.dump_model:
        for net, suffix in ((model.param_init_net, "init_batch"), (model.net, "batch")):
            with open(f"{arg.model}_{suffix}_{arg.batch_size}.pbtxt", "w") as f:
                f.write(str(net.Proto()))
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    times = workspace.BenchmarkNet(
        model.net.Proto().name, arg.warmup_iterations, arg.iterations, arg.layer_wise_benchmark
    )
    print(f"{arg.model}: {times[0]:.2f} ms a run")
    return times[0]


def GetArgumentParser():
    """Return the command line."""
    parser = argparse.ArgumentParser(description="Times the nets that ImageNet was won with.")
    add = parser.add_argument
    add("--batch_size", type=int, default=128, help="images a batch")
    add("--model", help="AlexNet, OverFeat, VGGA, Inception, MLP or Resnet50")
    add("--order", default="NCHW", help="NCHW or NHWC")
    add("--cudnn_ws", type=int, help="most bytes of scratch memory for cuDNN")
    add("--iterations", type=int, default=10, help="runs that are timed")
    add("--warmup_iterations", type=int, default=10, help="runs before these")
    add("--forward_only", action="store_true", help="time the forward pass alone")
    add("--layer_wise_benchmark", action="store_true", help="time each operator too")
    add("--cpu", action="store_true", help="run on the CPU, not on GPU 0")
    add("--engine", default="", help="the engine of every operator")
    add("--dump_model", action="store_true", help="write the nets as text")
    add("--net_type", default="simple")
    add("--num_workers", type=int, default=2)
    add("--use-nvtx", action="store_true", default=False)
    add("--htrace_span_log_path")
    return parser


def main(argv=None):
    """Run the benchmark that the command line names."""
    args, extra = GetArgumentParser().parse_known_args(argv)
    models = {"AlexNet": AlexNet, "OverFeat": OverFeat, "VGGA": VGGA, "Inception": Inception, "MLP": MLP}
    if args.model not in models:
        GetArgumentParser().error(f"--model is one of {', '.join(models)}")
    core.GlobalInit(["caffe2", "--caffe2_log_level=0", *extra])
    Benchmark(models[args.model], args)


if __name__ == "__main__":
    sys.exit(main())
