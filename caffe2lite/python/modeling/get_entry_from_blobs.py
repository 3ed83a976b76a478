"""Single entries of blobs while a net runs."""

from __future__ import annotations

import numpy as np

from caffe2lite.python.modeling.net_modifier import NetModifier, defined_blob, log_and_output


class GetEntryFromBlobs(NetModifier):
    """Adds BLOB_<i1>_<i2>, entry [i1, i2] of a matrix; with negative i2 the row i1, BLOB_<i1>_all."""

    def __init__(self, blobs, logging_frequency, i1=0, i2=0):
        self._blobs = blobs
        self._logging_frequency = logging_frequency
        self._i1 = i1
        self._i2 = i2
        self._field_name_suffix = f"_{i1}_{i2}" if i2 >= 0 else f"_{i1}_all"

    def modify_net(self, net, init_net=None, grad_map=None, blob_to_device=None, modify_output_record=False):
        i1, i2 = self._i1, self._i2
        if i1 < 0:
            raise ValueError(f"index is out of range: i1 is {i1}")
        for name in self._blobs:
            blob = defined_blob(net, name)
            row = net.Slice([blob], starts=[i1, 0], ends=[i1 + 1, -1])
            name = net.NextScopedBlob(prefix=f"{blob}{self._field_name_suffix}")
            entry = net.Copy(row, name) if i2 < 0 else net.Slice([row], name, starts=[0, i2], ends=[-1, i2 + 1])
            field = f"{blob}{self._field_name_suffix}" if modify_output_record else None
            log_and_output(net, entry, self._logging_frequency, field, np.float64)

    def field_name_suffix(self):
        """Return what follows the blob's name in the output record."""
        return self._field_name_suffix
