"""What lint finds: problems that were planted, in nets, in plans, in shards and in checkpoints beside them."""

import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, optimizer, workspace
from inspected import run, small_net

from caffe2lite import inspect
from caffe2lite.ops.kit.infer import Spec

PLANTED = {
    "C001": lambda net: net.op.add(type="Sofmax", input=["x"], output=["s"]),
    "C002": lambda net: net.op.add(type="Relu", input=["x", "x"], output=["s"]),
    "C003": lambda net: net.op[2].arg.add(name="axes", i=1),
    "C004": lambda net: net.op[0].input.__setitem__(0, "nowhere"),
    "C005": lambda net: net.op.add(type="Relu", input=["x"], output=["unused"]),
    "C006": lambda net: net.op.insert(1, caffe2_pb2.OperatorDef(type="Relu", input=["x"], output=["h"])),
    "C007": lambda net: setattr(net.op[2].device_option, "device_type", caffe2_pb2.CUDA),
}


@pytest.mark.parametrize("code", PLANTED)
def test_a_planted_problem_is_found_and_can_be_silenced(code, tmp_path):
    net = small_net()
    assert not inspect.lint(net)
    PLANTED[code](net)
    assert code in {p.code for p in inspect.lint(net)}
    (tmp_path / "net").write_bytes(net.SerializeToString())
    result = run("lint", tmp_path / "net")
    assert result.exit_code == 1 and code in result.output
    assert code not in {p.code for p in inspect.lint(net, silence=[code])}


def test_shapes_that_clash():
    shapes = {"x": Spec((5, 8)), "w": Spec((3, 8)), "b": Spec((3,))}
    net = core.Net("clash")
    net.Concat(["x", "w"], ["y", "sizes"], axis=1)
    assert [p.code for p in inspect.lint(net.Proto(), shapes)] == ["C008"]


@pytest.mark.parametrize("kind, inputs, args, words", [
    ("FC", {"x": (2, 9), "w": (4, 8), "b": (4,)}, {}, "W must be [4, 9]"),
    ("FC", {"x": (2, 8), "w": (4, 8), "b": (3,)}, {}, "it must be [4]"),
    ("MatMul", {"x": (2, 3), "w": (4, 3)}, {}, "trans_b=1"),
    ("Conv", {"x": (1, 3, 8, 8), "w": (4, 5, 3, 3), "b": (4,)}, {"kernel": 3}, "3 channels"),
    ("Add", {"x": (2, 3), "w": (4,)}, {"broadcast": 1}, "Add cannot take x [2, 3], w [4]"),
])  # fmt: skip
def test_weights_that_do_not_fit_are_told_as_running_would(kind, inputs, args, words):
    """Nothing is computed: the arrays that the checks see have no memory of their own."""
    net = core.Net("clash")
    getattr(net, kind)(list(inputs), ["y"], **args)
    shapes = {name: Spec(shape) for name, shape in inputs.items()}
    (problem,) = inspect.lint(net.Proto(), shapes)
    assert problem.code == "C008" and words in problem.message


@pytest.mark.parametrize("kind, labels, more, words", [
    ("SoftmaxWithLoss", Spec((3,), "int32"), {}, "one label for each of the 4 rows"),
    ("SoftmaxWithLoss", Spec((4, 1), "int32"), {}, ""),
    ("SoftmaxWithLoss", Spec((4, 5), "float32"), {"label_prob": 1}, ""),
    ("LabelCrossEntropy", Spec((3,), "int32"), {}, "one label for each of the 4 rows"),
    ("Accuracy", Spec((3,), "int32"), {}, "labels one a row"),
    ("Accuracy", Spec((4,), "int32"), {}, ""),
])  # fmt: skip
def test_labels_that_clash(kind, labels, more, words):
    net = core.Net("labels")
    net.Proto().op.append(core.CreateOperator(kind, ["x", "l"], ["a", "b"][: 1 + (kind == "SoftmaxWithLoss")], **more))
    found = inspect.lint(net.Proto(), {"x": Spec((4, 5), "float32"), "l": labels})
    assert [p.code for p in found] == (["C008"] if words else []) and all(words in p.message for p in found), found


def test_types_that_clash_and_shapes_from_an_init_net(tmp_path):
    init, predict = core.Net("init"), core.Net("predict")
    init.GivenTensorFill([], ["w"], shape=[4, 8], values=[0.0] * 32)
    init.ConstantFill([], ["b"], shape=[4], value=0, dtype=core.DataType.INT32)
    predict.FC(["x", "w", "b"], ["y"])
    paths = [tmp_path / "init.pb", tmp_path / "predict.pb"]
    for path, net in zip(paths, (init, predict)):
        path.write_bytes(net.Proto().SerializeToString())
    said = run("lint", *paths, "--input", "x:2x8").output
    assert "FC takes float32 for 'b', which is int32" in said
    assert run("lint", paths[1], "--input", "x:2x8").exit_code == 0


def test_an_unknown_argument_that_resembles_none():
    net = core.Net("n")
    net.Relu("x", "y", axsi=1)
    net.Softmax("y", "z", axsi=1)
    relu, softmax = inspect.lint(net.Proto())
    assert relu.code == softmax.code == "C003" and "it takes none" in relu.remedy and "'axis'" in softmax.remedy


def test_a_parameter_that_misses_a_device(sync_net):
    assert not [p for p in inspect.lint(sync_net) if p.code == "C009"]
    gone = sync_net.op.pop()
    (problem,) = [p for p in inspect.lint(sync_net) if p.code == "C009"]
    assert problem.blob == gone.output[0].partition("/")[2] and gone.output[0].partition("/")[0] in problem.message


def test_shards_that_would_wait_for_each_other(tmp_path):
    nets = []
    for shard, order in enumerate((["a", "b"], ["b", "a"])):
        net = core.Net(f"shard{shard}")
        for name in order:
            net.Broadcast(["world", f"cpu_0/{name}"], [f"cpu_0/{name}"], engine="GLOO")
        nets.append(net.Proto())
        (tmp_path / f"{shard}.pb").write_bytes(net.Proto().SerializeToString())
    assert not inspect.lint_shards([nets[0], nets[0]])
    (problem,) = inspect.lint_shards(nets)
    assert "shard 0: Broadcast a root 0; shard 1: Broadcast b root 0" in problem.message
    assert run("lint", "--shards", tmp_path / "0.pb", tmp_path / "1.pb").exit_code == 1


def shard(*made, kind="simple"):
    """A net of (type, inputs, outputs, arguments)."""
    net = core.Net("shard")
    net.Proto().type = kind
    net.Proto().op.extend(core.CreateOperator(t, i, o, **more) for t, i, o, more in made)
    return net.Proto()


def reduced(world, blob, shape=(2, 3), **more):
    return ("ConstantFill", [], [blob], {"shape": shape, **more}), (
        "Allreduce",
        [world, blob],
        [blob],
        {"engine": "GLOO"},
    )


def world(name, **more):
    return ("CreateCommonWorld", ["kv"], [name], {"size": 2, **more})


@pytest.mark.parametrize("one, other, word", [
    ([*reduced("w", "a")], [*reduced("w", "a", (2, 4))], "float32[2, 3]; shard 1: Allreduce a of float32[2, 4]"),
    ([*reduced("w", "a")], [*reduced("w", "a", dtype=10)], "int64[2, 3]"),
    ([*reduced("w", "a"), *reduced("v", "b")], [*reduced("v", "b"), *reduced("w", "a")], "while shard 1 waits in 'v'"),
    ([world("w", rank=0)], [world("w", rank=0)], "both are rank 0"),
    ([world("w", rank=0)], [world("w", rank=1, size=3)], "of 3 shards"),
    ([world("w", rank=0), world("v", rank=0)], [world("v", rank=1), world("w", rank=1)], "while shard 1 waits"),
    ([("Broadcast", ["w", "a"], ["a"], {"root": 0})], [("Broadcast", ["w", "a"], ["a"], {})], ""),
    ([*reduced("w", "a"), *reduced("only", "b")][:2], [*reduced("w", "a")], ""),
])  # fmt: skip
def test_what_shards_do_not_agree_on(one, other, word):
    found = inspect.lint_shards([shard(*one), shard(*other)])
    assert [p.code for p in found] == (["C010"] if word else []) and all(word in p.message for p in found), found
    dag = inspect.lint_shards([shard(*one, kind="dag"), shard(*other, kind="dag")])
    assert len(dag) == (0 if "while shard" in word else len(found))  # which starts both


@pytest.mark.parametrize("kind, ordered, found", [("dag", False, ["C011"]), ("dag", True, []), ("simple", False, [])])
def test_two_names_of_one_storage(kind, ordered, found):
    """y is x's memory: a dag does not see that Scale writes what Relu reads, unless something else orders them."""
    net = core.Net("aliased")
    net.Proto().type = kind
    net.Alias("x", "y")
    net.Relu("y", "r")
    net.Scale("x", "x", scale=2.0)
    if ordered:
        net.Proto().op[2].control_input.append("r")
    assert [p.code for p in inspect.lint(net.Proto())] == found


@pytest.mark.parametrize("instances, private, codes", [(1, False, []), (4, False, ["C012"]), (4, True, [])])
def test_instances_of_a_step_share_what_they_write(instances, private, codes):
    net = core.Net("instance")
    net.Relu("x", "y")
    plan = core.Plan("plan")
    step = core.execution_step("each", [net], create_workspace=private)
    plan.AddStep(core.execution_step("all", [step], num_concurrent_instances=instances))
    assert [p.code for p in inspect.lint_plan(plan.Proto())] == codes
    assert any("4 instances" in line for line in inspect.outline(plan.Proto().execution_step[0])) == (instances > 1)


def test_nets_within_operators():
    branch, outer, net = core.Net("branch"), core.Net("outer"), core.Net("whole")
    branch.Proto().op.add(type="Relu", input=["x"], output=["y"])
    branch.Proto().op.add(type="Rellu", input=["x"], output=["y"])
    outer.If(["c", "x"], ["y"], then_net=branch.Proto())
    net.Relu("x", "x")
    net.While(["c", "x"], ["y"], loop_net=outer.Proto())
    (problem,) = inspect.lint(net.Proto())
    assert (problem.code, problem.operator) == ("C001", 1)
    assert (
        "in loop_net of While, operator 0: in then_net of If, operator 1: there is no operator Rellu" in problem.message
    )


def test_an_input_that_a_sync_net_moves_nowhere(sync_net):
    net = caffe2_pb2.NetDef()
    net.CopyFrom(sync_net)
    assert not inspect.lint(net)
    net.external_input.append("gpu_0/forgotten_w")
    (problem,) = inspect.lint(net)
    assert problem.code == "C009" and problem.blob == "gpu_0/forgotten_w"


def test_a_blob_that_two_steps_share(tmp_path):
    def plan(read):
        writer, reader = core.Net("writer"), core.Net("reader")
        writer.Relu("x", "shared")
        reader.Relu(read, "own")
        made = core.Plan("plan")
        steps = [core.execution_step(n.Name(), [n]) for n in (writer, reader)]
        made.AddStep(core.execution_step("both", steps, concurrent_substeps=True))
        return made.Proto()

    (problem,) = inspect.lint_plan(plan("shared"))
    assert problem.code == "C012" and problem.blob == "shared" and "side by side" in problem.message
    assert not inspect.lint_plan(plan("x"))
    (tmp_path / "plan").write_bytes(plan("shared").SerializeToString())
    result = run("lint", tmp_path / "plan")
    assert result.exit_code == 1 and "C012" in result.output


@pytest.mark.parametrize("frozen", [[], ["fc2_w"]])
def test_a_weight_that_is_not_trained(frozen):
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper(name="trained")
    hidden = brew.fc(model, "data", "fc1", 4, 3)
    _, loss = model.net.SoftmaxWithLoss([brew.fc(model, hidden, "fc2", 3, 2), "label"], ["softmax", "loss"])
    model.AddGradientOperators([loss])
    optimizer.build_sgd(model, 0.1)
    net = model.net.Proto()
    kept = [op for op in net.op if not set(op.output) & set(frozen)]
    del net.op[:]
    net.op.extend(kept)
    assert [p.blob for p in inspect.lint(net) if p.code == "C013"] == frozen
