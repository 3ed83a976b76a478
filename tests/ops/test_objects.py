"""A blob that holds no tensor, where one is needed."""

import numpy as np
import pytest
from running import definition

from caffe2lite.engine import runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import registry

AWAY = {"Crash"}  # ends the process
FOREIGN = {"collective", "control"}  # control operators take objects, and collectives other processes
KINDS = [n for n in registry.names() if (r := registry.find(n)).inputs and r.module.split(".")[2] not in FOREIGN]
UNREAD = {"UniformFill", "UniformIntFill"}  # without input_as_shape they do not look at their input


def operands(kind):
    """Names of as few inputs and outputs as the operator takes."""
    record = registry.find(kind)
    count = min(record.input_counts, default=max(record.min_inputs, 1))
    inputs = [f"in{k}" for k in range(count)]
    places = {o: i for i, o in record.enforced}
    return inputs, [inputs[places[o]] if places.get(o, count) < count else f"out{o}" for o in range(record.min_outputs)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_counter_is_no_tensor(kind):
    inputs, outputs = operands(kind)
    workspace = Workspace()
    for name in inputs:
        runner.run_operator(workspace, definition("CreateCounter", [], [name]))
    if kind in UNREAD:
        runner.run_operator(workspace, definition(kind, inputs, outputs))
        return
    with pytest.raises(OperatorError) as caught:
        runner.run_operator(workspace, definition(kind, inputs, outputs))
    assert "AttributeError" not in str(caught.value)


@pytest.mark.parametrize("kind", sorted(set(registry.names()) - AWAY))
def test_a_tensor_is_no_object(kind):
    if registry.find(kind).module.split(".")[2] == "collective":
        return  # they look for other processes
    inputs, outputs = operands(kind)
    workspace = Workspace()
    for name in inputs:
        workspace.feed(name, np.zeros(1, "f"))
    try:
        runner.run_operator(workspace, definition(kind, inputs, outputs))
    except OperatorError as e:
        assert "AttributeError" not in str(e)
