"""Databases, datasets, queues, files and strings."""
