"""Builders of nets, tasks, sessions, control flow, readers and queues: programs that run."""

import numpy as np
import pytest

from caffe2lite.python import core, dataio, queue_util, workspace
from caffe2lite.python.checkpoint import Job, JobRunner, MultiNodeCheckpointManager
from caffe2lite.python.control import Do, If, Switch, While
from caffe2lite.python.net_builder import NetBuilder, ops
from caffe2lite.python.pipeline import pipe
from caffe2lite.python.session import LocalSession
from caffe2lite.python.task import Node, Task, TaskGroup, WorkspaceType


@pytest.fixture(autouse=True)
def fresh():
    workspace.ResetWorkspace()


def run(builder):
    plan = core.Plan("test")
    plan.AddStep(core.to_execution_step(builder))
    workspace.RunPlan(plan)


def test_blocks_of_a_builder_run_as_python_would():
    with NetBuilder(name="blocks") as nb:
        total = ops.Const(0)
        seen = ops.Const(0)
        with ops.loop(10) as loop:
            with ops.If(ops.GE([loop.iter(), ops.Const(np.int64(6))])):
                ops.Add([seen, ops.Const(1)], seen)
            ops.Add([total, ops.Const(2)], total)
        with ops.loop() as endless:
            ops.Add([total, ops.Const(1)], total)
            endless.stop_if(ops.GE([total, ops.Const(30)]))
        never = ops.Const(0)
        with ops.stop_guard() as guard:
            ops.stop_if(ops.Const(True))
            ops.Add([never, ops.Const(1)], never)
        stopped = ops.Copy(guard.has_stopped())
    run(nb)
    values = [workspace.FetchBlob(str(b)) for b in (total, seen, never, stopped)]
    assert [v.item() for v in values] == [30, 4, 0, True]


def test_an_if_net_and_a_while_net_are_operators():
    with NetBuilder(name="operators", _use_control_ops=True) as nb:
        x = ops.Const(0)
        y = ops.Const(0)
        with ops.WhileNet():
            with ops.Condition():
                ops.LT([x, ops.Const(7)])
            ops.Add([x, ops.Const(1)], [x])
        with ops.IfNet(ops.GT([x, ops.Const(100)])):
            ops.Copy(ops.Const(1), y)
        with ops.Else():
            ops.Copy(ops.Const(2), y)
    assert len(nb.get()) == 1
    run(nb)
    assert (workspace.FetchBlob(str(x)), workspace.FetchBlob(str(y))) == (7, 2)


def test_control_steps_choose_and_repeat():
    for name, value in (("n", 0), ("one", 1), ("limit", 3), ("hit", 0)):
        workspace.FeedBlob(name, np.array([value], np.int64))
    count, below, hit = core.Net("count"), core.Net("below"), core.Net("hit")
    count.Add(["n", "one"], "n")
    hit.Add(["hit", "one"], "hit")
    below.AddExternalOutput(below.LT(["n", "limit"], "is_below"))
    plan = core.Plan("control")
    plan.AddStep(
        Do(
            "all",
            While("while", below, count),
            If("if", below, hit),
            Switch("switch", (below, hit), (below, hit)),
            If("else", below, count, hit),
        )
    )
    workspace.RunPlan(plan)
    assert (workspace.FetchBlob("n"), workspace.FetchBlob("hit")) == (3, 1)


def test_a_session_runs_tasks_and_fetches_their_outputs():
    with TaskGroup(WorkspaceType.GLOBAL) as group:
        with Task(node="worker:0") as first:
            with ops.task_init():
                before = ops.ConstantFill([], "before", shape=[2], value=4.0)
            made = ops.GivenTensorFill([], "made", shape=[2], values=[1.0, 2.0])
            output = first.add_output(ops.Add([made, before]))
        with Node("worker:1"), Task() as second:
            second.add_output(ops.Const(3))
    session = LocalSession()
    session.run(group)
    np.testing.assert_array_equal(output.fetch(), [5, 6])
    assert second.outputs()[0].fetch() == 3
    assert sorted(group.used_nodes()) == ["worker:0", "worker:1"]


def test_a_used_task_group_takes_no_more_tasks():
    with TaskGroup() as group, Task():
        ops.Const(1)
    group.tasks()
    with pytest.raises(AssertionError, match="used"):
        group.add(Task(step=core.Net("late"), group=TaskGroup()))


@pytest.mark.parametrize("threads", [1, 3])
def test_readers_pipe_through_a_queue_and_stop_at_their_limit(threads):
    init = core.Net("init")
    total, mutex = init.Const(np.array([0], np.int32)), init.CreateMutex([])

    def add(record):
        step = ops.Cast(record.iter(), to=core.DataType.INT32)
        ops.AtomicFetchAdd([mutex, total, step], [total, ops.net().NextBlob("previous")])

    with TaskGroup() as group:
        reader = dataio.ReaderWithLimit(dataio.CounterReader(), num_iter=6)
        queued = pipe(reader, queue_util.Queue(capacity=2))
        pipe(queued, processor=add, num_threads=threads)
    session = LocalSession()
    session.run(init)
    session.run(group)
    assert session._ws.blobs[str(total)].fetch() == sum(range(6))


def counting_job():
    with Job() as job:
        with job.init_group, Task(node="trainer"):
            epochs = ops.ConstantFill([], "epochs", shape=[1], value=0, dtype=core.DataType.INT32)
            limit = ops.ConstantFill([], "limit", shape=[1], value=3, dtype=core.DataType.INT32)
        with Task(node="trainer") as task:
            ops.Add([epochs, ops.ConstantFill([], 1, shape=[1], value=1, dtype=core.DataType.INT32)], [epochs])
            job.add_stop_condition(task.add_output(ops.GE([epochs, limit])))
    return job, epochs


def test_a_job_runs_epochs_until_a_stop_condition():
    job, epochs = counting_job()
    session = LocalSession()
    job.compile(LocalSession)
    assert JobRunner(job).train(session) == 3
    assert session._ws.blobs[str(epochs)].fetch() == 3


def test_a_job_resumes_from_a_checkpoint(tmp_path):
    job, epochs = counting_job()
    manager = MultiNodeCheckpointManager(str(tmp_path), "minidb")
    job.compile(LocalSession)
    JobRunner(job, manager).train(LocalSession())
    job, _ = counting_job()
    job.compile(LocalSession)
    session = LocalSession()
    assert JobRunner(job, manager, resume_from_epoch=2).train(session) == 3
    assert session._ws.blobs[str(epochs)].fetch() == 3
