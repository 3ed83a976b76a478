"""Training on a sample of the outputs."""

from __future__ import annotations

from caffe2lite.python.layers.layers import ModelLayer, get_layer_class
from caffe2lite.python.layers.sampling_trainable_mixin import SamplingTrainableMixin


class SamplingTrain(ModelLayer):
    """The layer `prediction_layer` (a name) on input.input, trained only on the outputs in input.indices.

    With `subtract_log_odd` the logarithm of input.sampling_prob is taken off the sampled outputs.
    """

    def __init__(
        self, model, input_record, prediction_layer, output_dims, subtract_log_odd=True, name="sampling_train", **kwargs
    ):
        super().__init__(model, name, input_record, **kwargs)
        cls = get_layer_class(prediction_layer)
        if not issubclass(cls, SamplingTrainableMixin):
            raise AssertionError(f"layer {prediction_layer} cannot train on a sample of its outputs")
        needed = ["indices", "input", *(["sampling_prob"] if subtract_log_odd else [])]
        for field in needed:
            if field not in input_record:
                raise AssertionError(f"SamplingTrain needs the field {field}, got {input_record.field_names()}")
        self.subtract_log_odd = subtract_log_odd
        # It is not a layer of the model by itself.
        self._prediction_layer = cls(model, input_record.input, output_dims=output_dims, **kwargs)
        self._prediction_layer.train_param_blobs = [
            model.net.NextBlob(f"{blob}_sampled") for blob in self._prediction_layer.param_blobs
        ]
        self.params = self._prediction_layer.params
        self.output_schema = self._prediction_layer.output_schema

    def add_ops(self, net):
        self._prediction_layer.add_ops(net)

    def add_train_ops(self, net):
        inner = self._prediction_layer
        for full, sampled in zip(inner.param_blobs, inner.train_param_blobs):
            net.Gather([full, self.input_record.indices()], sampled)
        inner.add_train_ops(net)
        if self.subtract_log_odd:
            log_q = net.Log(self.input_record.sampling_prob(), net.NextScopedBlob("log_q"))
            output = self.output_schema()
            net.Sub([output, log_q], output, broadcast=1, use_grad_hack=1)
