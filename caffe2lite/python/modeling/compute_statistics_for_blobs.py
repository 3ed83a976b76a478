"""Summaries of blobs while a net runs."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core
from caffe2lite.python.modeling.net_modifier import NetModifier, defined_blob, log_and_output


class ComputeStatisticsForBlobs(NetModifier):
    """Adds BLOB_summary: minimum, maximum, mean and standard deviation."""

    def __init__(self, blobs, logging_frequency):
        self._blobs = blobs
        self._logging_frequency = logging_frequency
        self._field_name_suffix = "_summary"

    def modify_net(self, net, init_net=None, grad_map=None, blob_to_device=None, modify_output_record=False):
        for name in self._blobs:
            blob = defined_blob(net, name)
            values = net.Cast(blob, to=core.DataType.FLOAT)
            summary = net.Summarize(values, net.NextScopedBlob(prefix=blob + self._field_name_suffix), to_file=0)
            field = f"{blob}{self._field_name_suffix}" if modify_output_record else None
            net.Print(summary, [], every_n=self._logging_frequency)  # whose check of 0 is Caffe2's, here alone
            log_and_output(net, summary, 0, field, (np.float64, (1,)))

    def field_name_suffix(self):
        """Return what follows the blob's name in the output record."""
        return self._field_name_suffix
