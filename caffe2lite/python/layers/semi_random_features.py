"""Learned features gated by random ones."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.arc_cosine_feature_map import ArcCosineFeatureMap


class SemiRandomFeatures(ArcCosineFeatureMap):
    """A learned linear map times arc-cosine features (Kawaguchi, Xie, Song, 2018).

    The input is one vector, or a Struct with the vectors `full` for the learned and `random` for the random part.
    """

    def __init__(
        self,
        model,
        input_record,
        output_dims,
        s=1,
        scale_random=1.0,
        scale_learned=1.0,
        weight_init_random=None,
        bias_init_random=None,
        weight_init_learned=None,
        bias_init_learned=None,
        weight_optim=None,
        bias_optim=None,
        set_weight_as_global_constant=False,
        name="semi_random_features",
        **kwargs,
    ):
        if isinstance(input_record, schema.Struct):
            record = input_record
        elif isinstance(input_record, schema.Scalar):
            record = schema.Struct(("full", input_record), ("random", input_record))
        else:
            raise AssertionError(f"Incorrect input type {input_record!r}")
        for part in ("full", "random"):
            if part not in record.fields:
                raise AssertionError(f"SemiRandomFeatures needs the field {part}, got {record.field_names()}")
        super().__init__(
            model,
            record.random,
            output_dims,
            s=s,
            scale=scale_random,
            weight_init=weight_init_random,
            bias_init=bias_init_random,
            weight_optim=None,
            bias_optim=None,
            set_weight_as_global_constant=set_weight_as_global_constant,
            initialize_output_schema=False,
            name=name,
            **kwargs,
        )
        self.input_record_full = record.full
        self.input_record_random = record.random
        self.output_schema = schema.Struct(
            *(
                (part, schema.Scalar((np.float32, (output_dims,)), model.net.NextScopedBlob(f"{name}_{part}_output")))
                for part in ("full", "random")
            )
        )
        # The learned part has parameters of its own, whatever the random part has.
        self.set_weight_as_global_constant = False
        self.scale = scale_learned
        self.learned_w, self.learned_b = self._initialize_params(
            "learned_w",
            "learned_b",
            w_init=weight_init_learned,
            b_init=bias_init_learned,
            w_optim=weight_optim or model.NoOptim,
            b_optim=bias_optim or model.NoOptim,
        )

    def add_ops(self, net):
        learned = net.FC(
            [self.input_record_full(), self.learned_w, self.learned_b], net.NextScopedBlob("learned_features")
        )
        random = net.FC(
            [self.input_record_random(), self.random_w, self.random_b], net.NextScopedBlob("random_features")
        )
        gate = self._heaviside_with_power(net, random, self.output_schema.random.field_blobs(), self.s)
        net.Mul([gate, learned], self.output_schema.full.field_blobs())
