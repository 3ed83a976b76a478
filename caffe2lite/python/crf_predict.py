"""Predictions of a CRF, by operators only."""

from __future__ import annotations

from caffe2lite.python.crf import CRFWithLoss


def crf_update_predictions(model, crf_with_loss, classes):
    """As CRFWithLoss.update_predictions, without a Python operator."""
    return apply_crf(model.param_init_net, model.net, crf_with_loss.transitions, classes, crf_with_loss.num_classes)


def apply_crf(init_net, net, transitions, predictions, num_classes):
    """In each row of `predictions` exchange the best score with that of the label on the best path."""
    padded = CRFWithLoss.pad_predictions(predictions, init_net, net, num_classes)
    path = net.ViterbiPath([padded, transitions])
    swapped = net.SwapBestPath([padded, path])
    inner = net.RemovePadding([swapped], padding_width=1, end_padding_width=1)
    starts = net.GivenTensorIntFill([], shape=[2], values=[0, 0])
    # A negative end counts from one past the last: without the columns of begin and end.
    ends = net.GivenTensorIntFill([], shape=[2], values=[-1, -3])
    return net.Slice([inner, starts, ends])
