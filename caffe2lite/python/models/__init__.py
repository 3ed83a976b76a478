"""Well-known networks."""
