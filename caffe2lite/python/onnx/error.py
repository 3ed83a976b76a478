"""Errors of conversions."""

from __future__ import annotations


class BaseException(Exception):
    """Any error of a conversion."""


class Unsupported(BaseException, RuntimeError):
    """Something that cannot be converted; a RuntimeError as well, which is what Caffe2's C extension raises."""
