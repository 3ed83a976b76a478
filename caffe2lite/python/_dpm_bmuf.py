"""Block momentum (BMUF): how the averaged models of all devices move the global model.

With the average a of the local models, the global model g, the velocity v, the learning rate r and the momentum m:
v = m * v + r * (a - g), then g = g + v, and with Nesterov's momentum g = g + v - m * (v - previous v).
"""

from __future__ import annotations


def velocity(param):
    return f"{param}_v"


def global_copy(param):
    return f"{param}_g"


def previous_velocity(param):
    return f"{param}_prev"


def add_init(net, param, nesterov):
    """The global model starts as the local one of the master device, at rest."""
    net.ConstantFill(param, velocity(param), value=0.0)
    net.Copy(param, global_copy(param))
    if nesterov:
        net.ConstantFill(param, previous_velocity(param), value=0.0)


def add_update(net, param, num_devices, learning_rate, momentum, nesterov):
    """Turns `param`, the sum of all local models, into the new global model."""
    v, g, previous = velocity(param), global_copy(param), previous_velocity(param)
    net.Scale(param, param, scale=1.0 / num_devices)
    net.Sub([param, g], param)
    net.Scale(param, param, scale=learning_rate)
    net.Scale(v, v, scale=momentum)
    net.Add([v, param], v)
    net.Add([g, v], g)
    if nesterov:
        net.Sub([v, previous], previous)
        net.Scale(previous, previous, scale=momentum)
        net.Sub([g, previous], g)
        net.Copy(v, previous)
    net.Copy(g, param)


def add_momentum_reset(training_net, net):
    """Sets the momentum blobs of all local updates to zero."""
    for op in training_net.Proto().op:
        if op.type == "MomentumSGDUpdate":
            momentum = op.input[1]
            net.ConstantFill([momentum], momentum, value=0.0, device_option=op.device_option)
