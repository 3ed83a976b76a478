"""Which engines operators try besides those that they name themselves (`workspace.C.set_engine_pref` and its kin)."""

from __future__ import annotations

from caffe2lite.proto import caffe2_pb2

everywhere: dict[int, list[str]] = {}  # by device type
of_operators: dict[str, dict[int, list[str]]] = {}  # by operator type, and device type


def engines(op: caffe2_pb2.OperatorDef) -> list[str]:
    """Engines to try for an operator: those it names, those preferred for its type, those preferred for all."""
    if not (of_operators or everywhere or op.engine):
        return []
    device = op.device_option.device_type
    named = [engine for engine in op.engine.split(",") if engine]
    return [*named, *of_operators.get(op.type, {}).get(device, ()), *everywhere.get(device, ())]
