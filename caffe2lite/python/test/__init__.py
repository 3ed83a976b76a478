"""Helpers of tests of executors."""
