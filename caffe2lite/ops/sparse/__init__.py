"""Rows by index, ranges of rows, dictionaries, and sparse features."""
