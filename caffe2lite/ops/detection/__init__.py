"""Regions of interest, boxes and proposals."""
