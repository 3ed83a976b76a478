"""Imports put off until operators are first needed."""

from __future__ import annotations

_imports = []


def RegisterLazyImport(lazy):
    """Call `lazy()` whenever a net is about to be built or created: it imports what has been asked for since."""
    _imports.append(lazy)


def TriggerLazyImport():
    """Import now what was put off."""
    for lazy in _imports:
        lazy()
