"""Nets with control flow."""


class NetBuilder:
    """Builds nets."""

    @staticmethod
    def current(required=True):
        """The builder around this call."""
        return None
