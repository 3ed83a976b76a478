"""Control flow of execution steps: Do, For, While, If, Switch over nets and steps.

A condition is a blob, or a net whose last external output is a bool. Nets given to the functions may be single ones,
lists, or mixed with steps.
"""

from __future__ import annotations

import itertools

from caffe2lite.python import core

_used_step_names = set()
_collisions = itertools.count(1)


def _get_next_step_name(control_name, base_name):
    name = f"{base_name}/{control_name}"
    if name in _used_step_names:
        name = f"{name}_{next(_collisions)}"
    _used_step_names.add(name)
    return name


def _MakeList(input):
    """Return a list for the arguments of a call: of several, of one, or of one that is a list."""
    if not input:
        raise ValueError("expected nets or steps, got none")
    if len(input) > 1:
        return list(input)
    return input[0] if isinstance(input[0], list) else [input[0]]


def _IsNets(nets_or_steps):
    parts = nets_or_steps if isinstance(nets_or_steps, list) else [nets_or_steps]
    return all(isinstance(part, core.Net) for part in parts)


def _PrependNets(nets_or_steps, *nets):
    parts = _MakeList((nets_or_steps,))
    nets = _MakeList(nets)
    return nets + parts if _IsNets(parts) else [Do("prepend", nets), *parts]


def _AppendNets(nets_or_steps, *nets):
    parts = _MakeList((nets_or_steps,))
    nets = _MakeList(nets)
    return parts + nets if _IsNets(parts) else [*parts, Do("append", nets)]


def _step(control_name, name, parts, **kwargs):
    return core.scoped_execution_step(_get_next_step_name(control_name, name), parts, **kwargs)


# --- conditions ------------------------------------------------------------------------------------------------------


def GetConditionBlobFromNet(condition_net):
    """Return the last external output of a condition net."""
    outputs = condition_net.Proto().external_output
    if not outputs:
        raise AssertionError(f"Condition net {condition_net.Name()} must have at least one external output")
    return core.BlobReference(outputs[-1])


def _condition_blob(condition_blob_or_net):
    if isinstance(condition_blob_or_net, core.Net):
        return GetConditionBlobFromNet(condition_blob_or_net)
    return condition_blob_or_net


def BoolNet(*blobs_with_bool_value):
    """Return a net that sets blobs to bools: `BoolNet((blob, True), …)` or a list of such pairs."""
    net = core.Net("bool_net")
    for blob, value in _MakeList(blobs_with_bool_value):
        net.AddExternalOutput(net.ConstantFill([], [blob], shape=[], value=value, dtype=core.DataType.BOOL))
    return net


def NotNet(condition_blob_or_net):
    """Return (net, blob): a net that negates a condition, and its output."""
    net = core.Net("not_net")
    output = net.Not([_condition_blob(condition_blob_or_net)])
    net.AddExternalOutput(output)
    return net, output


def _CopyConditionBlobNet(condition_blob):
    net = core.Net("copy_condition_blob_net")
    output = net.Copy(condition_blob)
    net.AddExternalOutput(output)
    return net, output


def _relate(net, conditions, relation):
    combined = conditions[0]
    for condition in conditions[1:]:
        combined = getattr(net, relation)([combined, condition])
    net.AddExternalOutput(combined)
    return net


def MergeConditionNets(name, condition_nets, relation):
    """Return one net that runs several condition nets and combines their results by `relation` ('And', 'Or')."""
    if not isinstance(condition_nets, list):
        return condition_nets
    if len(condition_nets) <= 1:
        return condition_nets[0] if condition_nets else None
    merged = core.Net(name)
    for net in condition_nets:
        proto, own = net.Proto(), merged.Proto()
        if proto.device_option != own.device_option or proto.type != own.type:
            raise AssertionError(f"net {net.Name()} has a device or type of its own, it cannot be merged")
        own.op.extend(proto.op)
        own.external_input.extend(proto.external_input)
    return _relate(merged, [GetConditionBlobFromNet(net) for net in condition_nets], relation)


def CombineConditions(name, condition_nets, relation):
    """Return a net that combines the results of condition nets (which ran before) by `relation` ('And', 'Or')."""
    if not condition_nets:
        return None
    if not isinstance(condition_nets, list):
        raise ValueError(f"condition_nets is a list of nets, got {condition_nets!r}")
    blobs = [_condition_blob(net) for net in condition_nets]
    if len(blobs) == 1:
        return _CopyConditionBlobNet(blobs[0])[0]
    return _relate(core.Net(name), blobs, relation)


# --- sequences and loops ---------------------------------------------------------------------------------------------


def Do(name, *nets_or_steps):
    """Return the nets and steps one after the other."""
    parts = _MakeList(nets_or_steps)
    if len(parts) == 1 and isinstance(parts[0], core.ExecutionStep):
        return parts[0]
    return _step("Do", name, parts)


def DoParallel(name, *nets_or_steps):
    """Return the nets and steps side by side."""
    parts = _MakeList(nets_or_steps)
    if len(parts) == 1 and isinstance(parts[0], core.ExecutionStep):
        return parts[0]
    return _step("DoParallel", name, parts, concurrent_substeps=True)


def For(name, nets_or_steps, iter_num):
    """`iter_num` rounds."""
    init_net = core.Net("init-net")
    counter = init_net.CreateCounter([], init_count=iter_num)
    iter_net = core.Net("For-iter")
    done = iter_net.CountDown([counter])
    rounds = _step("For-inner", name, _PrependNets(nets_or_steps, iter_net), should_stop_blob=done)
    return Do(name + "/For", Do(name + "/For-init-net", init_net), rounds)


def _after_condition(condition_blob_or_net, nets_or_steps, join):
    """Return (parts with the negated condition joined to them, its blob)."""
    not_net, stop_blob = NotNet(condition_blob_or_net)
    conditions = [condition_blob_or_net] if isinstance(condition_blob_or_net, core.Net) else []
    return join(nets_or_steps, *conditions, not_net), stop_blob


def _reset_before(name, stop_blob, make_step):
    """Return a step after a net that unsets its stop blob, which may be true from a run before."""
    unset = BoolNet((stop_blob, False))
    return Do(name, unset, make_step())


def While(name, condition_blob_or_net, nets_or_steps):
    """Return a step of rounds while the condition, which runs first, is true."""
    parts, stop_blob = _after_condition(condition_blob_or_net, nets_or_steps, _PrependNets)

    def rounds(control_name):
        return _step(control_name, name, parts, should_stop_blob=stop_blob)

    if _IsNets(parts):
        return _reset_before(name + "/While", stop_blob, lambda: rounds("While-inner"))
    return rounds("While")


def Until(name, condition_blob_or_net, nets_or_steps):
    """Return a step of rounds until the condition, which runs first, is true."""
    parts = nets_or_steps
    if isinstance(condition_blob_or_net, core.Net):
        stop_blob = GetConditionBlobFromNet(condition_blob_or_net)
        parts = _PrependNets(nets_or_steps, condition_blob_or_net)
    else:
        stop_blob = core.BlobReference(str(condition_blob_or_net))
    return _step("Until", name, parts, should_stop_blob=stop_blob)


def DoWhile(name, condition_blob_or_net, nets_or_steps):
    """Return a step of rounds while the condition, which runs last, is true."""
    parts, stop_blob = _after_condition(condition_blob_or_net, nets_or_steps, _AppendNets)
    return _reset_before(
        name + "/DoWhile", stop_blob, lambda: _step("DoWhile-inner", name, parts, should_stop_blob=stop_blob)
    )


def DoUntil(name, condition_blob_or_net, nets_or_steps):
    """Return a step of rounds until the condition, which runs last, is true."""
    if not isinstance(condition_blob_or_net, core.Net):
        stop_blob = core.BlobReference(str(condition_blob_or_net))
        return _step("DoUntil", name, nets_or_steps, should_stop_blob=stop_blob)
    parts = _AppendNets(nets_or_steps, condition_blob_or_net)
    stop_blob = GetConditionBlobFromNet(condition_blob_or_net)
    return _reset_before(
        name + "/DoUntil", stop_blob, lambda: _step("DoUntil-inner", name, parts, should_stop_blob=stop_blob)
    )


# --- branches --------------------------------------------------------------------------------------------------------


def _RunOnceIf(name, condition_blob_or_net, nets_or_steps):
    """Return a step of one round if the condition, which runs first, is true."""
    parts, stop_blob = _after_condition(condition_blob_or_net, nets_or_steps, _PrependNets)

    def once(control_name):
        return _step(control_name, name, parts, should_stop_blob=stop_blob, only_once=True)

    if _IsNets(parts):
        return _reset_before(name + "/_RunOnceIf", stop_blob, lambda: once("_RunOnceIf-inner"))
    return once("_RunOnceIf")


def _RunOnceIfNot(name, condition_blob_or_net, nets_or_steps):
    """Return a step of one round if the condition, which runs first, is false."""
    if isinstance(condition_blob_or_net, core.Net):
        first, stop_blob = condition_blob_or_net, GetConditionBlobFromNet(condition_blob_or_net)
    else:
        first, stop_blob = _CopyConditionBlobNet(condition_blob_or_net)
    parts = _PrependNets(nets_or_steps, first)
    return _step("_RunOnceIfNot", name, parts, should_stop_blob=stop_blob, only_once=True)


def Switch(name, *conditions):
    """For pairs (condition, nets or steps), each in turn: run it if its condition is true."""
    step_name = _get_next_step_name("Switch", name)
    steps = [_RunOnceIf(name + "/Switch", condition, parts) for condition, parts in _MakeList(conditions)]
    return core.scoped_execution_step(step_name, steps)


def SwitchNot(name, *conditions):
    """For pairs (condition, nets or steps), each in turn: run it if its condition is false."""
    step_name = _get_next_step_name("SwitchNot", name)
    steps = [_RunOnceIfNot(name + "/SwitchNot", condition, parts) for condition, parts in _MakeList(conditions)]
    return core.scoped_execution_step(step_name, steps)


def If(name, condition_blob_or_net, true_nets_or_steps, false_nets_or_steps=None):
    """Return a step that runs the first nets or steps if the condition is true, else the second ones."""
    if not false_nets_or_steps:
        return _RunOnceIf(name + "/If", condition_blob_or_net, true_nets_or_steps)
    blob = _condition_blob(condition_blob_or_net)
    return Do(
        name + "/If",
        _RunOnceIf(name + "/If-true", condition_blob_or_net, true_nets_or_steps),
        _RunOnceIfNot(name + "/If-false", blob, false_nets_or_steps),
    )


def IfNot(name, condition_blob_or_net, true_nets_or_steps, false_nets_or_steps=None):
    """Return a step that runs the first nets or steps if the condition is false, else the second ones."""
    if not false_nets_or_steps:
        return _RunOnceIfNot(name + "/IfNot", condition_blob_or_net, true_nets_or_steps)
    blob = _condition_blob(condition_blob_or_net)
    return Do(
        name + "/IfNot",
        _RunOnceIfNot(name + "/IfNot-true", condition_blob_or_net, true_nets_or_steps),
        _RunOnceIf(name + "/IfNot-false", blob, false_nets_or_steps),
    )
