"""Conditional random fields over sequences of labels."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import brew, core, model_helper, recurrent

_LOW = -1000.0  # the score of what cannot be


class CRFWithLoss:
    """A linear chain over `num_classes` labels, and two more for begin and end.

    `transitions_blob` holds scores (num_classes + 2, num_classes + 2) from label to label; without one the model gets
    a parameter crf_transitions.
    """

    def __init__(self, model, num_classes, transitions_blob=None):
        self.model = model
        self.num_classes = num_classes
        self.num_classes_padded = num_classes + 2
        if not transitions_blob:
            size = self.num_classes_padded
            transitions_blob = model.param_init_net.UniformFill(
                [], [core.ScopedBlobReference("crf_transitions")], shape=[size, size], min=-1.0, max=1.0
            )
            model.params.append(transitions_blob)
        self.transitions = transitions_blob

    def crf_loss(self, predictions, labels, seq_lengths=None):
        """-log P(labels): `predictions` (length, num_classes) are scores, `labels` (length) numbers."""
        net, init = self.model.net, self.model.param_init_net
        # The transitions are the same for all of the loss, whoever updates them meanwhile.
        transitions = net.Copy(self.transitions, core.ScopedBlobReference("transitions_snapshot"))
        unary = self._unary_score(predictions, labels)
        padded = self.pad_predictions(predictions, init, net, self.num_classes)
        path = self.pad_labels(labels, init, net, self.num_classes)
        binary = self._path_binary_scores(path, transitions, seq_lengths)
        path_total = net.Add([binary, unary], core.ScopedBlobReference("path_total"))

        first = init.ConstantFill([], shape=[1], value=0)
        initial = net.Gather([padded, first], core.ScopedBlobReference("rnn_initial"), dense_gradient=True)
        rest = net.RemovePadding([padded], 2, padding_width=1, end_padding_width=0)[0]
        steps = net.ExpandDims([rest], core.ScopedBlobReference("rnn_input_data"), dims=[1])
        copied = net.Copy([transitions], core.ScopedBlobReference("transitions_copy"))
        all_paths = self._crf_forward(steps, initial, copied)
        return net.Sub([all_paths, path_total], core.ScopedBlobReference("crf_loss"))

    def _unary_score(self, predictions, labels):
        net = self.model.net
        size = self.model.param_init_net.ConstantFill([], shape=[1], value=self.num_classes)
        one_hot = net.OneHot([net.Cast(labels, to="int64"), size])
        products = net.DotProduct([net.FlattenToVec(one_hot), net.FlattenToVec(predictions)])
        return net.ReduceFrontSum(products)

    @staticmethod
    def pad_labels(labels, init_net, net, num_classes):
        """Return the labels between begin and end."""
        begin = init_net.ConstantFill([], shape=[1], value=num_classes)
        end = init_net.ConstantFill([], shape=[1], value=num_classes + 1)
        return net.Concat([begin, net.Cast(labels, to="int64"), end], 2, axis=0)[0]

    @staticmethod
    def pad_predictions(predictions, init_net, net, num_classes):
        """Return the scores with columns for begin and end, and a first and last row in which these are certain."""
        low = [_LOW] * num_classes
        ends = [
            init_net.GivenTensorFill([], core.ScopedBlobReference(name), shape=[1, num_classes + 2], values=low + last)
            for name, last in (("b_scores", [0.0, _LOW]), ("e_scores", [_LOW, 0.0]))
        ]
        zero = net.ConstantFill([], shape=[1], value=0)
        length = net.Cast(net.Gather([net.Shape([predictions]), zero]), to="int32")
        column = net.ConstantFill(net.LengthsRangeFill([length]), value=_LOW)
        column = net.ExpandDims(column, dims=[1])
        wide = net.Concat([predictions, column, column], 2, axis=1)[0]
        return net.Concat([ends[0], wide, ends[1]], 2, axis=0)[0]

    def _path_binary_scores(self, labels, transitions, seq_lengths=None):
        """Return the sum of the scores of going along the labels."""
        net = self.model.net
        after = net.RemovePadding([labels], 2, padding_width=1, end_padding_width=0)[0]
        before = net.RemovePadding([labels], 2, padding_width=0, end_padding_width=1)[0]
        row = net.Mul([before, net.ConstantFill([before], value=self.num_classes_padded)])
        return self._gather_entries_sum(transitions, net.Add([row, after]), self.num_classes_padded)

    def _gather_entries_sum(self, in_data, indices, index_size):
        net = self.model.net
        entries = net.Gather([net.FlattenToVec(in_data), indices], dense_gradient=True)
        return net.ReduceFrontSum(entries)

    def _crf_forward(self, input_blob, initial_state, transitions_copy, seq_lengths=None):
        """log of the sum over all paths of exp(score)."""
        net = self.model.net
        last = self.build_crf_net(input_blob, initial_state, transitions_copy)
        flat = net.Reshape(last, 2, shape=[self.num_classes_padded])[0]
        one_segment = self.model.param_init_net.ConstantFill(
            [], value=0, shape=[self.num_classes_padded], dtype=core.DataType.INT32
        )
        total = net.SortedSegmentRangeLogSumExp([flat, one_segment])
        return net.Reshape(total, 2, shape=[])[0]

    def build_crf_net(self, input_blob, initial_state, transitions):
        """Return the scores of all paths up to the last step by their last label, of shape (1, num_classes + 2).

        One step adds the step's scores and the transitions to the scores so far, and brings together what leads to
        the same label.
        """
        scope, size = "crf_net", self.num_classes_padded

        def scoped(name):
            return f"{scope}/{name}"

        step_model = model_helper.ModelHelper(name="crf_step", param_model=self.model)
        step = step_model.net
        input_t, cell_t_prev, _ = step.AddExternalInputs(
            core.ScopedBlobReference("input_t"), core.ScopedBlobReference("cell_t_prev"), transitions
        )
        segments = step_model.param_init_net.ConstantFill(
            [], [scoped("zero_segment_id")], value=0, shape=[size], dtype=core.DataType.INT32
        )
        step_model.param_init_net.AddExternalOutput(segments)
        step.AddExternalInput(segments)

        previous = brew.transpose(step_model, cell_t_prev, [scoped("prev_transpose")], axes=(0, 2, 1))
        previous = step.Tile(previous, [scoped("prev_tiled")], tiles=size, axis=2)
        current = step.Tile(input_t, [scoped("input_t_tiled")], tiles=size, axis=1)
        both = step.Add([previous, current], [scoped("input_with_prev")])
        moved = step.Add([both, transitions], [scoped("prev_with_transitions")], broadcast=1, use_grad_hack=1)
        flat, _ = step.Reshape(
            [moved], [scoped("all_with_transitions_reshaped"), scoped("all_with_transitions_orig")], shape=(size, size)
        )
        cell_t = step.SortedSegmentRangeLogSumExp([flat, segments], [scoped("cell_t")])
        step.AddExternalOutputs(cell_t)
        _, last, *_ = recurrent.recurrent_net(
            net=self.model.net,
            cell_net=step,
            inputs=[(input_t, input_blob)],
            initial_cell_inputs=[(cell_t_prev, initial_state)],
            links={cell_t_prev: cell_t},
            scope=scope,
            outputs_with_grads=(1,),
        )
        return last

    def update_predictions(self, classes):
        """Return the scores `classes`, in each row the best exchanged with that of the label on the best path."""

        def crf_update_predictions_op(inputs, outputs):
            scores, transitions = inputs[0].data.copy(), inputs[1].data
            path = _best_path(scores, transitions)
            rows = np.arange(len(scores))
            best = scores.argmax(axis=1)
            scores[rows, best], scores[rows, path] = scores[rows, path], scores[rows, best]
            kept = scores[1:-1, :-2]
            outputs[0].reshape(kept.shape)
            outputs[0].data[...] = kept

        padded = self.pad_predictions(classes, self.model.param_init_net, self.model.net, self.num_classes)
        return self.model.net.Python(crf_update_predictions_op)(
            [padded, self.transitions], core.ScopedBlobReference("post_crf_classes")
        )


def _best_path(scores, transitions):
    """Return the label of each row on the path with the highest sum of scores and transitions (Viterbi)."""
    total, came_from = scores[0], []
    for row in scores[1:]:
        ways = total[:, None] + transitions
        came_from.append(ways.argmax(axis=0))
        total = ways.max(axis=0) + row
    path = [int(total.argmax())]
    for step in reversed(came_from):
        path.append(int(step[path[-1]]))
    return np.array(path[::-1])
