"""Tasks: steps bound to nodes, with set-up, reports and outputs, grouped to run together."""

from __future__ import annotations

from collections import defaultdict

from caffe2lite.python import context, core
from caffe2lite.python._net_builder.builder import NetBuilder
from caffe2lite.python.schema import Field, from_blob_list


def _merge_node_kwargs(a, b):
    return {**(a or {}), **(b or {})}


class Cluster(context.DefaultManaged):
    """Collects the nodes that are mentioned inside its block."""

    def __init__(self):
        self._nodes = []
        self._node_kwargs = {}

    def add_node(self, node):
        """Record a node."""
        name = str(node)
        if name not in self._nodes:
            self._nodes.append(name)
        self._node_kwargs[name] = _merge_node_kwargs(self._node_kwargs.get(name), node.kwargs())

    def nodes(self):
        """Return the names of the nodes, in order."""
        return self._nodes

    def node_kwargs(self):
        """Return {node: keyword arguments it was given}."""
        return self._node_kwargs

    def __repr__(self):
        return f"Cluster(nodes={self.nodes()}, node_kwargs={self.node_kwargs()})"


class Node(context.DefaultManaged):
    """Tasks made inside the block run on this node."""

    def __init__(self, node="local", **kwargs):
        self._name = str(node)
        self._kwargs = kwargs
        Cluster.current().add_node(self)

    def __str__(self):
        return self._name

    def __repr__(self):
        return f"Node(name={self._name}, kwargs={self._kwargs})"

    def kwargs(self):
        """Keyword arguments, for the session that runs the node."""
        return self._kwargs


class WorkspaceType:
    """Where a task's blobs live: in a workspace of its own, or in the session's."""

    PRIVATE = "private"
    GLOBAL = "global"


def _add_parts(parts, more):
    if isinstance(more, (list, tuple)):
        parts.extend(more)
    elif isinstance(more, (core.Net, core.ExecutionStep)):
        parts.append(more)
    elif more is not None:
        raise TypeError(f"Unsupported type for setup: {type(more)}")


def get_setup_nets(key, steps_or_nets, target):
    """Return (init, exit) nets and steps that the objects under attribute `key` of these steps or nets ask for.

    An object is asked once: `setup(net)` and `exit(net)` may add operators to the net and return more nets or steps.
    """
    own_init, own_exit = core.Net(key + "/init"), core.Net(key + "/exit")
    init_nets, exit_nets = [], []
    objects = []
    for part in steps_or_nets:
        if hasattr(part, "get_all_attributes"):
            objects += part.get_all_attributes(key)
        elif hasattr(part, "get_attributes"):
            objects += part.get_attributes(key)
    for obj in objects:
        if getattr(obj, "_setup_used", False) or getattr(obj, "_setup_target", target) != target:
            continue
        if hasattr(obj, "setup"):
            _add_parts(init_nets, obj.setup(own_init))
            obj._setup_used = True
        if hasattr(obj, "exit"):
            _add_parts(exit_nets, obj.exit(own_exit))
            obj._setup_used = True
    if own_init.Proto().op:
        init_nets.insert(0, own_init)
    if own_exit.Proto().op:
        exit_nets.insert(0, own_exit)
    return init_nets, exit_nets


def add_setup_steps(step, init_nets, exit_nets, name):
    """`step` between its init and exit nets."""
    if not init_nets and not exit_nets:
        return step
    steps = [step]
    if init_nets:
        steps.insert(0, core.execution_step(f"{name}:init", init_nets))
    if exit_nets:
        steps.append(core.execution_step(f"{name}:exit", exit_nets))
    return core.execution_step(name, steps)


class TaskGroup(context.Managed):
    """Tasks that run side by side; those made inside its block belong to it."""

    LOCAL_SETUP = "local_setup"

    def __init__(self, workspace_type=None):
        self._workspace_type = workspace_type
        self._already_used = False
        self._plan_cache = self._tasks_by_node = None
        self._tasks, self._tasks_to_add, self._remote_nets = [], [], []
        self._report_nets, self._report_steps = {}, []

    def add_remote_net(self, net):
        """Record a net that runs elsewhere."""
        self._remote_nets.append(net)

    def remote_nets(self):
        """Return the nets that run elsewhere."""
        return self._remote_nets

    def add(self, task):
        """Add a task; AssertionError once the group has been used."""
        if self._already_used:
            raise AssertionError("this TaskGroup has been used: tasks are added before it is compiled or run")
        wanted = {kind for kind in (task._workspace_type, self._workspace_type) if kind is not None}
        if len(wanted) > 1:
            raise AssertionError(
                f"{task} has workspace type {task._workspace_type}, its group has {self._workspace_type}"
            )
        task._workspace_type = self._workspace_type = wanted.pop() if wanted else WorkspaceType.PRIVATE
        task._notify_used()
        self._tasks.append(task)

    def tasks(self):
        """Return the tasks; the group takes no more of them."""
        waiting, self._tasks_to_add = self._tasks_to_add, []
        for task in waiting:
            self.add(task)
        self._already_used = True
        return self._tasks

    def num_registered_tasks(self):
        """Return how many tasks it has."""
        return len(self._tasks_to_add) + len(self._tasks)

    def used_nodes(self):
        """Return the names of the nodes of its tasks, in order."""
        return list(dict.fromkeys(task.node for task in self._tasks + self._tasks_to_add))

    def report_step(self, step=None, node=None, interval_ms=1000):
        """Run `step` on a node every `interval_ms` milliseconds while its tasks run, and once after them."""
        timed = core.to_execution_step(step)
        timed.RunEveryMillis(interval_ms)
        where = str(node or Node.current(node))
        self._report_steps.append((where, timed))

    def report_net(self, net=None, node=None, report_interval=5):
        """Return the net that runs on a node every `report_interval` seconds while its tasks run."""
        node = str(node or Node.current(node))
        if net is not None and node in self._report_nets:
            raise AssertionError(f"node {node} has a report net already")
        if node not in self._report_nets:
            self._report_nets[node] = (net or core.Net(f"{node}/reporter"), report_interval)
        return self._report_nets[node][0]

    def tasks_by_node(self, node_remap=None):
        """Return a group with one task per node, which runs all tasks of that node; `node_remap` renames nodes."""
        node_map = {task.node: node_remap(task.node) if node_remap else task.node for task in self.tasks()}
        if self._tasks_by_node is not None:
            grouped, previous_map = self._tasks_by_node
            if previous_map != node_map:
                raise AssertionError("these tasks are grouped by another map of nodes already")
            return grouped

        for node, (net, interval) in self._report_nets.items():
            self.report_step(net, node=node, interval_ms=interval * 1000)
        self._report_nets = {}
        tasks, reports = defaultdict(list), defaultdict(list)
        for task in self.tasks():
            tasks[node_map[task.node]].append(task)
        for node, step in self._report_steps:
            reports[node_map[node]].append(step)

        grouped = TaskGroup()
        for node in tasks:
            self._group_node(grouped, node, tasks[node], reports[node])
        self._tasks_by_node = (grouped, node_map)
        return grouped

    def _group_node(self, grouped, node, tasks, reports):
        init_nets, exit_nets = get_setup_nets(
            TaskGroup.LOCAL_SETUP, [task.get_step() for task in tasks] + reports, self
        )
        steps, outputs = list(reports), []
        for task in tasks:
            step = task.get_step()
            step.SetCreateWorkspace(task.workspace_type() == WorkspaceType.PRIVATE)
            steps.append(step)
            outputs += task.outputs()
        step = steps[0]
        if len(steps) > 1:
            step = core.execution_step(f"{node}:body", steps, concurrent_substeps=True)
        in_global = any(task.workspace_type() == WorkspaceType.GLOBAL for task in tasks)
        Task(
            node=node,
            step=add_setup_steps(step, init_nets, exit_nets, node),
            outputs=outputs,
            name="grouped_by_node",
            group=grouped,
            workspace_type=WorkspaceType.GLOBAL if in_global else WorkspaceType.PRIVATE,
        )

    def to_task(self, node=None):
        """Return one task that runs the whole group on one node."""
        node = str(Node.current(node))
        tasks = self.tasks_by_node(lambda _: node).tasks()
        return tasks[0] if tasks else Task()

    def workspace_type(self):
        """Return where its tasks' blobs live."""
        return self._workspace_type

    def __repr__(self):
        return (
            f"TaskGroup(tasks={self._tasks + self._tasks_to_add}, workspace_type={self.workspace_type()}, "
            f"remote_nets={self.remote_nets()})"
        )


class TaskOutput:
    """Blobs (one, a list, or a record) of a task that can be fetched after a session ran it."""

    def __init__(self, names):
        self._schema = None
        self._is_scalar = False
        if isinstance(names, Field):
            self._schema = names
            names = names.field_blobs()
        elif not isinstance(names, (tuple, list)):
            self._is_scalar = True
            names = [names]
        self.names = names
        self._values = None

    def set(self, values, _fetch_func=None):
        """Called by the session: where the values are, and how to fetch them."""
        if len(values) != len(self.names):
            raise AssertionError(f"{len(self.names)} outputs got {len(values)} values")
        self._values = values
        self._fetch_func = _fetch_func

    def _shaped(self, values):
        if self._is_scalar:
            return values[0]
        return from_blob_list(self._schema, values) if self._schema else values

    def get(self):
        """Return the blobs that hold the values."""
        if self._values is None:
            raise AssertionError("this output has no blobs yet: its task has no step")
        return self._shaped(self._values)

    def fetch(self):
        """Return the values."""
        if self._values is None:
            raise AttributeError("this output has no values yet: run its task in a Session")
        if self._fetch_func is None:
            raise AssertionError("the session of this output cannot fetch values")
        return self._shaped([self._fetch_func(value) for value in self._values])

    def __repr__(self):
        return f"TaskOutput(names={self.names}, values={self._values})"


def final_output(blob_or_record):
    """Add an output to the current task (or to a new one); return its TaskOutput."""
    return (Task.current(required=False) or Task()).add_output(blob_or_record)


class TaskOutputList:
    """Several TaskOutputs."""

    def __init__(self, outputs=None):
        self.outputs = outputs or []

    def names(self):
        """Return all their blobs."""
        return [name for output in self.outputs for name in output.names]

    def set_values(self, values, _fetch_func=None):
        """Called by the session with one value per blob."""
        begin = 0
        for output in self.outputs:
            end = begin + len(output.names)
            output.set(values[begin:end], _fetch_func)
            begin = end
        if begin != len(values):
            raise AssertionError(f"{begin} outputs got {len(values)} values")

    def __repr__(self):
        return f"TaskOutputList(outputs={self.outputs})"


class Task(context.Managed):
    """A step on a node. Its step is given, or built by the operators of its block (see net_builder).

    `num_instances` copies run side by side, each in a workspace of its own.
    """

    TASK_SETUP = "task_setup"
    TASK_INSTANCE_SETUP = "task_instance_setup"
    REPORT_STEP = "report_step"
    _global_names_used = set()

    @staticmethod
    def _get_next_name(node, group, name):
        basename = f"{node}/{name or 'task'}"
        used = Task._global_names_used if group is None else {task.name for task in group._tasks_to_add}
        candidate, i = basename, 0
        while candidate in used:
            i += 1
            candidate = f"{basename}:{i}"
        return candidate

    def __init__(
        self,
        step=None,
        outputs=None,
        workspace_type=None,
        group=None,
        node=None,
        name=None,
        num_instances=None,
    ):
        self._workspace_type = workspace_type
        self._num_instances = num_instances
        self._already_used = self._is_pipeline_context = False
        self._step = self._step_with_setup = self._pipeline = self._report_net = None
        self._outputs = []
        self.node = str(Node.current(None if node is None else Node(node)))
        self.group = TaskGroup.current(group, required=False)
        self.name = Task._get_next_name(self.node, self.group, name)
        if self.group is not None:
            self.group._tasks_to_add.append(self)
        for given, take in ((step, self.set_step), (outputs, self.add_outputs)):
            if given is not None:
                take(given)

    def __enter__(self):
        super().__enter__()
        if self.group is not None:  # tasks of a group are in the order in which their blocks end
            self.group._tasks_to_add.remove(self)
        self._assert_not_used()
        if self._step is not None:
            raise AssertionError(f"task {self.name} has a step already")
        self._net_builder = NetBuilder(_fullname=self.name)
        self._net_builder.__enter__()
        return self

    def __exit__(self, type, value, traceback):
        self._net_builder.__exit__(type, value, traceback)
        if type is None:
            self.set_step(self._net_builder)
        if self.group is not None:
            self.group._tasks_to_add.append(self)
        self._net_builder = None
        super().__exit__(type, value, traceback)

    def workspace_type(self):
        """Return where its blobs live."""
        return self._workspace_type

    def _assert_not_used(self):
        if self._already_used:
            raise AssertionError(f"task {self.name} has been compiled or run: it does not change any more")

    def add_output(self, output):
        """Add a blob, a list of blobs or a record as output; return its TaskOutput."""
        self._assert_not_used()
        output = output if isinstance(output, TaskOutput) else TaskOutput(output)
        self._outputs.append(output)
        return output

    def add_outputs(self, outputs):
        """add_output for one, or for each of a list."""
        if isinstance(outputs, (list, tuple)):
            return list(map(self.add_output, outputs))
        return self.add_output(outputs)

    def set_step(self, step):
        """Set the step: an ExecutionStep, net, NetBuilder, or a list of steps and nets."""
        self._assert_not_used()
        self._step = core.to_execution_step(step)

    def get_step(self):
        """Return the step with its set-up, reports and instances."""
        if self._step_with_setup is not None:
            return self._step_with_setup
        if self._step is None:
            self._step_with_setup = core.execution_step(self.name, [])
            return self._step_with_setup

        reports = [
            step
            for step in self._step.get_all_attributes(Task.REPORT_STEP)
            if not getattr(step, "_report_step_used", False)
        ]
        for step in reports:
            step._report_step_used = True
            if not step.Proto().run_every_ms:
                step.RunEveryMillis(1000)
        parts = [self._step, *reports]
        task_init, task_exit = get_setup_nets(Task.TASK_SETUP, parts, self)
        instance_init, instance_exit = get_setup_nets(Task.TASK_INSTANCE_SETUP, parts, self)
        if not self._outputs:  # a session waits for a task by its outputs
            output_net = core.Net(f"{self.name}:output")
            self.add_output(output_net.ConstantFill([], 1, dtype=core.DataType.INT32, value=0))
            task_exit.append(output_net)

        step = core.execution_step(f"{self.name}:body", [*reports, self._step]) if reports else self._step
        step = add_setup_steps(step, instance_init, instance_exit, self.name + ":instance")
        if self._num_instances and self._num_instances > 1:
            step.SetCreateWorkspace(True)
            step = core.execution_step(
                "%s:parallel", step, num_concurrent_instances=self._num_instances
            )  # Caffe2's name
        self._step_with_setup = add_setup_steps(step, task_init, task_exit, self.name)
        return self._step_with_setup

    def output_list(self):
        """Return the outputs as a TaskOutputList."""
        return TaskOutputList(self._outputs)

    def outputs(self):
        """Return the outputs as a list."""
        return self._outputs

    def _notify_used(self):
        self.get_step()
        self._already_used = True

    def __repr__(self):
        return f"Task(name={self.name}, node={self.node}, outputs={self.outputs()})"


class SetupNets:
    """Give an object of this class to a net's attribute (see get_setup_nets) to run nets around a task."""

    def __init__(self, init_nets=None, exit_nets=None):
        self.init_nets = init_nets
        self.exit_nets = exit_nets

    def setup(self, init_net):
        """Return the nets that run before."""
        return self.init_nets

    def exit(self, exit_net):
        """Return the nets that run after."""
        return self.exit_nets

    def __repr__(self):
        return f"SetupNets(init_nets={self.init_nets}, exit_nets={self.exit_nets})"
