"""Execution steps and plans: the order in which nets run."""

from __future__ import annotations

import itertools

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python._core.builder import Builder
from caffe2lite.python._core.net import Net, get_net_name
from caffe2lite.python._core.operators import BlobReference, ScopedName
from caffe2lite.python._core.shown import Pictured


def add_net_to_dict(net_dict, net):
    """Record `net` by name; return whether it is new. AssertionError for another net of the same name."""
    name = get_net_name(net)
    if name in net_dict:
        if net_dict[name] is not None and net is not net_dict[name]:
            raise AssertionError(f"two different nets are called {name}: give one another name")
        return False
    net_dict[name] = net if isinstance(net, Net) else None
    return True


class ExecutionStep:
    """Nets, or other steps, that run one after the other (or side by side), once or repeatedly."""

    _step_names_used = set()

    @staticmethod
    def _get_next_step_name(basename):
        name = basename
        for i in itertools.count(1):
            if name not in ExecutionStep._step_names_used:
                break
            name = f"{basename}_{i}"
        ExecutionStep._step_names_used.add(name)
        return name

    def __init__(self, name, nets=None, num_iter=None):
        self._step = caffe2_pb2.ExecutionStep()
        self._step.name = name or ExecutionStep._get_next_step_name("step")
        self._net_dict = {}
        self._is_used = False
        self._substeps = []
        if nets is not None:
            for net in [nets] if type(nets) is Net else nets:
                if add_net_to_dict(self._net_dict, net):
                    self._step.network.append(get_net_name(net))
        if num_iter is not None:
            self._step.num_iter = int(num_iter)

    def get_net(self, name):
        """Return the net called `name` of this step."""
        return self._net_dict[name]

    def Name(self):
        """Return the step's name."""
        return self._step.name

    def __str__(self):
        return self._step.name

    def _assert_can_mutate(self):
        if self._is_used:
            raise AssertionError(f"step {self._step.name} is in a plan or step already: change it before")

    def _notify_is_used(self):
        self._is_used = True

    def Proto(self):
        """Return the caffe2_pb2.ExecutionStep itself."""
        return self._step

    def HasNets(self):
        """Return whether it runs nets directly."""
        return bool(self._step.network)

    def HasSubsteps(self):
        """Return whether it runs other steps."""
        return bool(self._step.substep)

    def Nets(self):
        """Return the nets of this step and of its substeps."""
        return list(self._net_dict.values())

    def Substeps(self):
        """Return the steps in this step."""
        return self._substeps

    def SetIter(self, num_iter):
        """Run this many times."""
        self._assert_can_mutate()
        self._step.num_iter = int(num_iter)

    def SetCreateWorkspace(self, create_workspace):
        """Run in a workspace of its own, child of the current one."""
        self._assert_can_mutate()
        self._step.create_workspace = bool(create_workspace)

    def SetNumConcurrentInstances(self, num_concurrent_instances):
        """Run so many copies side by side."""
        self._assert_can_mutate()
        self._step.num_concurrent_instances = int(num_concurrent_instances)

    def SetOnlyOnce(self, only_once):
        """Run at most once, however often the step around it does."""
        self._assert_can_mutate()
        self._step.only_once = bool(only_once)

    def SetShouldStopBlob(self, should_stop_blob):
        """End the loop once this bool blob is true."""
        if not isinstance(should_stop_blob, BlobReference):
            raise AssertionError(f"expects BlobReference here, got {type(should_stop_blob)}")
        self._assert_can_mutate()
        self._step.should_stop_blob = str(should_stop_blob)

    def RunEveryMillis(self, interval):
        """Run again and again, `interval` milliseconds apart, while the other substeps run."""
        self._assert_can_mutate()
        self._step.run_every_ms = int(interval)

    def SetReportNet(self, report_net, report_interval):
        """Run `report_net` every `report_interval` seconds meanwhile."""
        self._assert_can_mutate()
        add_net_to_dict(self._net_dict, report_net)
        self._step.report_net = get_net_name(report_net)
        self._step.report_interval = int(report_interval)

    def AddSubstep(self, substep):
        """Append a step; return self."""
        self._assert_can_mutate()
        if self.HasNets():
            raise AssertionError(f"step {self._step.name} has nets {list(self._step.network)}: it can have no substeps")
        proto = substep
        if isinstance(substep, ExecutionStep):
            substep._notify_is_used()
            if not substep.HasNets() and not substep.HasSubsteps():
                return self
            for net in substep.Nets():
                add_net_to_dict(self._net_dict, net)
            self._substeps.append(substep)
            proto = substep.Proto()
        elif not isinstance(substep, caffe2_pb2.ExecutionStep):
            raise TypeError(f"AddSubstep takes an ExecutionStep, got {type(substep).__name__}: {substep!r}")
        self._step.substep.add().CopyFrom(proto)
        return self

    def SetConcurrentSubsteps(self, concurrent_substeps):
        """Run the substeps side by side."""
        self._assert_can_mutate()
        if self.HasNets():
            raise AssertionError(f"step {self._step.name} has nets {list(self._step.network)}: it can have no substeps")
        self._step.concurrent_substeps = bool(concurrent_substeps)

    def AddNet(self, net):
        """Append a net; return self."""
        self._assert_can_mutate()
        if self.HasSubsteps():
            raise AssertionError(f"step {self._step.name} has nets {list(self._step.network)}: it can have no substeps")
        if not isinstance(net, Net):
            raise AssertionError(f"AddNet takes a Net, got {net!r}")
        add_net_to_dict(self._net_dict, net)
        self._step.network.append(get_net_name(net))
        return self

    def get_all_attributes(self, name):
        """Return the attributes called `name` of all its nets."""
        return [attribute for net in self._net_dict.values() for attribute in net.get_attributes(name)]

    @classmethod
    def create_from_proto(cls, step_proto, net_obj_dict, net_proto_dict):
        """Return a step over new nets made from `net_proto_dict` ({name: NetDef}); `net_obj_dict` collects them."""

        def net_called(name):
            if name not in net_obj_dict:
                if name not in net_proto_dict:
                    raise AssertionError(f"Step {step_proto.name} runs net {name}, of which there is no definition")
                net_obj_dict[name] = Net(net_proto_dict[name])
            return net_obj_dict[name]

        parts = [net_called(name) for name in step_proto.network] + [
            cls.create_from_proto(substep, net_obj_dict, net_proto_dict) for substep in step_proto.substep
        ]

        def given(field):
            return getattr(step_proto, field) if step_proto.HasField(field) else None

        should_stop_blob = given("should_stop_blob")
        return execution_step(
            step_proto.name,
            parts,
            num_iter=given("num_iter"),
            report_net=net_called(step_proto.report_net) if step_proto.HasField("report_net") else None,
            report_interval=given("report_interval"),
            concurrent_substeps=given("concurrent_substeps"),
            should_stop_blob=None if should_stop_blob is None else BlobReference(should_stop_blob),
            only_once=given("only_once"),
            num_concurrent_instances=given("num_concurrent_instances"),
            create_workspace=given("create_workspace"),
            run_every_ms=given("run_every_ms"),
        )


def add_nets_in_order(step, net_list):
    """Append to `net_list` the names of the nets of a step, in the order they run."""
    proto = step.Proto()
    for substep in step.Substeps():
        add_nets_in_order(substep, net_list)
    for name in proto.network:
        if name not in net_list:
            net_list.append(name)
    if proto.report_net and proto.report_net not in net_list:
        net_list.append(proto.report_net)


class Plan(Pictured):
    """Steps in order, with all the nets they run."""

    def __init__(self, name_or_step):
        self._plan = caffe2_pb2.PlanDef()
        self._net_dict = {}
        self._steps = []
        if isinstance(name_or_step, ExecutionStep):
            self._plan.name = name_or_step.Name()
            self.AddStep(name_or_step)
        elif isinstance(name_or_step, str):
            self._plan.name = name_or_step
        else:
            raise ValueError(f"a plan is made from a name or an ExecutionStep, got {name_or_step!r}")

    def __str__(self):
        return self._plan.name

    def Proto(self):
        """Return the PlanDef itself."""
        return self._plan

    def AddNets(self, nets):
        """Add nets, each once."""
        for net in nets:
            if add_net_to_dict(self._net_dict, net):
                if not isinstance(net, Net):
                    raise AssertionError(f"AddNets takes Nets, got {net!r}")
                self._plan.network.add().CopyFrom(net.Proto())

    def Nets(self):
        """Return the nets."""
        return list(self._net_dict.values())

    def AddStep(self, step):
        """Append a step and its nets."""
        if not isinstance(step, ExecutionStep):
            raise AssertionError(f"AddStep takes an ExecutionStep, got {step!r}")
        step._notify_is_used()
        if not step.HasNets() and not step.HasSubsteps():
            return
        self._plan.execution_step.add().CopyFrom(step.Proto())
        self._steps.append(step)
        names = []
        add_nets_in_order(step, names)
        self.AddNets([step.get_net(name) for name in names])

    def Steps(self):
        """Return the steps."""
        return self._steps

    def get_all_attributes(self, name):
        """Return the attributes called `name` of all its nets."""
        return [attribute for net in self._net_dict.values() for attribute in net.get_attributes(name)]

    @classmethod
    def create_from_proto(cls, plan_proto):
        """Return a plan over new nets and steps made from a PlanDef."""
        if not isinstance(plan_proto, caffe2_pb2.PlanDef):
            raise AssertionError(f"expected a PlanDef, got {plan_proto!r}")
        plan = cls(plan_proto.name)
        net_protos = {net.name: net for net in plan_proto.network}
        nets = {}
        for step_proto in plan_proto.execution_step:
            plan.AddStep(ExecutionStep.create_from_proto(step_proto, nets, net_protos))
        return plan


def to_execution_step(step_or_nets, default_name=None):
    """Return a step for a step, a net, a NetBuilder, or a list of nets and steps."""
    if isinstance(step_or_nets, ExecutionStep):
        return step_or_nets
    if isinstance(step_or_nets, Builder):
        builder = step_or_nets
        return execution_step(default_name or builder.name, builder.get(), should_stop_blob=builder._stop_blob)
    return execution_step(default_name, step_or_nets)


def execution_step(
    default_name,
    steps_or_nets,
    num_iter=None,
    report_net=None,
    report_interval=None,
    concurrent_substeps=None,
    should_stop_blob=None,
    only_once=None,
    num_concurrent_instances=None,
    create_workspace=False,
    run_every_ms=None,
):
    """Return a step over a net, a step, or a list of either; nets beside steps are wrapped in steps of their own."""
    if should_stop_blob is not None and num_iter is not None:
        raise AssertionError(f"give should_stop_blob ({should_stop_blob}) or num_iter ({num_iter}), not both")
    if should_stop_blob is None and num_iter is None:
        num_iter = 1

    step = ExecutionStep(default_name)
    for value, take in (
        (should_stop_blob, step.SetShouldStopBlob),
        (num_iter, step.SetIter),
        (only_once, step.SetOnlyOnce),
        (concurrent_substeps, step.SetConcurrentSubsteps),
        (num_concurrent_instances, step.SetNumConcurrentInstances),
        (create_workspace or None, step.SetCreateWorkspace),
        (run_every_ms or None, step.RunEveryMillis),
    ):
        if value is not None:
            take(value)
    if report_net is not None:
        if report_interval is None:
            raise AssertionError(f"report net {report_net} needs a report_interval, in seconds")
        step.SetReportNet(report_net, report_interval)

    if isinstance(steps_or_nets, ExecutionStep):
        step.AddSubstep(steps_or_nets)
    elif isinstance(steps_or_nets, Net):
        step.AddNet(steps_or_nets)
    elif isinstance(steps_or_nets, list):
        if all(isinstance(part, Net) for part in steps_or_nets):
            for net in steps_or_nets:
                step.AddNet(net)
        else:
            for part in steps_or_nets:
                step.AddSubstep(to_execution_step(part))
    elif steps_or_nets:
        raise ValueError(f"a step is made from a step, a net, or a list of them, got {steps_or_nets!r}")
    return step


def scoped_execution_step(name, *args, **kwargs):
    """execution_step with the name scope before its name."""
    return execution_step(ScopedName(name) if name else name, *args, **kwargs)
