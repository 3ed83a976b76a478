"""Default arguments of helpers for a `with` block."""

from __future__ import annotations

import contextlib
import threading

_local = threading.local()


def get_current_scope():
    """Return the defaults in force in this thread: helper name -> keyword arguments."""
    if not hasattr(_local, "scope"):
        _local.scope = {}
    return _local.scope


@contextlib.contextmanager
def arg_scope(single_helper_or_list, **kwargs):
    """Within it, the helper (or each of a list) gets `kwargs` wherever a call does not give them."""
    helpers = single_helper_or_list if isinstance(single_helper_or_list, list) else [single_helper_or_list]
    for helper in helpers:
        if not callable(helper):
            raise AssertionError(f"arg_scope takes a helper function or a list of them, got {helper!r}")
    outer = get_current_scope()
    _local.scope = {**outer, **{h.__name__: {**outer.get(h.__name__, {}), **kwargs} for h in helpers}}
    try:
        yield
    finally:
        _local.scope = outer
