"""Sampling of ids."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core, schema
from caffe2lite.python.layers.layers import ModelLayer


class UniformSampling(ModelLayer):
    """`num_samples` different numbers below `num_elements`: those of the input, which must differ, and drawn ones."""

    def __init__(self, model, input_record, num_samples, num_elements, name="uniform_sampling", **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        if not num_elements > num_samples > 0:
            raise AssertionError(f"cannot draw {num_samples} of {num_elements}")
        if not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"UniformSampling takes a Scalar, got {input_record!r}")
        self.num_elements = num_elements
        self.num_samples = self.create_param(
            param_name="num_examples",
            shape=(1,),
            initializer=("GivenTensorInt64Fill", {"values": [num_samples]}),
            optimizer=model.NoOptim,
        )
        self.sampling_prob = self.create_param(
            param_name="prob",
            shape=(num_samples,),
            initializer=("ConstantFill", {"value": num_samples / num_elements, "dtype": core.DataType.FLOAT}),
            optimizer=model.NoOptim,
        )
        self.output_schema = schema.Struct(
            ("samples", schema.Scalar(np.int32, self.get_next_blob_reference("samples"))),
            ("sampling_prob", schema.Scalar(np.float32, self.sampling_prob)),
        )

    def add_ops(self, net):
        net.StopGradient(self.sampling_prob, self.sampling_prob)
        given = self.input_record()
        shape = net.Shape([given], net.NextScopedBlob("shape"))
        shape = net.Sub([self.num_samples, shape], shape)
        drawn = net.NextScopedBlob("samples_before_concat")
        net.UniqueUniformFill([shape, given], drawn, min=0, max=self.num_elements - 1, input_as_shape=1)
        samples = self.output_schema.samples()
        net.Concat([given, drawn], [samples, net.NextScopedBlob("split_info")], axis=0)
        net.StopGradient(samples, samples)
