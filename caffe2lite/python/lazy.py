"""Imports put off until operators are first needed."""

from __future__ import annotations

_pending = []


def RegisterLazyImport(lazy):
    """Call `lazy()` before the next net is built or created."""
    _pending.append(lazy)


def TriggerLazyImport():
    """Run what RegisterLazyImport was given so far."""
    while _pending:
        _pending.pop(0)()
