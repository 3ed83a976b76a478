"""Nets: a NetDef compiled once to operator instances, run in order or as a graph, and replayed when warm.

A run whose operands are what they were replays a list of callables that are bound to the very arrays (plan and
replay, docs/architecture.md).  Each blob that the list touches holds the list's token, and voids it when it gets
another array, so a replay costs nothing to guard.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from caffe2lite.devices import HOST, Array
from caffe2lite.engine.blob import Blob
from caffe2lite.engine.errors import OperatorError, StopNet, explain
from caffe2lite.engine.instance import Instance, NetMaker, Progress, Stale, Surroundings, first_fault
from caffe2lite.engine.observers import Observer
from caffe2lite.engine.workspace import Workspace
from caffe2lite.proto import caffe2_pb2

_QUIET = {"all": "ignore"}  # Caffe2 computes with NaN and Inf without a word,
_STRICT = {"divide": "raise", "over": "raise", "invalid": "raise"}  # unless --caffe2_operator_throw_if_fp_exceptions=1
_floating = dict(_QUIET)


class _Thread(threading.local):
    quiet = False  # whether it computes as `quiet` says already: a loop runs thousands of small nets


_thread = _Thread()


def quiet() -> contextlib.AbstractContextManager[Any]:
    """What operators run under: how NumPy takes divisions by zero and the like."""
    return _ALREADY if _thread.quiet else np.errstate(**_floating)  # type: ignore[arg-type]


_ALREADY = contextlib.nullcontext()


@contextlib.contextmanager
def quiet_thread() -> Iterator[None]:
    """The same for all that this thread runs until the end."""
    _thread.quiet = True
    try:
        with np.errstate(**_floating):  # type: ignore[arg-type]
            yield
    finally:
        _thread.quiet = False


def raise_floating_errors(raises: bool) -> None:
    """Whether a division by zero, an overflow or an invalid number is an error of its operator from now on."""
    _floating.clear()
    _floating.update(_STRICT if raises else _QUIET)


_MAX_PATIENCE = 64  # runs to wait at most before trying again to bind a net whose arrays keep changing


class Net:
    """A compiled net.  `run()` is False where it stopped without an error (`why_stopped` says why)."""

    in_order = True  # one operator after the other

    def __init__(
        self, definition: caffe2_pb2.NetDef, workspace: Workspace, make_net: NetMaker, once: bool = False
    ) -> None:
        self.definition = definition
        self.name = definition.name
        self.progress = Progress(definition.name)
        self.workspace = workspace
        self.why_stopped = ""
        self.observers: list[Observer] = []
        self.instances: list[Instance] = []
        self.cancelled = threading.Event()
        self._token: list[bool] | None = None
        self._calls: list[Callable[[], Any]] = []
        self._instance_of: list[int] = []
        self._wait = 0 if not once else 1 << 60  # runs until binding is tried
        self._patience = 1
        around = Surroundings(
            make_net,
            definition.op,
            self.in_order,
            cancelled=self.cancelled,
            observers=self.observers,
            progress=self.progress,
        )
        self.findings = around.findings
        placed = definition.HasField("device_option")
        for position, op in enumerate(definition.op):
            try:
                whole = _on_device(op, definition) if placed else op
                self.instances.append(Instance(whole, workspace, around, position))
            except Exception as e:
                workspace.last_failed_op = position
                if isinstance(e, OperatorError):
                    raise OperatorError(f"{e}\n  operator {position} of net {self.name!r}") from e.__cause__
                raise

        self._nests = any(instance.record.stateful for instance in self.instances)  # they may run nets of their own

    def run(self) -> bool:
        """Run all operators once."""
        self.progress.runs += 1
        if self.cancelled.is_set():
            self.cancelled.clear()
        if self.observers:
            return self._run_observed()
        token = self._token
        go = self._replay if token is not None and token[0] else self._run_from
        if _thread.quiet:
            done = go()
        elif self._nests:
            with quiet_thread():
                done = go()
        else:
            with np.errstate(**_floating):  # type: ignore[arg-type]
                done = go()
        return self.ask_gpus(done) if self.findings else done

    def release(self) -> None:
        """The net will not run again: void what it has bound."""
        self.cancel()
        if self._token is not None:
            self._token[0] = False

    def cancel(self) -> None:
        """Ask a run in another thread to stop: operators that wait give up."""
        self.cancelled.set()

    # ---- the general path ------------------------------------------------------------------------------------

    def _run_from(self, start: int = 0) -> bool:
        """Run operators `start` and later, one by one; then bind them if all goes well."""
        self._wait -= 1
        bind = start == 0 and self._wait < 0
        position = start
        try:
            if bind:
                for instance in self.instances:
                    instance.run_noted()
                    position += 1
            else:
                for instance in self.instances[start:] if start else self.instances:
                    instance.run()
                    position += 1
        except Exception as e:
            return self._failed(position, e)
        if bind:
            self._bind()
        return True

    def ask_gpus(self, done: bool) -> bool:
        """Whether kernels have found a fault; what the run would return otherwise."""
        fault = first_fault(self.findings)
        return done if fault is None else Net._failed(self, self.instances.index(fault[0]), fault[1])

    def _failed(self, position: int, error: Exception) -> bool:
        earlier = first_fault(self.findings) if self.findings else None
        if earlier is not None:
            position, error = self.instances.index(earlier[0]), earlier[1]
        instance = self.instances[position]
        self.workspace.last_failed_op = position
        if isinstance(error, StopNet):
            self.why_stopped = f"operator {position}, {instance.op.type}: {error}"
            return False
        raise explain(error, instance, self.name) from error.__cause__

    def _run_observed(self) -> bool:
        for o in self.observers:
            o.start_net(self)
        try:
            with quiet():
                for position, instance in enumerate(self.instances):
                    for o in self.observers:
                        o.start_operator(self, position)
                    try:
                        instance.run()
                    except Exception as e:
                        return self._failed(position, e)
                    for o in self.observers:
                        o.stop_operator(self, position)
        finally:
            for o in self.observers:
                o.stop_net(self)
        return self.ask_gpus(True)

    # ---- replay ----------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        """Make the list of callables that repeats the run which has just ended, if its arrays allow it."""
        if any(instance.waits for instance in self.instances):
            return  # what is bound would keep the plain kernels
        self._wait = self._patience
        self._patience = min(2 * self._patience, _MAX_PATIENCE)
        token = [True]
        calls: list[Callable[[], Any]] = []
        instance_of: list[int] = []
        current: dict[Blob, Any] = {}  # which array each blob will hold at this point of a replay
        written: set[Blob] = set()
        for position, instance in enumerate(self.instances):
            assert instance.checked_arrays is not None
            for blob, array in zip(instance.inputs, instance.checked_arrays):
                held = current.setdefault(blob, blob.value)
                if held is not array:
                    return  # it read what a later operator replaces: the next run will read something else
            for blob, array in zip(instance.outputs, instance.noted_outputs):
                held = current.get(blob, blob.value)
                if held is not array and not instance.record.stateful:
                    if array is None or blob.storage is None or not blob.owns(array):
                        return
                    if blob in instance.inputs and instance.device is not HOST:
                        return  # reshapes in place, and on a GPU reads its input from the blob each time
                    calls.append(functools.partial(_show, blob, array, token))
                    instance_of.append(position)
                current[blob] = array
                written.add(blob)
            calls.append(instance.bind(token))
            instance_of.append(position)
        for blob, array in current.items():
            if blob.value is not array:
                return
        for blob in current:
            blob.listen(token)
        self._token, self._calls, self._instance_of = token, calls, instance_of

    def _replay(self) -> bool:
        calls = iter(self._calls)
        try:
            for call in calls:
                call()
        except Exception as e:
            at = len(self._calls) - calls.__length_hint__() - 1  # type: ignore[attr-defined]
            position = self._instance_of[at]
            if isinstance(e, Stale):
                return self._run_from(position + 1)
            self._token = None
            return self._failed(position, e)
        self._patience = 1
        return True


def _show(blob: Blob, array: Array, token: list[bool]) -> None:
    """Within a replay: the blob's tensor becomes another view of its storage; this replay knows."""
    blob.value = array
    if len(blob.tokens) > 1 or (blob.tokens and blob.tokens[0] is not token):
        told, blob.tokens = blob.tokens, [t for t in blob.tokens if t is token]
        for other in told:
            if other is not token:
                other[0] = False


def _on_device(op: caffe2_pb2.OperatorDef, definition: caffe2_pb2.NetDef) -> Any:
    """The operator with the net's device option under its own, field by field."""
    merged = caffe2_pb2.OperatorDef()
    merged.CopyFrom(op)
    merged.device_option.CopyFrom(definition.device_option)
    merged.device_option.MergeFrom(op.device_option)
    return merged
