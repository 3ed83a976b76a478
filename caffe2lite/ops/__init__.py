"""Operators, one file a family; registry.py holds the decorator that registers them."""
