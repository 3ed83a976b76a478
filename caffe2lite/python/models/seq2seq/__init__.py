"""Sequence to sequence models with attention."""
