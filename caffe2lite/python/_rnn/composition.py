"""Cells made of other cells: with dropout, in layers, unrolled."""

from __future__ import annotations

import functools

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import brew, core
from caffe2lite.python import scope as scopes
from caffe2lite.python._rnn.cell import RectifyName, RectifyNames, RNNCell
from caffe2lite.python.modeling.parameter_sharing import ParameterSharing


class DropoutCell(RNNCell):
    """Drops out parts of the output of another cell; its states stay whole."""

    def __init__(self, internal_cell, dropout_ratio=None, use_cudnn=False, **kwargs):
        if "is_test" not in kwargs:
            raise AssertionError("DropoutCell needs is_test=True or False")
        self.is_test = kwargs.pop("is_test")
        super().__init__(**kwargs)
        self.internal_cell = internal_cell
        self.dropout_ratio = dropout_ratio
        self.use_cudnn = use_cudnn
        self.prepare_input = internal_cell.prepare_input
        self.get_output_state_index = internal_cell.get_output_state_index
        self.get_state_names = internal_cell.get_state_names
        self.get_output_dim = internal_cell.get_output_dim
        self.initializer = self.initializer or internal_cell.initializer
        self.mask = 0

    def _apply(self, model, input_t, seq_lengths, states, timestep, extra_inputs=None):
        return self.internal_cell._apply(model, input_t, seq_lengths, states, timestep, extra_inputs)

    def _prepare_output(self, model, states):
        output = self.internal_cell._prepare_output(model, states)
        return self._apply_dropout(model, output)

    def _prepare_output_sequence(self, model, state_outputs):
        output = self.internal_cell._prepare_output_sequence(model, state_outputs)
        return self._apply_dropout(model, output)

    def _apply_dropout(self, model, output):
        if not self.dropout_ratio or self.forward_only:
            return output
        with core.NameScope(self.name or ""):
            dropped = brew.dropout(
                model,
                output,
                f"{output}_with_dropout_mask{self.mask}",
                ratio=self.dropout_ratio,
                use_cudnn=self.use_cudnn,
                is_test=self.is_test,
            )
        self.mask += 1
        return dropped


class MultiRNNCellInitializer:
    """Starts the layers from what each of them starts from."""

    def __init__(self, cells):
        self.cells = cells

    def create_states(self, model):
        """Return the initial states of all cells."""
        states = []
        for i, cell in enumerate(self.cells):
            if cell.initializer is None:
                raise Exception(
                    f"Either initial states or initializer have to be set: cell {i} ({cell.name}) has no initializer"
                )
            with core.NameScope(f"layer_{i}"), core.NameScope(cell.name or ""):
                states.extend(cell.initializer.create_states(model))
        return states


class MultiRNNCell(RNNCell):
    """Layers of cells, each of which reads the output of the one below.

    ``residual_output_layers`` are the indices of layers whose input is added
    to their output.
    """

    def __init__(self, cells, residual_output_layers=None, **kwargs):
        super().__init__(**kwargs)
        self.cells = cells
        self.residual_output_layers = [] if residual_output_layers is None else residual_output_layers
        self.initializer = self.initializer or MultiRNNCellInitializer(cells)

        # The output is made of the top layer's and of what reaches it past layers.
        self.output_connected_layers = [len(cells) - 1]
        for i in range(len(cells) - 1, 0, -1):
            if i not in self.residual_output_layers:
                break
            self.output_connected_layers.insert(0, i - 1)

        self.state_names = []
        self.output_indices = []
        first = 0
        for i, cell in enumerate(cells):
            if i in self.output_connected_layers:
                self.output_indices.append(first + cell.get_output_state_index())
            layer = "/".join(
                filter(None, [self.name, f"layer_{i}"])
            )  # the scope that is open comes in when it is applied
            names = [f"{layer}/{name}" for name in cell.get_state_names()]
            self.state_names.extend(names)
            first += len(names)
        if not cells:
            raise IndexError(f"A MultiRNNCell needs at least one cell, got {cells!r}")
        duplicates = {name for name in self.state_names if self.state_names.count(name) > 1}
        if duplicates:
            raise ValueError(f"Layers have states of the same name: {sorted(duplicates)}")

    def layer_scoper(self, layer_id):
        """Return a function that enters the name scope of a layer."""

        @functools.wraps(core.NameScope)
        def helper():
            return core.NameScope("/".join(filter(None, [self.name, f"layer_{layer_id}"])))

        return helper

    def prepare_input(self, model, input_blob):
        input_blob = RectifyName(input_blob)
        with core.NameScope(self.name or ""):
            return self.cells[0].prepare_input(model, input_blob)

    def _apply(self, model, input_t, seq_lengths, states, timestep, extra_inputs=None):
        input_t, seq_lengths, states, timestep, extra_inputs = self._rectify_apply_inputs(
            input_t, seq_lengths, states, timestep, extra_inputs
        )
        new_states = []
        layer_input = input_t
        residual_input = None
        first = 0
        for i, cell in enumerate(self.cells):
            size = len(cell.get_state_names())
            layer_states = states[first : first + size]
            first += size
            with self.layer_scoper(i)():
                # The first layer's input comes prepared, for all steps at once.
                prepared = layer_input if i == 0 else cell.prepare_input(model, layer_input)
                layer_states = cell._apply(
                    model,
                    prepared,
                    seq_lengths,
                    layer_states,
                    timestep,
                    extra_inputs=extra_inputs if i == 0 else None,
                )
                new_states.extend(layer_states)
                if i == len(self.cells) - 1:
                    break
                output = cell._prepare_output(model, layer_states)
                if i > 0 and i in self.residual_output_layers:
                    output = brew.sum(model, [output, residual_input], self.scope(f"residual_output_{i}"))
            layer_input = residual_input = output
        return new_states

    def get_state_names(self):
        return self.state_names

    def get_output_state_index(self):
        below = sum(len(cell.get_state_names()) for cell in self.cells[:-1])
        return below + self.cells[-1].get_output_state_index()

    def _joined(self, model, outputs, name):
        if len(outputs) == 1:
            return outputs[0]
        return brew.sum(model, outputs, self.scope(name))

    def _layer_slices(self, states, blobs_per_state):
        first = 0
        for i, cell in enumerate(self.cells):
            size = blobs_per_state * len(cell.get_state_names())
            if i in self.output_connected_layers:
                yield cell, states[first : first + size]
            first += size

    def _prepare_output(self, model, states):
        outputs = [cell._prepare_output(model, part) for cell, part in self._layer_slices(states, 1)]
        return self._joined(model, outputs, "residual_output")

    def _prepare_output_sequence(self, model, states):
        outputs = [cell._prepare_output_sequence(model, part) for cell, part in self._layer_slices(states, 2)]
        return self._joined(model, outputs, "residual_output_sequence")


class UnrolledCell(RNNCell):
    """A cell written out ``T`` times, in place of an operator that repeats it."""

    def __init__(self, cell, T):
        self.T = T
        self.cell = cell

    def apply_over_sequence(self, model, inputs, seq_lengths, initial_states, outputs_with_grads=None):
        inputs = self.cell.prepare_input(model, inputs)
        if self.T > 1:
            steps = model.net.Split(inputs, [f"{inputs}_timestep_{i}" for i in range(self.T)], axis=0)
        else:
            steps = [inputs]
        if initial_states is None:
            initial_states = self.cell._initial_states(model)
        state_names = self.cell.get_state_names()
        if len(initial_states) != len(state_names):
            raise Exception(
                "Number of initial state values provided doesn't match the number of states. "
                f"{len(initial_states)} != {len(state_names)}"
            )

        states = RectifyNames(list(initial_states))
        seq_lengths = RectifyName(seq_lengths)
        by_step = []
        for t in range(self.T):
            step_scope = f"timestep_{t}"
            # The steps share their parameters, those of the cell outside of any step.
            with ParameterSharing({step_scope: ""}), scopes.NameScope(step_scope):
                timestep = model.param_init_net.ConstantFill(
                    [],
                    "timestep",
                    value=t,
                    shape=[1],
                    dtype=core.DataType.INT32,
                    device_option=core.DeviceOption(caffe2_pb2.CPU),
                )
                states = self.cell._apply(
                    model=model,
                    input_t=steps[t],
                    seq_lengths=seq_lengths,
                    states=states,
                    timestep=timestep,
                )
            by_step.append(states)
        return self._outputs(model, by_step, outputs_with_grads)

    def _outputs(self, model, by_step, outputs_with_grads):
        """Return the states after every step and after the last, as a recurrent operator has them."""
        results = []
        for i, last in enumerate(by_step[-1]):
            # Caffe2 takes "timestep_0/" off by its length, whatever scope the name begins with.
            name = str(by_step[0][i])[len("timestep_0/") :]
            joined = model.net.Concat(
                [states[i] for states in by_step], [f"{name}_concat", f"{name}_concat_info"], axis=0
            )
            results.append(joined[0])
            results.append(last)
        if outputs_with_grads is None:
            outputs_with_grads = [2 * self.cell.get_output_state_index()]
        for i, blob in enumerate(results):
            if i not in outputs_with_grads:
                model.net.ZeroGradient(blob, [])
        return self.cell._prepare_output_sequence(model, results), tuple(results)
