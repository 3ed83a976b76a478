"""Errors of conversions."""

from __future__ import annotations


class BaseException(Exception):
    """Any error of a conversion."""


class Unsupported(BaseException):
    """Something that cannot be converted."""
