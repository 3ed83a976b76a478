"""A warmed net repeats what its first run did: every recorded operator, run again and again in one net.

The net binds its operators to the arrays of a run (plan and replay); inputs come anew each time, once in another shape
in between, so that both the bound path and the way back to the general one are seen.
"""

import json

import golden_cases
import numpy as np
import pytest

from caffe2lite.engine import runner
from caffe2lite.ops.kit import registry
from caffe2lite.proto import caffe2_pb2


def _repeatable(kind):
    record = registry.get(kind)
    return record is not None and not record.stateful


def _restore(workspace, saved):
    for name, value in saved.items():
        if isinstance(value, np.ndarray):
            workspace.feed(name, value)
        else:  # an object, which stateless operators replace rather than change
            workspace.get_blob(name).hold(value)


def _again(files):
    """What is wrong with a case when its net runs five times; None where nothing is."""
    meta = json.loads(files["meta.json"])
    if meta.get("engine_error") or meta.get("random"):
        return None
    workspace, op = golden_cases.load(files)
    saved = {n: b.value.copy() if b.is_tensor else b.value for n, b in workspace.blobs.items()}
    net = runner.create_net(workspace, caffe2_pb2.NetDef(name="again", op=[op]))
    first = next((n for n, v in saved.items() if isinstance(v, np.ndarray)), None)
    for turn in range(6):
        _restore(workspace, saved)
        if turn == 3 and first is not None:  # another array in the input for one run, which may fail
            workspace.feed(
                first,
                np.zeros((1, 1, 1, 1, 1, 1), saved[first].dtype) if saved[first].dtype != object else saved[first],
            )
            try:
                net.run()
            except Exception:
                pass
            continue
        if not net.run():
            return f"run {turn} stopped"
        for k, name in enumerate(op.output):
            content = files.get(f"out_{k}.blob")
            if content is not None:
                found = golden_cases.difference(workspace, name, content)
                if found:
                    return f"run {turn}, output {k}: {found}"
    return None


@pytest.mark.parametrize("kind", [k for k in golden_cases.types("operators") if _repeatable(k)])
def test_a_net_repeats_itself(kind):
    wrong = [(n, w) for n, files in golden_cases.cases("operators", kind) if (w := _again(files))]
    assert not wrong, f"{len(wrong)} cases differ:\n" + "\n".join(f"  {n}: {w}" for n, w in wrong[:5])
