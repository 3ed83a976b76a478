"""What a model knows about each of its parameters."""

from __future__ import annotations

import math

from caffe2lite.python import core


class ParameterTags:
    """Marks that `create_param` understands; a computed parameter is kept, but not trained."""

    BIAS = "BIAS"
    WEIGHT = "WEIGHT"
    COMPUTED_PARAM = "COMPUTED_PARAM"


class ParameterInfo:
    """One parameter: its blob, shape, gradient, the copies of it in other types and its own optimizer."""

    def __init__(self, param_id, param, key=None, shape=None, length=None, grad=None, blob_copy=None):
        if not isinstance(param, core.BlobReference):
            raise AssertionError(f"a parameter is given as a BlobReference, not as {param!r}")
        self.param_id = param_id
        self.name = str(param)
        self.blob = param
        self.key = key
        self.shape = shape
        self.size = None if shape is None else math.prod(shape)
        self.length = max(1, length if length is not None else 1)
        self.grad = grad
        self._cloned_init_net = None
        # Data type -> blob, e.g. the float32 master copy of a float16 parameter.
        self.blob_copy = blob_copy
        self._optimizer = None

    @property
    def parameter(self):
        """The blob."""
        return self.blob

    @property
    def optimizer(self):
        """The parameter's own optimizer, or None."""
        return self._optimizer

    @optimizer.setter
    def optimizer(self, value):
        if self._optimizer is not None:
            raise AssertionError(f"optimizer of {self.name} has already been set")
        self._optimizer = value

    def __str__(self):
        return self.name
