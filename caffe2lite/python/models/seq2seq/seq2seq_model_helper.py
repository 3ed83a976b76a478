"""A ModelHelper whose parameters may be left out of training."""

from __future__ import annotations

from caffe2lite.python import scope
from caffe2lite.python.model_helper import ModelHelper


class Seq2SeqModelHelper(ModelHelper):
    def __init__(self, init_params=True, **kwargs):
        kwargs["arg_scope"] = {
            "use_cudnn": kwargs.pop("use_cudnn", True),
            "cudnn_exhaustive_search": kwargs.pop("cudnn_exhaustive_search", False),
            "order": "NHWC",
            **kwargs.pop("arg_scope", {}),
        }
        super().__init__(init_params=init_params, **kwargs)
        self.non_trainable_params = []

    def AddParam(self, name, init=None, init_value=None, trainable=True):
        """Add a parameter: filled by `init`, (operator, arguments), or one number, `init_value`."""
        if init_value is not None:
            if init is not None:
                raise AssertionError(f"Parameter {name} has both an initial value and an operator for it")
            init = ("ConstantFill", {"shape": [1], "value": init_value})
        if init is None:
            raise ValueError(f"Parameter {name} needs init or init_value")
        if self.init_params:
            operator, arguments = init
            param = getattr(self.param_init_net, operator)([], name, **arguments)
        else:
            param = self.net.AddExternalInput(scope.CurrentNameScope() + name)
        (self.params if trainable else self.non_trainable_params).append(param)
        return param

    def GetNonTrainableParams(self, namescope=None):
        """Return the parameters of a name scope (default: the current one) that are not trained."""
        namescope = scope.CurrentNameScope() if namescope is None else namescope
        if namescope and not namescope.endswith(scope.NAMESCOPE_SEPARATOR):
            namescope += scope.NAMESCOPE_SEPARATOR
        return [p for p in self.non_trainable_params if str(p).startswith(namescope)]

    def GetAllParams(self, namescope=None):
        """Return the parameters of a name scope: trained, computed, and not trained."""
        return self.GetParams(namescope) + self.GetComputedParams(namescope) + self.GetNonTrainableParams(namescope)
