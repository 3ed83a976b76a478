"""Tensors held from Python: `workspace.C.Workspace().blobs[...].tensor()`."""

import numpy as np
import pytest
from caffe2.python import core, workspace


def test_memory_is_shared_until_it_is_made_anew():
    scope = workspace.C.Workspace()
    scope.create_blob("t").feed(np.array([1.0, 2.0]))
    tensor = scope.blobs["t"].tensor()
    tensor.data[0] = 7
    assert scope.blobs["t"].fetch().tolist() == [7.0, 2.0]
    tensor.init([2, 3], core.DataType.INT32)
    tensor.data[...] = 5
    assert scope.blobs["t"].fetch().tolist() == [[5, 5, 5], [5, 5, 5]]


@pytest.mark.parametrize("kind", [core.DataType.STRING, core.DataType.UNDEFINED])
def test_none_is_made_of_strings_or_nothing(kind):
    scope = workspace.C.Workspace()
    scope.create_blob("t").feed(np.zeros(1))
    with pytest.raises(RuntimeError, match="feed an array"):
        scope.blobs["t"].tensor().init([3], kind)
