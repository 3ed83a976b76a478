"""How blobs are to be written: SerializationOptions, by the names of blobs."""

from __future__ import annotations

import re

from google.protobuf.message import DecodeError

from caffe2lite.proto import caffe2_pb2

DEFAULT_CHUNK = 1_000_000  # elements
WHOLE = 0
_FORMAT = caffe2_pb2.BlobSerializationOptions


class Options:
    """Pieces of how many elements (WHOLE: one piece), and whether floats are shortened to bfloat16, blob by blob."""

    def __init__(self, content: bytes = b"", chunk_size: int = DEFAULT_CHUNK) -> None:
        self._otherwise = chunk_size
        self._rules = []
        try:
            rules = caffe2_pb2.SerializationOptions.FromString(content).options
        except DecodeError:
            raise ValueError(f"options: these {len(content)} bytes are no SerializationOptions") from None
        for rule in rules:
            try:
                pattern = re.compile(rule.blob_name_regex)
            except re.error as e:
                raise ValueError(f"options: blob_name_regex {rule.blob_name_regex!r} is no pattern: {e}") from None
            size = DEFAULT_CHUNK if rule.chunk_size == 0 else max(rule.chunk_size, WHOLE)
            self._rules.append((pattern, size, rule.float_format == _FORMAT.FLOAT_BFLOAT16))

    def of(self, name: str) -> tuple[int, bool]:
        """(elements of a piece, whether floats become bfloat16), by the first rule that the whole name matches (an empty one: all)."""
        for pattern, size, short in self._rules:
            if not pattern.pattern or pattern.fullmatch(name):
                return size, short
        return self._otherwise, False
