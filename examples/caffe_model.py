"""A model of Caffe 1, deploy.prototxt and caffemodel, translated and run.

    python caffe_model.py [deploy.prototxt model.caffemodel]

Without files a small net with random weights is written first, so that there is something to translate.
"""

import os
import sys
import tempfile

import numpy as np
from caffe2.proto import caffe2_pb2, caffe_pb2
from caffe2.python import caffe_translator, workspace

PROTOTXT = """
name: "LeNet"
input: "data"
input_shape { dim: 1 dim: 1 dim: 28 dim: 28 }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" convolution_param { num_output: 20 kernel_size: 5 } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" inner_product_param { num_output: 10 } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "prob" type: "Softmax" bottom: "ip1" top: "prob" }
"""


def write_random_model(folder):
    """The two files of a small net."""
    rng = np.random.default_rng(0)
    weights = caffe_pb2.NetParameter()
    for name, shapes in {"conv1": [(20, 1, 5, 5), (20,)], "ip1": [(10, 20 * 12 * 12), (10,)]}.items():
        layer = weights.layer.add(name=name)
        for shape in shapes:
            layer.blobs.add(data=rng.normal(0, 0.1, shape).ravel().tolist()).shape.dim.extend(shape)
    paths = [os.path.join(folder, name) for name in ("deploy.prototxt", "lenet.caffemodel")]
    with open(paths[0], "w") as f:
        f.write(PROTOTXT)
    with open(paths[1], "wb") as f:
        f.write(weights.SerializeToString())
    return paths


def main():
    with tempfile.TemporaryDirectory() as folder:
        files = sys.argv[1:3] or write_random_model(folder)
        nets = [os.path.join(folder, name) for name in ("init_net.pb", "predict_net.pb")]
        caffe_translator.main([*files, "--init_net", nets[0], "--predict_net", nets[1]])
        init, predict = caffe2_pb2.NetDef(), caffe2_pb2.NetDef()
        for net, path in zip((init, predict), nets):
            with open(path, "rb") as f:
                net.ParseFromString(f.read())
    if len(sys.argv) > 1:
        return
    workspace.RunNetOnce(init)
    workspace.FeedBlob(predict.external_input[0], np.zeros((1, 1, 28, 28), np.float32))
    workspace.RunNetOnce(predict)
    odds = workspace.FetchBlob(predict.external_output[0])
    print(f"probabilities of {odds.shape[1]} classes, which sum up to {odds.sum():.4f}")


if __name__ == "__main__":
    main()
