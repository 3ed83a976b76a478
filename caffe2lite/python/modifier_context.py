"""Stacks of named modifiers (optimizers, regularizers, …) that `with` blocks push."""

from __future__ import annotations

DEFAULT_MODIFIER = "DEFAULT"


class ModifierContext:
    """The modifiers in force: what inner blocks say goes before what outer ones said."""

    def __init__(self):
        self._modifiers = {}
        self._modifiers_list = []

    def push_modifiers(self, modifiers):
        """Put {name: modifier} in force."""
        self._modifiers_list.append(modifiers)
        self._rebuild_modifiers()

    def pop_modifiers(self):
        """Take back what was pushed last."""
        if not self._modifiers_list:
            raise AssertionError("there are no modifiers to take back")
        del self._modifiers_list[-1]
        self._rebuild_modifiers()

    def _get_modifier(self, name):
        return self._modifiers.get(name)

    def _has_modifier(self, name):
        return name in self._modifiers

    def _rebuild_modifiers(self):
        self._modifiers = {name: m for modifiers in self._modifiers_list for name, m in modifiers.items()}


class UseModifierBase:
    """`with UseX(modifier)` or `with UseX({name: modifier})`; a subclass says which context by _context_class."""

    def __init__(self, modifier_or_dict):
        named = isinstance(modifier_or_dict, dict)
        self._modifiers = modifier_or_dict if named else {DEFAULT_MODIFIER: modifier_or_dict}

    def __enter__(self):
        self._current().push_modifiers(self._modifiers)
        return self

    def __exit__(self, type, value, traceback):
        self._current().pop_modifiers()

    def _current(self):
        return self._context_class().current()

    def _context_class(self):
        raise NotImplementedError
