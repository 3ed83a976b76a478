"""Models for tests of executors, and their comparison."""

from __future__ import annotations

import numpy as np
from hypothesis import settings

from caffe2lite.python import brew, convnet_benchmarks, data_parallel_model, optimizer, workspace
from caffe2lite.python.model_helper import ModelHelper
from caffe2lite.python.models import resnet
from caffe2lite.python.test_util import TestCase, rand_array


def gen_test_resnet50(_order, _cudnn_ws):
    """Return (model, size of its images) of ResNet-50 with a softmax and a loss."""
    model = ModelHelper(name="resnet50_test")
    _softmax, _loss = resnet.create_resnet50(
        model, "data", num_input_channels=3, num_labels=1000, label="label", is_test=False
    )
    return model, 227


def conv_model_generators():
    """Return {name: function(order, cudnn_ws)}."""
    names = ("AlexNet", "OverFeat", "VGGA", "Inception", "MLP")
    return {**{n: getattr(convnet_benchmarks, n) for n in names}, "Resnet50": gen_test_resnet50}


def executor_test_model_names():
    """Return the names of the models, sorted."""
    return sorted(conv_model_generators())


def executor_test_settings(func):
    """Decorator: few examples, without a deadline."""
    return settings(max_examples=1, deadline=None)(func)


def build_conv_model(model_name, batch_size):
    """Return a model with its gradients, its data fed."""
    model, size = conv_model_generators()[model_name]("NCHW", 64 * 1024 * 1024)
    shape = [batch_size, size] if model_name == "MLP" else [batch_size, 3, size, size]
    workspace.FeedBlob("data", rand_array(*shape).astype(np.float32))
    workspace.FeedBlob("label", np.zeros(batch_size, np.int32))
    model.AddGradientOperators(["loss"])
    return model


def build_resnet50_dataparallel_model(
    num_gpus,
    batch_size,
    epoch_size,
    cudnn_workspace_limit_mb=64,
    num_channels=3,
    num_labels=1000,
    weight_decay=1e-4,
    base_learning_rate=0.1,
    image_size=227,
    use_cpu=False,
):
    """ResNet-50 on several devices, on random images."""
    model = ModelHelper(
        name="test_resnet50",
        arg_scope={
            "order": "NCHW",
            "use_cudnn": True,
            "cudnn_exhaustive_search": False,
            "ws_nbytes_limit": cudnn_workspace_limit_mb * 1024 * 1024,
        },
    )

    def add_input(model):
        shape = [batch_size // num_gpus, num_channels, image_size, image_size]
        model.param_init_net.GaussianFill([], ["data"], shape=shape)
        model.param_init_net.UniformIntFill([], ["label"], shape=shape[:1], min=0, max=num_labels - 1)

    def add_network(model, loss_scale):
        _softmax, loss = resnet.create_resnet50(
            model, "data", num_input_channels=num_channels, num_labels=num_labels, label="label", no_bias=True
        )
        brew.accuracy(model, ["softmax", "label"], "accuracy")
        return [model.Scale(loss, scale=loss_scale)]

    def add_optimizer(model):
        optimizer.add_weight_decay(model, weight_decay)
        step = max(1, int(30 * epoch_size / batch_size))
        return optimizer.build_sgd(
            model, base_learning_rate, policy="step", stepsize=step, gamma=0.1, momentum=0.9, nesterov=1
        )

    data_parallel_model.Parallelize(
        model,
        input_builder_fun=add_input,
        forward_pass_builder_fun=add_network,
        optimizer_builder_fun=add_optimizer,
        devices=list(range(num_gpus)),
        optimize_gradient_memory=False,
        cpu_device=use_cpu,
        shared_model=use_cpu,
    )
    return model


def run_resnet50_epoch(train_model, batch_size, epoch_size, skip_first_n_iter=0):
    """Run as many batches as there are in an epoch."""
    for _ in range(epoch_size // batch_size):
        workspace.RunNet(train_model.net.Proto().name)


class ExecutorTestBase(TestCase):
    """Compares what two executors leave in the workspace."""

    def compare_executors(self, model, ref_executor, test_executor, model_run_func):
        """Run the model on both executors from the same start: every blob ends with the same numbers."""
        model.Proto().type = ref_executor
        model.param_init_net.set_rand_seed(seed=0xCAFFE2)
        model.net.set_rand_seed(seed=0xCAFFE2)
        workspace.RunNetOnce(model.param_init_net)
        workspace.CreateNet(model.net)
        start = {name: workspace.FetchBlob(name) for name in workspace.Blobs()}
        start = {name: value for name, value in start.items() if isinstance(value, np.ndarray)}
        model_run_func()
        names = [n for n in workspace.Blobs() if isinstance(workspace.FetchBlob(n), np.ndarray)]
        wanted = {name: workspace.FetchBlob(name) for name in names}
        workspace.ResetWorkspace()
        for name, value in start.items():
            workspace.FeedBlob(name, value)
        model.Proto().type = test_executor
        workspace.CreateNet(model.net, overwrite=True)
        model_run_func()
        for name, value in wanted.items():
            np.testing.assert_allclose(
                workspace.FetchBlob(name), value, rtol=1e-4, atol=1e-6, err_msg=f"Mismatch in blob {name}"
            )
