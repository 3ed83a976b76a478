"""Arrays in TensorProto messages, and in the blobs of (BVLC) Caffe."""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit import dtypes
from caffe2lite.proto import caffe2_pb2


def CaffeBlobToNumpyArray(blob):
    """Return the float32 array in a (BVLC) Caffe BlobProto, new or old style of shape."""
    shape = list(blob.shape.dim) if blob.num == 0 else [blob.num, blob.channels, blob.height, blob.width]
    return np.asarray(blob.data, dtype=np.float32).reshape(shape)


_NUMBERS = {np.dtype(name) for name in dtypes.NUMBERS if name not in ("object", "bool", "float16")}


def Caffe2TensorToNumpyArray(tensor):
    """Return the array in a TensorProto of numbers (INT32 comes as int64, as Caffe2 hands it out)."""
    dtype = dtypes.NUMPY.get(tensor.data_type)
    if dtype not in _NUMBERS or tensor.data_type == caffe2_pb2.TensorProto.BYTE:
        raise RuntimeError(f"a TensorProto of data type {tensor.data_type} holds no numbers that NumPy takes")
    values = np.array(getattr(tensor, dtypes.field_of(dtype.name)), dtype=np.int64 if dtype.kind in "iu" else dtype)
    return values.astype(np.int64 if dtype == np.int32 else dtype).reshape(list(tensor.dims))


def NumpyArrayToCaffe2Tensor(arr, name=None):
    """Return a TensorProto with the numbers of `arr`."""
    tensor = caffe2_pb2.TensorProto()
    tensor.dims.extend(arr.shape)
    if name:
        tensor.name = name
    if arr.dtype not in _NUMBERS:
        raise RuntimeError(f"a TensorProto cannot hold {arr.dtype}")
    tensor.data_type = dtypes.NUMBERS[arr.dtype.name]
    getattr(tensor, dtypes.field_of(arr.dtype.name)).extend(arr.ravel().tolist())
    return tensor
