"""Communicators between devices, processes and machines."""
