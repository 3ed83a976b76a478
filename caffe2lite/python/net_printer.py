"""Nets, steps, tasks and jobs as text that reads like Python, and a check that blobs are defined before use."""

from __future__ import annotations

import contextlib
import copy
import os.path
from collections import defaultdict

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core
from caffe2lite.python.checkpoint import Job
from caffe2lite.python.task import Task, TaskGroup, TaskOutput, WorkspaceType


class Visitor:
    """Calls the function registered for an object's type."""

    visitors = {}

    @classmethod
    def register(cls, Type):
        """Decorator: `function(visitor, obj, …)` serves objects of this type."""
        if "visitors" not in vars(cls):
            cls.visitors = {}
        if Type in cls.visitors:
            raise AssertionError(f"{Type} already registered!")

        def decorate(function):
            cls.visitors[Type] = function
            return function

        return decorate

    def __call__(self, obj, *args, **kwargs):
        if obj is None:
            return None
        if type(obj) not in self.visitors:
            raise TypeError(f"{type(self).__name__}: unsupported object type: {type(obj)}")
        return self.visitors[type(obj)](self, obj, *args, **kwargs)


# --- checking --------------------------------------------------------------------------------------------------------


class Analyzer(Visitor):
    """Goes through what runs and raises AssertionError where a blob is read that nothing has defined."""

    PREFIXES_TO_IGNORE = {"distributed_ctx_init"}

    def __init__(self):
        self.workspaces = defaultdict(lambda: defaultdict(int))  # node -> blob -> how often it is defined
        self.workspace_ctx = [defaultdict(int)]

    @property
    def workspace(self):
        """{blob: how often it is defined} where we are."""
        return self.workspace_ctx[-1]

    @contextlib.contextmanager
    def set_workspace(self, node=None, ws=None, do_copy=False):
        """Inside the block, be in the workspace of a node, in `ws`, or in the same one; or in a copy of it."""
        if ws is None:
            ws = self.workspace if node is None else self.workspaces[str(node)]
        if do_copy:
            ws = copy.copy(ws)
        self.workspace_ctx.append(ws)
        try:
            yield ws
        finally:
            self.workspace_ctx.pop()

    def define_blob(self, blob):
        """A blob is written."""
        self.workspace[blob] += 1

    def need_blob(self, blob):
        """A blob is read."""
        if not any(blob.startswith(prefix) for prefix in self.PREFIXES_TO_IGNORE) and blob not in self.workspace:
            raise AssertionError(f"Blob undefined: {blob}")


@Analyzer.register(caffe2_pb2.OperatorDef)
def analyze_op(analyzer, op):
    """Inputs are needed, outputs defined."""
    for blob in op.input:
        analyzer.need_blob(blob)
    for blob in op.output:
        analyzer.define_blob(blob)


@Analyzer.register(core.Net)
def analyze_net(analyzer, net):
    """The operators in order."""
    for op in net.Proto().op:
        analyzer(op)


def _parts(step):
    return step.Substeps() + [step.get_net(name) for name in step.Proto().network]


@Analyzer.register(core.ExecutionStep)
def analyze_step(analyzer, step):
    """The parts in order; parts side by side do not see each other's blobs, and may not define the same ones."""
    proto = step.Proto()
    with analyzer.set_workspace(do_copy=proto.create_workspace):
        if proto.report_net:
            with analyzer.set_workspace(do_copy=True):
                analyzer(step.get_net(proto.report_net))
        made_beside = set()
        for part in _parts(step):
            with analyzer.set_workspace(do_copy=proto.concurrent_substeps) as inside:
                analyzer(part)
            if proto.should_stop_blob:
                with analyzer.set_workspace(ws=inside):
                    analyzer.need_blob(proto.should_stop_blob)
            if proto.concurrent_substeps:
                new = set(inside) - set(analyzer.workspace)
                if made_beside & new:
                    raise AssertionError(
                        f"Error: Blobs created by multiple parallel steps: {', '.join(sorted(made_beside & new))}"
                    )
                made_beside |= new
        for blob in made_beside:
            analyzer.define_blob(blob)


@Analyzer.register(Task)
def analyze_task(analyzer, task):
    """The step, in a workspace of its own unless the task is global."""
    plan = core.Plan(task.node)
    plan.AddStep(task.get_step())
    size = plan.Proto().ByteSize()
    if size >= 2**26:
        raise AssertionError(
            f"Due to a protobuf limitation, serialized tasks must be smaller than 64Mb, but this task has {size} bytes."
        )
    with analyzer.set_workspace(do_copy=task.workspace_type() != WorkspaceType.GLOBAL):
        analyzer(task.get_step())


@Analyzer.register(TaskGroup)
def analyze_task_group(analyzer, tg):
    """The tasks, each in its node's workspace."""
    for task in tg.tasks_by_node().tasks():
        with analyzer.set_workspace(node=task.node):
            analyzer(task)


@Analyzer.register(Job)
def analyze_job(analyzer, job):
    """The init group, then the epoch group."""
    analyzer(job.init_group)
    analyzer(job.epoch_group)


def analyze(obj):
    """Raise AssertionError where a net, step, task, group or job reads a blob that nothing has defined."""
    Analyzer()(obj)


# --- printing --------------------------------------------------------------------------------------------------------


class Text:
    """Lines with indented blocks."""

    def __init__(self):
        self._indent = 0
        self._lines_in_context = [0]
        self.lines = []

    @contextlib.contextmanager
    def context(self, text):
        """A block headed `with text:`; None for no block."""
        if text is not None:
            self.add(f"with {text}:")
            self._indent += 4
            self._lines_in_context.append(0)
        yield
        if text is not None:
            if self._lines_in_context[-1] == 0:
                self.add("pass")
            self._indent -= 4
            self._lines_in_context.pop()

    def add(self, text):
        """Append a line."""
        self._lines_in_context[-1] += 1
        self.lines.append(" " * self._indent + text)

    def __str__(self):
        return "\n".join(self.lines)


class Printer(Visitor, Text):
    """Prints operators as calls on their net (`c2_syntax`), or as `y = Relu(x)`; then common prefixes can be shared."""

    def __init__(self, factor_prefixes=False, c2_syntax=True):
        super().__init__()
        self.factor_prefixes = factor_prefixes
        self.c2_syntax = c2_syntax
        self.c2_net_name = None


_LONGEST = 64


def _sanitize_str(s):
    if isinstance(s, bytes):
        s = s.decode("utf-8", errors="ignore")
    s = str(s)
    if len(s) < _LONGEST:
        return f"'{s}'"
    return f"'{s[:_LONGEST]}'...<+len={len(s) - _LONGEST}>"


def _arg_val(arg):
    for field in ("f", "i"):
        if arg.HasField(field):
            return str(getattr(arg, field))
    if arg.HasField("s"):
        return _sanitize_str(arg.s)
    for field in ("floats", "ints"):
        if getattr(arg, field):
            return str(list(getattr(arg, field)))
    if arg.strings:
        return f"[{', '.join(map(_sanitize_str, arg.strings))}]"
    return "[]"


def commonprefix(m):
    """Return the longest common beginning of strings."""
    return os.path.commonprefix(m)  # noqa: RUF071 - letter by letter is what is wanted


def format_value(val):
    """Return a list with its items quoted; anything else as it is."""
    return "[" + ", ".join(f"'{v}'" for v in val) + "]" if isinstance(val, list) else str(val)


def factor_prefix(vals, do_it):
    """Return values joined by commas; with `do_it` their common beginning comes once: `a/[b, c]`."""
    vals = [format_value(v) for v in vals]
    prefix = commonprefix(vals) if len(vals) > 1 and do_it else ""
    joined = ", ".join(v[len(prefix) :] for v in vals)
    return f"{prefix}[{joined}]" if prefix else joined


def call(op, inputs=None, outputs=None, factor_prefixes=False):
    """`outputs = op(inputs)`; pairs among the inputs are keyword arguments."""
    inputs = inputs or []
    positional = factor_prefix([a for a in inputs if not isinstance(a, tuple)], factor_prefixes)
    keywords = [f"{a[0]}={a[1]}" for a in inputs if isinstance(a, tuple)]
    text = f"{op}({', '.join(part for part in [positional, *keywords] if part)})"
    return f"{factor_prefix(outputs, factor_prefixes)} = {text}" if outputs else text


def format_device_option(dev_opt):
    """`DeviceOption(type, id, 'node')`; None for a CPU without node."""
    if not dev_opt or not (dev_opt.device_type or dev_opt.node_name):
        return None
    return call("DeviceOption", [dev_opt.device_type, dev_opt.device_id, f"'{dev_opt.node_name}'"])


@Printer.register(caffe2_pb2.OperatorDef)
def print_op(text, op):
    """One line, and a block for each net among the arguments."""
    args = [(a.name, _arg_val(a)) for a in op.arg]
    device = format_device_option(op.device_option)
    if device:
        args.append(("device_option", device))
    if text.c2_net_name:
        text.add(call(f"{text.c2_net_name}.{op.type}", [list(op.input), list(op.output), *args]))
    else:
        text.add(call(op.type, [*op.input, *args], op.output, factor_prefixes=text.factor_prefixes))
    for arg in op.arg:
        if arg.HasField("n"):
            with text.context(f"arg: {arg.name}"):
                text(arg.n)


@Printer.register(caffe2_pb2.NetDef)
def print_net_def(text, net_def):
    """The net's name and its operators."""
    outer = text.c2_net_name
    if text.c2_syntax:
        text.add(call("core.Net", [f"'{net_def.name}'"], [net_def.name]))
        text.c2_net_name = net_def.name
    else:
        text.add(f"# net: {net_def.name}")
    for op in net_def.op:
        text(op)
    text.c2_net_name = outer


@Printer.register(core.Net)
def print_net(text, net):
    """As its NetDef."""
    text(net.Proto())


def _get_step_context(step):
    """Return (heading of the step, whether its parts get headings)."""
    proto = step.Proto()
    several = len(step.Substeps()) > 1
    if proto.should_stop_blob:
        return call("loop"), False
    if proto.num_iter and proto.num_iter != 1:
        return call("loop", [proto.num_iter]), False
    if proto.num_concurrent_instances > 1:
        return call("parallel", [("num_instances", proto.num_concurrent_instances)]), several
    if proto.concurrent_substeps and several:
        return call("parallel"), True
    if proto.report_net:
        return call("run_once"), False
    return None, False


@Printer.register(core.ExecutionStep)
def print_step(text, step):
    """Loops and parallel parts as blocks."""
    proto = step.Proto()
    heading, name_parts = _get_step_context(step)
    with text.context(heading):
        if proto.report_net:
            with text.context(call("report_net", [proto.report_interval])):
                text(step.get_net(proto.report_net))
        for part in _parts(step):
            part_proto = part.Proto() if isinstance(part, core.ExecutionStep) else None
            part_heading = None
            if part_proto is not None and part_proto.run_every_ms:
                part_heading = call("reporter", [str(part), ("interval_ms", part_proto.run_every_ms)])
            elif name_parts:
                own_workspace = part_proto is not None and part_proto.create_workspace
                part_heading = call("workspace" if own_workspace else "step", [str(part)])
            with text.context(part_heading):
                text(part)
                if proto.should_stop_blob:
                    text.add(call("yield stop_if", [proto.should_stop_blob]))


def _print_task_output(x):
    if not isinstance(x, TaskOutput):
        raise AssertionError(f"expected a TaskOutput, got {x!r}")
    return f"Output[{', '.join(map(str, x.names))}]"


@Printer.register(Task)
def print_task(text, task):
    """The task's step in a block."""
    outputs = ", ".join(_print_task_output(o) for o in task.outputs())
    with text.context(call("Task", [("node", task.node), ("name", task.name), ("outputs", outputs)])):
        text(task.get_step())


@Printer.register(TaskGroup)
def print_task_group(text, tg, header=None):
    """The tasks of each node in a block."""
    with text.context(header or call("TaskGroup")):
        for task in tg.tasks_by_node().tasks():
            text(task)


@Printer.register(Job)
def print_job(text, job):
    """The groups, in the order they run."""
    text(job.init_group, "Job.current().init_group")
    text(job.epoch_group, "Job.current().epoch_group")
    with text.context("Job.current().stop_conditions"):
        for output in job.stop_conditions:
            text.add(_print_task_output(output))
    text(job.download_group, "Job.current().download_group")
    text(job.exit_group, "Job.current().exit_group")


def to_string(obj, **kwargs):
    """Return a net, step, task, group or job as text; arguments are those of Printer."""
    printer = Printer(**kwargs)
    printer(obj)
    return str(printer)


def debug_net(net):
    """Return a copy of a net that prints each operator before it runs."""
    if not isinstance(net, core.Net):
        raise AssertionError(f"expected a Net, got {net!r}")
    verbose = core.Net(str(net))
    for op in net.Proto().op:
        verbose.LogInfo(to_string(op, c2_syntax=False))
        verbose.extend_ops([op])
    return verbose
