"""Operator schemas as scripts ask for them: `workspace.C.OpSchema.get("Conv")`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from caffe2lite.engine.inference import infer_operator, spec_of
from caffe2lite.ops.kit import arguments, dtypes, registry
from caffe2lite.ops.kit.infer import UNKNOWN
from caffe2lite.proto import caffe2_pb2


class Argument:
    """An argument of an operator."""

    def __init__(self, arg: arguments.Arg) -> None:
        self.name = arg.name
        self.required = arg.default is arguments.REQUIRED
        default = "" if self.required else f", default {arg.default!r}"
        self.description = f"({arg.kind}{default})"


class OpSchema:
    """The schema of an operator type."""

    Argument = Argument

    def __init__(self, record: registry.Operator) -> None:
        self._record = record
        self.min_input, self.max_input = record.min_inputs, record.max_inputs
        self.min_output, self.max_output = record.min_outputs, record.max_outputs
        self.doc = record.doc
        self.args = [Argument(a) for a in record.args.values()]
        self.input_desc = [(n, "") for n in record.inputs]
        self.output_desc = [(n, "") for n in record.outputs]
        self.private = False
        self.inf = max(record.max_inputs, record.max_outputs) == registry.MANY
        self.file = record.module
        function = record.kernels["", None]
        self.line = getattr(getattr(function, "__code__", None), "co_firstlineno", 0)

    @staticmethod
    def get(name: str) -> OpSchema | None:
        """The schema of that type, None where there is none."""
        record = registry.get(name)
        return None if record is None else OpSchema(record)

    def num_inputs_allowed(self, n: int) -> bool:
        """Whether the operator takes n inputs."""
        return self.min_input <= n <= self.max_input

    def num_outputs_allowed(self, n: int) -> bool:
        """Whether the operator makes n outputs."""
        return self.min_output <= n <= self.max_output

    def num_inputs_outputs_allowed(self, n: int, m: int) -> bool:
        """Whether it takes n inputs and makes m outputs."""
        return self.num_inputs_allowed(n) and self.num_outputs_allowed(m)

    def inplace_enforced(self, i: int, o: int) -> bool:
        """Whether input i and output o must be one blob."""
        return (i, o) in self._record.enforced

    def CalculateOutput(self, n: int) -> int:  # noqa: N802
        """The number of outputs for n inputs, -1 where that is open."""
        return self.min_output if self.min_output == self.max_output else -1

    def infer_tensor(self, op: caffe2_pb2.OperatorDef | bytes, shapes: Sequence[caffe2_pb2.TensorShape]) -> list[Any]:
        """A TensorShape for each output, from those of the inputs."""
        definition = caffe2_pb2.OperatorDef.FromString(op) if isinstance(op, bytes) else op
        known = {name: spec_of(s) for name, s in zip(definition.input, shapes) if not s.unknown_shape}
        made = []
        for spec in infer_operator(definition, known):
            shape = caffe2_pb2.TensorShape()
            if spec is UNKNOWN:
                shape.unknown_shape = True
            else:
                shape.dims.extend(spec.shape)
                shape.data_type = dtypes.NUMBERS.get(spec.dtype or "", 0)  # type: ignore[assignment]
            made.append(shape)
        return made

    @staticmethod
    def get_cpu_impl(name: str) -> str:
        """Where the kernel of that type is."""
        record = registry.get(name)
        return "" if record is None else record.module

    get_cuda_impl = get_cpu_impl

    @staticmethod
    def get_gradient_impl(name: str) -> str:
        """Where the gradient of that type is."""
        record = registry.get(name)
        return "" if record is None or record.gradient in (None, registry.NO_GRADIENT) else record.module
