"""A random sample of examples."""

from __future__ import annotations

from caffe2lite.python import core, schema
from caffe2lite.python.layers.layers import ModelLayer


class ReservoirSampling(ModelLayer):
    """Keeps a uniform sample of `num_to_collect` rows of input.data seen so far; with input.object_id one an object."""

    def __init__(self, model, input_record, num_to_collect, name="reservoir_sampling", **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        if not num_to_collect > 0:
            raise AssertionError(f"num_to_collect must be positive, got {num_to_collect}")
        self.num_to_collect = num_to_collect
        self.reservoir = self._state("reservoir", [0], "ConstantFill")
        self.num_visited_blob = self._state("num_visited", [], "ConstantFill", value=0, dtype=core.DataType.INT64)
        self.mutex = self._state("mutex", [], "CreateMutex")
        self.extra_input_blobs = []
        self.extra_output_blobs = []
        if "object_id" in input_record:
            object_to_pos = self._state(
                "object_to_pos", None, "CreateMap", key_dtype=core.DataType.INT64, valued_dtype=core.DataType.INT32
            )
            pos_to_object = self._state("pos_to_object", [0], "ConstantFill", value=0, dtype=core.DataType.INT64)
            self.extra_input_blobs = [input_record.object_id(), object_to_pos, pos_to_object]
            self.extra_output_blobs = [object_to_pos, pos_to_object]
        self.output_schema = schema.Struct(
            ("reservoir", schema.from_blob_list(input_record.data, [self.reservoir])),
            ("num_visited", schema.Scalar(blob=self.num_visited_blob)),
            ("mutex", schema.Scalar(blob=self.mutex)),
        )

    def _state(self, param_name, shape, kind, **arguments):
        return self.create_param(
            param_name=param_name, shape=shape, initializer=(kind, arguments), optimizer=self.model.NoOptim
        )

    def add_ops(self, net):
        net.ReservoirSampling(
            [self.reservoir, self.num_visited_blob, self.input_record.data(), self.mutex, *self.extra_input_blobs],
            [self.reservoir, self.num_visited_blob, *self.extra_output_blobs],
            num_to_collect=self.num_to_collect,
        )
