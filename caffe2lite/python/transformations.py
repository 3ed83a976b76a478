"""Rewrites of nets for engines, and fusions of operators."""

from __future__ import annotations

import caffe2lite.python._import_c_extension as C


def _replace(net, definition):
    net.Proto().ParseFromString(definition)


class Transformer:
    """`Transformer().FuseConvBN(net)` applies the transform FuseConvBN to the net (its weights: current workspace)."""

    @classmethod
    def runTransform(cls, transform_name, net):
        """Apply the transform of this name."""
        if C.transform_exists(transform_name):
            run = C.run_transform
        elif C.workspace_transform_exists(transform_name):
            run = C.run_workspace_transform
        else:
            raise AttributeError(f"Transformation {transform_name} not found.")
        _replace(net, run(transform_name, net.Proto().SerializeToString()))

    def __getattr__(self, transform_name):
        return lambda net: self.runTransform(transform_name, net)


def fuseNNPACKConvRelu(net):
    """Let convolutions by NNPACK apply the Relu that follows them."""
    _replace(net, C.transform_fuseNNPACKConvRelu(net.Proto().SerializeToString()))


def optimizeForMKLDNN(net, training_mode=False):
    """Leave the net as it is: there is no MKL-DNN here."""
    _replace(net, C.transform_optimizeForMKLDNN(net.Proto().SerializeToString(), training_mode))


def fuseConvBN(net):
    """Put batch normalization with running statistics into the weights of the convolutions before it."""
    _replace(net, C.transform_fuseConvBN(net.Proto().SerializeToString()))
