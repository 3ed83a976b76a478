"""A net of Caffe2 as an ONNX model, and back: the three compute the same.

pip install onnx onnxruntime
python onnx_roundtrip.py
"""

import numpy as np
import onnxruntime
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, workspace
from caffe2.python.onnx import backend, frontend


def convnet():
    """(init net, predict net) of a small convnet with weights."""
    model = model_helper.ModelHelper("convnet", arg_scope={"order": "NCHW"})
    brew.conv(model, "data", "conv", 1, 8, kernel=3, pad=1)
    brew.relu(model, "conv", "conv")
    brew.max_pool(model, "conv", "pool", kernel=2, stride=2)
    brew.fc(model, "pool", "fc", 8 * 4 * 4, 10)
    brew.softmax(model, "fc", "softmax")
    workspace.RunNetOnce(model.param_init_net)
    predict = caffe2_pb2.NetDef()
    predict.CopyFrom(model.net.Proto())
    predict.external_output.append("softmax")
    init = core.Net("init")
    for name in predict.external_input:
        if name != "data":
            value = workspace.FetchBlob(name)
            init.GivenTensorFill([], name, shape=value.shape, values=value.ravel())
    return init.Proto(), predict


def main():
    onnxruntime.set_default_logger_severity(3)  # it warns of weights among the inputs, where Caffe2 keeps them
    init, predict = convnet()
    data = np.random.default_rng(0).standard_normal((2, 1, 8, 8), np.float32)
    workspace.FeedBlob("data", data)
    workspace.RunNetOnce(predict)
    ours = workspace.FetchBlob("softmax")

    model = frontend.caffe2_net_to_onnx_model(predict, init, {"data": (1, data.shape)})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {"data": data})[0]
    back = backend.run_model(model, {"data": data}).softmax
    print(f"{len(predict.op)} operators, {len(model.graph.node)} nodes")
    print(
        f"largest difference: onnxruntime {abs(theirs - ours).max():.1e}, back in Caffe2 {abs(back - ours).max():.1e}"
    )


if __name__ == "__main__":
    main()
