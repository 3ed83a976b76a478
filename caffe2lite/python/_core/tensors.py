"""Arrays in TensorProto messages, and in the blobs of (BVLC) Caffe."""

from __future__ import annotations

import numpy as np

from caffe2lite.proto import caffe2_pb2


def CaffeBlobToNumpyArray(blob):
    """Return the float32 array in a (BVLC) Caffe BlobProto, new or old style of shape."""
    shape = list(blob.shape.dim) if blob.num == 0 else [blob.num, blob.channels, blob.height, blob.width]
    return np.asarray(blob.data, dtype=np.float32).reshape(shape)


_TensorProto = caffe2_pb2.TensorProto
# NumPy type -> (data type, field that carries it)
_TENSOR_FIELDS = {
    np.dtype(np.float32): (_TensorProto.FLOAT, "float_data"),
    np.dtype(np.float64): (_TensorProto.DOUBLE, "double_data"),
    np.dtype(np.int64): (_TensorProto.INT64, "int64_data"),
    np.dtype(np.int32): (_TensorProto.INT32, "int32_data"),
    np.dtype(np.int16): (_TensorProto.INT16, "int32_data"),
    np.dtype(np.uint16): (_TensorProto.UINT16, "int32_data"),
    np.dtype(np.int8): (_TensorProto.INT8, "int32_data"),
    np.dtype(np.uint8): (_TensorProto.UINT8, "int32_data"),
}
TENSOR_READERS = {data_type: (dtype, field) for dtype, (data_type, field) in _TENSOR_FIELDS.items()}
TENSOR_READERS[_TensorProto.INT32] = (np.dtype(np.int64), "int32_data")  # as Caffe2 hands it out


def Caffe2TensorToNumpyArray(tensor):
    """Return the array in a TensorProto of numbers (INT32 comes as int64)."""
    if tensor.data_type not in TENSOR_READERS:
        raise RuntimeError(f"a TensorProto of data type {tensor.data_type} holds no numbers that NumPy takes")
    dtype, field = TENSOR_READERS[tensor.data_type]
    values = np.array(getattr(tensor, field), dtype=np.int64 if dtype.kind in "iu" else dtype)
    return values.astype(dtype).reshape(list(tensor.dims))


def NumpyArrayToCaffe2Tensor(arr, name=None):
    """Return a TensorProto with the numbers of `arr`."""
    tensor = _TensorProto()
    tensor.dims.extend(arr.shape)
    if name:
        tensor.name = name
    if arr.dtype not in _TENSOR_FIELDS:
        raise RuntimeError(f"a TensorProto cannot hold {arr.dtype}")
    tensor.data_type, field = _TENSOR_FIELDS[arr.dtype]
    getattr(tensor, field).extend(arr.ravel().tolist())
    return tensor
