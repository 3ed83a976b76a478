"""A pair of nets, ready to run."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core
from caffe2lite.python.functional import namedtupledict


class Caffe2Rep:
    """`rep.run(inputs)`: the init net runs once; `uninitialized` names the inputs that it does not make."""

    def __init__(self, init_net, predict_net, workspace, uninitialized):
        self.init_net = init_net
        self.predict_net = predict_net
        self.workspace = workspace
        self.uninitialized = uninitialized
        self.nets_created = False
        self.ran_init_net = False

    def run(self, inputs, **kwargs):
        """Return the outputs, by number or name; `inputs` is a dict, a list in the order of `uninitialized`, or one array."""
        if isinstance(inputs, (np.ndarray, np.generic)):
            inputs = [inputs]
        if not isinstance(inputs, dict):
            if len(inputs) != len(self.uninitialized):
                raise RuntimeError(
                    f"Expected {len(self.uninitialized)} values for uninitialized graph inputs "
                    f"({', '.join(self.uninitialized)}), but got {len(inputs)}."
                )
            inputs = dict(zip(self.uninitialized, inputs))
        with core.DeviceScope(self.predict_net.device_option):
            for name, value in inputs.items():
                self.workspace.FeedBlob(name, value)
            if not self.ran_init_net:
                self.workspace.RunNetOnce(self.init_net)
                self.ran_init_net = True
            if not self.nets_created:
                self.workspace.CreateNet(self.predict_net)
                self.nets_created = True
            self.workspace.RunNet(self.predict_net.name)
        names = list(self.predict_net.external_output)
        return namedtupledict("Outputs", names)(*(self.workspace.FetchBlob(name) for name in names))
