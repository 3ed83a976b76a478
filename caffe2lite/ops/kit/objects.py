"""Values of blobs that are not tensors: counters, queues, readers, maps, …"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from caffe2lite.proto import caffe2_pb2


class Object:
    """Base of such values.

    title       what it is, and which operators make one, for messages: "a counter (CreateCounter makes one)"
    type_name   the C++ name that FetchBlob tells
    blob_type   the type in a serialised BlobProto; None where Caffe2 cannot serialise it
    operand     whether operators without state read it, which take tensors otherwise
    """

    title: ClassVar[str]
    type_name: ClassVar[str]
    blob_type: ClassVar[str | None] = None
    operand: ClassVar[bool] = False

    def write(self, proto: caffe2_pb2.BlobProto) -> None:
        """Fill a BlobProto whose name and type are set."""
        raise TypeError(f"no known serializer for {self.type_name}")

    @classmethod
    def read(cls, proto: caffe2_pb2.BlobProto) -> Object:
        """The object that a BlobProto holds."""
        raise TypeError(f"no known deserializer for {cls.type_name}")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.blob_type is not None:
            by_blob_type[cls.blob_type] = cls


by_blob_type: dict[str, type[Object]] = {}

Kind = TypeVar("Kind", bound=Object)


def needed(kind: type[Kind], value: Any) -> Kind:
    """Return the value, which must be an object of that class; TypeError otherwise."""
    if not isinstance(value, kind):
        found = "nothing" if value is None else "a tensor" if hasattr(value, "dtype") else f"a {type(value).__name__}"
        raise TypeError(f"{kind.title} is needed, found {found}")
    return value
