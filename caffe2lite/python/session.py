"""Sessions: run tasks, groups, plans, steps and nets, and fetch their outputs."""

from __future__ import annotations

from caffe2lite.python import core, workspace
from caffe2lite.python.task import Cluster, Task, TaskGroup, WorkspaceType


class CompiledRunnable:
    """What Session.compile returns: something ready to run in sessions of one class."""

    def __init__(self, obj, session_class):
        self.obj = obj
        self.session_class = session_class


class Session:
    """Runs things; a subclass says how by _compile_task_group, _run_compiled and _fetch_output."""

    _compiled_cache = {}

    def __init__(self):
        self._open = True

    def is_open(self):
        """Return whether it can still run things."""
        return self._open

    @classmethod
    def compile(cls, runnable, workspace_type=None, setup_net_list=None):
        """Make a TaskGroup, Task, Plan, ExecutionStep or net ready to run."""
        if isinstance(runnable, CompiledRunnable):
            if cls is not runnable.session_class:
                raise AssertionError(
                    f"Runnable was compiled for different session type. Need: {cls}, got: {runnable.session_class}"
                )
            return runnable
        if runnable in cls._compiled_cache:
            return cls._compiled_cache[runnable]
        group = cls._as_group(runnable, workspace_type)
        compiled = CompiledRunnable(cls._compile_task_group(group, setup_net_list), session_class=cls)
        cls._compiled_cache[runnable] = compiled
        return compiled

    @staticmethod
    def _as_group(runnable, workspace_type):
        if isinstance(runnable, TaskGroup):
            if workspace_type:
                if runnable.workspace_type() not in (None, workspace_type):
                    raise AssertionError(f"Require {workspace_type} but already have {runnable.workspace_type()}")
                runnable._workspace_type = workspace_type
            return runnable
        group = TaskGroup(workspace_type=workspace_type or WorkspaceType.GLOBAL)
        if isinstance(runnable, Task):
            task = runnable
        elif isinstance(runnable, core.ExecutionStep):
            task = Task(step=runnable, name=runnable.Name())
        elif isinstance(runnable, core.Plan):
            steps = runnable.Steps()
            if not steps:
                raise AssertionError(f"plan {runnable} has no steps")
            task = Task(step=steps[0] if len(steps) == 1 else steps, name=steps[0].Name() if len(steps) == 1 else None)
        else:
            task = Task(step=core.execution_step("runnable", runnable), name="runnable")
        group.add(task)
        return group

    def run(self, runnable, workspace_type=None, setup_net_list=None):
        """Run something to its end."""
        if not self.is_open():
            raise AssertionError("Session is closed.")
        if runnable is None:
            raise AssertionError("there is nothing to run: None")
        self._run_compiled(self.compile(runnable, workspace_type, setup_net_list).obj)

    def close(self):
        """End the session."""
        if self.is_open():
            self._do_close()
            self._open = False

    def fetch_output(self, output):
        """Return the value of an output blob of something that ran."""
        if not self.is_open():
            raise AssertionError("Session is closed.")
        return self._fetch_output(output)

    def _run_compiled(self, task_group):
        raise NotImplementedError

    @classmethod
    def _compile_task_group(cls, task_group, setup_net_list=None):
        return task_group

    def _do_close(self):
        pass

    def __enter__(self):
        if not self._open:
            raise AssertionError("Session already closed.")
        return self

    def __exit__(self, ex_type, value, traceback):
        if ex_type is None:
            self.close()


class LocalSession(Session):
    """Runs everything in this process, in workspace `ws` (the current one if not given)."""

    def __init__(self, ws=None):
        super().__init__()
        self._ws = ws or workspace.C.Workspace.current

    @classmethod
    def _compile_task_group(cls, task_group, setup_net_list=None):
        with Cluster():
            task = task_group.to_task()
        plan = core.Plan("task_group_plan")
        plan.AddStep(task.get_step())
        return plan, task.output_list(), task.workspace_type()

    def _run_compiled(self, compiled):
        plan, output_list, workspace_type = compiled
        outputs = [core.BlobReference(str(name)) for name in output_list.names()]
        for blob in outputs:  # outputs live here, not in the workspace of the task
            self._ws.create_blob(str(blob))
        output_list.set_values(outputs, _fetch_func=self._fetch_output)
        private = workspace_type == WorkspaceType.PRIVATE
        task_ws = workspace.C.Workspace(self._ws) if private else self._ws
        task_ws.run(plan)

    def _fetch_output(self, output):
        return self._ws.blobs[str(output)].fetch()
