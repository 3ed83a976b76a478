"""The normalizers that layers made in a `with` block take, by name."""

from __future__ import annotations

from caffe2lite.python import context
from caffe2lite.python.modifier_context import ModifierContext, UseModifierBase


class NormalizerContext(ModifierContext, context.DefaultManaged):
    """The normalizers in force, by name."""

    def has_normalizer(self, name):
        """Return whether there is one of that name."""
        return self._has_modifier(name)

    def get_normalizer(self, name):
        """Return the one of that name."""
        if not self.has_normalizer(name):
            raise AssertionError(f"no normalizer {name!r} is in force")
        return self._get_modifier(name)


class UseNormalizer(UseModifierBase):
    """`with UseNormalizer({name: normalizer})`: for the layers made inside."""

    def _context_class(self):
        return NormalizerContext
