"""Nets: a NetDef compiled once to operator instances, run in order or as a graph, and replayed when warm.

A run whose operands are what they were replays a list of callables that are bound to the very arrays (plan and
replay, docs/architecture.md).  Each blob that the list touches holds the list's token, and voids it when it gets
another array, so a replay costs nothing to guard.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from caffe2lite.devices import HOST
from caffe2lite.engine.blob import Blob
from caffe2lite.engine.errors import EngineError, OperatorError, StopNet, explain
from caffe2lite.engine.instance import Instance, Progress, Stale
from caffe2lite.proto import caffe2_pb2
from caffe2lite.proto.names import check_names

if TYPE_CHECKING:
    from caffe2lite.engine.workspace import Workspace

_QUIET = {"all": "ignore"}  # Caffe2 computes with NaN and Inf without a word,
_STRICT = {"divide": "raise", "over": "raise", "invalid": "raise"}  # unless --caffe2_operator_throw_if_fp_exceptions=1
_floating = dict(_QUIET)


def quiet() -> np.errstate:
    """What operators run under: how NumPy takes divisions by zero and the like."""
    return np.errstate(**_floating)  # type: ignore[arg-type]


def raise_floating_errors(raises: bool) -> None:
    """Whether a division by zero, an overflow or an invalid number is an error of its operator from now on."""
    _floating.clear()
    _floating.update(_STRICT if raises else _QUIET)

_MAX_PATIENCE = 64  # runs to wait at most before trying again to bind a net whose arrays keep changing


class Net:
    """A compiled net.  `run()` is False where it stopped without an error (`why_stopped` says why)."""

    in_order = True  # one operator after the other

    def __init__(self, definition: Any, workspace: Workspace, once: bool = False) -> None:
        self.definition = definition
        self._shared: dict[Any, Any] = {}
        self.name = definition.name
        self.progress = Progress(definition.name)
        self.workspace = workspace
        self.why_stopped = ""
        self.observers: list[Any] = []
        self.steps: list[Instance] = []
        self.cancelled = threading.Event()
        self._token: list[bool] | None = None
        self._calls: list[Callable[[], Any]] = []
        self._step_of: list[int] = []
        self._wait = 0 if not once else 1 << 60  # runs until binding is tried
        self._patience = 1
        for position, op in enumerate(definition.op):
            try:
                step = Instance(_on_device(op, definition), workspace, workspace.engines(op))
                if step.context is not None:
                    self._introduce(step.context, position)
                    step.context.cancelled = self.cancelled
                    step.context.observers = self.observers
                self.steps.append(step)
            except Exception as e:
                workspace.last_failed_op = position
                for later in definition.op[position:]:  # genuine makes the outputs of a net that it refuses, too
                    for name in later.output:
                        workspace.create_blob(name)
                if isinstance(e, OperatorError):
                    raise OperatorError(f"{e}\n  operator {position} of net {self.name!r}") from e.__cause__
                raise

    def _introduce(self, context: Any, position: int) -> None:
        """Tell an operator of the net around it."""
        context.siblings, context.position = self.definition.op, position
        context.in_order, context.shared, context.progress = self.in_order, self._shared, self.progress

    def run(self) -> bool:
        """Run all operators once."""
        self.progress.runs += 1
        if self.cancelled.is_set():
            self.cancelled.clear()
        if self.observers:
            return self._run_observed()
        with quiet():
            token = self._token
            if token is not None and token[0]:
                return self._replay(token)
            return self._run_from(0)

    def release(self) -> None:
        """The net will not run again: void what it has bound."""
        self.cancel()
        if self._token is not None:
            self._token[0] = False

    def cancel(self) -> None:
        """Ask a run in another thread to stop: operators that wait give up."""
        self.cancelled.set()

    # ---- the general path ------------------------------------------------------------------------------------

    def _run_from(self, start: int) -> bool:
        """Run operators `start` and later, one by one; then bind them if all goes well."""
        self._wait -= 1
        bind = start == 0 and self._wait < 0
        position = start
        try:
            if bind:
                for step in self.steps:
                    step.run_noted()
                    position += 1
            else:
                for step in self.steps[start:] if start else self.steps:
                    step.run()
                    position += 1
        except Exception as e:
            return self._failed(position, e)
        if bind:
            self._bind()
        return True

    def _failed(self, position: int, error: Exception) -> bool:
        step = self.steps[position]
        self.workspace.last_failed_op = position
        if isinstance(error, StopNet):
            self.why_stopped = f"operator {position}, {step.op.type}: {error}"
            return False
        raise explain(error, step, self.name) from error.__cause__

    def _run_observed(self) -> bool:
        for o in self.observers:
            o.start_net(self)
        try:
            with quiet():
                for position, step in enumerate(self.steps):
                    for o in self.observers:
                        o.start_operator(self, position)
                    try:
                        step.run()
                    except Exception as e:
                        return self._failed(position, e)
                    for o in self.observers:
                        o.stop_operator(self, position)
        finally:
            for o in self.observers:
                o.stop_net(self)
        return True

    # ---- replay ----------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        """Make the list of callables that repeats the run which has just ended, if its arrays allow it."""
        self._wait = self._patience
        self._patience = min(2 * self._patience, _MAX_PATIENCE)
        token = [True]
        calls: list[Callable[[], Any]] = []
        step_of: list[int] = []
        current: dict[Blob, Any] = {}  # which array each blob will hold at this point of a replay
        written: set[Blob] = set()
        for position, step in enumerate(self.steps):
            assert step.known is not None
            for blob, array in zip(step.inputs, step.known):
                held = current.setdefault(blob, blob.value)
                if held is not array:
                    return  # it read what a later operator replaces: the next run will read something else
            for blob, array in zip(step.outputs, step.made):
                held = current.get(blob, blob.value)
                if held is not array and not step.record.stateful:
                    if array is None or blob.storage is None or not _views(array, blob):
                        return
                    if blob in step.inputs and step.device is not HOST:
                        return  # reshapes in place, and on a GPU reads its input from the blob each time
                    calls.append(functools.partial(_show, blob, array, token))
                    step_of.append(position)
                current[blob] = array
                written.add(blob)
            calls.append(step.bind(token))
            step_of.append(position)
        for blob, array in current.items():
            if blob.value is not array:
                return
        for blob in current:
            blob.tokens[:] = [t for t in blob.tokens if t[0]] + [token]
        self._token, self._calls, self._step_of = token, calls, step_of

    def _replay(self, token: list[bool]) -> bool:
        calls = iter(self._calls)
        try:
            for call in calls:
                call()
        except Exception as e:
            at = len(self._calls) - calls.__length_hint__() - 1  # type: ignore[attr-defined]
            position = self._step_of[at]
            if isinstance(e, Stale):
                return self._run_from(position + 1)
            self._token = None
            return self._failed(position, e)
        self._patience = 1
        return True


def _views(array: Any, blob: Blob) -> bool:
    """Whether the array is a view of the blob's present storage."""
    return blob._views.get(array.shape) is array


def _show(blob: Blob, array: Any, token: list[bool]) -> None:
    """Within a replay: the blob's tensor becomes another view of its storage; this replay knows."""
    blob.value = array
    if len(blob.tokens) > 1 or (blob.tokens and blob.tokens[0] is not token):
        told, blob.tokens = blob.tokens, [t for t in blob.tokens if t is token]
        for other in told:
            if other is not token:
                other[0] = False


def _on_device(op: Any, definition: Any) -> Any:
    """The operator with the net's device option under its own, field by field."""
    if not definition.HasField("device_option"):
        return op
    merged = caffe2_pb2.OperatorDef()
    merged.CopyFrom(op)
    merged.device_option.CopyFrom(definition.device_option)
    merged.device_option.MergeFrom(op.device_option)
    return merged


def check_externals(definition: Any, workspace: Workspace) -> None:
    """EngineError where the net's declared inputs and outputs do not fit its operators."""
    if not definition.external_input and not definition.external_output:
        return
    known = set(definition.external_input)
    made: set[str] = set()
    for position, op in enumerate(definition.op):
        for name in op.input:
            if definition.external_input and name not in known and name not in made:
                raise EngineError(
                    f"net {definition.name!r}: input {name!r} of operator {position} ({op.type}) is made by no earlier "
                    f"operator and is not among the net's external inputs"
                )
        made.update(op.output)
    for name in definition.external_output:
        if name not in made and name not in known:
            raise EngineError(f"net {definition.name!r}: external output {name!r} is made by no operator of the net")


_KINDS: dict[str, Callable[..., Net]] = {}


def net_type(*names: str) -> Callable[[Any], Any]:
    """Decorator: the class runs nets of these types."""

    def register(cls: Any) -> Any:
        for name in names:
            _KINDS[name] = cls
        return cls

    return register


net_type("", "simple", "simple_refcount", "async_simple", "singlethread_async")(Net)


def net_types() -> Sequence[str]:
    """Names of all net types."""
    return sorted(n for n in _KINDS if n)


def make_net(definition: Any, workspace: Workspace, once: bool = False) -> Net:
    """Compile a NetDef in a workspace.  `once`: it will run only once, so nothing is prepared for more."""
    try:
        check_names(definition)
    except ValueError as e:
        raise EngineError(str(e)) from None
    kind = _KINDS.get(definition.type)
    if kind is None:
        raise EngineError(
            f"net {definition.name!r} has the type {definition.type!r}, which does not exist; there are {', '.join(net_types())}"
        )
    check_externals(definition, workspace)
    return kind(definition, workspace, once)
