"""A data-parallel training script as people wrote them for Caffe2: it imports nothing but caffe2 and NumPy.

    python digits.py --gpus 4 --epochs 6 --save OUT            train from scratch, then save a checkpoint
    python digits.py --gpus 4 --epochs 6 --load OUT            a fresh process goes on from the checkpoint
    mpirun -n 2 python digits.py --gpus 2 --load OUT           the same on two shards
    python digits.py --shards 2 --shard 0 --store DIR …        and without a launcher, each shard started by hand

Without GPUs: CAFFE2LITE_EMULATED_GPUS=4.
"""

import argparse
import gzip
import os

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, data_parallel_model, model_helper, optimizer, workspace

BATCH = 32  # a device
HERE = os.path.dirname(os.path.abspath(__file__))


def digits():
    """(training images, labels, test images, labels): images (n, 1, 8, 8) in 0 to 1."""
    with gzip.open(os.path.join(HERE, "data", "digits.csv.gz"), "rt") as f:
        table = np.loadtxt(f, delimiter=",", dtype=np.float32)
    images, labels = table[:, :64].reshape(-1, 1, 8, 8) / 16, table[:, 64].astype(np.int32)
    order = np.random.RandomState(0).permutation(len(images))
    train, test = order[:1440], order[1440:]
    return images[train], labels[train], images[test], labels[test]


def network(model, data):
    """Two convolutions and two fully connected layers."""
    h = brew.relu(model, brew.conv(model, data, "conv1", dim_in=1, dim_out=16, kernel=3, pad=1), "relu1")
    h = brew.max_pool(model, h, "pool1", kernel=2, stride=2)
    h = brew.relu(model, brew.conv(model, h, "conv2", dim_in=16, dim_out=32, kernel=3, pad=1), "relu2")
    h = brew.max_pool(model, h, "pool2", kernel=2, stride=2)
    h = brew.relu(model, brew.fc(model, h, "fc3", dim_in=32 * 2 * 2, dim_out=64), "relu3")
    return brew.fc(model, h, "fc4", dim_in=64, dim_out=10)


def build(gpus, rendezvous):
    """The data-parallel training model."""

    def add_input(model):
        pass  # the loop below feeds gpu_0/data, gpu_0/label, …

    def add_network(model, loss_scale):
        _softmax, loss = model.net.SoftmaxWithLoss([network(model, "data"), "label"], ["softmax", "loss"])
        return [model.Scale(loss, "scaled_loss", scale=loss_scale)]

    def add_optimizer(model):
        optimizer.build_sgd(model, base_learning_rate=0.05, momentum=0.9, nesterov=1, policy="fixed")

    model = model_helper.ModelHelper(name="digits", arg_scope={"order": "NCHW"})
    data_parallel_model.Parallelize_GPU(
        model,
        input_builder_fun=add_input,
        forward_pass_builder_fun=add_network,
        optimizer_builder_fun=add_optimizer,
        devices=list(range(gpus)),
        rendezvous=rendezvous,
    )
    return model


def feed(gpu, images, labels):
    """A batch to one GPU."""
    option = core.DeviceOption(caffe2_pb2.CUDA, gpu)
    workspace.FeedBlob(f"gpu_{gpu}/data", images, option)
    workspace.FeedBlob(f"gpu_{gpu}/label", labels, option)


def accuracy(images, labels):
    """Share of test images that the model on the first GPU gets right."""
    with core.NameScope("gpu_0"), core.DeviceScope(core.DeviceOption(caffe2_pb2.CUDA, 0)):
        test = model_helper.ModelHelper(name="digits_test", arg_scope={"order": "NCHW"}, init_params=False)
        network(test, "data")
    feed(0, images, labels)
    workspace.RunNetOnce(test.net)
    return float((workspace.FetchBlob("gpu_0/fc4").argmax(axis=1) == labels).mean())


def checkpoint_blobs(model):
    """Parameters and optimizer state of the first GPU, and the iteration."""
    return sorted(str(b) for b in data_parallel_model.GetCheckpointParams(model))


def same_on_all_devices(model):
    """Whether every parameter holds the same bits on every GPU."""
    for name, blobs in model._device_grouped_blobs.items():
        if name not in [str(p).split("/", 1)[1] for p in model.GetParams("gpu_0/")]:
            continue
        first, *others = [workspace.FetchBlob(b).tobytes() for b in blobs.values()]
        if any(o != first for o in others):
            return False
    return True


def meet(args):
    """The rendezvous dict, None for a single shard."""
    if "PMI_RANK" in os.environ:  # mpirun
        args.shards, args.shard = int(os.environ["PMI_SIZE"]), int(os.environ["PMI_RANK"])
    if args.shards == 1:
        return None
    handler = None
    if args.store:
        handler = "store_handler"
        workspace.RunOperatorOnce(core.CreateOperator("FileStoreHandlerCreate", [], [handler], path=args.store))
    return {
        "kv_handler": handler,
        "num_shards": args.shards,
        "shard_id": args.shard,
        "engine": "GLOO",
        "mpi_rendezvous": handler is None,
        "exit_nets": None,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--save", help="folder for the checkpoint")
    parser.add_argument("--load", help="folder of a checkpoint")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--shard", type=int, default=0)
    parser.add_argument("--store", help="folder in which shards meet")
    args = parser.parse_args()
    if args.gpus > workspace.NumGpuDevices():
        parser.error(f"there are {workspace.NumGpuDevices()} GPUs; CAFFE2LITE_EMULATED_GPUS={args.gpus} imitates them")

    core.GlobalInit(["digits", "--caffe2_log_level=2"])
    train_x, train_y, test_x, test_y = digits()
    model = build(args.gpus, meet(args))
    workspace.RunNetOnce(model.param_init_net)
    for gpu in range(args.gpus):
        feed(gpu, train_x[:BATCH], train_y[:BATCH])
    workspace.CreateNet(model.net)

    if args.load:
        blobs = checkpoint_blobs(model)
        if args.shard == 0:
            load = core.CreateOperator(
                "Load",
                [],
                blobs,
                db=os.path.join(args.load, "digits.minidb"),
                db_type="minidb",
                absolute_path=1,
                keep_device=1,
            )
            workspace.RunOperatorOnce(load)
        data_parallel_model.FinalizeAfterCheckpoint(model)
        print(f"resumed accuracy {accuracy(test_x, test_y):.4f}", flush=True)
        if args.shard == 0:
            with open(os.path.join(args.load, "checkpoint_sync_net.pb"), "wb") as f:
                f.write(model._checkpoint_net.Proto().SerializeToString())

    whole = BATCH * args.gpus * args.shards
    random = np.random.RandomState(1 + bool(args.load))
    for epoch in range(args.epochs):
        order = random.permutation(len(train_x))
        for start in range(0, len(order) - whole + 1, whole):
            for gpu in range(args.gpus):
                begin = start + (args.shard * args.gpus + gpu) * BATCH
                part = order[begin : begin + BATCH]
                feed(gpu, train_x[part], train_y[part])
            workspace.RunNet(model.net.Proto().name)
        loss = np.mean([workspace.FetchBlob(f"gpu_{g}/loss") for g in range(args.gpus)])
        print(f"epoch {epoch + 1}/{args.epochs} loss {loss:.4f}", flush=True)

    if args.save:
        os.makedirs(args.save, exist_ok=True)
        save = core.CreateOperator(
            "Save",
            checkpoint_blobs(model),
            [],
            db=os.path.join(args.save, "digits.minidb"),
            db_type="minidb",
            absolute_path=1,
        )
        workspace.RunOperatorOnce(save)
    print(f"devices equal {same_on_all_devices(model)}", flush=True)
    print(f"test accuracy {accuracy(test_x, test_y):.4f}", flush=True)


if __name__ == "__main__":
    main()
