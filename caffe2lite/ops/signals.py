"""How a kernel ends its net without an error."""


class StopNet(Exception):
    """A queue was closed, a reader is at its end: the net stops, and its run answers False."""
