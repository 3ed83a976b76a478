"""Normalizers that layers of a `LayerModelHelper` apply to their output."""

from __future__ import annotations


class Normalizer:
    """Called with the model and a record; adds the normalizing layer."""

    def __init__(self):
        pass

    def __call__(self, net, param):
        return self._run(net, param)

    def _run(self, net, param):
        raise NotImplementedError(f"{type(self).__name__} does not say how it normalizes")


class BatchNormalizer(Normalizer):
    """Over the batch, with running statistics."""

    def __init__(self, momentum, scale_init_value=1.0):
        super().__init__()
        self._momentum = float(momentum)
        self._scale_init_value = float(scale_init_value)

    def _run(self, layer_model, param):
        return layer_model.BatchNormalization(param, momentum=self._momentum, scale_init_value=self._scale_init_value)


class LayerNormalizer(Normalizer):
    """Over the features of each example."""

    def __init__(self, epsilon, use_layer_norm_op=True, scale_init_value=1.0):
        super().__init__()
        self._epsilon = float(epsilon)
        self._use_layer_norm_op = use_layer_norm_op
        self._scale_init_value = float(scale_init_value)

    def _run(self, layer_model, param):
        return layer_model.LayerNormalization(
            param,
            epsilon=self._epsilon,
            use_layer_norm_op=self._use_layer_norm_op,
            scale_init_value=self._scale_init_value,
        )
