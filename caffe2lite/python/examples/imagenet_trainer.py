"""Trains ResNe(X)t or ShuffleNet on images, on several devices and machines.

    python -m caffe2.python.examples.imagenet_trainer --train_data train.lmdb --num_gpus 4
    python -m caffe2.python.examples.imagenet_trainer --train_data null --use_cpu --num_epochs 1 --epoch_size 64

Each record of the database holds an encoded image and an int32 label (TensorProtos).  Shards find each other by
Redis (--redis_host) or by a shared folder (--file_store_path), under one --run_id.
"""

from __future__ import annotations

import argparse
import functools
import logging
import time

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import brew, core, data_parallel_model, optimizer, timeout_guard, workspace
from caffe2lite.python import experiment_util as experiments
from caffe2lite.python.model_helper import ModelHelper
from caffe2lite.python.models import resnet, shufflenet
from caffe2lite.python.predictor import predictor_exporter, predictor_py_utils
from caffe2lite.python.predictor_constants import predictor_constants

log = logging.getLogger("ImageNet_trainer")
log.setLevel(logging.DEBUG)


def AddImageInput(model, reader, batch_size, img_size, dtype, is_test, mean_per_channel=None, std_per_channel=None):
    """Read encoded images: cropped (at random in training, and mirrored), normalized."""
    data, _label = brew.image_input(
        model,
        [reader],
        ["data", "label"],
        batch_size=batch_size,
        output_type=dtype,
        use_gpu_transform=False,
        use_caffe_datum=False,
        mean_per_channel=mean_per_channel or [128.0, 128.0, 128.0],
        std_per_channel=std_per_channel or [128.0, 128.0, 128.0],
        scale=256,
        crop=img_size,
        mirror=1,
        is_test=is_test,
    )
    model.StopGradient(data, data)


def AddNullInput(model, reader, batch_size, img_size, dtype):
    """Random images, to measure without data."""
    suffix = "_fp16" if dtype == "float16" else ""
    model.param_init_net.GaussianFill([], ["data" + suffix], shape=[batch_size, 3, img_size, img_size])
    if suffix:
        model.param_init_net.FloatToHalf("data" + suffix, "data")
    model.param_init_net.ConstantFill([], ["label"], shape=[batch_size], value=1, dtype=core.DataType.INT32)


def SaveModel(args, train_model, epoch, use_ideep=False):
    """Export the net of the first device with its parameters, to NAME_EPOCH.mdl (minidb)."""
    prefix = f"{train_model._device_prefix}_{train_model._devices[0]}"
    fed = {f"{prefix}/{name}" for name in ("data", "data_fp16", "label")}  # simulated data is made by the init net
    parameters = [p for p in data_parallel_model.GetCheckpointParams(train_model) if str(p) not in fed]
    meta = predictor_exporter.PredictorExportMeta(
        predict_net=train_model.net.Proto(),
        parameters=parameters,
        inputs=[f"{prefix}/data"],
        outputs=[f"{prefix}/softmax"],
        shapes={
            f"{prefix}/softmax": (1, args.num_labels),
            f"{prefix}/data": (args.num_channels, *[args.image_size] * 2),
        },
    )
    predictor_exporter.save_to_db(
        db_type="minidb", db_destination=f"{args.save_model_name}_{epoch}.mdl", predictor_export_meta=meta
    )


def LoadModel(path, model, use_ideep=False):
    """Load parameters and iteration of a saved model, onto every device."""
    log.info("Loading path: %s", path)
    meta = predictor_exporter.load_from_db(path, "minidb")
    net = core.Net(predictor_py_utils.GetNet(meta, predictor_constants.GLOBAL_INIT_NET_TYPE))
    if model._device_type == caffe2_pb2.CPU:
        net.Proto().device_option.Clear()
        for op in net.Proto().op:
            op.device_option.Clear()
    else:
        net.RunAllOnGPU()
    workspace.RunNetOnce(net)
    iteration = workspace.FetchBlob("optimizer_iteration") if workspace.HasBlob("optimizer_iteration") else None
    if iteration is not None:  # it counts on the CPU, whatever the nets above say
        with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
            workspace.FeedBlob("optimizer_iteration", iteration)


def RunEpoch(args, epoch, train_model, test_model, total_batch_size, num_shards, expname, explog):
    """Return one pass over the training images, then over the test images; the number of the next epoch."""
    iterations = max(1, args.epoch_size // total_batch_size // num_shards)
    prefix = f"{train_model._device_prefix}_{train_model._devices[0]}"
    for i in range(iterations):
        limit = args.first_iter_timeout if epoch == 0 and i == 0 else args.timeout
        with timeout_guard.CompleteInTimeOrDie(limit):
            start = time.perf_counter()
            workspace.RunNet(train_model.net.Proto().name)
            took = time.perf_counter() - start
        log.info(
            "Finished iteration %d/%d of epoch %d (%.2f images/sec)", i + 1, iterations, epoch, total_batch_size / took
        )
        accuracy, loss = (float(workspace.FetchBlob(f"{prefix}/{name}")) for name in ("accuracy", "loss"))
        log.info("Training loss: %s, accuracy: %s", loss, accuracy)
    if not np.isfinite(loss):
        raise RuntimeError(f"the loss has become {loss} in epoch {epoch}: try a smaller --base_learning_rate")
    tested = _test(args, test_model, total_batch_size) if test_model is not None else {}
    explog.log(
        input_count=(epoch + 1) * iterations * total_batch_size,
        batch_count=(epoch + 1) * iterations,
        additional_values={
            "accuracy": accuracy,
            "loss": loss,
            "learning_rate": float(workspace.FetchBlob(data_parallel_model.GetLearningRateBlobNames(train_model)[0])),
            "epoch": epoch,
            **tested,
        },
    )
    return epoch + 1


def _test(args, test_model, total_batch_size):
    """Return the columns of the log that come from the test images."""
    sums, count = np.zeros(2), 0
    for _ in range(max(1, args.test_epoch_size // total_batch_size)):
        workspace.RunNet(test_model.net.Proto().name)
        for device in test_model._devices:
            prefix = f"{test_model._device_prefix}_{device}"
            sums += [float(workspace.FetchBlob(f"{prefix}/{name}")) for name in ("accuracy", "accuracy_top5")]
            count += 1
    top1, top5 = sums / count
    return {"top1_test_accuracy": top1, "top5_test_accuracy": top5}


def _rendezvous(args):
    if args.num_shards <= 1:
        return None
    store = "store_handler"
    if args.redis_host is not None:
        op = core.CreateOperator(
            "RedisStoreHandlerCreate", [], [store], host=args.redis_host, port=args.redis_port, prefix=args.run_id
        )
    else:
        op = core.CreateOperator("FileStoreHandlerCreate", [], [store], path=args.file_store_path, prefix=args.run_id)
    workspace.RunOperatorOnce(op)
    return {
        "kv_handler": store,
        "num_shards": args.num_shards,
        "shard_id": args.shard_id,
        "engine": "GLOO",
        "transport": args.distributed_transport,
        "interface": (args.distributed_interfaces or "").split(",")[0],
        "exit_nets": None,
    }


def _forward_pass(args, model, loss_scale, is_test=False):
    """Add the network with its loss and accuracies; return the scaled loss in a list."""
    with brew.arg_scope([brew.conv, brew.fc], float16_compute=args.float16_compute):
        if args.model == "shufflenet":
            pred = shufflenet.create_shufflenet(
                model, "data", args.num_channels, args.num_labels, no_loss=True, is_test=is_test
            )
        else:
            pred = resnet.create_resnext(
                model,
                "data",
                num_input_channels=args.num_channels,
                num_labels=args.num_labels,
                num_layers=args.num_layers,
                num_groups=args.resnext_num_groups,
                num_width_per_group=args.resnext_width_per_group,
                no_bias=True,
                no_loss=True,
                is_test=is_test,
                final_avg_kernel=max(1, args.image_size // 32),
            )
    if args.dtype == "float16":
        pred = model.net.HalfToFloat(pred, pred + "_fp32")
    _softmax, loss = model.SoftmaxWithLoss([pred, "label"], ["softmax", "loss"])
    scaled = model.Scale(loss, scale=loss_scale)
    brew.accuracy(model, ["softmax", "label"], "accuracy", top_k=1)
    brew.accuracy(model, ["softmax", "label"], "accuracy_top5", top_k=min(5, args.num_labels))
    return [scaled]


def _add_optimizer(args, model):
    step = max(1, 30 * args.epoch_size // args.batch_size // args.num_shards)
    optimizer.add_weight_decay(model, args.weight_decay)
    return optimizer.build_multi_precision_sgd(
        model, args.base_learning_rate, momentum=0.9, nesterov=1, policy="step", stepsize=step, gamma=0.1
    )


def _input_builder(args, path, model, batch_size, is_test):
    """Return the function that adds the images of a database, or random ones, to a model."""
    common = {"batch_size": batch_size, "img_size": args.image_size, "dtype": args.dtype}
    if path == "null":
        return functools.partial(AddNullInput, reader=None, **common)
    reader = model.CreateDB(
        "test_reader" if is_test else "reader",
        db=path,
        db_type=args.db_type,
        num_shards=args.num_shards,
        shard_id=args.shard_id,
    )
    return functools.partial(
        AddImageInput,
        reader=reader,
        is_test=is_test,
        mean_per_channel=args.image_mean_per_channel,
        std_per_channel=args.image_std_per_channel,
        **common,
    )


def _train_model(args, batch_per_device, **where):
    """Build the model that trains, and create its nets."""
    model = ModelHelper(
        name=args.model,
        arg_scope={
            "order": "NCHW",
            "use_cudnn": True,
            "cudnn_exhaustive_search": True,
            "ws_nbytes_limit": args.cudnn_workspace_limit_mb * 1024 * 1024,
        },
    )
    data_parallel_model.Parallelize(
        model,
        rendezvous=_rendezvous(args),
        input_builder_fun=_input_builder(args, args.train_data, model, batch_per_device, is_test=False),
        forward_pass_builder_fun=functools.partial(_forward_pass, args),
        optimizer_builder_fun=functools.partial(_add_optimizer, args),
        use_nccl=args.use_nccl,
        **where,
    )
    data_parallel_model.OptimizeGradientMemory(model, {}, set(), False)
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    return model


def _test_model(args, batch_per_device, **where):
    """Build the model that tests with the parameters of the one that trains; None without test images."""
    if args.test_data is None:
        return None
    model = ModelHelper(name=args.model + "_test", arg_scope={"order": "NCHW", "use_cudnn": True}, init_params=False)
    data_parallel_model.Parallelize(
        model,
        input_builder_fun=_input_builder(args, args.test_data, model, batch_per_device, is_test=True),
        forward_pass_builder_fun=functools.partial(_forward_pass, args, is_test=True),
        param_update_builder_fun=None,
        **where,
    )
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    return model


def Train(args):
    """Train as the command line says."""
    devices = [int(g) for g in args.gpus.split(",")] if args.gpus else list(range(args.num_gpus))
    if args.use_ideep:
        log.info("IDEEP operators are computed on the CPU")
    if args.batch_size % len(devices):
        raise ValueError(f"a batch of {args.batch_size} images cannot be divided among {len(devices)} devices")
    where = {"devices": devices, "cpu_device": args.use_cpu, "shared_model": args.use_cpu and len(devices) > 1}
    train_model = _train_model(args, args.batch_size // len(devices), **where)
    test_model = _test_model(args, args.batch_size // len(devices), **where)

    epoch = 0
    if args.load_model_path is not None:
        LoadModel(args.load_model_path, train_model)
        data_parallel_model.FinalizeAfterCheckpoint(train_model, cpu_mode=args.use_cpu)
        stem = args.load_model_path.rsplit(".", 1)[0].rsplit("_", 1)[-1]
        epoch = int(stem) if stem.isdigit() else 0
        log.info("Loaded model at epoch %d", epoch)
    name = f"{args.model}_gpu{len(devices)}_b{args.batch_size}_L{args.num_labels}_lr{args.base_learning_rate:.2f}_v2"
    explog = experiments.ModelTrainerLog(name, args)
    while epoch < args.num_epochs:
        epoch = RunEpoch(args, epoch, train_model, test_model, args.batch_size, args.num_shards, name, explog)
        SaveModel(args, train_model, epoch)
        log.info("Saved %s_%d.mdl", args.save_model_name, epoch)


def parser():
    """Return the command line."""
    p = argparse.ArgumentParser(description="Trains ResNet, ResNeXt or ShuffleNet, on any number of GPUs and machines.")
    add = p.add_argument
    add("--train_data", required=True, help="database of images, or 'null' for random ones")
    add("--num_layers", type=int, default=50, help="layers: 18 to 152")
    add("--resnext_num_groups", type=int, default=1, help="groups of a ResNeXt block; 1 is ResNet")
    add("--resnext_width_per_group", type=int, default=64, help="channels of a group in the first stage")
    add("--test_data", help="database to test on after each epoch, or 'null'")
    add("--image_mean_per_channel", type=float, nargs="+", help="mean of each channel, subtracted")
    add("--image_std_per_channel", type=float, nargs="+", help="standard deviation of each channel, divided by")
    add("--test_epoch_size", type=int, default=50000, help="images of a test")
    add("--db_type", default="lmdb", help="kind of both databases: lmdb or minidb")
    add("--gpus", help="ids of the GPUs, as in 0,1,2")
    add("--num_gpus", type=int, default=1, help="the first so many GPUs; --gpus names others")
    add("--num_channels", type=int, default=3, help="channels of an image")
    add("--image_size", type=int, default=224, help="side of the crop in pixels")
    add("--num_labels", type=int, default=1000, help="classes")
    add("--batch_size", type=int, default=32, help="images a step, over the GPUs of a machine")
    add("--epoch_size", type=int, default=1500000, help="images an epoch, over all machines")
    add("--num_epochs", type=int, default=1000, help="epochs")
    add("--base_learning_rate", type=float, default=0.1, help="learning rate of the first epochs")
    add("--weight_decay", type=float, default=1e-4, help="factor of the L2 penalty")
    add("--cudnn_workspace_limit_mb", type=int, default=64, help="most MiB of scratch memory for cuDNN")
    add("--num_shards", type=int, default=1, help="machines")
    add("--shard_id", type=int, default=0, help="which of them this is, from 0")
    add("--run_id", default="run", help="name of the run: machines with the same meet")
    add("--redis_host", help="Redis server where the machines meet")
    add("--redis_port", type=int, default=6379, help="its port")
    add("--file_store_path", default="/tmp", help="shared folder where they meet without Redis")
    add("--save_model_name", default="resnext_model", help="checkpoints are NAME_EPOCH.mdl")
    add("--load_model_path", help="checkpoint to go on from")
    add("--use_cpu", action="store_true", help="train on the CPU")
    add("--use_nccl", action="store_true", help="sum gradients by NCCL")
    add("--use_ideep", type=bool, default=False, help="accepted; there is no IDEEP here")
    add("--dtype", default="float", choices=["float", "float16"], help="of activations and parameters")
    add("--float16_compute", action="store_true", help="halves in convolutions' sums too")
    add("--enable_tensor_core", action="store_true", help="Accepted; cuBLAS decides")
    add("--distributed_transport", default="tcp", help="tcp or ibverbs")
    add("--distributed_interfaces", default="", help="network interfaces, separated by commas")
    add("--first_iter_timeout", type=int, default=1200, help="seconds the first iteration may take")
    add("--timeout", type=int, default=60, help="seconds each later one may take")
    add("--model", default="resnext", const="resnext", nargs="?", choices=["shufflenet", "resnext"], help="the net")
    return p


def main(argv=None):
    """Parse the command line and train."""
    logging.basicConfig(format="%(message)s")
    Train(parser().parse_args(argv))


if __name__ == "__main__":
    workspace.GlobalInit(["caffe2", "--caffe2_log_level=2"])
    main()
