"""The engine under the names of Caffe2's C extension."""

import sys as _sys

from caffe2lite.engine import c_api as _c_api

# What lies above the engine, and needs packages that a plain install lacks, comes when it is asked for.
_ONNX = (
    "Caffe2Backend",
    "Caffe2BackenRep",
    "DummyName",
    "export_to_onnx",
    "onnxifi_get_option",
    "onnxifi_set_option",
    "support_onnx_export",
)
_GRAPHS = (
    "Annotation",
    "Graph",
    "NNGraph",
    "NNMatchGraph",
    "NNModule",
    "NNModuleFromProtobuf",
    "NNModuleFromProtobufDistributed",
    "NNSubgraph",
    "NeuralNetData",
    "NeuralNetOperator",
    "NodeRef",
    "matchSubgraph",
    "replaceAllUsesWith",
    "replaceAsConsumer",
    "replaceProducer",
)
_c_api.above.update(
    {
        **dict.fromkeys(_ONNX, "caffe2lite.python.onnx._extension"),
        **dict.fromkeys(_GRAPHS, "caffe2lite.python._extension.graphs"),
        "fakeFp16FuseOps": "caffe2lite.python._extension.fake_fp16",
    }
)
_sys.modules[__name__] = _c_api
