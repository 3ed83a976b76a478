"""If, While, Do and ONNX's Loop, against the same in Python."""

import numpy as np
import pytest
from running import definition
from session import Session

from caffe2lite.engine.errors import OperatorError
from caffe2lite.proto import caffe2_pb2

TRUE, FALSE = np.array([True]), np.array([False])


def net(name, *ops, inputs=(), outputs=()):
    made = caffe2_pb2.NetDef(name=name, external_input=inputs, external_output=outputs)
    made.op.extend(definition(kind, i.split(), o.split(), args) for kind, i, o, args in ops)
    return made


ADD = net("add", ("Add", "x one", "x", {}))
DOUBLE = net("double", ("Add", "x x", "x", {}))


@pytest.mark.parametrize(("condition", "want"), [(TRUE, 6), (FALSE, 10)])
def test_if(condition, want):
    do = Session(c=condition, x=[5.0], one=[1.0])
    do("If", "c x one", "x", then_net=ADD, else_net=DOUBLE)
    assert do["x"] == want
    do.feed(x=[5.0])
    do("If", "c x one", "x", then_net=ADD)
    assert do["x"] == (6 if condition else 5)


def test_while():
    do = Session(c=TRUE, x=[1.0], limit=[100.0])
    body = net("body", ("Add", "x x", "x", {}), ("LT", "x limit", "c", {}))
    do("While", "c x limit", "x c", loop_net=body)
    assert do["x"] == 128
    do.feed(x=[1.0])
    do("While", "c x limit", "x c", loop_net=DOUBLE, cond_net=net("cond", ("LT", "x limit", "c", {})))
    assert do["x"] == 128


def test_do_in_a_workspace_of_its_own():
    do = Session(a=np.array([3], "f"), y=np.array([0], "f"))
    do("CreateScope", "", "scope")
    assert do("HasScope", "scope", "h")[0].tolist() == [False]
    inner = net("inner", ("Add", "p p", "q", {}), ("Sqr", "q", "local", {}))
    do("Do", "a scope", "y scope", net=inner, inner_blobs=["p", "q"], outer_blobs_idx=[0, 1])
    assert do["y"] == 6 and "local" not in do.workspace.blobs
    assert do("HasScope", "scope", "h")[0].tolist() == [True]


def test_barrier():
    do = Session(x=[1.0], y=[[2]])
    a, b = do("AsyncNetBarrier", "x y", "a b")
    assert a.tolist() == [1] and b.tolist() == [[2]]
    with pytest.raises(OperatorError, match="2 inputs and 1 outputs"):
        do("AsyncNetBarrier", "x y", "a")


@pytest.mark.parametrize("scopes", [0, 1])
def test_onnx_loop(scopes):
    steps = ("Add", "x x", "x2", {}), ("LT", "x2 limit", "go", {})
    body = net("body", *steps, inputs=["i", "c", "x", "limit"], outputs=["go", "x2", "x2"])
    do = Session(n=[4], c=TRUE, x=[1.0], limit=[50.0])
    last, all_of_them = do("ONNXWhile", "n c x", "y ys", body=body, has_trip_count=1, has_cond=1, disable_scopes=scopes)
    assert last == 16 and all_of_them.tolist() == [2, 4, 8, 16]
    do.feed(x=[1.0])  # without scopes the body has written it
    last, all_of_them = do("ONNXWhile", "n c x", "y ys", body=body, has_cond=1, disable_scopes=scopes)
    assert last == 64 and all_of_them.tolist() == [2, 4, 8, 16, 32, 64]


def test_refusals():
    do = Session(c=[1.0, 2.0], yes=TRUE, x=[1.0], n=[1])
    do("CreateScope", "", "scope")
    for words, kind, inputs, outputs, args in (
        (r"one bool, got float64\[2\]", "If", "c x", "x", {"then_net": DOUBLE}),
        (r"one bool, got float64\[2\]", "While", "c x", "x", {"loop_net": DOUBLE}),
        ("the argument 'then_net'", "If", "yes x", "x", {}),
        (r"a scope .* is needed, found a tensor", "Do", "x", "x", {"net": DOUBLE}),
        (r"a scope .* is needed, found a tensor", "HasScope", "x", "y", {}),
        (
            "1 inner_blobs are given and 0 outer_blobs_idx",
            "Do",
            "scope",
            "scope",
            {"net": DOUBLE, "inner_blobs": ["x"]},
        ),
        (
            "outer_blobs_idx 3 of 'x' is not within 0 to 0",
            "Do",
            "x scope",
            "scope",
            {"net": DOUBLE, "inner_blobs": ["x"], "outer_blobs_idx": [3]},
        ),
        ("with 1 carried; found 0 inputs", "ONNXWhile", "n yes x", "y", {"body": DOUBLE}),
    ):
        with pytest.raises(OperatorError, match=words):
            do(kind, inputs, outputs, **args)


def test_an_error_within_names_the_operator_within():
    with pytest.raises(OperatorError, match=r"cannot be broadcast(.|\n)*Add"):
        Session(c=TRUE, x=[1.0, 2], one=[1.0, 2, 3])("If", "c x one", "x", then_net=ADD)
