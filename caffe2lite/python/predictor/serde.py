"""Messages as bytes."""

from __future__ import annotations


def serialize_protobuf_struct(protobuf_struct):
    """Return the bytes of a message."""
    return protobuf_struct.SerializeToString()


def deserialize_protobuf_struct(serialized_protobuf, struct_type):
    """Return the message of class `struct_type` that the bytes hold."""
    message = struct_type()
    message.ParseFromString(serialized_protobuf)
    return message
