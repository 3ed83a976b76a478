"""Arithmetic, element by element or over whole tensors; sorting and searching."""
