"""InferShapesAndTypes: what is known, what is not, and what stays as it was."""

import json
import random

import golden_cases
import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace

from caffe2lite.engine.inference import infer_operator, operator_cost_of, workspace_specs
from caffe2lite.inspect.clashes import clash_of
from caffe2lite.ops.kit import dtypes
from caffe2lite.ops.kit.infer import UNKNOWN


@pytest.fixture(autouse=True)
def fresh():
    workspace.ResetWorkspace()
    workspace.FeedBlob("X", np.zeros((4, 6), "f"))
    workspace.FeedBlob("A", np.zeros((4, 2), "f"))
    workspace.FeedBlob("s", np.array([1, 5], "i"))
    workspace.FeedBlob("old", np.zeros(7, "i"))
    yield
    workspace.ResetWorkspace()


def infer(*ops):
    net = core.Net("inferred")
    net.Proto().op.extend(ops)
    return workspace.InferShapesAndTypes([net])[0]


def op(kind, inputs, outputs, **args):
    return core.CreateOperator(kind, inputs, outputs, **args)


# expected: what genuine Caffe2 answers
@pytest.mark.parametrize(
    "inputs, args, expected",
    [
        (["X"], {"axis": 1}, [[4, 3], [4, 3]]),
        (["X"], {"axis": 1, "split": [1, 5]}, [[4, 1], [4, 5]]),
        (["X", "s"], {"axis": 1}, [None, None]),
        (["X"], {"axis": 1, "split": [1, 1]}, [None, None]),
        (["X"], {"axis": 1, "split": [6]}, [None, None]),
        (["X"], {"axis": 0, "split": [2, 2], "add_axis": 1}, [None, None]),
        (["X"], {"axis": 5}, [None, None]),
    ],
)
def test_split(inputs, args, expected):
    shapes = infer(op("Split", inputs, ["a", "b"], **args))
    assert [shapes.get("a"), shapes.get("b")] == expected


@pytest.mark.parametrize("axis, expected", [(1, [4, 8]), (0, None)])
def test_concat(axis, expected):
    assert infer(op("Concat", ["X", "A"], ["a", "b"], axis=axis)).get("a") == expected


def test_an_input_never_heard_of_leaves_the_outputs_as_they_were():
    assert infer(op("Relu", ["nope"], ["old"]), op("Relu", ["old"], ["next"]))["next"] == [7]


def test_an_input_that_became_unknown_makes_the_output_unknown():
    shapes = infer(op("Unique", ["X"], ["u"]), op("Relu", ["u"], ["old"]))
    assert "u" not in shapes and "old" not in shapes


def test_the_gradient_of_concat_has_the_shapes_of_its_inputs():
    gradient = op("Split", ["dY", "sizes"], ["dX", "dA"], axis=1)
    gradient.is_gradient_op = True
    workspace.FeedBlob("dY", np.zeros((4, 8), "f"))
    shapes = infer(op("Concat", ["X", "A"], ["Y", "sizes"], axis=1), gradient)
    assert (shapes["dX"], shapes["dA"]) == ([4, 6], [4, 2])


# Of these genuine infers something else than it makes: a bound, and the shape of the iteration.
BESIDE = {"GatherRanges", "LearningRate"}


@pytest.mark.parametrize("kind", [k for k in golden_cases.types("operators") if k not in BESIDE])
def test_what_is_inferred_is_what_genuine_made(kind):
    wrong = []
    elsewhere = {
        "DivGradient/case_006",  # genuine's broadcast of one element loses a dimension
        "DotProduct/case_506",  # of rows without columns, which genuine makes no results of
    }
    for name, files in golden_cases.cases("operators", kind):
        if f"{kind}/{name}" in elsewhere or json.loads(files["meta.json"]).get("engine_error"):
            continue
        scope, operator = golden_cases.load(files)
        for i, (blob, spec) in enumerate(zip(operator.output, infer_operator(operator, workspace_specs(scope)))):
            content = files.get(f"out_{i}.blob")
            made = content and caffe2_pb2.BlobProto.FromString(content)
            if spec is UNKNOWN or not made or made.type != "Tensor" or blob in operator.input:
                continue
            # genuine infers int32 for the indices of TopK, and makes int64
            kind_of = None if spec.dtype is None or kind == "TopK" else dtypes.NUMBERS[spec.dtype]
            if list(spec.shape) != list(made.tensor.dims) or kind_of not in (None, made.tensor.data_type):
                wrong.append(f"{name} {blob}: {spec}, made {list(made.tensor.dims)} type {made.tensor.data_type}")
    assert not wrong, "\n".join(wrong)


def changed(rng, operator, specs):
    """An operator and what its inputs are, one of the two not as recorded: most operators would refuse it."""
    other = caffe2_pb2.OperatorDef()
    other.CopyFrom(operator)
    what = rng.randrange(5)
    if what == 0 and other.arg:
        del other.arg[rng.randrange(len(other.arg))]
    elif what == 1:
        del other.output[rng.randrange(len(other.output) + 1) :]
    elif what == 2:
        del other.input[rng.randrange(len(other.input) + 1) :]
    elif what == 3:
        for arg in other.arg:
            if arg.HasField("i"):
                arg.i = rng.choice((-3, -1, 0, 1, 2, 7))
    else:
        shapes = {name: tuple(rng.choice((0, 1, 2, 3, 6)) for _ in range(rng.randrange(5))) for name in specs}
        specs = {name: spec._replace(shape=rng.choice((spec.shape, shapes[name]))) for name, spec in specs.items()}
    return other, specs


@pytest.mark.parametrize("part", ["operators", "detectron"])
def test_inference_says_unknown_and_never_fails(part):
    """Each recorded operator without one of its inputs, and with another shape, argument or number of operands."""
    rng = random.Random(0)
    for kind in golden_cases.types(part):
        for _, files in golden_cases.cases(part, kind):
            scope, operator = golden_cases.load(files)
            specs = workspace_specs(scope)
            partial = [(operator, {n: s for n, s in specs.items() if n != name}) for name in specs]
            for asked, known in [*partial, *(changed(rng, operator, specs) for _ in range(3))]:
                assert len(infer_operator(asked, known)) == len(asked.output)
                cost = operator_cost_of(asked, known)
                assert cost is None or len(cost) == 3


def test_what_passes_the_sizes_of_concat_on_is_not_the_sizes():
    ops = [
        op("Concat", ["X", "A"], ["Y", "sizes"], axis=1),
        op("Scale", ["sizes"], ["twice"], scale=2.0),
        op("Split", ["Y", "sizes"], ["a", "b"], axis=1),
        op("Split", ["Y", "twice"], ["c", "d"], axis=1),
    ]
    shapes = infer(*ops)
    assert (shapes["a"], shapes["b"], shapes["twice"]) == ([4, 6], [4, 2], [2])
    assert "c" not in shapes and "d" not in shapes


@pytest.mark.parametrize("args, expected", [({}, [13, 2]), ({"padding_width": 2, "end_padding_width": 0}, [13, 2])])
def test_padding_of_each_range(args, expected):
    workspace.FeedBlob("rows", np.zeros((9, 2), "f"))
    workspace.FeedBlob("lengths", np.array([4, 5], "i"))
    assert infer(op("AddPadding", ["rows", "lengths"], ["y", "z"], **args))["y"] == expected


def test_int8_net_has_the_shapes_that_it_makes():
    image = {"order": "NHWC", "Y_scale": 0.1}
    ops = [
        op("Int8GivenTensorFill", [], ["w"], shape=[6, 3, 3, 4], values=b"\2" * 216, Y_scale=0.1),
        op("Int8GivenIntTensorFill", [], ["b"], shape=[6], values=[1] * 6, Y_scale=0.01),
        op("Int8Quantize", ["pixels"], ["q"], Y_scale=0.1),
        op("Int8Conv", ["q", "w", "b"], ["c"], kernel=3, stride=2, pad=1, **image),
        op("Int8Relu", ["c"], ["r"], Y_scale=0.1),
        op("Int8MaxPool", ["r"], ["p"], kernel=2, stride=1, **image),
        op("Int8ResizeNearest", ["p"], ["n"], width_scale=2.0, height_scale=3.0, Y_scale=0.1),
        op("Int8Concat", ["n", "n"], ["cc"], axis=3, Y_scale=0.1),
        op("Int8Flatten", ["cc"], ["f"], Y_scale=0.1),
        op("Int8Dequantize", ["f"], ["real"]),
    ]
    workspace.FeedBlob("pixels", np.random.rand(2, 9, 7, 4).astype("f"))
    shapes = infer(*ops)
    for one in ops:
        workspace.RunOperatorOnce(one)
    for name in ("w", "b", "q", "c", "r", "p", "n", "cc", "f"):
        assert shapes[name] == list(workspace.FetchInt8Blob(name).data.shape), name
    assert shapes["real"] == list(workspace.FetchBlob("real").shape)


def test_gather_of_no_entries():
    workspace.FeedBlob("rows", np.zeros((0, 3), "f"))
    workspace.FeedBlob("indices", np.array([5], "i"))
    workspace.RunOperatorOnce(op("Gather", ["rows", "indices"], ["y"]))
    assert workspace.FetchBlob("y").shape == (0, 3)


def test_what_genuine_runs_is_no_clash():
    """Lint's clashes of shapes and types, over all recorded cases: none of those that ran, many of those refused."""
    wrong, refused, found = [], 0, 0
    for kind in golden_cases.types("operators"):
        for name, files in golden_cases.cases("operators", kind):
            scope, operator = golden_cases.load(files)
            clash = clash_of(operator, workspace_specs(scope))
            if json.loads(files["meta.json"]).get("engine_error"):
                refused, found = refused + 1, found + bool(clash)
            elif clash:
                wrong.append(f"{kind}/{name}: {clash}")
    assert not wrong, "\n".join(wrong)
    assert found > refused / 4


def test_types_are_inferred_as_caffe2_infers_them_where_a_run_would_refuse_or_differ():
    net = core.Net("n")
    net.ConstantFill([], "half", shape=[2], dtype=core.DataType.FLOAT16)  # does not run
    net.IndexHash(["indices"], ["hashed"])  # without modulo, which a run needs
    net.Concat(["a", "a"], ["joined", "sizes"], add_axis=1, order="NHWC")  # a run adds an axis only if told which
    shapes, types = workspace.InferShapesAndTypes([net], {"a": [2, 5, 3, 4], "indices": [64]})
    assert (shapes["half"], types["half"]) == ([2], core.DataType.FLOAT16)
    assert shapes["hashed"] == [64] and shapes["joined"] == [2, 5, 3, 2, 4]
