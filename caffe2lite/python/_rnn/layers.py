"""Layers of cells, applied over a sequence."""

from __future__ import annotations

from caffe2lite.python._rnn.composition import MultiRNNCell, UnrolledCell


def recurrent_layers(
    cell_class,
    model,
    input_blob,
    seq_lengths,
    initial_states,
    dim_in,
    dim_out,
    scope=None,
    outputs_with_grads=(0,),
    return_params=False,
    memory_optimization=False,
    forget_bias=0.0,
    forward_only=False,
    drop_states=False,
    return_last_layer_only=True,
    static_rnn_unroll_size=None,
    **cell_kwargs,
):
    """Add a recurrent network of one layer or more of a class of cells.

    ``input_blob`` has shape (steps, batch, dim_in); ``seq_lengths``, if it is
    not None, says for each sequence of the batch how many steps it has.
    ``initial_states`` are the states before the first step, in the order of
    the layers; None learns them.  ``dim_out`` is the size of the state, or a
    list with one for each layer.

    Return for each state a blob with its value after every step and one with
    that after the last; of the last layer, or with
    ``return_last_layer_only=False`` of all.  ``outputs_with_grads`` are the
    indices of those returned that a gradient will be given for.
    ``return_params`` adds the names of the parameters to what is returned.

    ``memory_optimization`` recomputes the gates in the backward pass.
    ``drop_states`` makes the states zero after the end of a sequence, in
    place of keeping its last one.  ``static_rnn_unroll_size`` writes out that
    many steps in place of using a recurrent operator.
    """
    dims = [dim_out] if not isinstance(dim_out, (list, tuple)) else list(dim_out)
    layered = len(dims) > 1
    if layered and return_params:
        raise ValueError(f"return_params is for a single layer, dim_out {dims} asks for {len(dims)}")
    cell_kwargs.update(
        forget_bias=forget_bias,
        memory_optimization=memory_optimization,
        forward_only=forward_only,
        drop_states=drop_states,
        **({} if layered else {"name": scope}),
    )
    cells = [cell_class(input_size=i, hidden_size=o, **cell_kwargs) for i, o in zip([dim_in, *dims], dims)]
    cell = MultiRNNCell(cells, name=scope, forward_only=forward_only) if layered else cells[0]
    unrolled = cell if static_rnn_unroll_size is None else UnrolledCell(cell, static_rnn_unroll_size)

    states = len(cells[-1].get_state_names())
    hidden = 2 * (len(cell.get_state_names()) - states) if return_last_layer_only else 0
    _, results = unrolled.apply_over_sequence(
        model=model,
        inputs=input_blob,
        seq_lengths=seq_lengths,
        initial_states=initial_states,
        outputs_with_grads=[hidden + i for i in outputs_with_grads],
    )
    results = results[hidden:]
    if return_params:
        results = results + ({"input": cells[-1].get_input_params(), "recurrent": cells[-1].get_recurrent_params()},)
    return tuple(results)
