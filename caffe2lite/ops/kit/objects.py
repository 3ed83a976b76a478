"""Values of blobs that are not tensors: counters, queues, readers, maps, …"""

from __future__ import annotations

from typing import Any, ClassVar


class Object:
    """Base of such values.

    type_name   the C++ name that FetchBlob tells
    blob_type   the type in a serialised BlobProto; None where Caffe2 cannot serialise it
    operand     whether operators without state read it, which take tensors otherwise
    """

    type_name: ClassVar[str]
    blob_type: ClassVar[str | None] = None
    operand: ClassVar[bool] = False

    def write(self, proto: Any) -> None:
        """Fill a BlobProto whose name and type are set."""
        raise TypeError(f"no known serializer for {self.type_name}")

    @classmethod
    def read(cls, proto: Any) -> Object:
        """The object that a BlobProto holds."""
        raise TypeError(f"no known deserializer for {cls.type_name}")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.blob_type is not None:
            by_blob_type[cls.blob_type] = cls


by_blob_type: dict[str, type[Object]] = {}
