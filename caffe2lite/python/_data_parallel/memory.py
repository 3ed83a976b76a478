"""Data parallel models that share parameters, reuse gradients' memory or free activations early."""

from __future__ import annotations

import logging

from caffe2lite.python import memonger, workspace
from caffe2lite.python._data_parallel.blobs import prefix_of, stripBlobName

log = logging.getLogger("data_parallel_model")


def PruneParametersForSharing(model):
    """Leave only the first device's parameters of a model that shares them, so that only they are updated."""
    model.params = model.GetParams(prefix_of(model, model._devices[0]))
    kept = set(model.params)
    model.param_to_grad = {p: g for p, g in model.param_to_grad.items() if p in kept}
    model.weights = [w for w in model.weights if w in kept]
    model.biases = [b for b in model.biases if b in kept]


def RemapParameterBlobsForSharedModel(model, all_params):
    """Make every operator read the first device's parameters, and drop those that make the others'."""
    master = prefix_of(model, model._devices[0])
    log.info("Remapping param blobs to master -> %s", master)
    others = {str(p) for p in all_params} - {str(p) for p in model.GetParams()}
    for net in (model.param_init_net, model.net):
        proto = net.Proto()
        for i in reversed(range(len(proto.op))):
            op = proto.op[i]
            if others.intersection(op.output):
                del proto.op[i]
                continue
            for j, blob in enumerate(op.input):
                if blob in others:
                    op.input[j] = master + stripBlobName(blob)


def OptimizeGradientMemorySimple(model, losses_by_gpu, devices):
    """Share memory between gradients without knowing their sizes."""
    log.warning("optimize_gradient_memory is deprecated: call data_parallel_model.OptimizeGradientMemory() instead")
    for device in devices:
        model.net._net = memonger.share_grad_blobs(
            model.net,
            losses_by_gpu[device],
            set(model.param_to_grad.values()),
            prefix_of(model, device),
            share_activations=False,
        )


def AddDynamicMemoryOptimization(model, blobs_to_keep, devices):
    """Free each blob after its last use, but for `blobs_to_keep` (names without the device's scope)."""
    keep = {prefix_of(model, d) + str(b) for d in devices for b in blobs_to_keep or ()}
    if model._rendezvous is not None:
        # Collectives expect the gradients where they were in the run before.
        keep.update(str(b) for b in model.param_to_grad.values())
    model.net._net = memonger.release_blobs_when_used(model.net.Proto(), keep)


def OptimizeGradientMemory(model, input_shapes, excluded_blobs, recycle_activations):
    """Share memory between the gradients of each device, and with `recycle_activations` also with activations.

    input_shapes: input blob (without the device's scope) -> shape, from which all sizes are inferred; None shares
    without regard to size.  excluded_blobs: names that must keep their own memory.
    """
    shapes = None
    if input_shapes is not None:
        everywhere = {prefix_of(model, d) + b: shape for b, shape in input_shapes.items() for d in model._devices}
        shapes, _ = workspace.InferShapesAndTypes([model.param_init_net, model.net], everywhere)
    for device in model._devices:
        prefix = prefix_of(model, device)
        model.net._net = memonger.share_grad_blobs(
            model.net,
            model._losses_by_gpu[device],
            set(model.param_to_grad.values()),
            prefix,
            dont_share_blobs={prefix + b for b in excluded_blobs},
            share_activations=recycle_activations,
            blob_shapes=shapes,
        )
