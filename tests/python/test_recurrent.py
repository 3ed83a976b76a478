"""Recurrent cells against step by step NumPy, and their gradients against differences."""

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import attention, brew, core, gru_cell, lstm_benchmark, model_helper, recurrent, rnn_cell, workspace

T, N, D, H = 4, 3, 2, 5
LENGTHS = np.array([4, 1, 3], "i")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def masked(new, old, t, drop):
    present = (t < LENGTHS)[:, None]
    return np.where(present, new, 0 * old if drop else old)


def linear(x, name):
    return x @ workspace.FetchBlob(name + "_w").T + workspace.FetchBlob(name + "_b")


def lstm(x, states, prefix="L", drop=False, forget_bias=0.0, gates=None):
    """All hidden states, and the last hidden and cell state."""
    (h, c), outputs = states, []
    gates = gates or (lambda x_t, h: linear(x_t, f"{prefix}/i2h") + linear(h, f"{prefix}/gates_t"))
    for t, x_t in enumerate(x):
        i, f, o, g = np.split(gates(x_t, h), 4, axis=1)
        new_c = sigmoid(f + forget_bias) * c + sigmoid(i) * np.tanh(g)
        new_h = sigmoid(o) * np.tanh(new_c)
        h, c = masked(new_h, h, t, drop), masked(new_c, c, t, drop)
        outputs.append(h)
    return np.stack(outputs), h, c


def gru(x, states, before_reset):
    (h,), outputs = states, []
    for t, x_t in enumerate(x):
        reset_x, update_x, output_x = np.split(linear(x_t, "L/i2h"), 3, axis=1)
        reset = sigmoid(linear(h, "L/reset_gate_t") + reset_x)
        update = sigmoid(linear(h, "L/update_gate_t") + update_x)
        output = reset * linear(h, "L/output_gate_t") if before_reset else linear(reset * h, "L/output_gate_t")
        h = masked(update * h + (1 - update) * np.tanh(output + output_x), h, t, False)
        outputs.append(h)
    return np.stack(outputs), h


def basic(x, states, drop=False):
    (h,), outputs = states, []
    for t, x_t in enumerate(x):
        h = masked(np.tanh(linear(x_t, "L/i2h") + linear(h, "L/gates_t")), h, t, drop)
        outputs.append(h)
    return np.stack(outputs), h


def multiplicative_gates(x_t, h):
    alpha, beta1, beta2, b = (workspace.FetchBlob(f"L/{n}") for n in ("alpha", "beta1", "beta2", "b"))
    of_x, of_h = linear(x_t, "L/i2h"), linear(h, "L/prev_t")
    return (alpha * of_x + beta1) * of_h + beta2 * of_x + b


def build(create, states=2, **kwargs):
    """(model, outputs, input, initial states) of a network that is ready to run."""
    rng = np.random.RandomState(0)
    x = rng.randn(T, N, D).astype("f")
    initial = [rng.randn(1, N, H).astype("f") for _ in range(states)]
    workspace.FeedBlob("x", x)
    workspace.FeedBlob("lengths", LENGTHS)
    names = [f"initial_{i}" for i in range(states)]
    for name, value in zip(names, initial):
        workspace.FeedBlob(name, value)
    model = model_helper.ModelHelper(name="m")
    outputs = create(model, "x", "lengths", names, dim_in=D, dim_out=H, scope="L", **kwargs)
    workspace.RunNetOnce(model.param_init_net)
    for param in model.GetParams():  # biases and scales too
        workspace.FeedBlob(param, rng.uniform(-0.7, 0.7, workspace.FetchBlob(param).shape).astype("f"))
    return model, outputs, x, [value[0] for value in initial]


def close(blob, expected):
    np.testing.assert_allclose(workspace.FetchBlob(blob).reshape(np.shape(expected)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("unroll", [None, T])
def test_lstm(drop, unroll):
    model, outputs, x, states = build(rnn_cell.LSTM, drop_states=drop, forget_bias=0.5, static_rnn_unroll_size=unroll)
    workspace.RunNetOnce(model.net)
    hidden, last_hidden, last_cell = lstm(x, states, drop=drop, forget_bias=0.5)
    close(outputs[0], hidden)
    close(outputs[1], last_hidden)
    close(outputs[3], last_cell)


def test_multiplicative_lstm():
    model, outputs, x, states = build(rnn_cell.MILSTM)
    workspace.RunNetOnce(model.net)
    close(outputs[0], lstm(x, states, gates=multiplicative_gates)[0])


@pytest.mark.parametrize("cell", [rnn_cell.LayerNormLSTM, rnn_cell.LayerNormMILSTM])
def test_normalized_lstm(cell):
    def gates(x_t, h):
        raw = (
            multiplicative_gates(x_t, h)
            if cell is rnn_cell.LayerNormMILSTM
            else linear(x_t, "L/i2h") + linear(h, "L/gates_t")
        )
        raw = (raw - raw.mean(axis=1, keepdims=True)) / np.sqrt(raw.var(axis=1, keepdims=True) + 1e-4)
        return raw * workspace.FetchBlob("L/gates_t_norm_scale") + workspace.FetchBlob("L/gates_t_norm_bias")

    model, outputs, x, states = build(cell)
    workspace.RunNetOnce(model.net)
    close(outputs[0], lstm(x, states, gates=gates)[0])


@pytest.mark.parametrize("before_reset", [False, True])
def test_gru(before_reset):
    model, outputs, x, states = build(gru_cell.GRU, states=1, linear_before_reset=before_reset)
    workspace.RunNetOnce(model.net)
    hidden, last = gru(x, states, before_reset)
    close(outputs[0], hidden)
    close(outputs[1], last)


@pytest.mark.parametrize("drop", [False, True])
def test_basic_rnn(drop):
    model, outputs, x, states = build(rnn_cell.BasicRNN, states=1, activation="tanh", drop_states=drop)
    workspace.RunNetOnce(model.net)
    close(outputs[0], basic(x, states, drop)[0])
    with pytest.raises(RuntimeError, match="unknown activation"):
        rnn_cell.BasicRNN(model, "x", None, ["initial_0"], D, H, scope="B", activation="step")


def test_layers():
    model = model_helper.ModelHelper(name="m")
    rng = np.random.RandomState(0)
    x = rng.randn(T, N, D).astype("f")
    for name, value in (("x", x), ("lengths", LENGTHS)):
        workspace.FeedBlob(name, value)
    outputs = rnn_cell.LSTM(model, "x", "lengths", None, D, [H, 3], scope="L", return_last_layer_only=False)
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    zeros = [np.zeros((N, H))] * 2, [np.zeros((N, 3))] * 2

    def below(x_t, h):
        return linear(x_t, "L/i2h") + linear(h, "L/layer_0/gates_t")

    first = lstm(x, zeros[0], gates=below)
    second = lstm(first[0], zeros[1], prefix="L/layer_1")
    close(outputs[0], first[0])
    close(outputs[4], second[0])
    close(outputs[7], second[2])


def gradients_agree(model, loss, blobs, eps=1e-2):
    """Compares the gradients of the first elements of some blobs with differences."""
    grads = model.AddGradientOperators([loss])
    workspace.CreateNet(model.net)

    def value():
        workspace.RunNet(model.net)
        return float(workspace.FetchBlob(loss))

    value()
    found = {blob: workspace.FetchBlob(grads[blob]) for blob in blobs}
    for blob in blobs:
        start = workspace.FetchBlob(blob)
        for at in (0, start.size - 1):
            ends = []
            for step in (eps, -eps):
                moved = start.copy()
                moved.flat[at] += step
                workspace.FeedBlob(blob, moved)
                ends.append(value())
            workspace.FeedBlob(blob, start)
            assert found[blob].flat[at] == pytest.approx((ends[0] - ends[1]) / (2 * eps), rel=0.05, abs=2e-3), blob


@pytest.mark.parametrize(
    "create, states, more",
    [
        (rnn_cell.LSTM, 2, {}),
        (rnn_cell.LSTM, 2, {"memory_optimization": True}),
        (rnn_cell.LSTM, 2, {"static_rnn_unroll_size": T}),
        (rnn_cell.MILSTM, 2, {"memory_optimization": True}),
        (rnn_cell.LayerNormLSTM, 2, {}),
        (gru_cell.GRU, 1, {}),
        (rnn_cell.BasicRNN, 1, {"activation": "tanh"}),
    ],
)
def test_gradients(create, states, more):
    model, outputs, _, _ = build(create, states, **more)
    loss = model.AveragedLoss(model.net.Mul([outputs[0], outputs[0]], "squares"), "loss")
    gradients_agree(model, loss, ["x", "initial_0", *map(str, model.GetParams())])


def test_gradients_of_residual_layers():
    cells = [rnn_cell.LSTMCell(s, H, 0.0, True, name=f"c{i}") for i, s in enumerate((D, H, H))]
    cell = rnn_cell.MultiRNNCell(cells, residual_output_layers=[1, 2], name="M")
    model = model_helper.ModelHelper(name="m")
    workspace.FeedBlob("x", np.random.RandomState(0).randn(T, N, D).astype("f"))
    workspace.FeedBlob("lengths", LENGTHS)
    output, states = cell.apply_over_sequence(model, "x", "lengths", None, outputs_with_grads=(0, 4, 8))
    workspace.RunNetOnce(model.param_init_net)
    loss = model.AveragedLoss(model.net.Mul([output, output], "squares"), "loss")
    gradients_agree(model, loss, ["x", *map(str, model.GetParams())])
    whole = sum(workspace.FetchBlob(states[4 * i]) for i in range(3))
    close(output, whole)


def test_a_gradient_may_pass_through_a_step():
    """The state is a running sum: its gradient is that of the output itself."""
    model = model_helper.ModelHelper(name="m")
    cell = model_helper.ModelHelper(name="cell", param_model=model)
    x_t, prev = cell.net.AddExternalInputs("x_t", "prev")
    total = cell.net.Sum([x_t, prev], "total")
    cell.net.AddExternalOutput(total)
    outputs = recurrent.recurrent_net(model.net, cell.net, [(x_t, "x")], [(prev, "start")], {prev: total})
    workspace.FeedBlob("timestep", np.zeros(1, "i"))
    workspace.FeedBlob("x", np.arange(6, dtype="f").reshape(3, 1, 2))
    workspace.FeedBlob("start", np.ones((1, 1, 2), "f"))
    grads = model.AddGradientOperators([model.net.SumElements(outputs[0], "loss")])
    workspace.RunNetOnce(model.net)
    close(outputs[0], [[[1, 2]], [[3, 5]], [[7, 10]]])
    close(grads["x"], [[[3, 3]], [[2, 2]], [[1, 1]]])
    close(grads["start"], [[[3, 3]]])


def test_state_without_link_and_several_inputs_are_refused():
    model = model_helper.ModelHelper(name="m")
    cell = core.Net("cell")
    x_t, prev = cell.AddExternalInputs("x_t", "prev")
    total = cell.Sum([x_t, prev], "total")
    with pytest.raises(KeyError, match="no link"):
        recurrent.recurrent_net(model.net, cell, [(x_t, "x")], [(prev, "start")], {x_t: total})
    with pytest.raises(ValueError, match="nowhere"):
        recurrent.recurrent_net(model.net, cell, [(x_t, "x")], [(prev, "start")], {prev: "nowhere"})
    with pytest.raises(AssertionError, match="one input"):
        recurrent.recurrent_net(model.net, cell, [(x_t, "x"), (x_t, "y")], [(prev, "start")], {prev: total})


def test_blobs_of_the_steps_can_be_had():
    model, _, _, _ = build(rnn_cell.LSTM)
    workspace.RunNetOnce(model.net)
    names = [name.decode() for name in recurrent.retrieve_step_blobs(model.net, "seen")]
    prepared = workspace.FetchBlob("L/i2h")
    for t in range(T):
        np.testing.assert_array_equal(workspace.FetchBlob(f"seen_input_t{t}")[0], prepared[t])
    assert len(names) == len(set(names)) and len(names) % T == 0


def test_dropout_leaves_the_states_whole():
    cell = rnn_cell.DropoutCell(rnn_cell.LSTMCell(D, H, 0.0, False, name="c"), 0.5, name="d", is_test=False)
    model = model_helper.ModelHelper(name="m")
    workspace.FeedBlob("x", np.random.RandomState(0).randn(T, N, D).astype("f"))
    output, states = cell.apply_over_sequence(model, "x", None, None)
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    dropped, whole = workspace.FetchBlob(output), workspace.FetchBlob(states[0])
    kept = dropped != 0
    assert 0 < kept.sum() < kept.size
    np.testing.assert_allclose(dropped[kept], 2 * whole[kept], rtol=1e-5)


@pytest.mark.parametrize("kind", ["Regular", "Recurrent", "Dot", "SoftCoverage"])
def test_attention(kind):
    """One step: weights sum to one within the lengths, and the context is the weighted sum."""
    steps, size = 4, 3
    rng = np.random.RandomState(0)
    encoded = rng.randn(steps, N, size).astype("f")
    lengths = np.array([4, 2, 1], "i")
    model = model_helper.ModelHelper(name="m")
    for name, value in {
        "encoded": encoded,
        "transposed": encoded.transpose(1, 2, 0),
        "weighted": rng.randn(steps, N, size).astype("f"),
        "hidden": rng.randn(1, N, H).astype("f"),
        "previous": rng.randn(1, N, size).astype("f"),
        "covered": rng.rand(1, N, steps).astype("f"),
        "lengths": lengths,
    }.items():
        workspace.FeedBlob(name, value)
    common = {
        "model": model,
        "encoder_output_dim": size,
        "encoder_outputs_transposed": "transposed",
        "decoder_hidden_state_t": "hidden",
        "decoder_hidden_state_dim": H,
        "scope": "A",
        "encoder_lengths": "lengths",
    }
    if kind != "Dot":
        common["weighted_encoder_outputs"] = "weighted"
    if kind == "Regular":
        context, weights, _ = attention.apply_regular_attention(**common)
    elif kind == "Recurrent":
        context, weights, _ = attention.apply_recurrent_attention(
            attention_weighted_encoder_context_t_prev="previous", **common
        )
    elif kind == "Dot":
        context, weights, _ = attention.apply_dot_attention(**common)
    else:
        context, weights, _, coverage = attention.apply_soft_coverage_attention(
            coverage_t_prev="covered", coverage_weights="weighted", **common
        )
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    w = workspace.FetchBlob(weights)[:, :, 0]
    np.testing.assert_allclose(w.sum(axis=1), 1, rtol=1e-5)
    assert not w[np.arange(steps)[None] >= lengths[:, None]].any()
    close(context, np.einsum("nt,tnd->nd", w, encoded)[None])
    if kind == "Dot":
        query = linear(workspace.FetchBlob("hidden")[0], "A/weighted_decoder_hidden_state")
        scores = np.einsum("tnd,nd->nt", encoded, query)
    elif kind == "SoftCoverage":
        close(coverage, workspace.FetchBlob("covered") + w[None])
        return
    else:
        query = linear(workspace.FetchBlob("hidden")[0], "A/weighted_decoder_hidden_state")
        if kind == "Recurrent":
            query += linear(workspace.FetchBlob("previous")[0], "A/weighted_prev_attention_context")
        summed = np.tanh(workspace.FetchBlob("weighted") + query[None])
        scores = linear(summed, "A/attention_logits")[:, :, 0].T
    scores = np.where(np.arange(steps)[None] < lengths[:, None], scores, -np.inf)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(w, scores / scores.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-6)


def test_a_decoder_with_attention_has_gradients():
    steps, size = 3, 4
    rng = np.random.RandomState(0)
    for name, value in {
        "decoded": rng.randn(T, N, D).astype("f"),
        "encoded": rng.randn(steps, N, size).astype("f"),
        "decoded_lengths": LENGTHS,
        "encoded_lengths": np.array([3, 2, 1], "i"),
        "hidden": rng.randn(1, N, H).astype("f"),
        "cell": rng.randn(1, N, H).astype("f"),
        "context": rng.randn(1, N, size).astype("f"),
    }.items():
        workspace.FeedBlob(name, value)
    model = model_helper.ModelHelper(name="m")
    results = rnn_cell.LSTMWithAttention(
        model,
        "decoded",
        "decoded_lengths",
        "hidden",
        "cell",
        "context",
        size,
        "encoded",
        "encoded_lengths",
        D,
        H,
        "A",
        lstm_memory_optimization=True,
        attention_memory_optimization=True,
    )
    joined = brew.concat(model, [results[0], results[4]], "joined", axis=2)
    workspace.RunNetOnce(model.param_init_net)
    loss = model.AveragedLoss(model.net.Mul([joined, joined], "squares"), "loss")
    gradients_agree(model, loss, ["decoded", "encoded", "context", "A/decoder/gates_t_w", "A/attention_logits_w"])


def test_parameters_can_come_from_an_lstm_of_the_same_layout():
    names = rnn_cell.GetLSTMParamNames()
    model = model_helper.ModelHelper(name="m")
    *_, params = rnn_cell.LSTM(model, "x", None, None, D, H, scope="L", return_params=True)
    workspace.RunNetOnce(model.param_init_net)
    values = {
        part: {
            **{n: np.full((H, columns), i, "f") for i, n in enumerate(names["weights"])},
            **{n: np.full(H, i, "f") for i, n in enumerate(names["biases"])},
        }
        for part, columns in (("input", D), ("recurrent", H))
    }
    rnn_cell.InitFromLSTMParams(params, values)
    close("L/i2h_w", np.repeat(np.arange(4), H)[:, None] * np.ones((1, D)))
    close("L/gates_t_b", np.repeat(np.arange(4), H))


def test_a_decoder_computes_the_same_on_a_gpu(gpus):
    """Trained for some steps, so that nets repeat themselves."""
    losses = []
    for device in (core.DeviceOption(caffe2_pb2.CPU), core.DeviceOption(caffe2_pb2.CUDA, 0)):
        workspace.ResetWorkspace()
        rng = np.random.RandomState(0)
        model = model_helper.ModelHelper(name="m")
        with core.DeviceScope(device):
            results = rnn_cell.LSTMWithAttention(
                model, "decoded", "lengths", "hidden", "cell", "context", 4, "encoded", "encoded_lengths", D, H, "A"
            )
            joined = brew.concat(model, [results[0], results[4]], "joined", axis=2)
            loss = model.AveragedLoss(model.net.Mul([joined, joined], "squares"), "loss")
            model.AddGradientOperators([loss])
            rate = model.param_init_net.ConstantFill([], "rate", shape=[1], value=-0.1)
            one = model.param_init_net.ConstantFill([], "one", shape=[1], value=1.0)
            for param in model.GetParams():
                model.net.WeightedSum([param, one, model.param_to_grad[param], rate], param)
        for name, shape in (
            ("decoded", (T, N, D)),
            ("encoded", (3, N, 4)),
            ("hidden", (1, N, H)),
            ("cell", (1, N, H)),
            ("context", (1, N, 4)),
        ):
            workspace.FeedBlob(name, rng.randn(*shape).astype("f"), device)
        workspace.FeedBlob("lengths", LENGTHS, device)
        workspace.FeedBlob("encoded_lengths", np.array([3, 2, 1], "i"), device)
        workspace.RunNetOnce(model.param_init_net)
        for param in model.GetParams():
            workspace.FeedBlob(param, rng.uniform(-0.5, 0.5, workspace.FetchBlob(param).shape).astype("f"), device)
        workspace.CreateNet(model.net)
        losses.append([])
        for _ in range(5):
            workspace.RunNet(model.net)
            losses[-1].append(float(workspace.FetchBlob("loss")))
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    assert losses[0][-1] < losses[0][0]


def test_a_state_that_is_an_output_too():
    """An Elman net by hand: the gradient through all steps, against central differences of a NumPy formula."""
    d, steps = 2, 3
    rng = np.random.default_rng(0)
    values = {
        "input": rng.standard_normal((steps, 1, d)).astype("f"),
        "seq_lengths": np.full(1, steps, np.int32),
        "w": rng.standard_normal((d, d)).astype("f"),
        "b": rng.standard_normal(d).astype("f"),
        "hidden_input": rng.standard_normal((1, 1, d)).astype("f"),
    }
    step = core.Net("elman_step")
    step.FC(["hidden_t_prev", "w", "b"], "gates_t", axis=2)
    step.Sum(["gates_t", "input_t"], "gates_t")
    step.Sigmoid("gates_t", "hidden_t")
    step.Proto().external_input[:] = ["input_t", "timestep", "hidden_t_prev", "w", "b"]
    back = core.Net("elman_back")
    back.Proto().op.extend(core.GradientRegistry.GetBackwardPass(step.Proto().op, {"hidden_t": "hidden_t_grad"})[0])
    inputs = list(values)
    op = core.CreateOperator(
        "RecurrentNetwork",
        inputs,
        ["output", "hidden", "hidden_output", "step_workspaces"],
        alias_src=["hidden", "hidden"],
        alias_dst=["output", "hidden_output"],
        alias_offset=[1, -1],
        recurrent_states=["hidden"],
        initial_recurrent_state_ids=[4],
        param=[2, 3],
        outputs_with_grads=[0],
        link_internal=["hidden_t_prev", "hidden_t", "input_t"],
        link_external=["hidden", "hidden", "input"],
        link_offset=[0, 1, 0],
        backward_link_internal=["hidden_t_prev_grad", "hidden_t_grad", "gates_t_grad"],
        backward_link_external=["hidden_grad", "hidden_grad", "input_grad"],
        backward_link_offset=[0, 1, 0],
        step_net=step.Proto(),
        backward_step_net=back.Proto(),
    )

    def hidden(input, seq_lengths, w, b, hidden_input):
        states = [hidden_input[0]]
        for x in input:
            states.append(1 / (1 + np.exp(-(states[-1] @ w.T + b + x))))
        return np.stack(states)

    for name, value in values.items():
        workspace.FeedBlob(name, value)
    net = core.Net("elman")
    net.Proto().op.append(op)
    net.ConstantFill(["output"], "output_grad", value=1.0)
    ops, gradients = core.GradientRegistry.GetGradientForOp(op, ["output_grad", None, None, None])
    net.Proto().op.extend(ops)
    workspace.RunNetOnce(net)
    np.testing.assert_allclose(workspace.FetchBlob("hidden"), hidden(**values), rtol=1e-5)
    np.testing.assert_allclose(workspace.FetchBlob("hidden_output")[0], hidden(**values)[-1], rtol=1e-5)
    for name, gradient in zip(inputs, gradients):
        if gradient is None:
            continue
        exact = {k: v.astype(np.float64) for k, v in values.items()}
        wanted = np.zeros(values[name].shape)
        for at in np.ndindex(wanted.shape):
            sums = []
            for change in (1e-5, -1e-5):
                moved = exact[name].copy()
                moved[at] += change
                sums.append(hidden(**{**exact, name: moved})[1:].sum())
            wanted[at] = (sums[0] - sums[1]) / 2e-5
        np.testing.assert_allclose(workspace.FetchBlob(gradient), wanted, rtol=1e-3, atol=1e-5)


def test_observers_count_the_operators_of_each_step():
    counts = []
    for steps in (2, 3, 4):
        workspace.ResetWorkspace()
        model = model_helper.ModelHelper(name="observed")
        for name, shape in {"input": (steps, 2, 3), "h": (1, 2, 3), "c": (1, 2, 3)}.items():
            workspace.FeedBlob(name, np.zeros(shape, np.float32))
        workspace.FeedBlob("lengths", np.full(2, steps, np.int32))
        model.net.AddExternalInputs(["input", "lengths", "h", "c"])
        rnn_cell.LSTM(model, "input", "lengths", ("h", "c"), 3, 3, "lstm", forward_only=True)
        workspace.RunNetOnce(model.param_init_net)
        workspace.CreateNet(model.net)
        observer = model.net.AddObserver("RunCountObserver")
        workspace.RunNet(model.net)
        counts.append(int(observer.debug_info().split()[3]))
        model.net.RemoveObserver(observer)
        workspace.RunNet(model.net)
        assert int(observer.debug_info().split()[3]) == counts[-1]
    step = next(a.n for op in model.net.Proto().op for a in op.arg if a.name == "step_net")
    assert np.diff(counts).tolist() == [len(step.op)] * 2


@pytest.mark.parametrize("implementation", ["own", "static_dag"])
def test_the_lstm_benchmark_learns_from_all_its_batches(implementation):
    workspace.ResetWorkspace()
    sizes = "--seq_length 5 --batch_size 2 --hidden_dim 4 --input_dim 3 --data_size 60 --num_layers 2 --fixed_shape"
    args = lstm_benchmark.GetArgumentParser().parse_args([*sizes.split(), "--implementation", implementation])
    assert lstm_benchmark.Benchmark(args) > 0
    assert np.isfinite(workspace.FetchBlob("loss")) and workspace.FetchBlob("input_data").shape == (5, 2, 3)
