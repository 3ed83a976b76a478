"""Operator tests with recorded cases."""
