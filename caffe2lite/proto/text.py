"""Protobuf messages as text, with the field names that older files have."""

from __future__ import annotations

import re
from typing import TypeVar

from google.protobuf import text_format
from google.protobuf.message import Message
from google.protobuf.text_format import ParseError

__all__ = ["TOO_DEEP", "ParseError", "parse"]

TOO_DEEP = "it is nested too deeply"
_OLDER_NAME = re.compile(r"\bcuda_gpu_id(?=\s*:)")
_Message = TypeVar("_Message", bound=Message)


def parse(text: str | bytes, message: _Message, allow_unknown_field: bool = False) -> _Message:
    """Read text into the message and return it; ParseError, with line and column, for what does not fit."""
    if isinstance(text, bytes):
        text = text.decode()
    if "cuda_gpu_id" in text:  # to look is a hundred times as quick
        text = _OLDER_NAME.sub("device_id", text)
    try:
        return text_format.Parse(text, message, allow_unknown_field=allow_unknown_field)
    except RecursionError:
        raise ParseError(TOO_DEEP) from None
