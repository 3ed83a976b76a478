"""A step of a recommendation model, on whatever `caffe2` the interpreter imports; prints seconds a step.

    PYTHON dlrm.py [--steps 10]

8 tables of 200,000 x 64, a batch of 512 with 40 lookups in each table, three dense layers, rowwise Adagrad.
"""

import argparse
import time

import numpy as np
from caffe2.python import brew, core, model_helper, optimizer, workspace
from caffe2.python.modeling.initializers import Initializer

TABLES, ROWS, WIDTH, BATCH, LOOKUPS, DENSE = 8, 200_000, 64, 512, 40, 13


def build():
    model = model_helper.ModelHelper(name="dlrm")
    bottom = brew.relu(model, brew.fc(model, "dense", "bottom", DENSE, WIDTH), "bottom_relu")
    sums = []
    for k in range(TABLES):
        table = model.create_param(
            f"table_{k}", shape=[ROWS, WIDTH], initializer=Initializer("UniformFill", min=-0.01, max=0.01)
        )
        sums.append(model.net.SparseLengthsSum([table, f"indices_{k}", f"lengths_{k}"], f"sum_{k}"))
    features, _ = model.net.Concat([bottom, *sums], ["features", "_sizes"], axis=1)
    middle = brew.relu(model, brew.fc(model, features, "top", WIDTH * (TABLES + 1), 256), "top_relu")
    click = brew.fc(model, middle, "click", 256, 1)
    loss = model.net.AveragedLoss(model.net.SigmoidCrossEntropyWithLogits([click, "label"], "each"), "loss")
    model.AddGradientOperators([loss])
    update = {
        "table": optimizer.AdagradOptimizer(alpha=0.001, rowWise=True),
        "dense": optimizer.AdagradOptimizer(alpha=0.001),
    }
    for info in model.GetOptimizationParamInfo():
        update["table" if str(info.blob).startswith("table") else "dense"](model.net, model.param_init_net, info)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=10)
    steps = parser.parse_args().steps
    core.GlobalInit(["dlrm", "--caffe2_log_level=2"])
    rng = np.random.RandomState(0)
    workspace.FeedBlob("dense", rng.rand(BATCH, DENSE).astype("f"))
    workspace.FeedBlob("label", rng.randint(0, 2, (BATCH, 1)).astype("f"))
    for k in range(TABLES):
        workspace.FeedBlob(f"indices_{k}", rng.randint(0, ROWS, BATCH * LOOKUPS).astype("int64"))
        workspace.FeedBlob(f"lengths_{k}", np.full(BATCH, LOOKUPS, "int32"))
    model = build()
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    workspace.RunNet(model.net, 2)
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        workspace.RunNet(model.net)
        times.append(time.perf_counter() - start)
    print(f"{sorted(times)[len(times) // 2]:.4f} s a step, loss {float(workspace.FetchBlob('loss')):.5f}")


if __name__ == "__main__":
    main()
