"""Blocks of a script that collect nets and steps; net_builder has them."""

from __future__ import annotations

from caffe2lite.python.context import Managed


class Builder(Managed):
    """What a `with` block builds: nets made inside it bear its name, and it becomes an execution step."""

    name = ""
    _stop_blob = None

    def get(self):
        """The nets, steps and builders, in order."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it was built of")
