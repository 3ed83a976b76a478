"""One operator of a net, resolved: its kernel, its arguments, its blobs, and its own state."""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from caffe2lite import devices
from caffe2lite.devices import HOST, Array, Device
from caffe2lite.engine import preferences, serialize
from caffe2lite.engine.blob import Blob
from caffe2lite.engine.errors import EngineError, OperatorError, describe, operator_line
from caffe2lite.engine.observers import Observer
from caffe2lite.engine.workspace import CompiledNet, Workspace
from caffe2lite.ops.kit import arguments, compiled, findings, forms, registry
from caffe2lite.ops.kit.findings import Finding
from caffe2lite.proto import caffe2_pb2

# Each may wrap what runs an operator: `watch(instance, run)` is what runs it from then on (`caffe2lite run --profile`).
watchers: list[Callable[[Instance, Callable[[], None]], Callable[[], None]]] = []


@functools.cache  # NumPy makes the name anew each time
def _kind(dtype: np.dtype) -> str:
    return "object" if dtype.kind == "O" else str(dtype.name)


class Stale(Exception):
    """A replayed operator has put another array into a blob: what was bound after it is void."""


class Progress:
    """How far a net has come: what its operators may tell others of it."""

    __slots__ = ("net", "runs")

    def __init__(self, net: str = "") -> None:
        self.net = net  # its name, empty for an operator on its own
        self.runs = 0  # that have begun


NetMaker = Callable[[caffe2_pb2.NetDef, Workspace], CompiledNet]


@dataclass
class Surroundings:
    """What an operator may know of the net that it belongs to."""

    make_net: NetMaker  # compiles nets that the operator runs
    operators: Sequence[caffe2_pb2.OperatorDef]  # all of the net
    in_order: bool = True  # whether the net runs one operator after the other
    shared: dict[Any, Any] = field(default_factory=dict)  # what operators of the net tell each other
    cancelled: threading.Event = field(default_factory=threading.Event)  # set where a run of the net is to end
    observers: list[Observer] = field(default_factory=list)  # those of the net
    progress: Progress = field(default_factory=Progress)
    findings: list[Finding] = field(default_factory=list)  # on GPUs, to be asked for when the run ends


class Context:
    """What a stateful kernel gets in place of the array module."""

    def __init__(self, instance: Instance, workspace: Workspace, around: Surroundings, position: int) -> None:
        self.workspace = workspace
        self.op = instance.op
        self.device = instance.device
        self.xp = instance.device.xp
        self.inputs = instance.inputs  # the blobs
        self.outputs = instance.outputs
        self.output_devices = [out.device for out in instance.allocators]
        self.state = types.SimpleNamespace()  # lives as long as the net
        self.siblings = around.operators
        self.position = position  # of this one among them
        self.in_order = around.in_order
        self.shared = around.shared
        self.cancelled = around.cancelled
        self.observers = around.observers
        self.progress = around.progress
        self._make_net = around.make_net

    @property
    def rng(self) -> Any:
        """This instance's own random generator, seeded by the device option's `random_seed`."""
        if not hasattr(self.state, "_rng"):
            option = self.op.device_option
            seed = option.random_seed if option.HasField("random_seed") else None
            self.state._rng = self.device.random(seed)
        return self.state._rng

    def net(self, definition: caffe2_pb2.NetDef, workspace: Workspace | None = None) -> CompiledNet:
        """A net that the kernel runs, compiled in the workspace of the operator or in the given one."""
        return self._make_net(definition, workspace or self.workspace)

    def kept_net(self, definition: caffe2_pb2.NetDef, workspace: Workspace) -> CompiledNet:
        """The net of that name in a workspace, compiled there if it is not there yet."""
        found = workspace.nets.get(definition.name)
        if found is None or found.definition is not definition:
            found = workspace.nets[definition.name] = self._make_net(definition, workspace)
        return found

    def chunks(self, blob: Blob, name: str, chunk_size: int = 0, bfloat16: bool = False) -> Iterator[tuple[str, bytes]]:
        """(key, serialised BlobProto) of a blob, for the operators that save."""
        return serialize.chunks(name, blob, chunk_size, bfloat16)

    def load(self, blob: Blob, content: bytes, device: Device | None, source: str) -> serialize.Piece:
        """Put a serialised BlobProto into a blob, for the operators that load; errors name the source."""
        try:
            return serialize.read(blob, content, device)
        except EngineError as e:
            raise EngineError(f"{source}: {e}") from None


class Allocator:
    """Allocator of one output: `out(shape, dtype)` is the array to write into."""

    __slots__ = ("blob", "device", "inputs", "safe")

    def __init__(self, blob: Blob, device: Device, inputs: Sequence[Blob]) -> None:
        self.blob = blob
        self.device = device
        self.inputs = inputs
        self.safe: Any = None  # the array that is known to overlap no input

    def __call__(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        view = self.blob.resize(shape, dtype, self.device)
        if view is not self.safe:
            if self.overlaps():
                return self.device.empty(view.size, dtype).reshape(shape)
            self.safe = view
        return view

    def replaces(self, array: Array) -> bool:
        """Whether the output will stand in the place of this input: the operator works in place on it."""
        return self.blob.value is array or getattr(array, "base", None) is self.blob.value is not None

    def overlaps(self) -> bool:
        """Whether the output is, under another name, the memory of an input: then it is written by a copy."""
        blob = self.blob
        return any(b.storage is blob.storage and b is not blob for b in self.inputs if b.storage is not None)


class Instance:
    """An operator bound to the blobs of a workspace.  Making one raises OperatorError for what its schema refuses."""

    __slots__ = (
        "allocators",
        "args",
        "checked_arrays",
        "checked_kinds",
        "compiled_kernel",
        "context",
        "device",
        "engine",
        "findings",
        "first_argument",
        "inputs",
        "kernel",
        "kwargs",
        "noted_outputs",
        "op",
        "outputs",
        "plain_kernel",
        "record",
        "run",
        "waits",
    )

    def __init__(
        self, op: caffe2_pb2.OperatorDef, workspace: Workspace, around: Surroundings, position: int = 0
    ) -> None:
        self.op = op
        try:
            self.record = record = registry.find(op.type)
        except LookupError as e:
            raise OperatorError(str(e)) from None
        try:
            inputs, outputs = op.input[:], op.output[:]  # a slice takes half the time of an iteration
            check_schema(record, op, inputs, outputs)
            self.device: Device = HOST
            if op.HasField("device_option"):
                self.device = devices.place(op.device_option.device_type, op.device_option.device_id)
            self.inputs = [workspace.get_blob(name) or self._missing(name) for name in inputs]
            self.outputs = [workspace.create_blob(name) for name in outputs]  # they stay where arguments are refused
            self.args = arguments.parse(op.type, record.args, op.arg) if op.arg else {}
            self.kwargs = record.parameters(self.args) if self.args else dict(record.bare)
        except (ValueError, devices.DeviceError) as e:
            raise OperatorError(f"{e}\n  in {operator_line(op)}") from None
        device, engines = self.device.type, preferences.engines(op)
        if engines:
            self.engine, self.plain_kernel = record.kernel(device, [e for e in engines if e != "NUMBA"])
        else:
            self.engine, self.plain_kernel = "", record.plain(device)
        self.compiled_kernel = record.kernels.get(("NUMBA", device)) if not self.engine else None
        self.kernel = self.plain_kernel
        self.allocators = tuple([Allocator(b, self._place(i), self.inputs) for i, b in enumerate(self.outputs)])
        self.context = Context(self, workspace, around, position) if record.stateful else None
        self.first_argument = self.context if record.stateful else self.device.xp
        if record.takes_out:
            self.kwargs["out"] = self.allocators[0] if record.max_outputs == 1 and self.allocators else self.allocators
        self.checked_arrays: Sequence[Any] | None = None  # the arrays that the last checks were made for
        self.checked_kinds: list[Any] | None = None  # their types, where all tensors are in host memory
        self.noted_outputs: list[Any] = []
        self.findings = around.findings
        self.waits = False  # whether it takes the plain kernel until its compiled one is ready
        self.run: Callable[[], None] = self._run if self.device is HOST else self._run_on_device
        for watch in watchers:
            self.run = watch(self, self.run)

    def _missing(self, name: str) -> Blob:
        raise OperatorError(
            f"operator {self.op.type}: input blob {name!r} does not exist in this workspace\n"
            f"  in {operator_line(self.op)}\n  Feed it, or run the net that makes it, before this net is created.\n"
            f"  What {self.op.type} is: {self.record.doc.splitlines()[0] if self.record.doc else 'not described'}"
        )

    def _place(self, i: int) -> Device:
        if self.device is HOST:
            return HOST
        names = self.record.outputs
        return HOST if names and names[min(i, len(names) - 1)] in self.record.host else self.device

    def _run(self) -> None:
        ins = [b.value for b in self.inputs]
        known = self.checked_arrays
        if known is None or self.waits or any([a is not b for a, b in zip(ins, known)]):  # noqa: C419 - a list is faster here
            self._check(ins)
        self.store(self.kernel(self.first_argument, *ins, **self.kwargs))

    def _run_on_device(self) -> None:
        device = self.device
        peers = {b.device for b in self.inputs if b.storage is not None} - {device, HOST} if self.record.peer else ()
        with device.context():
            for peer in peers:  # what is read there has been put on its stream, and runs later
                device.after(peer)
            around = findings.begin(self.findings, self)
            try:
                self._run()
            finally:
                findings.end(around)
                for peer in peers:  # what comes there next may overwrite it
                    peer.after(device)

    def _check(self, ins: Sequence[Any]) -> None:
        """Types, devices and overlaps of these inputs; raises what the operator refuses."""
        if len(ins) < self.record.needs:
            raise ValueError(f"the input {self.record.inputs[len(ins)]} is missing: {len(ins)} are given")
        if len(ins) > len(self.record.inputs) and not self.record.variadic:
            raise ValueError(f"{len(ins)} inputs are given, and there can be {len(self.record.inputs)}")
        kinds = [v.dtype if type(v) is np.ndarray else type(v) for v in ins] if self.device is HOST else None
        if kinds is None or kinds != self.checked_kinds:
            self._check_each(ins)
            if kinds is not None and any(hasattr(v, "dtype") and type(v) is not np.ndarray for v in ins):
                kinds = None  # a tensor elsewhere
            self.checked_kinds = kinds
        record = self.record
        shapes = {
            **(self._check_alike(ins) if record.alike else {}),
            **(self._check_shapes(ins) if record.shapes else {}),
        }
        for check, names in record.checks:
            check(*ins, **{name: value for name, value in self.kwargs.items() if name in names})
        if self.compiled_kernel is not None:
            kernel = self.compiled_kernel
            wanted = compiled.worthwhile(kernel, ins)
            self.waits = wanted and not compiled.ready(kernel, self.record, ins, self.kwargs)
            self.kernel = kernel if wanted and not self.waits else self.plain_kernel
        else:
            self.kernel = self.plain_kernel
        if shapes:
            self.kernel = forms.reshaping(self.kernel, shapes)
        for out in self.allocators:
            out.safe = None
        self.checked_arrays = ins

    def _check_each(self, ins: Sequence[Any]) -> None:
        record = self.record
        table = record.types if self.device is HOST else record.cuda_types
        for i, value in enumerate(ins):
            blob = self.inputs[i]
            slot = min(i, len(record.inputs) - 1)
            if blob.storage is None:
                if value is None:
                    if record.inputs[slot] in record.uninitialised:
                        continue
                    raise ValueError(f"input blob {blob.name!r} is uninitialised: nothing has been put into it")
                tensors = slot in table or (not record.stateful and not getattr(value, "operand", False))
                if tensors:
                    raise TypeError(f"input blob {blob.name!r} holds a {type(value).__name__}; a tensor is needed")
                continue
            self._check_place(value, blob, record.inputs[slot])
            accepted = table.get(slot)
            if accepted is None:
                continue
            kind = _kind(value.dtype)
            if accepted[0] == "=":
                first = ins[int(accepted[1])]
                if not hasattr(first, "dtype") or first.dtype != value.dtype:
                    raise TypeError(
                        f"input blob {blob.name!r} is {describe(value)}; it must have the type of "
                        f"{self.inputs[int(accepted[1])].name!r}, {describe(first)}"
                    )
            elif kind not in accepted:
                words = " or ".join("string" if a == "object" else a for a in accepted)
                raise TypeError(f"input blob {blob.name!r} is {describe(value)}; {record.name} takes {words} there")

    def _check_alike(self, ins: Sequence[Any]) -> dict[int, tuple[int, ...]]:
        """The shapes that operands get which have another one, with as many values."""
        wrong, shapes = forms.alike(self.record.alike, ins, self.record.broadcasts)
        if wrong is not None:
            first = self.record.alike[0]
            raise ValueError(
                f"input blob {self.inputs[wrong].name!r} is {describe(ins[wrong])}; it must have the shape of "
                f"{self.inputs[first].name!r}, {describe(ins[first])}"
            )
        if self.record.broadcasts and any(self.inputs[i] in self.outputs for i in shapes):
            raise ValueError("an operand that is broadcast cannot be overwritten by the result")
        return shapes

    def _check_shapes(self, ins: Sequence[Any]) -> dict[int, tuple[int, ...]]:
        record = self.record
        wrong, shapes = forms.fit(record.shapes, ins, len(record.inputs) - 1 if record.variadic else None)
        if wrong is not None:
            i, wanted = wrong
            raise ValueError(f"input blob {self.inputs[i].name!r} is {describe(ins[i])}; it must have {wanted}")
        return shapes

    def _check_place(self, value: Array, blob: Blob, operand: str) -> None:
        record, device = self.record, self.device
        if operand in record.anywhere:
            return
        if device is HOST or operand in record.host:
            if not isinstance(value, np.ndarray):
                raise devices.DeviceError(
                    f"input blob {blob.name!r} is on {devices.of(value).name}, but {record.name} reads it on the CPU "
                    f"here: copy it first (CopyGPUToCPU), or give the operator the blob's device"
                )
        elif record.peer == "any" and not isinstance(value, np.ndarray):
            return
        elif not (device.reads(value) if record.peer else device.owns(value)):
            raise devices.DeviceError(
                f"input blob {blob.name!r} is on {devices.of(value).name}, and {record.name} runs on {device.name}, "
                f"which may not read it there: copy it first (Copy, CopyCPUToGPU)"
            )

    def store(self, result: object) -> None:
        """Put a kernel's result into the output blobs."""
        if result is None:
            return
        if not isinstance(result, tuple):
            result = (result,)
        for blob, out, value in zip(self.outputs, self.allocators, result):
            if value is blob.value or value is None:
                continue
            if not hasattr(value, "dtype"):
                blob.hold(value)
                continue
            if not hasattr(value, "base"):  # a NumPy scalar
                value = np.asarray(value)
            if blob.storage is not None and blob.owns(value):
                blob.show(value)
            elif isinstance(value, np.generic):
                blob.assign(np.asarray(value), out.device)
            elif (
                self._fits(blob, value, out)
                or any(value is b.value for b in self.inputs)
                or (out.device is not HOST and isinstance(value, np.ndarray))  # what was read from a file
            ):
                blob.assign(value, out.device)
            else:
                blob.adopt(value, out.device)

    @staticmethod
    def _fits(blob: Blob, value: Array, out: Allocator) -> bool:
        present = blob.value
        return (
            blob.storage is not None
            and present.shape == value.shape
            and present.dtype == value.dtype
            and blob.device is out.device
        )

    def run_noted(self) -> None:
        """Run, and note which arrays were read and made, for `bind`."""
        self.run()
        self.noted_outputs = [b.value for b in self.outputs]

    def bind(self, token: list[bool]) -> Callable[[], Any]:
        """A callable that repeats the last noted run on the very same arrays.

        It raises Stale where the run has put another array into an output.
        """
        if self.device is not HOST or watchers:
            return self._checked(token)
        kernel, first_argument, kwargs, store = self.kernel, self.first_argument, self.kwargs, self.store
        ins, made = self.checked_arrays, self.noted_outputs
        assert ins is not None
        binder = self.record.binders.get(kernel)
        if binder is not None and not any(o.overlaps() for o in self.allocators):
            call = binder(first_argument, ins, made, self.args)
            if call is not None:
                return call
        if self.record.stateful:

            def again() -> None:
                result = kernel(first_argument, *ins, **kwargs)
                if result is not None:
                    store(result)
                if not token[0]:
                    raise Stale

        elif len(made) == 1:
            only = made[0]

            def again() -> None:
                result = kernel(first_argument, *ins, **kwargs)
                if result is not only:
                    store(result)
                    if not token[0]:
                        raise Stale

        else:

            def again() -> None:
                store(kernel(first_argument, *ins, **kwargs))
                if not token[0]:
                    raise Stale

        return again

    def _checked(self, token: list[bool]) -> Callable[[], Any]:
        run = self.run

        def again() -> None:
            run()
            if not token[0]:
                raise Stale

        return again


def first_fault(found: list[Finding]) -> tuple[Instance, ValueError] | None:
    """What kernels of a run have found: the first operator at fault, and its error.  Waits for their GPUs; empties the list."""
    mine, found[:] = found[:], []
    told: dict[int, Any] = {}
    for device in {f.owner.device for f in mine}:
        here = [i for i, f in enumerate(mine) if f.owner.device is device]
        with device.context():
            values = device.to_host(device.xp.concatenate([mine[i].found for i in here]))
        told.update(zip(here, values.reshape(-1, 2).tolist()))
    for i, f in enumerate(mine):
        wrong, value = told[i]
        if wrong:
            return f.owner, ValueError(f.sentence(value))
    return None


_OF_SCHEMAS = {"is_test", "values", "threshold", "body"}  # arguments that Caffe2's schemas themselves ask for


def check_schema(
    record: registry.Operator,
    op: caffe2_pb2.OperatorDef,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    made: bool = True,
) -> None:
    """ValueError where operands, in-place pairs or the names of arguments are not what the schema allows.

    Most arguments are asked for as the operator is `made`, and not where only its gradient is.
    """
    if record.args.required and (made or not _OF_SCHEMAS.isdisjoint(arg.name for arg in record.args.required)):
        arguments.check_required(op.type, record.args, {argument.name for argument in op.arg})
    if inputs is None or outputs is None:
        inputs, outputs = op.input[:], op.output[:]
    if (len(inputs), len(outputs)) not in record.fitting:
        _check_counts(record, op)
        record.fitting.add((len(inputs), len(outputs)))
    if not record.enforced and set(inputs).isdisjoint(outputs):
        return
    for o, name in enumerate(outputs):
        for i, source in enumerate(inputs):
            if name == source:
                if (i, o) not in record.inplace and (-1, -1) not in record.inplace:
                    allowed = ", ".join(f"input {a} with output {b}" for a, b in sorted(record.inplace)) or "none"
                    raise ValueError(
                        f"{op.type} cannot work in place on blob {name!r} (input {i}, output {o}); allowed: {allowed}"
                    )
            elif (i, o) in record.enforced:
                raise ValueError(
                    f"{op.type} writes its input {i} in place: output {o} must be {source!r} too, but it is {name!r}"
                )


def _check_counts(record: registry.Operator, op: caffe2_pb2.OperatorDef) -> None:
    for what, have, minimum, maximum, counts in (
        ("inputs", len(op.input), record.min_inputs, record.max_inputs, record.input_counts),
        ("outputs", len(op.output), record.min_outputs, record.max_outputs, record.output_counts),
    ):
        if not minimum <= have <= maximum or (counts and have not in counts):
            wanted = (
                str(minimum)
                if minimum == maximum
                else f"at least {minimum}"
                if maximum == registry.MANY
                else f"{minimum} to {maximum}"
            )
            if counts:
                wanted = " or ".join(map(str, sorted(counts)))
            names = ", ".join(record.inputs if what == "inputs" else record.outputs)
            raise ValueError(
                f"{op.type} does not fit its schema: it takes {wanted} {what}{f' ({names})' if names else ''}, got {have}"
            )
    if record.counts is not None and not record.counts(len(op.input), len(op.output)):
        raise ValueError(
            f"{op.type} does not fit its schema: {len(op.input)} inputs and {len(op.output)} outputs do not go together"
        )
