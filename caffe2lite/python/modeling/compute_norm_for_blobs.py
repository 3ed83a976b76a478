"""Norms of blobs while a net runs."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core, muji
from caffe2lite.python.modeling.net_modifier import NetModifier, defined_blob, log_and_output


class ComputeNormForBlobs(NetModifier):
    """Adds BLOB_l2_norm (for p=2), the sum of |x|^p, or its mean (BLOB_averaged_l2_norm); of one row on demand."""

    def __init__(self, blobs, logging_frequency, p=2, compute_averaged_norm=False, row_index=None):
        self._blobs = blobs
        self._logging_frequency = logging_frequency
        self._p = p
        self._compute_averaged_norm = compute_averaged_norm
        self._field_name_suffix = f"_averaged_l{p}_norm" if compute_averaged_norm else f"_l{p}_norm"
        if row_index and row_index < 0:
            raise Exception(f"{row_index} is not a valid row index, row_index should be >= 0")
        self.row_index = row_index

    def modify_net(self, net, init_net=None, grad_map=None, blob_to_device=None, modify_output_record=False):
        devices = blob_to_device or {}
        for name in self._blobs:
            blob = defined_blob(net, name)
            with core.DeviceScope(devices[name] if name in devices else muji.OnCPU()):
                row = self.row_index
                if row:  # for Caffe2, too, row 0 is all of them
                    blob = net.Slice(
                        [blob], net.NextScopedBlob(prefix=f"{blob}_row_{row}"), starts=[row, 0], ends=[row + 1, -1]
                    )
                values = net.Cast(blob, net.NextScopedBlob(prefix=f"{blob}_float"), to=core.DataType.FLOAT)
                norm_name = net.NextScopedBlob(prefix=f"{blob}{self._field_name_suffix}")
                norm = net.LpNorm(values, norm_name, p=self._p, average=self._compute_averaged_norm)
                net.StopGradient(norm, net.NextScopedBlob(f"{norm_name}_stop_gradient"))
                field = f"{blob}{self._field_name_suffix}" if modify_output_record else None
                log_and_output(net, norm, self._logging_frequency, field, (np.float64, (1,)))

    def field_name_suffix(self):
        """Return what follows the blob's name in the output record."""
        return self._field_name_suffix
