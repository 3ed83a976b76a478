"""A sum whose weight moves from one part to the other."""

from __future__ import annotations

import math

import numpy as np

from caffe2lite.python import core, schema
from caffe2lite.python.layers.layers import ModelLayer


class HomotopyWeight(ModelLayer):
    """alpha x + beta y: in training alpha goes from `max_weight` to `min_weight` and beta the other way.

    Half of the way is done after `half_life` iterations, about three quarters after `quad_life`.
    """

    def __init__(
        self,
        model,
        input_record,
        name="homotopy_weight",
        min_weight=0.0,
        max_weight=1.0,
        half_life=1e6,
        quad_life=3e6,
        atomic_iter=None,
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("homotopy_weight"))
        self.data = input_record.field_blobs()
        if len(self.data) != 2:
            raise AssertionError(f"HomotopyWeight takes two inputs, got {len(self.data)}")
        if max_weight <= min_weight:
            raise AssertionError(f"max_weight must be above min_weight, got {max_weight} and {min_weight}")
        self.gamma, self.power = self.solve_inv_lr_params(half_life, quad_life)
        # The weights are scale * (a number from 0 to 1) + offset.
        self.scale = float(max_weight - min_weight)
        self.offset = model.add_global_constant(f"{self.name}_offset_1dfloat", float(min_weight))
        self.use_external_iter = atomic_iter is not None  # who made it counts
        self.atomic_iter = atomic_iter if self.use_external_iter else self.create_atomic_iter()

    def solve_inv_lr_params(self, half_life, quad_life):
        """Return (gamma, power) with which 1 / (1 + gamma t)^power is 1/2 at `half_life` and about 1/4 at `quad_life`."""
        if not quad_life > 2 * half_life:
            raise AssertionError(f"quad_life must be more than 2 half_life, got {quad_life} and {half_life}")
        ratio = float(quad_life) / float(half_life)
        rising = ratio * (1.0 + math.sqrt(2.0)) / 2.0 - math.sqrt(2.0)  # 1 + gamma * half_life, as Caffe2 comes near it
        return (rising - 1.0) / float(half_life), math.log(2.0) / math.log(rising)

    def create_atomic_iter(self):
        """Return a count of iterations, which goes up under a mutex."""
        self.mutex = self.create_param(
            param_name=f"{self.name}_mutex",
            shape=None,
            initializer=("CreateMutex", {}),
            optimizer=self.model.NoOptim,
        )
        return self.create_param(
            param_name=f"{self.name}_atomic_iter",
            shape=[1],
            initializer=("ConstantFill", {"value": 0, "dtype": core.DataType.INT64}),
            optimizer=self.model.NoOptim,
        )

    def update_weight(self, net):
        """Return the weights (alpha, beta) of this iteration."""
        name = net.NextScopedBlob
        falling = net.NextScopedBlob("lr")
        if not self.use_external_iter:
            net.AtomicIter([self.mutex, self.atomic_iter], [self.atomic_iter])
        net.LearningRate([self.atomic_iter], [falling], policy="inv", gamma=self.gamma, power=self.power, base_lr=1.0)
        rising = net.Sub([self.model.global_constants["ONE"], falling], [name("complementary_lr")])
        scaled = net.Scale([falling], [name("scaled_lr")], scale=self.scale)
        scaled_rising = net.Scale([rising], [name("scaled_complementary_lr")], scale=self.scale)
        return (
            net.Add([scaled, self.offset], [name("alpha")]),
            net.Add([scaled_rising, self.offset], [name("beta")]),
        )

    def add_ops(self, net):
        alpha, beta = self.update_weight(net)
        net.WeightedSum([self.data[0], alpha, self.data[1], beta], self.output_schema())
