"""What the tests of recurrent cells share."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import scope, workspace
from caffe2lite.python.model_helper import ModelHelper


def sigmoid(x):
    """1 / (1 + e^-x)."""
    return 1.0 / (1.0 + np.exp(-x))


def tanh(x):
    """Return the hyperbolic tangent, from two sigmoids."""
    return 2.0 * sigmoid(2.0 * x) - 1.0


def _prepare_rnn(
    t,
    n,
    dim_in,
    create_rnn,
    outputs_with_grads,
    forget_bias,
    memory_optim=False,
    forward_only=False,
    drop_states=False,
    T=None,
    two_d_initial_states=None,
    dim_out=None,
    num_states=2,
    **kwargs,
):
    """Build a recurrent network and feed everything it needs but its input.

    Return what ``create_rnn`` does, the net, and the net's inputs: the
    initial states of each layer, then the input.  The states have a leading
    axis of one unless ``two_d_initial_states``; None draws which.
    """
    dim_out = [dim_in] if dim_out is None else dim_out
    if two_d_initial_states is None:
        two_d_initial_states = bool(np.random.randint(2))
    states = []
    for layer, size in enumerate(dim_out):
        shape = (n, size) if two_d_initial_states else (1, n, size)
        for i in range(num_states):
            name = f"state_{i}/layer_{layer}"
            workspace.FeedBlob(name, np.random.randn(*shape).astype(np.float32))
            states.append(name)

    model = ModelHelper(name="external")
    states = [model.net.AddExternalInput(state) for state in states]
    with scope.NameScope("test_name_scope"):
        input_blob, seq_lengths = model.net.AddScopedExternalInputs("input_blob", "seq_lengths")
        outputs = create_rnn(
            model,
            input_blob,
            seq_lengths,
            states,
            dim_in=dim_in,
            dim_out=dim_out,
            scope="external/recurrent",
            outputs_with_grads=outputs_with_grads,
            memory_optimization=memory_optim,
            forget_bias=forget_bias,
            forward_only=forward_only,
            drop_states=drop_states,
            static_rnn_unroll_size=T,
            **kwargs,
        )
    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob(seq_lengths, np.random.randint(1, t + 1, size=(n,)).astype(np.int32))
    return outputs, model.net, [*states, input_blob]
