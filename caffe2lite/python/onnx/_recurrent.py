"""ONNX's RNN, GRU and LSTM nodes as recurrent networks of Caffe2.

ONNX holds the parameters of all directions in one tensor and has an order of gates of its own; operators take them
apart, as they need not be constants.  Sequences are (steps, batch, size) in both.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, gru_cell, rnn_cell
from caffe2lite.python.model_helper import ModelHelper
from caffe2lite.python.onnx import _reading
from caffe2lite.python.onnx.error import Unsupported

_INT32 = caffe2_pb2.TensorProto.INT32


@dataclass(frozen=True)
class _Kind:
    """A kind of cell: what makes it, and for each of its gates the place of that gate in ONNX."""

    make: object
    gates: tuple[int, ...]
    activations: tuple[str, ...]
    recurrent: tuple[str, ...]  # the maps of the state, in the order of the gates; one map may make all gates
    states: int = 1


KINDS = {
    "RNN": _Kind(rnn_cell.BasicRNN, (0,), ("Tanh",), ("gates_t",)),
    "GRU": _Kind(gru_cell.GRU, (1, 0, 2), ("Sigmoid", "Tanh"), ("reset_gate_t", "update_gate_t", "output_gate_t")),
    "LSTM": _Kind(rnn_cell.LSTM, (0, 2, 1, 3), ("Sigmoid", "Tanh", "Tanh"), ("gates_t",), states=2),
}


def convert(proto, context):
    """Return the Caffe2 operators of a recurrent node; Unsupported where there are none."""
    node = _reading.Node(proto)
    return _Builder(node, context).operators()


class _Builder:
    """The nets of one node."""

    def __init__(self, node, context):
        self.node, self.kind = node, KINDS[node.type]
        self.new = context.dummies.new_dummy_name
        inputs = [*node.inputs, *[""] * (8 - len(node.inputs))]
        self.x, self.w, self.r, self.b, self.lengths, *self.first, self.peepholes = inputs
        self.directions = {b"forward": [False], b"reverse": [True], b"bidirectional": [False, True]}.get(
            node.attrs.get("direction", b"forward"), []
        )
        self.size = node.attrs.get("hidden_size") or context.shapes.get(self.r, [0])[-1]
        self.dim_in = max(1, context.shapes.get(self.w, [0])[-1])  # of no effect: the parameters are given
        self.options = self._options()
        self.model = ModelHelper(name=self.new())
        self.net = self.model.net

    def _options(self):
        """Return what the cell is told; Unsupported for what Caffe2's cells cannot do."""
        node, kind = self.node, self.kind
        if not self.size or not self.directions:
            raise Unsupported(
                f"node {node.name or node.type}: it must state hidden_size, and a direction that ONNX knows"
            )
        names = [name.decode() for name in node.attrs.get("activations", ())] or [*kind.activations] * len(
            self.directions
        )
        wanted = [*kind.activations] * len(self.directions)
        options = {"linear_before_reset": bool(node.attrs.get("linear_before_reset"))} if node.type == "GRU" else {}
        if node.type == "RNN" and len(set(names)) == 1 and names[0] in ("Relu", "Tanh"):
            return {"activation": names[0].lower()}
        if [n.lower() for n in names] != [n.lower() for n in wanted]:
            raise Unsupported(f"{node.type} with activations {names} has no form in Caffe2: they must be {wanted}")
        return options

    def operators(self):
        """Return the operators, the last of which write the outputs of the node."""
        node = self.node
        for name, why in (("clip", "clipped"), ("layout", "batch-first"), ("input_forget", "coupled")):
            if node.attrs.get(name):
                raise Unsupported(f"{node.type} with {name} ({why}) has no form in Caffe2")
        if self.peepholes:
            raise Unsupported(f"{node.type} with peepholes has no form in Caffe2")
        with core.NameScope("", reset=True):
            lengths = self.lengths or self._whole_lengths()
            results = [self._direction(d, reverse, lengths) for d, reverse in enumerate(self.directions)]
            every = [self.net.ExpandDims(r[0], self.new(), dims=[1]) for r in results]
            self._output(0, every, axis=1)
            for state in range(self.kind.states):
                self._output(1 + state, [r[1 + 2 * state] for r in results], axis=0)
        return list(self.net.Proto().op)

    def _output(self, i, parts, axis):
        name = self.node.outputs[i] if i < len(self.node.outputs) else ""
        if name and len(parts) == 1:
            self.net.Copy(parts, name)
        elif name:
            self.net.Concat(parts, [name, self.new()], axis=axis)

    def _direction(self, d, reverse, lengths):
        """Return (hidden after every step, the last hidden, …) of one direction."""
        scope = self.new()
        self._parameters(d, scope)
        states = [
            self._slice(s, [d, 0, 0], [d + 1, -1, -1]) if s else self._zeros() for s in self.first[: self.kind.states]
        ]
        x = self.net.ReversePackedSegs([self.x, lengths], self.new()) if reverse else self.x
        hidden, *rest = self.kind.make(
            self.model, x, lengths, states, self.dim_in, self.size, scope=scope, forward_only=True, **self.options
        )
        if self.lengths:
            hidden = self._masked(hidden)
        if reverse:
            hidden = self.net.ReversePackedSegs([hidden, lengths], self.new())
        return [hidden, *rest]

    def _parameters(self, d, scope):
        """The parameters of the cell of a direction, under the names that the cell reads."""
        count = len(self.kind.gates)
        self._gates(self.w, d, self.kind.gates, f"{scope}/i2h_w", matrix=True)
        self._gates(self.b, d, self.kind.gates, f"{scope}/i2h_b")
        maps = self.kind.recurrent
        groups = [self.kind.gates] if len(maps) == 1 else [(gate,) for gate in self.kind.gates]
        for name, gates in zip(maps, groups):
            self._gates(self.r, d, gates, f"{scope}/{name}_w", matrix=True)
            self._gates(self.b, d, [count + gate for gate in gates], f"{scope}/{name}_b")

    def _gates(self, source, d, gates, name, matrix=False):
        """Return the rows of some gates of a direction, one gate after the other."""
        if not source:  # no bias
            self.net.ConstantFill([], name, shape=[len(gates) * self.size], value=0.0)
            return
        end = [-1] if matrix else []
        parts = [
            self._slice(source, [d, g * self.size, *[0] * matrix], [d + 1, (g + 1) * self.size, *end]) for g in gates
        ]
        whole = parts[0] if len(parts) == 1 else self.net.Concat(parts, [self.new(), self.new()], axis=1)[0]
        self.net.Squeeze(whole, name, dims=[0])

    def _slice(self, source, starts, ends):
        """Return the slice, one axis after the other, as Caffe2 cuts them."""
        for axis, (start, end) in enumerate(zip(starts, ends)):
            if (start, end) != (0, -1):
                begin, stop = [0] * len(starts), [-1] * len(starts)
                begin[axis], stop[axis] = start, end
                source = self.net.Slice(source, self.new(), starts=begin, ends=stop)
        return source

    @functools.cached_property
    def _batch(self):
        """(steps, batch size) of the input, as tensors of one number."""
        shape = self.net.Shape(self.x, self.new())
        return self._slice(shape, [0], [1]), self._slice(shape, [1], [2])

    def _whole_lengths(self):
        """Return the lengths of sequences that all are as long as the input."""
        steps, batch = self._batch
        zeros = self.net.ConstantFill(batch, self.new(), input_as_shape=1, dtype=_INT32, value=0)
        return self.net.Add([zeros, self.net.Cast(steps, self.new(), to=_INT32)], self.new(), broadcast=1)

    def _zeros(self):
        """Return a first state of shape (1, batch, size)."""
        one, size = (
            self.net.GivenTensorInt64Fill([], self.new(), shape=[1], values=[value]) for value in (1, self.size)
        )
        shape, _ = self.net.Concat([one, self._batch[1], size], [self.new(), self.new()], axis=0)
        return self.net.ConstantFill(shape, self.new(), input_as_shape=1, value=0.0)

    def _masked(self, hidden):
        """Return zeros after the end of a sequence, where a cell repeats its last state."""
        by_sequence = self.net.Transpose(hidden, self.new(), axes=[1, 0, 2])
        masked = self.net.SequenceMask(
            [by_sequence, self.lengths], self.new(), mode="sequence", axis=1, repeat_from_axis=2, fill_val=0.0
        )
        return self.net.Transpose(masked, self.new(), axes=[1, 0, 2])
