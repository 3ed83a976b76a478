"""Nets changed after the fact: clipped gradients, statistics; sums over GPUs; the image models."""

import numpy as np
import pytest
from caffe2.python import brew, core, muji, workspace
from caffe2.python.model_helper import ModelHelper
from caffe2.python.modeling.compute_histogram_for_blobs import ComputeHistogramForBlobs
from caffe2.python.modeling.compute_norm_for_blobs import ComputeNormForBlobs
from caffe2.python.modeling.compute_statistics_for_blobs import ComputeStatisticsForBlobs
from caffe2.python.modeling.get_entry_from_blobs import GetEntryFromBlobs
from caffe2.python.modeling.gradient_clipping import GradientClipping
from caffe2.python.models import resnet, shufflenet
from caffe2.python.models.imagenet_trainer_test_utils import count_blobs

X = np.array([[3.0, -4.0], [0.5, 12.0]], "f")


def linear():
    """A model whose weights' gradient is the sum of the rows of X, times ten."""
    model = ModelHelper(name="m")
    out = brew.fc(model, "x", "fc", 2, 1)
    grads = model.AddGradientOperators([model.Scale(model.SumElements(out, "total"), "loss", scale=10.0)])
    workspace.FeedBlob("x", X)
    return model, {str(k): v for k, v in grads.items()}


def run(model):
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)


@pytest.mark.parametrize(
    "options, expected",
    [
        (
            {"grad_clip_method": "by_norm", "clip_norm_type": "l2_norm", "clip_threshold": 1.0},
            lambda g: g / np.linalg.norm(g),
        ),
        (
            {"grad_clip_method": "by_norm", "clip_norm_type": "l1_norm", "clip_threshold": 2.0},
            lambda g: 2 * g / np.abs(g).sum(),
        ),
        ({"grad_clip_method": "by_norm", "clip_norm_type": "l2_norm", "clip_threshold": 1e4}, lambda g: g),
        (
            {"grad_clip_method": "by_value", "clip_max": 50.0, "clip_min": -1.0},
            lambda g: np.clip(g, -1, 50),
        ),
    ],
)
def test_clipped_gradients(options, expected):
    model, grads = linear()
    GradientClipping(**options)(model.net, model.param_init_net, grad_map=grads)
    run(model)
    # Clipping writes in place, or the map has the new name.
    gradient = 10 * X.sum(axis=0, keepdims=True)
    np.testing.assert_allclose(workspace.FetchBlob(str(grads["fc_w"])), expected(gradient), rtol=1e-4)


def test_statistics_norms_and_entries_of_blobs():
    model, _ = linear()
    for modifier in (
        ComputeNormForBlobs(blobs=["x"], logging_frequency=1, p=2),
        ComputeNormForBlobs(blobs=["x"], logging_frequency=1, p=1),
        ComputeStatisticsForBlobs(blobs=["x"], logging_frequency=1),
        GetEntryFromBlobs(blobs=["x"], logging_frequency=1, i1=1, i2=1),
        ComputeHistogramForBlobs(blobs=["x"], logging_frequency=1, num_buckets=5, lower_bound=-5.0, upper_bound=5.0),
    ):
        modifier(model.net, model.param_init_net)
    run(model)
    expected = {
        "x_l2_norm": (X * X).sum(),  # LpNorm takes no root
        "x_l1_norm": np.abs(X).sum(),
        "x_summary": [X.min(), X.max(), X.mean(), X.std(ddof=1)],
        "x_1_1": 12,
        "x_curr_normalized_hist": np.array([0, 1, 0, 1, 0, 1, 1]) / 4,  # below -5, five buckets of two, above 5
    }
    for name, value in expected.items():
        np.testing.assert_allclose(workspace.FetchBlob(name).ravel(), np.ravel(value), rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_sums_reach_every_gpu(gpus, count):
    net = core.Net("sums")
    blobs = [core.BlobReference(f"part_{i}") for i in range(count)]
    for i, blob in enumerate(blobs):
        workspace.FeedBlob(blob, np.full((2, 3), 10.0**i, "f"), muji.OnGPU(i))
    sums = muji.Allreduce(net, blobs, gpu_indices=list(range(count)))
    workspace.RunNetOnce(net)
    for result in sums:
        np.testing.assert_array_equal(workspace.FetchBlob(result), np.full((2, 3), sum(10.0**i for i in range(count))))


@pytest.mark.parametrize(
    "create, size, convolutions",
    [
        (lambda m: resnet.create_resnet_32x32(m, "x", 3, 2, 10, is_test=True), 32, 1 + 3 * 4 * 2 + 2),
        (lambda m: shufflenet.create_shufflenet(m, "x", 3, 10, is_test=True), 224, None),
    ],
)
def test_image_models_give_probabilities(create, size, convolutions):
    model = ModelHelper(name="m", arg_scope={"order": "NCHW"})
    out = create(model)
    workspace.FeedBlob("x", np.random.RandomState(0).randn(2, 3, size, size).astype("f"))
    run(model)
    y = workspace.FetchBlob(out)
    assert y.shape == (2, 10) and np.isfinite(y).all()
    if convolutions:
        assert sum(op.type == "Conv" for op in model.net.Proto().op) == convolutions
    assert count_blobs(model.net.Proto()) > 50
