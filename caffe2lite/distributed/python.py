"""What scripts import as caffe2.distributed.python."""

from caffe2lite.distributed.stores import StoreHandlerTimeoutError

__all__ = ["StoreHandlerTimeoutError"]
