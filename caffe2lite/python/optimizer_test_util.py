"""Test bodies for optimizers, for a TestCase that says `build_optimizer(model)` and `check_optimizer(opt)`."""

from __future__ import annotations

import unittest

import numpy as np

from caffe2lite.python import brew, core, optimizer, workspace
from caffe2lite.python.model_helper import ModelHelper
from caffe2lite.python.modeling.initializers import Initializer, PseudoFP16Initializer

_TRUE_WEIGHTS = np.array([2, 6, 5, 0, 1], dtype=np.float32)  # what training has to find
_STEPS = 2000


class OptimizerTestBase:
    """Least squares with 0/1 features: every optimizer has to find the weights."""

    def _createDense(self, dtype=core.DataType.FLOAT):
        """Return (model with gradients, true weights, data [20, 5], labels [20, 1])."""
        size = _TRUE_WEIGHTS.size
        self._rng = np.random.RandomState(123)
        data = self._rng.randint(2, size=(20, size)).astype(np.float32)
        label = np.dot(data, _TRUE_WEIGHTS)[:, np.newaxis]

        half = dtype == core.DataType.FLOAT16
        initializer = PseudoFP16Initializer if half else Initializer
        model = ModelHelper(name="test", arg_scope={"order": "NCHW"})
        out = brew.fc(
            model,
            "data",
            "fc",
            size,
            1,
            ("ConstantFill", {}),
            ("ConstantFill", {}),
            axis=0,
            WeightInitializer=initializer,
            BiasInitializer=initializer,
        )
        if half:
            out = model.HalfToFloat(out, f"{out}_fp32")
        loss = model.AveragedLoss(model.SquaredL2Distance([out, "label"]), "avg_loss")
        grads = model.AddGradientOperators([loss])
        self.assertIsInstance(grads["fc_w"], core.BlobReference)
        return model, _TRUE_WEIGHTS, data, label

    def _train(self, model, feed):
        """Many steps, each on an example that `feed(index)` puts into the workspace (False: skip it)."""
        workspace.RunNetOnce(model.param_init_net)
        workspace.CreateNet(model.net, True)
        for _ in range(_STEPS):
            if feed(self._rng.randint(20)) is not False:
                workspace.RunNet(model.net.Proto().name)

    def _train_dense(self, dtype=core.DataType.FLOAT):
        model, weights, data, label = self._createDense(dtype)
        built = self.build_optimizer(model)

        def feed(i):
            workspace.FeedBlob("data", data[i].astype(np.float16 if dtype == core.DataType.FLOAT16 else np.float32))
            workspace.FeedBlob("label", label[i])

        feed(0)
        self._train(model, feed)
        np.testing.assert_allclose(weights[np.newaxis, :], workspace.FetchBlob("fc_w"), atol=1e-2)
        self.check_optimizer(built)

    def testDense(self):
        """A fully connected layer on the CPU."""
        self._train_dense()

    @unittest.skipIf(not workspace.has_gpu_support, "No gpu support")
    def testGPUDense(self, dtype=core.DataType.FLOAT):
        """The same on GPU 0."""
        device = core.DeviceOption(workspace.GpuDeviceType, 0)
        with core.DeviceScope(device):
            self._train_dense(dtype)

    def testSparse(self):
        """Weights picked by index, one index up to twice in an example."""
        times = 2
        self._rng = np.random.RandomState(123)
        used = self._rng.randint(2, size=(20, _TRUE_WEIGHTS.size * times))
        label = np.dot(used, np.repeat(_TRUE_WEIGHTS, times))
        index_of = np.repeat(np.arange(_TRUE_WEIGHTS.size), times)

        model = ModelHelper(name="test")
        w = model.param_init_net.ConstantFill([], "w", shape=[_TRUE_WEIGHTS.size], value=0.0)
        model.AddParameter(w)
        out = model.ReduceFrontSum(model.net.Gather([w, "indices"], "gather"), "sum")
        loss = model.AveragedLoss(model.SquaredL2Distance([out, "label"]), "avg_loss")
        grads = model.AddGradientOperators([loss])
        self.assertIsInstance(grads["w"], core.GradientSlice)
        built = self.build_optimizer(model)
        workspace.CreateBlob("indices")
        workspace.CreateBlob("label")

        for index_type in (np.int32, np.int64):

            def feed(i, index_type=index_type):
                indices = index_of[used[i] == 1]
                if indices.size == 0:
                    return False
                workspace.FeedBlob("indices", indices.astype(index_type))
                workspace.FeedBlob("label", np.array(label[i], dtype=np.float32))
                return True

            self._train(model, feed)
            np.testing.assert_allclose(_TRUE_WEIGHTS, workspace.FetchBlob("w"), atol=1e-2)
        self.check_optimizer(built)


class LRModificationTestBase:
    """Gradient clipping by the global norm, and a learning rate set from outside."""

    def _gradient_ratio_reference(self, model, params, max_gradient_norm):
        grads = [workspace.FetchBlob(model.param_to_grad[p]).astype(np.float64) for p in params]
        norm = np.sqrt(sum(np.sum(np.square(g)) for g in grads))
        return max_gradient_norm / max(max_gradient_norm, norm)

    def _run_once(self, model, data, label):
        workspace.FeedBlob("data", data[0])
        workspace.FeedBlob("label", label[0])
        workspace.RunNetOnce(model.param_init_net)
        workspace.CreateNet(model.net, True)
        workspace.RunNet(model.net.Proto().name)

    def test_global_norm_based_gradient_clipping(self):
        """The ratio that scales the rates is that of the norms."""
        model, _, data, label = self._createDense()
        self.build_optimizer(model, max_gradient_norm=1.0)
        dense = [p for p, g in model.param_to_grad.items() if not isinstance(g, core.GradientSlice)]
        self._run_once(model, data, label)
        expected = self._gradient_ratio_reference(model, dense, 1.0)
        self.assertLess(expected, 1.0, "the gradient is too small for this test to clip it")
        np.testing.assert_almost_equal(workspace.FetchBlob("norm_clipped_grad_update/norm_ratio"), expected)

    def test_lr_injection(self):
        """It starts at 1, can be set, and at 0 nothing is learnt any more."""
        model, _, data, label = self._createDense()
        self.build_optimizer(model, max_gradient_norm=1, allow_lr_injection=True)
        self._run_once(model, data, label)
        self.assertEqual(optimizer.get_lr_injection(), [1.0])
        optimizer.set_lr_injection(0)
        self.assertEqual(optimizer.get_lr_injection(), [0.0])
        before = workspace.FetchBlob("fc_w")
        workspace.RunNet(model.net.Proto().name)
        np.testing.assert_array_equal(before, workspace.FetchBlob("fc_w"))
