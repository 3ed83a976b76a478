"""The last examples."""

from __future__ import annotations

from caffe2lite.python import core, schema
from caffe2lite.python.layers.layers import ModelLayer


class LastNWindowCollector(ModelLayer):
    """Keeps the last `num_to_collect` rows of a column seen so far."""

    def __init__(self, model, input_record, num_to_collect, name="last_n_window_collector", **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        if not num_to_collect > 0 or not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"Got {input_record!r} and {num_to_collect}: a Scalar and a number > 0 are needed")
        self.num_to_collect = num_to_collect
        self.last_n = self._state("last_n", [0], "ConstantFill", {})
        self.next_blob = self._state("next", [], "ConstantFill", {"value": 0, "dtype": core.DataType.INT32})
        self.mutex = self._state("mutex", [], "CreateMutex", {})
        self.num_visited_blob = self._state(
            "num_visited", [], "ConstantFill", {"value": 0, "dtype": core.DataType.INT64}
        )
        self.output_schema = schema.Struct(
            ("last_n", schema.Scalar(input_record.field_type(), self.last_n)),
            ("num_visited", schema.Scalar(blob=self.num_visited_blob)),
            ("mutex", schema.Scalar(blob=self.mutex)),
        )

    def _state(self, param_name, shape, kind, arguments):
        return self.create_param(
            param_name=param_name, shape=shape, initializer=(kind, arguments), optimizer=self.model.NoOptim
        )

    def add_ops(self, net):
        net.LastNWindowCollector(
            [self.last_n, self.next_blob, self.input_record(), self.mutex, self.num_visited_blob],
            [self.last_n, self.next_blob, self.num_visited_blob],
            num_to_collect=self.num_to_collect,
        )
