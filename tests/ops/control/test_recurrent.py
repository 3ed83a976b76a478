"""RecurrentNetwork at its barest, and the operators within its steps; the cells are in tests/python/test_recurrent.py."""

import numpy as np
import pytest
from running import definition
from session import Session

from caffe2lite.engine.errors import OperatorError
from caffe2lite.proto import caffe2_pb2

X = np.arange(12, dtype="f").reshape(4, 3, 1)
LINKS = {"link_internal": ["x_t", "h", "h_next"], "link_external": ["x", "hs", "hs"], "link_offset": [0, 0, 1]}
ARGS = {"recurrent_states": ["hs"], "initial_recurrent_state_ids": [1], "alias_src": ["hs", "hs"], "alias_dst": ["all", "last"],
        "alias_offset": [1, -1], **LINKS}  # fmt: skip


def step():
    return caffe2_pb2.NetDef(name="step", op=[definition("Add", ["h", "x_t"], ["h_next"])])


@pytest.mark.parametrize("initial", [np.ones(1, "f"), np.ones((3, 1), "f"), np.ones((1, 3, 1), "f")])
@pytest.mark.parametrize("as_text", [False, True])
def test_running_sums(initial, as_text):
    do = Session(x=X, h0=initial)
    net = str(step()) if as_text else step()
    whole, last = do("RecurrentNetwork", "x h0", "all last steps", step_net=net, **ARGS)[:2]
    np.testing.assert_array_equal(whole, 1 + np.cumsum(X, axis=0))
    np.testing.assert_array_equal(last, 1 + X.sum(axis=0, keepdims=True))
    (names,) = do("RecurrentNetworkBlobFetcher", "steps", "names", prefix="p")
    assert b"p_h_next3" in names.tolist()
    np.testing.assert_array_equal(do["p_h_next3"].reshape(3, 1), last[0])


def test_a_second_run_may_be_longer():
    do = Session(x=X[:2], h0=np.zeros(1, "f"))
    for x in (X[:2], X, X[:3]):
        do.feed(x=x)
        (whole, *_) = do("RecurrentNetwork", "x h0", "all last steps", step_net=step(), **ARGS)
        np.testing.assert_array_equal(whole, np.cumsum(x, axis=0))


def test_links_within_a_step():
    do = Session(t=np.array([1], "int32"), x=X, g=np.zeros((5, 3, 1), "f"))
    part = do("rnn_internal_apply_link", "t x", "part x", offset=1, window=2)[0]
    np.testing.assert_array_equal(part, X[2:4])
    (total,) = do("rnn_internal_accumulate_gradient_input", "t x g", "g", offset=1)
    want = np.zeros((5, 3, 1), "f")
    want[2] = X[1]  # the gradient has a step more, the initial state
    np.testing.assert_array_equal(total, want)


def test_refusals():
    do = Session(x=X, h0=np.zeros(1, "f"), t=np.array([3], "int32"), g=np.zeros((5, 3, 1), "f"))
    far = {**ARGS, "link_offset": [1, 0, 1]}
    for words, kind, inputs, outputs, args in (
        (
            "3 internal, 3 external, 2 offsets",
            "RecurrentNetwork",
            "x h0",
            "all last steps",
            {**ARGS, "step_net": step(), "link_offset": [0, 0]},
        ),
        (
            "link 'x_t' wants step 4 of 'x', which has 4",
            "RecurrentNetwork",
            "x h0",
            "all last steps",
            {**far, "step_net": step()},
        ),
        (
            "argument step_net holds no net",
            "RecurrentNetwork",
            "x h0",
            "all last steps",
            {**ARGS, "step_net": b"op: 7"},
        ),
        (
            r"the workspaces of a RecurrentNetwork.* is needed, found a tensor",
            "RecurrentNetworkBlobFetcher",
            "x",
            "n",
            {},
        ),
        (
            r"the workspaces of a RecurrentNetwork.* is needed, found a tensor",
            "RecurrentNetworkGradient",
            "x x",
            "g",
            {"backward_step_net": step(), "outputs_with_grads": [0]},
        ),
        ("steps 4 to 4 are not within the 4", "rnn_internal_apply_link", "t x", "p x", {"offset": 1}),
        (r"step 5 of the gradient \[5, 3, 1\]", "rnn_internal_accumulate_gradient_input", "t x g", "g", {"offset": 2}),
    ):
        with pytest.raises(OperatorError, match=words):
            do(kind, inputs, outputs, **args)
