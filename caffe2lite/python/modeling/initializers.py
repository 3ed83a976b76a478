"""Ways to make a parameter: by a fill operator, from outside, or with a copy in half precision."""

from __future__ import annotations

from caffe2lite.python.core import BlobReference, DataType, ScopedBlobReference
from caffe2lite.python.modeling.parameter_info import ParameterInfo


class Initializer:
    """Fills a parameter by one operator, e.g. `Initializer("XavierFill")`."""

    def __init__(self, operator_name=None, **kwargs):
        self.operator_name = operator_name
        self.operator_kwargs = kwargs

    def update(self, operator_name, kwargs):
        """Name the operator of an initializer that was made without one."""
        if self.operator_name is not None:
            raise Exception(f"this initializer is a {self.operator_name}, it cannot become a {operator_name}")
        self.operator_name = operator_name
        self.operator_kwargs = kwargs

    def _fill(self, init_net, blob, shape):
        return getattr(init_net, self.operator_name)([], blob, shape=shape, **self.operator_kwargs)

    def create_param(self, param_name, init_net, shape):
        """Add the operator that fills a parameter, and return its ParameterInfo."""
        return ParameterInfo(param_id=None, param=self._fill(init_net, param_name, shape), shape=shape)


class ExternalInitializer:
    """Names a parameter that something else fills: a checkpoint, another model."""

    def create_param(self, param_name, init_net, shape):
        """Return the ParameterInfo of a parameter that no operator fills."""
        if isinstance(param_name, BlobReference):
            param = BlobReference(str(param_name), init_net)
        elif isinstance(param_name, str):
            param = ScopedBlobReference(param_name, init_net)
        else:
            raise TypeError(f"Unsupported type for param_name: a str or BlobReference is expected, got {param_name!r}")
        return ParameterInfo(param_id=None, param=param, shape=shape)


class PseudoFP16Initializer(Initializer):
    """A float16 parameter with its float32 master copy `NAME_fp32`, filled in float32 and converted."""

    def create_param(self, param_name, init_net, shape):
        master = self._fill(init_net, param_name + "_fp32", shape)
        param = init_net.FloatToHalf(master, param_name)
        return ParameterInfo(param_id=None, param=param, shape=shape, blob_copy={DataType.FLOAT: master})


class ReversePseudoFP16Initializer(Initializer):
    """A float32 parameter with a float16 copy `NAME_fp16`."""

    def create_param(self, param_name, init_net, shape):
        param = self._fill(init_net, param_name, shape)
        half = init_net.FloatToHalf(param, param_name + "_fp16")
        return ParameterInfo(param_id=None, param=param, shape=shape, blob_copy={DataType.FLOAT16: half})


def update_initializer(initializer_class, operator_name_and_kwargs, default_operator_name_and_kwargs):
    """Return an initializer of the given class (default `Initializer`) for the given, else the default, (operator, kwargs)."""
    name, kwargs = (operator_name_and_kwargs or default_operator_name_and_kwargs)[:2]
    return (Initializer if initializer_class is None else initializer_class)(name, **kwargs)
