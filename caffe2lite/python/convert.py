"""Kept for scripts that import it: nets need no conversion here."""
