"""Run predict nets with weights made up from their shapes, on whatever `caffe2` the interpreter imports.

    PYTHON zoo.py NET.pb|NET.pbtxt ... --save results.npz      every blob that the nets make
    PYTHON zoo.py NET.pb|NET.pbtxt ... --compare results.npz   the largest difference from those, a line a net

All layers get few channels, so that nets of any size run in seconds.
"""

import argparse
import os

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace
from google.protobuf import text_format

CHANNELS, CLASSES, ANCHORS = 8, 5, 3


def load(path):
    net = caffe2_pb2.NetDef()
    with open(path, "rb") as f:
        content = f.read()
    if path.endswith("pbtxt"):
        text_format.Merge(content.decode(), net)
    else:
        net.ParseFromString(content)
    return net


def argument(op, name, default):
    return next((a.i for a in op.arg if a.name == name), default)


def weights(op, rng):
    """Arrays for the inputs of an operator that are in no blob yet, {name: array}."""
    x = workspace.FetchBlob(op.input[0])
    missing = [n for n in op.input if not workspace.HasBlob(n)]
    if op.type == "Conv":
        made = {"rpn_cls": ANCHORS, "rpn_bbox": 4 * ANCHORS}
        count = next((n for word, n in made.items() if word in op.output[0]), CHANNELS)
        kernel = argument(op, "kernel", 1)
        shapes = [(count, x.shape[1] // argument(op, "group", 1), kernel, kernel), (count,)]
    elif op.type == "FC":
        count = 4 * CLASSES if "bbox" in op.output[0] else CLASSES if "cls" in op.output[0] else 4 * CHANNELS
        shapes = [(count, int(np.prod(x.shape[1:]))), (count,)]
    else:
        shapes = [(x.shape[1],)] * 4
    made = {}
    for name in missing:
        shape = shapes[list(op.input).index(name) - 1]
        spread = np.sqrt(2.0 / max(1, np.prod(shape[1:])))
        if any(word in op.output[0] for word in ("rpn_", "bbox", "cls")):
            spread *= 1e-4  # probabilities that differ, and boxes within the image
        positive = op.type == "SpatialBN" and list(op.input).index(name) in (1, 4)  # scale and variance
        made[name] = (rng.rand(*shape) + 0.5 if positive else rng.randn(*shape) * spread).astype("f")
    return made


def run(path):
    """{blob: array} of what the net makes."""
    rng = np.random.RandomState(0)
    workspace.ResetWorkspace()
    net = load(path)
    data = next(n for op in net.op for n in op.input if n.split("/")[-1] == "data")
    workspace.FeedBlob(data, rng.rand(1, 3, 224, 224).astype("f") - np.float32(0.5))
    workspace.FeedBlob("im_info", np.array([[224, 224, 1]], "f"))
    workspace.FeedBlob("anchor", np.array([[-16, -16, 16, 16], [-32, -16, 32, 16], [-16, -40, 16, 40]], "f"))
    results = {}
    for op in net.op:
        for name, value in weights(op, rng).items() if any(not workspace.HasBlob(n) for n in op.input) else ():
            workspace.FeedBlob(name, value)
        workspace.RunOperatorOnce(op)
    workspace.RunNetOnce(net)
    for op in net.op:
        for name in op.output:
            value = workspace.FetchBlob(name)
            if isinstance(value, np.ndarray):
                results[name] = value
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("nets", nargs="+")
    parser.add_argument("--save")
    parser.add_argument("--compare")
    options = parser.parse_args()
    found = {}
    for path in options.nets:
        title = os.path.basename(path)
        for name, value in run(path).items():
            found[f"{title}:{name}"] = value
    if options.save:
        np.savez(options.save, **found)
    if options.compare:
        expected = np.load(options.compare)
        for path in options.nets:
            title = os.path.basename(path)
            worst, where, count = 0.0, "", 0
            for key in (k for k in expected.files if k.startswith(title + ":")):
                have, want = found[key], expected[key]
                count += 1
                if have.shape != want.shape:
                    worst, where = float("inf"), f"{key}: {have.shape} instead of {want.shape}"
                    break
                scale = max(float(np.abs(want).max(initial=0)), 1e-6)
                off = float(np.abs(have.astype("d") - want).max(initial=0)) / scale
                if off > worst:
                    worst, where = off, key
            print(f"{title}: {count} blobs, largest difference {worst:.2e} of a blob's largest value ({where})")


if __name__ == "__main__":
    main()
