"""The regularizers that parameters made in a `with` block take, by name."""

from __future__ import annotations

from caffe2lite.python import context
from caffe2lite.python.modifier_context import ModifierContext, UseModifierBase


class RegularizerContext(ModifierContext, context.DefaultManaged):
    """The regularizers in force, by name."""

    def has_regularizer(self, name):
        """Return whether there is one of that name."""
        return self._has_modifier(name)

    def get_regularizer(self, name):
        """Return the one of that name."""
        if not self.has_regularizer(name):
            raise AssertionError(f"no regularizer {name!r} is in force")
        return self._get_modifier(name)


class UseRegularizer(UseModifierBase):
    """`with UseRegularizer({name: regularizer})`: for the parameters made inside."""

    def _context_class(self):
        return RegularizerContext
