"""Losses, distances, rankings and metrics."""
