"""Fills with given and with random values, and random samples."""
