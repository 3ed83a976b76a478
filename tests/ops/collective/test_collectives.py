"""Collectives of one shard with several blobs; tests/shards runs several processes."""

import numpy as np
import pytest
from running import floats

from caffe2lite.python import core, workspace


@pytest.fixture(autouse=True)
def world():
    workspace.ResetWorkspace()
    workspace.RunOperatorOnce(core.CreateOperator("CreateCommonWorld", [], ["world"], size=1, rank=0))
    yield
    workspace.ResetWorkspace()


def collective(kind, arrays, outputs=None, **args):
    names = [f"x{k}" for k in range(len(arrays))]
    for name, value in zip(names, arrays):
        workspace.FeedBlob(name, np.asarray(value))
    made = names if outputs is None else outputs
    workspace.RunOperatorOnce(core.CreateOperator(kind, ["world", *names], made, **args))
    return [workspace.FetchBlob(name) for name in made]


@pytest.mark.parametrize("shape", [(3, 2), (), (0, 2)])
@pytest.mark.parametrize("n", [1, 2])
def test_blobs_of_one_shard(n, shape):
    xs = [floats(*shape, seed=k) for k in range(n)]
    for found in collective("Allreduce", xs):
        np.testing.assert_allclose(found, sum(xs), rtol=1e-6)
    for found in collective("Broadcast", xs):
        np.testing.assert_array_equal(found, xs[0])
    for found in collective("ReduceScatter", xs):
        np.testing.assert_allclose(found, sum(xs), rtol=1e-6)
    np.testing.assert_array_equal(collective("Reduce", xs[:1], ["y"])[0], xs[0])
    whole = np.stack(xs) if not shape else np.concatenate(xs)
    np.testing.assert_array_equal(collective("Allgather", xs, ["y"])[0], whole)


@pytest.mark.parametrize("kind", ["Allreduce", "Broadcast", "ReduceScatter"])
def test_blobs_that_differ(kind):
    with pytest.raises(
        RuntimeError, match=r"blobs of one operator must be alike: 'x1' is float32\[2\], 'x0' is float32\[3\]"
    ):
        collective(kind, [floats(3), floats(2)])


def test_what_cannot_take_part():
    with pytest.raises(RuntimeError, match="'x0' holds strings, which cannot be sent"):
        collective("Allreduce", [np.array(["a"], object)])
    workspace.FeedBlob("world", floats(1))
    with pytest.raises(RuntimeError, match=r"must be a common world .*'world' is none"):
        collective("Allreduce", [floats(1)])
    for kind, output in (("CloneCommonWorld", "clone"), ("DestroyCommonWorld", "world")):
        with pytest.raises(RuntimeError, match=r"must be a common world .*'world' is none"):
            workspace.RunOperatorOnce(core.CreateOperator(kind, ["world"], [output]))
