"""Optimizers, learning rates, and what else changes parameters."""
