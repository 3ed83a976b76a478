"""Reductions: over dimensions, over runs of rows, and into distributions."""
