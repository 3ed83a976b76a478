"""Helpers of tests of converters."""
