"""Helpers that tests of operators share."""
