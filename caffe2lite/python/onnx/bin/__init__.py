"""Command lines of the converters."""
