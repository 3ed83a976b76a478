"""The same values in another shape, order or place."""
