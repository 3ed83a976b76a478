"""Recurrent networks: a step net that one operator runs once for each step of a sequence.

``recurrent_net`` wraps a net that computes one step into a
``RecurrentNetwork`` operator, and derives the step net of its gradient.  The
operator keeps the states of all steps in one blob for each state,
``<scope>/<state>_states``; inside the step net a state is read under one name
and written under another, and *links* say which slice of the states each name
stands for at each step.
"""

from __future__ import annotations

from caffe2lite.python import core, workspace


def _reference(blob):
    return core.ScopedBlobReference(blob) if isinstance(blob, str) else blob


def _op(op_type, inputs, output, **kwargs):
    """Return an operator on blobs whose names are complete as they are."""
    references = [core.BlobReference(name) for name in inputs]
    return core.CreateOperator(op_type, references, [core.BlobReference(output)], **kwargs)


def _names(blobs):
    return [str(blob) for blob in blobs]


class _Links:
    """The links of an operator: slice ``offset`` of a blob outside, under a name inside."""

    def __init__(self):
        self.internal, self.external, self.offset = [], [], []

    def add(self, internal, external, offset=0):
        self.internal.append(str(internal))
        self.external.append(str(external))
        self.offset.append(offset)

    def as_args(self, prefix):
        return {
            prefix + "internal": self.internal,
            prefix + "external": self.external,
            prefix + "offset": self.offset,
        }


class _Backward:
    """The step net of the gradient of a recurrent net.

    ``cell_net`` is the forward step, ``states`` pairs each state the step
    reads with the one it writes, ``input_name`` is the step's slice of the
    input sequence.
    """

    def __init__(self, cell_net, input_name, states, recompute):
        proto = cell_net.Proto()
        self._proto = proto
        self._states = [(str(read), str(written)) for read, written in states]
        # The names of the gradients that arrive from the following step.
        self._arriving = {written: written + "_grad" for _, written in self._states}
        ops = self._differentiate([])
        replaced = [w for w, name in self._arriving.items() if str(self.gradients.get(w, name)) != name]
        if replaced:
            ops = self._differentiate(replaced)

        self.net = core.Net("RecurrentBackwardStep")
        self.net.Proto().type = "simple"
        step = self.net.Proto().op
        recompute = set(_names(recompute))
        step.extend(op for op in proto.op if recompute.intersection(op.output))
        self._extend_accumulating(step, ops)
        self._name_sources(input_name)
        self._list_inputs(recompute)

    def _differentiate(self, replaced):
        """Return the gradient operators; sets the gradients, by blob.

        A gradient that passes through an operator, as through Sum, would take
        the place of the one that arrives.  The ``replaced`` states leave the
        step through a copy, whose gradient is added to the other.
        """
        ops, given = list(self._proto.op), {}
        for written in self._arriving:
            leaving = written
            if written in replaced:
                leaving = written + "_out"
                self._arriving[written] = leaving + "_grad"
                ops.append(_op("Copy", [written], leaving))
            given[core.BlobReference(leaving)] = self._arriving[written]
        ops, gradients = core.GradientRegistry.GetBackwardPass(ops, given)
        self.gradients = {str(blob): gradient for blob, gradient in gradients.items()}
        return ops

    def _extend_accumulating(self, step, ops):
        """Add the gradient operators.

        The gradient of a state the step writes arrives from the following
        step.  What the rest of this step adds to it goes to a blob of its
        own, which is then summed into it.
        """
        arriving = set(self._arriving.values())
        for op in ops:
            fresh = [(i, name) for i, name in enumerate(op.output) if name in arriving and name not in op.input]
            if not fresh:
                step.append(op)
                continue
            changed = step.add()
            changed.CopyFrom(op)
            for i, name in fresh:
                changed.output[i] = name + "_accum"
                step.append(_op("Sum", [name, name + "_accum"], name))

    def _name_sources(self, input_name):
        """Give the input and each state the step reads a gradient blob of its own.

        A gradient that is missing is zero.  One that only passes through
        shares its blob with another and has to be copied.
        """
        step = self.net.Proto().op
        taken = set(self._arriving.values())
        self.source_gradient = {}
        for name in [read for read, _ in self._states] + [str(input_name)]:
            gradient = self.gradients.get(name)
            if isinstance(gradient, core.GradientSlice):
                raise ValueError(f"The step of a recurrent net has a sparse gradient for {name}")
            gradient = None if gradient is None else str(gradient)
            if gradient is None:
                own = name + "_grad"
                step.append(_op("ConstantFill", [name], own, value=0.0))
            elif gradient in taken:
                own = name + "_grad"
                step.append(_op("Copy", [gradient], own))
            else:
                own = gradient
            taken.add(own)
            self.source_gradient[name] = own

    def _list_inputs(self, recompute):
        """Declare what the step takes from outside itself."""
        read = {name for op in self.net.Proto().op for name in op.input}
        written_outside = set(self._proto.external_output)
        scratch = []
        for op in self._proto.op:
            for name in op.output:
                known = name in written_outside or name in recompute or name in scratch
                if name in read and not known:
                    scratch.append(name)
        inputs = scratch + list(self._arriving.values())
        self.net.Proto().external_input.extend(inputs)
        self.net.Proto().external_input.extend(self._proto.external_input)
        self.net.Proto().external_input.extend(self._proto.external_output)

    def links(self, input_blob, state_blobs):
        """Return the links of the states' gradients and of the input's."""
        links = _Links()
        for (read, written), states in zip(self._states, state_blobs):
            links.add(self._arriving[written], states + "_grad", 1)
            links.add(self.source_gradient[read], states + "_grad", 0)
        return links, (str(input_blob) + "_grad")


def recurrent_net(
    net,
    cell_net,
    inputs,
    initial_cell_inputs,
    links,
    timestep=None,
    scope=None,
    outputs_with_grads=(0,),
    recompute_blobs_on_backward=None,
    forward_only=False,
):
    """Add to ``net`` an operator that runs ``cell_net`` for each step of a sequence.

    ``inputs`` holds one pair: the step's input and the blob of the sequence,
    of shape (steps, batch, ...).  ``initial_cell_inputs`` pairs each state the
    step reads with the blob of its initial value, and ``links`` maps it to the
    state the step writes.  ``timestep`` names the blob that holds the number
    of the step.  ``outputs_with_grads`` are the indices of the outputs that a
    gradient will be given for.  The blobs of ``recompute_blobs_on_backward``
    are computed again in the backward pass in place of being kept.

    Returns, for each state, a blob with its value after every step and one
    with its value after the last.
    """
    if len(inputs) != 1:
        raise AssertionError(f"a recurrent net takes one input blob, got {len(inputs)}")
    scope = f"{net.Name()}/recurrent" if scope is None else scope
    links = {str(read): written for read, written in links.items()}
    ((input_name, input_blob),) = inputs
    input_blob = _reference(input_blob)
    timestep = "timestep" if timestep is None else str(timestep)
    states = _states(cell_net, initial_cell_inputs, links)

    # Everything else the step reads comes in as it is, the same at each step.
    bound = {str(input_name), timestep}.union(read for read, _, _ in states)
    references = [name for name in cell_net.Proto().external_input if name not in bound]
    op_inputs = [input_blob] + [initial for _, _, initial in states]
    op_inputs += [core.BlobReference(name) for name in references]
    first_reference = 1 + len(states)

    state_blobs = [f"{scope}/{read}_states" for read, _, _ in states]
    outputs, aliases, forward = [], [], _Links()
    for (read, written, _), blob in zip(states, state_blobs):
        outputs += [core.BlobReference(written + "_all"), core.BlobReference(written + "_last")]
        aliases += [(blob, written + "_all", 1), (blob, written + "_last", -1)]
        forward.add(read, blob, 0)
        forward.add(written, blob, 1)
    forward.add(input_name, input_blob)

    if not cell_net.Proto().type:
        cell_net.Proto().type = "simple"
    args = {
        "alias_src": [source for source, _, _ in aliases],
        "alias_dst": [target for _, target, _ in aliases],
        "alias_offset": [offset for _, _, offset in aliases],
        "recurrent_states": state_blobs,
        "initial_recurrent_state_ids": list(range(1, first_reference)),
    }
    args.update(forward.as_args("link_"))
    args.update(enable_rnn_executor=1, step_net=cell_net.Proto(), timestep=timestep)

    if not forward_only:
        recompute = [] if recompute_blobs_on_backward is None else list(recompute_blobs_on_backward)
        backward = _Backward(cell_net, input_name, [(r, w) for r, w, _ in states], recompute)
        args.update(
            _backward_args(backward, inputs[0], state_blobs, references, list(outputs_with_grads), _names(recompute))
        )

    results = net.RecurrentNetwork(op_inputs, outputs + [f"{scope}/step_workspaces"], **args)
    return results[:-1]


def _states(cell_net, initial_cell_inputs, links):
    """Return (state that the step reads, state that it writes, initial value) of each state."""
    states = []
    for read, initial, *_ in initial_cell_inputs:
        if str(read) not in links:
            raise KeyError(f"{read}: no link says which state follows it; there are links for {list(links)}")
        states.append((str(read), str(links[str(read)]), _reference(initial)))
    step_writes = {name for op in cell_net.Proto().op for name in op.output}
    for _, written, _ in states:
        if written not in step_writes and written not in cell_net.Proto().external_input:
            raise ValueError(f"The step net {cell_net.Name()} has no blob {written} for a state to take")
    return states


def _backward_args(backward, step_input, state_blobs, references, outputs_with_grads, recompute):
    """Return the arguments by which the gradient runs, given the blobs that every step reads as they are."""
    input_name, input_blob = step_input
    links, input_gradient = backward.links(_reference(input_blob), state_blobs)
    links.add(backward.source_gradient[str(input_name)], input_gradient)
    params = [i for i, name in enumerate(references) if name in backward.gradients]
    args = {
        "param": [1 + len(state_blobs) + i for i in params],
        **links.as_args("backward_link_"),
        "outputs_with_grads": outputs_with_grads,
        "recompute_blobs_on_backward": recompute,
        "param_grads": [str(backward.gradients[references[i]]) for i in params],
    }
    if backward.net.Proto().op:
        args["backward_step_net"] = backward.net.Proto()
    return args


def set_rnn_executor_config(rnn_op, num_threads=None, max_cuda_streams=None):
    """Say how many threads and streams the executor of a recurrent operator may use."""
    if rnn_op.type not in {"RecurrentNetwork", "RecurrentNetworkGradient"}:
        raise AssertionError(
            f"an executor is configured on a RecurrentNetwork or RecurrentNetworkGradient, got {rnn_op.type}"
        )

    def set_argument(name, value):
        for argument in rnn_op.arg:
            if argument.name == name:
                argument.i = value
                return
        argument = rnn_op.arg.add()
        argument.name, argument.i = name, value

    if num_threads is not None:
        set_argument("rnn_executor.num_threads", num_threads)
    if max_cuda_streams is not None:
        set_argument("rnn_executor.max_cuda_streams", max_cuda_streams)


def retrieve_step_blobs(net, prefix="rnn"):
    """Copy the blobs of the steps of a net's recurrent operators into the workspace; return the copies' names.

    Each of these starts with ``prefix`` and ends with
    the number of the step.
    """
    retrieved = []
    count = 0
    for op in net.Proto().op:
        if op.type != "RecurrentNetwork":
            continue
        count += 1
        fetched = f"{prefix}_{count}"
        step_workspaces = op.output[-1]
        workspace.RunOperatorOnce(_op("RecurrentNetworkBlobFetcher", [step_workspaces], fetched, prefix=prefix))
        retrieved.extend(workspace.FetchBlob(fetched).tolist())
    return retrieved
