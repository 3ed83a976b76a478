"""A blob that holds no tensor, where one is needed."""

import pytest
from running import definition

from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import registry

FOREIGN = {"collective", "control"}  # control operators take objects, and collectives other processes
KINDS = [n for n in registry.names() if (r := registry.find(n)).inputs and r.module.split(".")[2] not in FOREIGN]
UNREAD = {"UniformFill", "UniformIntFill"}  # without input_as_shape they do not look at their input


@pytest.mark.parametrize("kind", KINDS)
def test_a_counter_is_no_tensor(kind):
    record = registry.find(kind)
    count = min(record.input_counts, default=max(record.min_inputs, 1))
    inputs = [f"in{k}" for k in range(count)]
    places = {o: i for i, o in record.enforced}
    outputs = [inputs[places[o]] if places.get(o, count) < count else f"out{o}" for o in range(record.min_outputs)]
    workspace = Workspace()
    for name in inputs:
        workspace.run_operator(definition("CreateCounter", [], [name]))
    if kind in UNREAD:
        workspace.run_operator(definition(kind, inputs, outputs))
        return
    with pytest.raises(OperatorError) as caught:
        workspace.run_operator(definition(kind, inputs, outputs))
    assert "AttributeError" not in str(caught.value)
