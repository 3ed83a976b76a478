"""Recurrent, cuDNN's layers of LSTM and GRU."""

import itertools

import numpy as np
import pytest
from caffe2.python import core, model_helper, rnn_cell, workspace
from running import refused, run

from caffe2lite.ops.kit import registry

T, N, D, H = 4, 3, 5, 2
MODES = list(itertools.product(("lstm", "gru"), (1, 2), (False, True)))


def operands(mode, layers, bidirectional, seed=0):
    rng = np.random.RandomState(seed)
    gates, directions = {"lstm": 4, "gru": 3}[mode], 1 + bidirectional
    widths = [D] * directions + [H * directions] * (layers - 1) * directions
    size = sum(gates * H * (w + H + 2) for w in widths)
    states = [rng.randn(layers * directions, N, H) for _ in range(2)]
    return [rng.randn(T, N, D), *states, rng.randn(size) * 0.5]


@pytest.mark.parametrize(("mode", "layers", "bidirectional"), MODES)
def test_gradients_are_those_of_finite_differences(mode, layers, bidirectional):
    args = {"hidden_size": H, "num_layers": layers, "bidirectional": bidirectional, "rnn_mode": mode}
    forward, backward = registry.find("Recurrent"), registry.find("RecurrentGradient")
    ins = operands(mode, layers, bidirectional)
    Y, _, _, scratch, _ = forward(np, *ins, **args)
    weights = np.random.RandomState(9).randn(*Y.shape)
    made = backward(np, *ins, scratch, Y, weights, **args)
    rng = np.random.RandomState(1)
    for k, (array, gradient) in enumerate(zip(ins, made)):
        for _ in range(4):
            at = tuple(rng.randint(s) for s in array.shape)
            sides = []
            for step in (1e-6, -1e-6):
                moved = [a.copy() for a in ins]
                moved[k][at] += step
                sides.append((forward(np, *moved, **args)[0] * weights).sum())
            assert gradient[at] == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-4, abs=1e-6), (k, at)


def test_an_lstm_is_that_of_the_step_by_step_network():
    states = {"hidden": np.random.RandomState(2).randn(1, N, H), "cell": np.random.RandomState(3).randn(1, N, H)}
    workspace.FeedBlob("x", np.random.RandomState(4).randn(T, N, D).astype("f"))
    workspace.FeedBlob("lengths", np.full(N, T, "int32"))
    for name, value in states.items():
        workspace.FeedBlob(name, value.astype("f"))
    x, lengths, hidden, cell = (core.BlobReference(n) for n in ("x", "lengths", "hidden", "cell"))
    model = model_helper.ModelHelper(name="cudnn")
    output, *_, (extract, parameters) = rnn_cell.cudnn_LSTM(model, x, (hidden, cell), D, H, "cudnn", return_params=True)
    own = model_helper.ModelHelper(name="own")
    own_output, _, _, own_cell, own_parameters = rnn_cell.LSTM(
        own, x, lengths, (hidden, cell), D, H, "own", return_params=True
    )
    for net in (model.param_init_net, extract, own.param_init_net):
        workspace.RunNetOnce(net)
    values = {k: {n: workspace.FetchBlob(b[0]) for n, b in v.items()} for k, v in parameters.items()}
    assert values["input"]["forget_gate_w"].shape == (H, D)
    rnn_cell.InitFromLSTMParams(own_parameters, values)
    for net in (model.net, own.net):
        workspace.RunNetOnce(net)
    np.testing.assert_allclose(workspace.FetchBlob(output), workspace.FetchBlob(own_output), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        workspace.FetchBlob("cudnn/lstm_cell_output"), workspace.FetchBlob(own_cell), rtol=1e-5, atol=1e-6
    )


def test_parameters_of_another_size_are_refused():
    for name, value in zip("xhcw", operands("lstm", 1, False)):
        workspace.FeedBlob(name, value.astype("f"))
    workspace.FeedBlob("w", np.zeros(7, "f"))
    op = core.CreateOperator("Recurrent", list("xhcw"), list("ybdrs"), hidden_size=H, num_layers=1, rnn_mode="lstm")
    with pytest.raises(RuntimeError, match=r"on 5 features have 72 parameters; there are 7"):
        workspace.RunOperatorOnce(op)


@pytest.mark.parametrize(("mode", "names"), [
    ("lstm", ["input_gate", "forget_gate", "cell", "output_gate"]), ("gru", ["reset_gate", "update_gate", "output"]),
])  # fmt: skip
def test_single_parameters_fill_the_vector(mode, names):
    """Each of them set to a number of its own: the vector holds them all, nothing of it is left, and each is read back."""
    x, _, _, weights = (v.astype("f") for v in operands(mode, 2, True))
    args = {"hidden_size": H, "num_layers": 2, "bidirectional": 1, "rnn_mode": mode}
    vector, number, sizes = np.full_like(weights, -1), 0, []
    parts = [(n + e, s, k) for n in names for e in ("_w", "_b") for s in ("input", "recurrent") for k in range(4)]
    for number, (what, source, layer) in enumerate(parts):
        named = {**args, "param_type": what, "input_type": source, "layer": layer}
        size = run("RecurrentParamGet", [x, vector], named)[0].size
        (vector,) = run("RecurrentParamSet", [x, vector, np.full(size, number, "f")], named)
        assert set(run("RecurrentParamGet", [x, vector], named)[0].reshape(-1)) == {number}
        sizes.append(size)
    assert np.bincount(vector.astype(int), minlength=len(parts)).tolist() == sizes and sum(sizes) == weights.size


@pytest.mark.parametrize(("change", "words"), [
    ({"param_type": "door_w"}, "one of input_gate_w,.*got 'door_w'"),
    ({"input_type": "side"}, "input or recurrent, got 'side'"),
    ({"layer": 1}, "layer must be from 0 to 0, got 1"),
    ({"rnn_mode": "tanh"}, "one of lstm, gru, got 'tanh'"),
    ({"input_mode": "skip"}, "must have hidden_size 2 features, not 5"),
    ({"num_layers": 0}, "must be positive, got 2 and 0"),
    ({"num_layers": 2, "dropout": 0.5}, "dropout between layers is not supported.*got 0.5"),
])  # fmt: skip
def test_parameters_that_are_not_there(change, words):
    x, _, _, weights = (v.astype("f") for v in operands("lstm", 1, False))
    args = {"hidden_size": H, "num_layers": 1, "param_type": "cell_w", "input_type": "input"}
    refused("RecurrentParamGet", [x, weights], words, {**args, **change})
