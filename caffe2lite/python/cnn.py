"""`CNNModelHelper`, the older way to build convnets: layers as methods, options for all of them in the constructor."""

from __future__ import annotations

import logging

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import brew
from caffe2lite.python.model_helper import ModelHelper

log = logging.getLogger(__name__)


def _layer(helper, *options):
    """Return a method that calls a brew helper, passing on the named options of the model."""

    def method(self, *args, **kwargs):
        return helper(self, *args, **{o: getattr(self, o) for o in options}, **kwargs)

    method.__name__ = helper.__name__
    method.__doc__ = helper.__doc__
    return method


class CNNModelHelper(ModelHelper):
    """A model whose layers share `order`, `use_cudnn` and how cuDNN searches; new code uses ModelHelper with brew."""

    def __init__(
        self,
        order="NCHW",
        name=None,
        use_cudnn=True,
        cudnn_exhaustive_search=False,
        ws_nbytes_limit=None,
        init_params=True,
        skip_sparse_optim=False,
        param_model=None,
    ):
        log.warning("CNNModelHelper is deprecated: use ModelHelper with the functions of brew instead.")
        scope = {"order": order, "use_cudnn": use_cudnn, "cudnn_exhaustive_search": cudnn_exhaustive_search}
        if ws_nbytes_limit:
            scope["ws_nbytes_limit"] = ws_nbytes_limit
        super().__init__(
            name="CNN" if name is None else name,
            init_params=init_params,
            skip_sparse_optim=skip_sparse_optim,
            param_model=param_model,
            arg_scope=scope,
        )
        self.order = order
        self.use_cudnn = use_cudnn
        self.cudnn_exhaustive_search = cudnn_exhaustive_search
        self.ws_nbytes_limit = ws_nbytes_limit
        if order not in ("NHWC", "NCHW"):
            raise ValueError(f"Cannot understand the CNN storage order {order}.")

    Conv = _layer(brew.conv, "use_cudnn", "order", "cudnn_exhaustive_search", "ws_nbytes_limit")
    ConvNd = _layer(brew.conv_nd, "use_cudnn", "order", "cudnn_exhaustive_search", "ws_nbytes_limit")
    ConvTranspose = _layer(brew.conv_transpose, "use_cudnn", "order", "cudnn_exhaustive_search", "ws_nbytes_limit")
    GroupConv = _layer(brew.group_conv, "use_cudnn", "order", "cudnn_exhaustive_search", "ws_nbytes_limit")
    GroupConv_Deprecated = _layer(
        brew.group_conv_deprecated, "use_cudnn", "order", "cudnn_exhaustive_search", "ws_nbytes_limit"
    )
    FC = _layer(brew.fc)
    PackedFC = _layer(brew.packed_fc)
    FC_Decomp = _layer(brew.fc_decomp)
    FC_Prune = _layer(brew.fc_prune)
    FC_Sparse = _layer(brew.fc_sparse)
    Dropout = _layer(brew.dropout, "order", "use_cudnn")
    LRN = _layer(brew.lrn, "order", "use_cudnn")
    Softmax = _layer(brew.softmax, "use_cudnn")
    SpatialBN = _layer(brew.spatial_bn, "order")
    SpatialGN = _layer(brew.spatial_gn, "order")
    InstanceNorm = _layer(brew.instance_norm, "order")
    Relu = _layer(brew.relu, "order", "use_cudnn")
    PRelu = _layer(brew.prelu)
    Concat = _layer(brew.concat, "order")
    DepthConcat = _layer(brew.depth_concat)
    Sum = _layer(brew.sum)
    Transpose = _layer(brew.transpose, "use_cudnn")
    Iter = _layer(brew.iter)
    Accuracy = _layer(brew.accuracy)
    MaxPool = _layer(brew.max_pool, "use_cudnn", "order")
    MaxPoolWithIndex = _layer(brew.max_pool_with_index, "order")
    AveragePool = _layer(brew.average_pool, "use_cudnn", "order")

    def ImageInput(self, blob_in, blob_out, use_gpu_transform=False, **kwargs):
        """Add images from a database."""
        kwargs.update(order=self.order, use_gpu_transform=use_gpu_transform)
        return brew.image_input(self, blob_in, blob_out, **kwargs)

    def VideoInput(self, blob_in, blob_out, **kwargs):
        """Add clips from a database."""
        return brew.video_input(self, blob_in, blob_out, **kwargs)

    def PadImage(self, blob_in, blob_out, **kwargs):
        """Add a border."""
        self.net.PadImage(blob_in, blob_out, **kwargs)

    def AddWeightDecay(self, weight_decay):
        """Add weight_decay * w to the gradient of every weight w."""
        return brew.add_weight_decay(self, weight_decay)

    @property
    def XavierInit(self):
        """The initialization of weights: XavierFill, or none where parameters are not initialized."""
        return ("XavierFill", {})

    @property
    def MSRAInit(self):
        """The initialization MSRAFill."""
        return ("MSRAFill", {})

    @property
    def ZeroInit(self):
        """The initialization of biases: zeros."""
        return ("ConstantFill", {})

    def ConstantInit(self, value):
        """Return the (operator, arguments) that fill with one value."""
        return ("ConstantFill", {"value": value})

    @property
    def CPU(self):
        """The CPU's DeviceOption."""
        return caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CPU)

    @property
    def GPU(self):
        """A GPU's DeviceOption."""
        return caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CUDA, device_id=0)
