"""What the optimizers' nets do to parameters, against the formulas in NumPy."""

import re

import numpy as np
import pytest
from caffe2.python import brew, core, optimizer, regularizer, workspace
from caffe2.python.model_helper import ModelHelper

LR, STEPS = 0.1, 4


def sgd(w, gradient):
    for _ in range(STEPS):
        w = w - LR * gradient(w)
    return w


def momentum(w, gradient, nesterov):
    m = np.zeros_like(w)
    for _ in range(STEPS):
        before, m = m, 0.9 * m + LR * gradient(w)
        w = w - ((1 + 0.9) * m - 0.9 * before if nesterov else m)
    return w


def adagrad(w, gradient):
    total = np.zeros_like(w)
    for _ in range(STEPS):
        g = gradient(w)
        total += g * g
        w = w - LR * g / (np.sqrt(total) + 1e-4)
    return w


def rms_prop(w, gradient):
    square = np.zeros_like(w)
    for _ in range(STEPS):
        g = gradient(w)
        square = 0.9 * square + 0.1 * g * g
        w = w - LR * g / np.sqrt(square + 1e-5)
    return w


def adam(w, gradient):
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t in range(2, STEPS + 2):  # the count of iterations is one ahead, as in Caffe2
        g = gradient(w)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - LR * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8)
    return w


CASES = {
    "sgd": (lambda m: optimizer.build_sgd(m, LR), sgd),
    "momentum": (
        lambda m: optimizer.build_sgd(m, LR, momentum=0.9, nesterov=False),
        lambda w, g: momentum(w, g, False),
    ),
    "nesterov": (lambda m: optimizer.build_sgd(m, LR, momentum=0.9), lambda w, g: momentum(w, g, True)),
    "adagrad": (lambda m: optimizer.build_adagrad(m, LR), adagrad),
    "rms_prop": (lambda m: optimizer.build_rms_prop(m, LR), rms_prop),
    "adam": (lambda m: optimizer.build_adam(m, LR), adam),
}


def half_square_model(start, target):
    """Loss: half the squared distance of w to the target, whose gradient is w - target."""
    model = ModelHelper(name="m")
    w = model.param_init_net.GivenTensorFill([], "w", shape=start.shape, values=start.ravel())
    model.AddParameter(w)
    loss = model.SumElements(model.SquaredL2Distance([w, "target"]), "loss")
    model.AddGradientOperators([loss])
    workspace.FeedBlob("target", target)
    return model


def train(model, steps=STEPS):
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    workspace.RunNet(model.net, steps)
    return workspace.FetchBlob("w")


@pytest.mark.parametrize("name", CASES)
def test_parameters_move_by_the_formula(name):
    build, formula = CASES[name]
    rng = np.random.RandomState(1)
    start, target = rng.randn(3, 2).astype("f"), rng.randn(3, 2).astype("f")
    model = half_square_model(start, target)
    build(model)
    np.testing.assert_allclose(train(model), formula(start.astype("d"), lambda w: w - target), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda m: optimizer.build_adagrad(m, 0.5),
        lambda m: optimizer.build_wngrad(m, 20.0, moment_init=1.0),
        lambda m: optimizer.build_storm(m, 1.0),
        lambda m: optimizer.build_adadelta(m, 1.0, decay=0.9, epsilon=1e-2),
        lambda m: optimizer.build_ftrl(m, alpha=1.0, beta=0.1, lambda1=0.0, lambda2=0.0),
        lambda m: optimizer.build_adam(m, 0.1, use_lr_adaption=True, normalized_lr_adaption=False),
        lambda m: optimizer.build_decay_adagrad(m, 0.5),
        lambda m: optimizer.build_yellowfin(m, 0.1),
    ],
)
def test_training_reaches_the_minimum(build):
    target = np.array([[1, -2, 0.5]], "f")
    model = half_square_model(np.zeros((1, 3), "f"), target)
    build(model)
    np.testing.assert_allclose(train(model, 300), target, atol=0.05)


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam"])
def test_sparse_gradients_touch_only_their_rows(name):
    start = np.arange(8, dtype="f").reshape(4, 2)
    model = ModelHelper(name="m")
    model.AddParameter(model.param_init_net.GivenTensorFill([], "w", shape=[4, 2], values=start.ravel()))
    rows = model.net.Gather(["w", "ids"], "rows")
    model.AddGradientOperators([model.SumElements(rows, "loss")])
    assert isinstance(model.param_to_grad["w"], core.GradientSlice)
    CASES[name][0](model)
    workspace.FeedBlob("ids", np.array([2, 0], "i"))
    w = train(model)
    ones = np.ones((1, 2))
    moved = CASES[name][1](np.zeros((1, 2)), lambda w: ones)
    np.testing.assert_allclose(w[[0, 2]], start[[0, 2]] + moved, rtol=1e-4)
    np.testing.assert_array_equal(w[[1, 3]], start[[1, 3]])


def test_weight_decay_adds_to_the_gradient():
    start, target = np.ones((2, 2), "f"), np.zeros((2, 2), "f")
    model = half_square_model(start, target)
    optimizer.add_weight_decay(model, 0.25)
    optimizer.build_sgd(model, LR)
    # The parameter was added by hand and has no tag: only weights decay.
    np.testing.assert_allclose(train(model, 1), 0.9 * start, rtol=1e-6)

    workspace.ResetWorkspace()
    model = ModelHelper(name="m")
    model.AddGradientOperators([model.SumElements(brew.fc(model, "x", "fc", 2, 1), "loss")])
    optimizer.add_weight_decay(model, 0.25)
    optimizer.build_sgd(model, LR)
    workspace.FeedBlob("x", np.array([[3.0, 4.0]], "f"))
    workspace.RunNetOnce(model.param_init_net)
    before = workspace.FetchBlob("fc_w")
    workspace.RunNetOnce(model.net)
    np.testing.assert_allclose(
        workspace.FetchBlob("fc_w"), before - LR * (np.array([[3, 4]]) + 0.25 * before), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(workspace.FetchBlob("fc_b"), [-LR], rtol=1e-6)


@pytest.mark.parametrize(
    "policy, expected", [("fixed", 0.1), ("step", 0.1 * 0.5**2), ("inv", 0.1 / (1 + 0.5 * 4) ** 2)]
)
def test_learning_rates_follow_their_policy(policy, expected):
    model = half_square_model(np.zeros((1, 1), "f"), np.zeros((1, 1), "f"))
    more = {"step": {"gamma": 0.5, "stepsize": 2}, "inv": {"gamma": 0.5, "power": 2.0}}.get(policy, {})
    built = optimizer.build_sgd(model, 0.1, policy=policy, **more)
    train(model)
    lr = next(blob for blob in workspace.Blobs() if "_lr_" in blob)
    assert workspace.FetchBlob(lr) == pytest.approx(-expected)
    assert built.get_auxiliary_parameters().shared


def test_large_gradients_are_scaled_down_together():
    start, target = np.zeros((1, 2), "f"), np.array([[30, 40]], "f")
    model = half_square_model(start, target)
    optimizer.build_sgd(model, 1.0, max_gradient_norm=5.0)
    np.testing.assert_allclose(train(model, 1), [[3, 4]], rtol=1e-5)


def test_a_parameter_can_have_an_optimizer_of_its_own():
    model = half_square_model(np.ones((2, 2), "f"), np.zeros((2, 2), "f"))
    model.get_param_info(core.BlobReference("w")).optimizer = optimizer.SgdOptimizer(0.5)
    optimizer.build_sgd(model, 0.1)
    np.testing.assert_allclose(train(model, 1), np.full((2, 2), 0.5))


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda: regularizer.L1Norm(0.5), lambda w: 0.5 * np.abs(w).sum()),
        (lambda: regularizer.L2Norm(0.5), lambda w: 0.5 * (w * w).sum()),
        (lambda: regularizer.ElasticNet(0.5, 0.25), lambda w: 0.5 * np.abs(w).sum() + 0.25 * (w * w).sum()),
        # of each row the k largest do not count
        (lambda: regularizer.L1NormTrimmed(0.5, 1), lambda w: 0.5 * np.abs(w).min(axis=1).sum()),
    ],
)
def test_regularizers_add_their_norm(make, expected):
    w = np.array([[1, -2], [3, -0.5]], "f")
    net, init = core.Net("n"), core.Net("i")
    workspace.FeedBlob("w", w)
    value = make()(net, init, core.BlobReference("w"), by=regularizer.RegularizationBy.ON_LOSS)
    workspace.RunNetOnce(init)
    workspace.RunNetOnce(net)
    assert workspace.FetchBlob(value) == pytest.approx(expected(w), rel=1e-5)


def test_optimizers_tell_their_formula_and_their_paper():
    kinds = [k for k in vars(optimizer).values() if isinstance(k, type) and issubclass(k, optimizer.Optimizer)]
    kinds = [k for k in kinds if k is not optimizer.Optimizer]
    untold = [
        kind.__name__
        for kind in kinds
        if not re.search(r"\w\S* (=|-=|\+=) ", kind.__doc__)
        or not re.search(r"\b(19|20)\d\d:\s|Caffe2's own, without a paper", kind.__doc__)
    ]
    assert len(kinds) >= 14 and not untold
