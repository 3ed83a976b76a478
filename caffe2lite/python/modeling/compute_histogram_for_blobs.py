"""Histograms of blobs while a net runs."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core
from caffe2lite.python.modeling.net_modifier import NetModifier, defined_blob, log_and_output


class ComputeHistogramForBlobs(NetModifier):
    """Adds BLOB_curr_normalized_hist (with `accumulate` BLOB_acc_normalized_hist): shares of values in each bucket.

    The first and the last of num_buckets + 2 buckets count what lies below and above the bounds.
    """

    def __init__(self, blobs, logging_frequency, num_buckets=30, lower_bound=0.0, upper_bound=1.0, accumulate=False):
        self._blobs = blobs
        self._logging_frequency = logging_frequency
        self._accumulate = accumulate
        self._field_name_suffix = "_acc_normalized_hist" if accumulate else "_curr_normalized_hist"
        self._num_buckets = num_buckets
        self._lower_bound = float(lower_bound)
        self._upper_bound = float(upper_bound)

    def modify_net(self, net, init_net=None, grad_map=None, blob_to_device=None, modify_output_record=False):
        for name in self._blobs:
            blob = defined_blob(net, name)

            def new(suffix, blob=blob):
                return net.NextScopedBlob(prefix=blob + suffix)

            values = net.Cast(blob, new("_float"), to=core.DataType.FLOAT)
            current, accumulated = net.AccumulateHistogram(
                [values],
                [new("_curr_hist"), new("_acc_hist")],
                num_buckets=self._num_buckets,
                lower_bound=self._lower_bound,
                upper_bound=self._upper_bound,
            )
            counts = net.Cast(accumulated if self._accumulate else current, new("_cast_hist"), to=core.DataType.FLOAT)
            shares = net.NormalizeL1(counts, new(self._field_name_suffix))
            field = f"{blob}{self._field_name_suffix}" if modify_output_record else None
            log_and_output(net, shares, self._logging_frequency, field, (np.float32, (self._num_buckets + 2,)))

    def field_name_suffix(self):
        """Return what follows the blob's name in the output record."""
        return self._field_name_suffix
