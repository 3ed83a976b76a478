"""A pair of nets as C.Caffe2Backend().prepare makes it."""

from __future__ import annotations

import numpy as np
from onnx.backend.base import BackendRep, namedtupledict


class Caffe2CppRep(BackendRep):
    """`rep.run(inputs)` on what C's backend prepared."""

    def __init__(self, cpp_rep):
        super().__init__()
        self._rep = cpp_rep
        self._outputs = cpp_rep.external_outputs()

    def init_net(self):
        """Return the init net, serialized."""
        return self._rep.init_net()

    def pred_net(self):
        """Return the predict net, serialized."""
        return self._rep.pred_net()

    def external_outputs(self):
        """Return the names of the outputs."""
        return self._rep.external_outputs()

    def external_inputs(self):
        """Return the names of the inputs, parameters included."""
        return self._rep.external_inputs()

    def run(self, inputs):
        """Return the outputs, by number or name; `inputs` is a dict, a list or one array."""
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        return namedtupledict("Outputs", self._outputs)(*self._rep.run(inputs))
