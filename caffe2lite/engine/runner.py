"""What runs in a workspace: nets that are compiled and kept there under their names, and single operators."""

from __future__ import annotations

import contextlib

from google.protobuf.message import DecodeError

from caffe2lite.engine.errors import EngineError, OperatorError, StopNet, explain
from caffe2lite.engine.graph import GraphNet
from caffe2lite.engine.instance import Instance, Stale, Surroundings, first_fault
from caffe2lite.engine.net import Net, quiet
from caffe2lite.engine.workspace import CompiledNet, Workspace
from caffe2lite.proto import caffe2_pb2
from caffe2lite.proto.names import check_names

_MOST_SINGLE_OPERATORS = 256  # that a workspace keeps ready

NET_TYPES: dict[str, type[Net]] = {
    "": Net,
    "simple": Net,
    "simple_refcount": Net,
    "async_simple": Net,
    "singlethread_async": Net,
    "dag": GraphNet,
    "async_dag": GraphNet,
    "async_polling": GraphNet,
    "async_scheduling": GraphNet,
    "prof_dag": GraphNet,
    "parallel": GraphNet,
}


def runs_in_order(net: caffe2_pb2.NetDef) -> bool:
    """Whether the net's type runs one operator after the other; an unknown type does, too."""
    return NET_TYPES.get(net.type, Net).in_order


def make_net(definition: caffe2_pb2.NetDef, workspace: Workspace, once: bool = False) -> Net:
    """Compile a NetDef in a workspace.  `once`: it will run only once, so nothing is prepared for more."""
    try:
        check_names(definition)
    except ValueError as e:
        raise EngineError(str(e)) from None
    kind = NET_TYPES.get(definition.type)
    if kind is None:
        known = ", ".join(sorted(filter(None, NET_TYPES)))
        raise EngineError(
            f"net {definition.name!r} has the type {definition.type!r}, which does not exist; there are {known}"
        )
    for op in definition.op:
        if op.device_option.node_name:
            raise EngineError(
                f"net {definition.name!r}: {op.type} has the node_name {op.device_option.node_name!r}, which no operator may "
                "have when it runs: a session takes nets to their nodes before"
            )
    _check_externals(definition)
    return kind(definition, workspace, make_net, once)


def _check_externals(definition: caffe2_pb2.NetDef) -> None:
    """EngineError where the net's declared inputs and outputs do not fit its operators."""
    if not definition.external_input and not definition.external_output:
        return
    known = set(definition.external_input)
    declared = bool(known)
    made: set[str] = set()
    for position, op in enumerate(definition.op):
        if declared:
            for name in op.input[:]:
                if name not in known and name not in made:
                    raise EngineError(
                        f"net {definition.name!r}: input {name!r} of operator {position} ({op.type}) is made by no earlier "
                        f"operator and is not among the net's external inputs"
                    )
        made.update(op.output[:])
    for name in definition.external_output:
        if name not in made and name not in known:
            raise EngineError(f"net {definition.name!r}: external output {name!r} is made by no operator of the net")


# ---- nets --------------------------------------------------------------------------------------------------------


def create_net(workspace: Workspace, definition: caffe2_pb2.NetDef, overwrite: bool = False) -> Net:
    """Compile a NetDef and keep it under its name."""
    name = definition.name
    if name in workspace.nets:
        if not overwrite:
            raise EngineError(
                f"net {name!r} exists in this workspace; pass overwrite=True to replace it, or ResetWorkspace"
            )
        delete_net(workspace, name)
    made = workspace.nets[name] = make_net(definition, workspace)
    return made


def get_net(workspace: Workspace, name: str) -> CompiledNet:
    """The net of that name, in the workspace or in a parent; EngineError where there is none."""
    found = workspace.nets.get(name)
    if found is not None:
        return found
    if workspace.parent is not None:
        return get_net(workspace.parent, name)
    known = ", ".join(sorted(workspace.nets)[:5]) or "none"
    raise EngineError(f"Can't find net {name!r} in this workspace (nets here: {known}); CreateNet makes it")


def delete_net(workspace: Workspace, name: str) -> None:
    """Forget a net; nothing happens where there is none."""
    net = workspace.nets.pop(name, None)
    if net is not None:
        net.release()


def run_net(workspace: Workspace, name: str, times: int = 1, allow_fail: bool = False) -> bool:
    """Run a net that was created.  False where it stopped (a closed queue) and `allow_fail`."""
    net = workspace.nets.get(name) or get_net(workspace, name)
    for _ in range(times):
        if not net.run():
            if allow_fail:
                return False
            raise EngineError(f"Error running net {name}: it stopped ({net.why_stopped})")
    return True


def run_net_once(workspace: Workspace, definition: caffe2_pb2.NetDef) -> bool:
    """Compile a NetDef, run it and forget it."""
    made = make_net(definition, workspace, once=True)
    if not made.run():
        raise EngineError(f"Error running net {definition.name}: it stopped ({made.why_stopped})")
    return True


# ---- single operators --------------------------------------------------------------------------------------------


def run_operator(workspace: Workspace, op: caffe2_pb2.OperatorDef | bytes, runs: int = 1) -> bool:
    """Run one OperatorDef, which may come serialised, `runs` times; one that stops, as at a closed queue, is an error.

    What the operator keeps for itself lasts for these runs.
    """
    key = op if isinstance(op, bytes) else op.SerializeToString()
    run = workspace.single_operators.get(key) or _single_operator(workspace, key)
    with quiet():
        return all(run() for _ in range(runs))


class _SingleOperator:
    """An operator outside of nets.  Where its arrays are those of the run before, it is replayed as in a net."""

    __slots__ = ("again", "instance", "token")

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.token = [False]
        self.again = instance.run

    def __call__(self) -> bool:
        instance = self.instance
        try:
            if self.token[0]:
                with contextlib.suppress(Stale):  # it has run, and the next time other arrays are there
                    self.again()
            else:
                instance.run_noted()
                self._bind()
            fault = first_fault(instance.findings) if instance.findings else None
            if fault is not None:
                raise fault[1]
        except StopNet as e:
            raise OperatorError(f"operator {instance.op.type} stopped: {e}") from None
        except Exception as e:
            raise explain(e, instance) from e.__cause__
        return True

    def _bind(self) -> None:
        instance = self.instance
        blobs = [*instance.inputs, *instance.outputs]
        arrays = [*(instance.checked_arrays or ()), *instance.noted_outputs]
        if instance.waits or any(blob.value is not array for blob, array in zip(blobs, arrays)):
            return
        self.token = [True]
        self.again = instance.bind(self.token)
        for blob in set(blobs):
            blob.listen(self.token)


def _single_operator(workspace: Workspace, content: bytes) -> _SingleOperator:
    op = caffe2_pb2.OperatorDef()
    try:
        op.ParseFromString(content)
        check_names(caffe2_pb2.NetDef(op=[op]))
    except (DecodeError, ValueError) as e:
        raise EngineError(f"these {len(content)} bytes are no OperatorDef: {e}") from None
    made = _SingleOperator(Instance(op, workspace, Surroundings(make_net, [op])))
    if not made.instance.record.stateful:  # state lives for these runs only
        ready = workspace.single_operators
        if len(ready) >= _MOST_SINGLE_OPERATORS:
            ready.clear()
        ready[content] = made
    return made
