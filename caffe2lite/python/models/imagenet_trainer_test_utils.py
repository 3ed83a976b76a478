"""Shared bodies of tests that a net computes the same after its blobs share memory."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import cnn, core, memonger, workspace

_IMAGES = (4, 3, 227, 227)


def has_blob(proto, needle):
    """Return whether an operator reads or writes a blob of that name."""
    return any(needle in op.input or needle in op.output for op in proto.op)


def _blobs(proto):
    return {blob for op in proto.op for blob in (*op.input, *op.output)}


def count_blobs(proto):
    """Return how many blobs the operators name."""
    return len(_blobs(proto))


def count_shared_blobs(proto):
    """Return how many of them memonger made for sharing."""
    return sum("_shared" in blob for blob in _blobs(proto))


def _build(create_model, **kwargs):
    model = cnn.CNNModelHelper(order="NCHW", name="test", cudnn_exhaustive_search=True)
    with core.NameScope("gpu_0"):
        return model, create_model(model, num_input_channels=3, **kwargs)


def test_shared_grads(
    with_shapes,
    create_model,
    conv_blob,
    last_out_blob,
    data_blob="gpu_0/data",
    label_blob="gpu_0/label",
    num_labels=1000,
):
    """Training: [(blobs after, before), (last_out_blob before, after), (gradient of conv_blob before, after)]."""
    model, (_, loss) = _build(
        create_model,
        data=core.BlobReference(data_blob),
        label=core.BlobReference(label_blob),
        num_labels=num_labels,
        is_test=False,
    )
    grads = model.AddGradientOperators([loss])
    shapes, _ = workspace.InferShapesAndTypes(
        [model.param_init_net, model.net], {data_blob: list(_IMAGES), label_blob: [_IMAGES[0]]}
    )
    grad = grads[conv_blob]
    before = count_blobs(model.net.Proto())
    optimized = memonger.share_grad_blobs(
        model.net,
        ["gpu_0/loss"],
        set(model.param_to_grad.values()),
        "gpu_0/",
        share_activations=True,
        dont_share_blobs={str(grad)},
        blob_shapes=shapes if with_shapes else None,
    )

    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob(data_blob, np.random.rand(*_IMAGES).astype(np.float32))
    workspace.FeedBlob(label_blob, (np.random.rand(_IMAGES[0]) * num_labels).astype(np.int32))
    results = []
    for net in (model.net, optimized):
        workspace.FeedBlob(grad, np.zeros(1, dtype=np.float32))
        workspace.RunNetOnce(net)
        results.append((workspace.FetchBlob(last_out_blob), workspace.FetchBlob(grad)))
    return [(count_blobs(optimized), before), *zip(*results)]


def _forward_only(create_model, optimize, last_out_blob, data_blob, num_labels):
    """Return [(blobs after, before), shared blobs, (last_out_blob before, after)]."""
    model, _ = _build(create_model, data=core.BlobReference(data_blob), num_labels=num_labels, is_test=True)
    before = count_blobs(model.net.Proto())
    optimized = optimize(model.net)
    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob(data_blob, np.random.rand(*_IMAGES).astype(np.float32))
    # Sharing may rename the output: it is found by the place of its operator.
    index, position = next(
        (i, list(op.output).index(last_out_blob))
        for i, op in enumerate(model.net.Proto().op)
        if last_out_blob in op.output
    )
    workspace.RunNetOnce(model.net)
    expected = workspace.FetchBlob(last_out_blob)
    output = optimized.op[index].output[position]
    workspace.FeedBlob(output, np.zeros(1, dtype=np.float32))
    workspace.RunNetOnce(optimized)
    results = (expected, workspace.FetchBlob(output))
    return [(count_blobs(optimized), before), count_shared_blobs(optimized), results]


def test_forward_only(create_model, last_out_blob, data_blob="gpu_0/data", num_labels=1000):
    """Run inference with memory shared, for a net that runs as a graph; return as `_forward_only`."""

    def optimize(net):
        return memonger.optimize_inference_for_dag(net, [data_blob], "gpu_0/")

    return _forward_only(create_model, optimize, last_out_blob, data_blob, num_labels)


def test_forward_only_fast_simplenet(create_model, last_out_blob, data_blob="gpu_0/data", num_labels=1000):
    """Run inference with memory shared, for a net that runs in order; return as `_forward_only`."""

    def optimize(net):
        keep = {data_blob, last_out_blob, *net.Proto().external_input}
        return memonger.optimize_inference_fast(net.Proto(), keep)

    return _forward_only(create_model, optimize, last_out_blob, data_blob, num_labels)
