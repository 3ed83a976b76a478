"""Gradients kept small, each by itself."""

from __future__ import annotations

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core
from caffe2lite.python.modeling.net_modifier import NetModifier
from caffe2lite.python.optimizer import get_param_device


class GradientClipping(NetModifier):
    """Clips dense gradients, in place.

    By norm: a gradient whose norm is over clip_threshold (times the parameter's norm with use_parameter_norm) is
    scaled down to it; by value: its elements to [clip_min, clip_max].  compute_norm_ratio adds BLOB_norm_ratio.
    """

    L1_NORM = "l1_norm"
    L2_NORM = "l2_norm"
    BY_NORM = "by_norm"
    BY_VALUE = "by_value"
    GRAD_CLIP_METHODS = [BY_NORM, BY_VALUE]
    CLIP_GRADIENT_NORM_TYPES = [L2_NORM, L1_NORM]

    def __init__(
        self,
        grad_clip_method,
        clip_norm_type="l2_norm",
        clip_threshold=0.1,
        use_parameter_norm=False,
        compute_norm_ratio=False,
        clip_max=1,
        clip_min=-1,
        blobs_to_include=None,
        blobs_to_exclude=None,
    ):
        choices = ((grad_clip_method, self.GRAD_CLIP_METHODS), (clip_norm_type, self.CLIP_GRADIENT_NORM_TYPES))
        for value, known in choices:
            if value not in known:
                raise AssertionError(
                    f"This method of clipping, {value}, has not been implemented: it is one of {known}"
                )
        self.grad_clip_method = grad_clip_method
        self.clip_norm_type = clip_norm_type
        self.clip_threshold = float(clip_threshold)
        self.use_parameter_norm = use_parameter_norm
        self.compute_norm_ratio = compute_norm_ratio
        self.clip_max = float(clip_max)
        self.clip_min = float(clip_min)
        self.blobs_to_include = blobs_to_include
        self.blobs_to_exclude = blobs_to_exclude

    def modify_net(self, net, init_net=None, grad_map=None, blob_to_device=None, modify_output_record=False):
        if grad_map is None:
            raise AssertionError("GradientClipping needs grad_map, what AddGradientOperators returns")
        cpu = core.DeviceOption(caffe2_pb2.CPU)
        for param, grad in self._chosen(net, grad_map).items():
            if isinstance(grad, core.GradientSlice):
                continue  # sparse ones are left as they are
            with core.DeviceScope(get_param_device(str(param), grad, blob_to_device or {}, default_device=cpu)):
                if self.grad_clip_method == self.BY_NORM:
                    self._clip_by_norm(net, param, grad)
                else:
                    net.Clip([grad], [grad], max=self.clip_max, min=self.clip_min)

    def _chosen(self, net, grad_map):
        if self.blobs_to_include is None:
            chosen = grad_map  # from which, as in Caffe2, those that are excluded go
        else:
            chosen = {}
            for name in self.blobs_to_include:
                param = core.BlobReference(name)
                if not net.BlobIsDefined(param):
                    raise Exception(f"param {name} is not defined in net {net.Name()}")
                chosen[param] = grad_map[param]
        for name in self.blobs_to_exclude or ():
            chosen.pop(core.BlobReference(name), None)
        return chosen

    def _norm(self, net, blob):
        p = 2 if self.clip_norm_type == self.L2_NORM else 1
        norm = net.LpNorm([blob], net.NextScopedBlob(prefix=f"{blob}_l{p}_norm"), p=p)
        return net.Pow([norm], exponent=0.5) if p == 2 else norm

    def _clip_by_norm(self, net, param, grad):
        inputs = [grad, self._norm(net, grad)]
        if self.use_parameter_norm:
            inputs.append(self._norm(net, param))
            if self.compute_norm_ratio:
                net.Div(inputs[1:], [net.NextScopedBlob(prefix=f"{param}_norm_ratio")])
        net.ClipTensorByScaling(inputs, [grad], threshold=self.clip_threshold)
