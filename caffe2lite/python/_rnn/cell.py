"""What the recurrent cells have in common: one step, applied over a sequence."""

from __future__ import annotations

from caffe2lite.python import core, recurrent, utils
from caffe2lite.python import scope as scopes
from caffe2lite.python.model_helper import ModelHelper
from caffe2lite.python.modeling.initializers import Initializer


def RectifyName(blob_reference_or_name):
    """Return a blob reference; a name is read in the current name scope."""
    if blob_reference_or_name is None:
        return None
    if isinstance(blob_reference_or_name, str):
        return core.ScopedBlobReference(blob_reference_or_name)
    if not isinstance(blob_reference_or_name, core.BlobReference):
        raise Exception(f"a blob is a name or a BlobReference, got {blob_reference_or_name!r}")
    return blob_reference_or_name


def RectifyNames(blob_references_or_names):
    if blob_references_or_names is None:
        return None
    return [RectifyName(blob) for blob in blob_references_or_names]


class RNNCell:
    """One step of a recurrent network.

    A cell has a number of *states*.  A subclass names them
    (``get_state_names_override``) and computes them from those of the step
    before (``apply_override``).  What of the input needs no state, a cell
    computes for the whole sequence at once (``prepare_input``).

    ``forward_only`` is for nets that are never differentiated.
    ``initializer`` makes the first states where none are given.
    """

    def __init__(self, name=None, forward_only=False, initializer=None):
        self.name = name
        self.recompute_blobs = []
        self.forward_only = forward_only
        self._initializer = initializer

    @property
    def initializer(self):
        """What makes the initial states."""
        return self._initializer

    @initializer.setter
    def initializer(self, value):
        self._initializer = value

    def scope(self, name):
        """Return a name within the cell."""
        return f"{self.name}/{name}" if self.name is not None else name

    def apply_over_sequence(
        self,
        model,
        inputs,
        seq_lengths=None,
        initial_states=None,
        outputs_with_grads=None,
    ):
        """Apply the cell to each step of ``inputs``, of shape (steps, batch, dimension).

        Return the output at every step, and for each state the values after
        every step and after the last one.  ``outputs_with_grads`` are the
        indices among the latter that a gradient will be given for: by default
        the one the output is made of.
        """
        if initial_states is None:
            initial_states = self._initial_states(model)
        prepared = self.prepare_input(model, inputs)

        step_model = ModelHelper(name=self.name, param_model=model)
        input_t, timestep = step_model.net.AddScopedExternalInputs("input_t", "timestep")
        state_names = self.get_state_names()
        utils.raiseIfNotEqual(
            len(initial_states),
            len(state_names),
            "Number of initial state values provided doesn't match the number of states",
        )
        previous = step_model.net.AddScopedExternalInputs(*[f"{name}_prev" for name in state_names])
        previous = [previous] if isinstance(previous, core.BlobReference) else list(previous)
        states = self._apply(
            model=step_model,
            input_t=input_t,
            seq_lengths=seq_lengths,
            states=previous,
            timestep=timestep,
        )
        if outputs_with_grads is None:
            outputs_with_grads = [2 * self.get_output_state_index()]
        results = recurrent.recurrent_net(
            net=model.net,
            cell_net=step_model.net,
            inputs=[(input_t, prepared)],
            initial_cell_inputs=list(zip(previous, initial_states)),
            links=dict(zip(previous, states)),
            timestep=timestep,
            scope=self.name,
            forward_only=self.forward_only,
            outputs_with_grads=outputs_with_grads,
            recompute_blobs_on_backward=self.recompute_blobs,
        )
        return self._prepare_output_sequence(model, results), results

    def _initial_states(self, model):
        with scopes.NameScope(self.name or ""):
            if self.initializer is None:
                raise Exception(f"cell {self.name!r} has no initializer: pass initial_states")
            return self.initializer.create_states(model)

    def apply(self, model, input_t, seq_lengths, states, timestep):
        """Add one step to ``model``: returns its output and the new states."""
        input_t = self.prepare_input(model, input_t)
        states = self._apply(model, input_t, seq_lengths, states, timestep)
        return self._prepare_output(model, states), states

    def _apply(self, model, input_t, seq_lengths, states, timestep, extra_inputs=None):
        """Add one step on prepared input, and make the new states outputs of its net."""
        input_t, seq_lengths, states, timestep, extra_inputs = self._rectify_apply_inputs(
            input_t, seq_lengths, states, timestep, extra_inputs
        )
        args = {
            "model": model,
            "input_t": input_t,
            "seq_lengths": seq_lengths,
            "states": states,
            "timestep": timestep,
        }
        if extra_inputs is not None:
            args["extra_inputs"] = extra_inputs
        with scopes.NameScope(self.name or ""):
            states = self.apply_override(**args)
        declared = set(model.net.Proto().external_output)
        model.net.AddExternalOutputs(*[state for state in states if str(state) not in declared])
        return states

    def _rectify_apply_inputs(self, input_t, seq_lengths, states, timestep, extra_inputs):
        if extra_inputs is not None:
            extra_inputs = [(RectifyName(blob), size) for blob, size in extra_inputs]
        return [
            RectifyName(input_t),
            RectifyName(seq_lengths),
            RectifyNames(states),
            RectifyName(timestep),
            extra_inputs,
        ]

    def apply_override(self, model, input_t, seq_lengths, timestep, extra_inputs=None):
        """One step; also gets ``states``, blob references like everything else it gets.

        Is called in the cell's name scope.  Return the new states.  ``extra_inputs`` are pairs of a blob and its
        size, given when the cell is part of another.
        """
        raise NotImplementedError("Abstract method")

    def prepare_input(self, model, input_blob):
        """Compute what needs only the input, for all steps at once."""
        return input_blob

    def get_output_state_index(self):
        """Index of the state the output is."""
        return 0

    def get_state_names(self):
        """Return the names of the states."""
        return [self.scope(name) for name in self.get_state_names_override()]

    def get_state_names_override(self):
        """Return the names of the states, as a subclass has them."""
        raise NotImplementedError("Abstract method")

    def get_output_dim(self):
        """How many numbers a step puts out."""
        raise NotImplementedError("Abstract method")

    def _prepare_output(self, model, states):
        """Return the output of one step, out of its states."""
        return states[self.get_output_state_index()]

    def _prepare_output_sequence(self, model, state_outputs):
        """Return the output at every step; ``state_outputs`` has two blobs for each state."""
        return state_outputs[2 * self.get_output_state_index()]


class LSTMInitializer:
    """Starts an LSTM from learned states, zero at first."""

    def __init__(self, hidden_size):
        self.hidden_size = hidden_size

    def create_states(self, model):
        """Return the initial states: zeros that are trained."""
        return [
            model.create_param(
                param_name=name,
                initializer=Initializer(operator_name="ConstantFill", value=0.0),
                shape=[self.hidden_size],
            )
            for name in ("initial_hidden_state", "initial_cell_state")
        ]
