"""Gradient makers, in Caffe2's own words.

A maker is a function of `g`, the forward operator in a net that is being differentiated:

    I(i) O(i)       names of its inputs and outputs
    GO(i)           the dense gradient of output i (an error where it is sparse or absent)
    GO_I(i) GO_V(i) indices and values of a sparse one
    GI(i)           the gradient of input i, which the maker hereby promises to make
    GI_I(i) GI_V(i) likewise, sparse

It returns the list of OperatorDefs that compute these.  `single("ReluGradient", "O0 GO0 -> GI0")` is the maker that
most operators need: one operator, wired as the string says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from caffe2lite.ops.kit import arguments
from caffe2lite.proto import caffe2_pb2

_FIELDS = {int: "i", float: "f", bytes: "s"}

Maker = Callable[["Forward"], Sequence[Any]]


def NO_GRADIENT(g: Forward) -> list[Any]:
    """The operator passes no gradient on: its inputs get none."""
    return []


def FORBID_GRADIENT(g: Forward) -> list[Any]:
    """Asking for the gradient is a mistake."""
    raise ValueError(f"operator {g.op.type} must not be differentiated: no gradient is to pass through it")


def NO_GRADIENT_YET(g: Forward) -> list[Any]:
    """Caffe2 never wrote the gradient of this operator; asking for it is an error."""
    raise ValueError(f"operator {g.op.type} should have a gradient, but Caffe2 has none for it")


class Forward:
    """The operator whose gradient is wanted, and what its maker says about it."""

    def __init__(self, op: caffe2_pb2.OperatorDef, g_output: Sequence[Any]) -> None:
        self.op = op
        self.g_output = g_output  # per output: None, a name, or (indices, values)
        self.g_input: list[Any] = [None] * len(op.input)
        self.copy_arguments = True
        self.copy_device = True
        self.copy_engine = True

    @property
    def num_inputs(self) -> int:
        """Number of inputs of the forward operator."""
        return len(self.op.input)

    @property
    def num_outputs(self) -> int:
        """Number of outputs of the forward operator."""
        return len(self.op.output)

    def I(self, i: int) -> str:  # noqa: E743
        """Name of input i."""
        if i >= len(self.op.input):
            raise ValueError(f"the gradient of {self.op.type} needs its input {i}; it has {len(self.op.input)} inputs")
        return self.op.input[i]

    def O(self, i: int) -> str:  # noqa: E743
        """Name of output i."""
        if i >= len(self.op.output):
            raise ValueError(
                f"the gradient of {self.op.type} needs its output {i}; it has {len(self.op.output)} outputs"
            )
        return self.op.output[i]

    def has_GO(self, i: int) -> bool:
        """Whether output i has a gradient, dense or sparse."""
        return i < len(self.g_output) and self.g_output[i] is not None

    def is_dense_GO(self, i: int) -> bool:
        """Whether the gradient of output i is dense."""
        return isinstance(self.g_output[i], str)

    def is_sparse_GO(self, i: int) -> bool:
        """Whether the gradient of output i is sparse."""
        return self.has_GO(i) and not self.is_dense_GO(i)

    def GO(self, i: int) -> str:
        """The dense gradient of output i."""
        name = self.g_output[i] if i < len(self.g_output) else None
        if name is None:
            raise ValueError(f"the gradient of output {self.O(i)!r} of {self.op.type} is not provided")
        if not isinstance(name, str):
            raise ValueError(f"the gradient of output {self.O(i)!r} of {self.op.type} is sparse (expected dense)")
        return name

    def _sparse(self, i: int) -> tuple[str, str]:
        pair = self.g_output[i]
        if pair is None or isinstance(pair, str):
            raise ValueError(f"the gradient of output {self.O(i)!r} of {self.op.type} is not sparse")
        return pair

    def GO_I(self, i: int) -> str:
        """Indices of the sparse gradient of output i."""
        return self._sparse(i)[0]

    def GO_V(self, i: int) -> str:
        """Values of the sparse gradient of output i."""
        return self._sparse(i)[1]

    def set_dense(self, i: int, name: str) -> None:
        """The gradient of input i is the blob `name`."""
        if self.g_input[i] is not None and not isinstance(self.g_input[i], str):
            raise ValueError(f"input {self.I(i)!r} of {self.op.type} already has a sparse gradient")
        self.g_input[i] = name

    def set_sparse(self, i: int, indices: str, values: str) -> None:
        """The gradient of input i is the pair of blobs."""
        self.g_input[i] = (indices, values)

    def GI(self, i: int) -> str:
        """The dense gradient of input i, to be made."""
        self.set_dense(i, self.I(i) + "_grad")
        return self.g_input[i]

    def GI_I(self, i: int) -> str:
        """Indices of the sparse gradient of input i, to be made."""
        self.set_sparse(i, self.I(i) + "_grad_indices", self.I(i) + "_grad_values")
        return self.g_input[i][0]

    def GI_V(self, i: int) -> str:
        """Values of the sparse gradient of input i, to be made."""
        self.set_sparse(i, self.I(i) + "_grad_indices", self.I(i) + "_grad_values")
        return self.g_input[i][1]

    def arg(self, name: str, default: Any = None) -> Any:
        """Value of an argument of the forward operator (int, float, bytes, list, message), or the default.

        ValueError where it is no value of the default's type.
        """
        for a in self.op.arg:
            if a.name == name:
                wanted = _FIELDS.get(type(default))
                if wanted and not a.HasField(wanted):
                    raise ValueError(f"argument {name} of {self.op.type} must be in the field {wanted!r} of Argument")
                for field in ("i", "f", "s", "n", "t"):
                    if a.HasField(field):
                        return getattr(a, field)
                for field in ("ints", "floats", "strings", "nets", "tensors"):
                    if len(getattr(a, field)):
                        return list(getattr(a, field))
                return []
        return default

    def has_arg(self, name: str) -> bool:
        """Whether the forward operator has that argument."""
        return any(a.name == name for a in self.op.arg)

    def need(self, name: str) -> None:
        """ValueError unless the forward operator has the argument, without which its schema refuses it."""
        if not self.has_arg(name):
            raise ValueError(f"operator {self.op.type} needs the argument {name!r}")

    def number(self, name: str, default: int = 0) -> int:
        """An integer argument as makers read it that do not look at its type: 0 where it is none."""
        return next((a.i for a in self.op.arg if a.name == name), default)

    def copied(self, **defaults: Any) -> list[Any]:
        """Argument messages of these names: those of the forward operator, whatever they hold, else the defaults."""
        given = {a.name: a for a in self.op.arg}
        made = []
        for name, default in defaults.items():
            message = given.get(name)
            if message is None:
                message = caffe2_pb2.Argument()
                arguments.write(message, name, default)
            made.append(message)
        return made

    def new(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **args: Any) -> Any:
        """An OperatorDef, for the maker to return."""
        op = caffe2_pb2.OperatorDef(type=kind, name="", input=list(inputs), output=list(outputs))
        for name, value in args.items():
            arguments.write(op.arg.add(), name, value)
        return op

    def single(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **args: Any) -> list[Any]:
        """A list of one OperatorDef."""
        return [self.new(kind, inputs, outputs, **args)]


def single(kind: str, wiring: str, **args: Any) -> Maker:
    """A maker of one operator: `single("MulGradient", "GO0 I0 I1 -> GI0 GI1")`."""
    left, right = (side.split() for side in wiring.split("->"))

    def make(g: Forward) -> Sequence[Any]:
        return g.single(kind, _wire(g, left), _wire(g, right), **args)

    return make


def _wire(g: Forward, words: Sequence[str]) -> list[str]:
    names = []
    for word in words:
        head = word.rstrip("0123456789")
        names.append(getattr(g, head)(int(word[len(head) :])))
    return names
