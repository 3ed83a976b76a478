"""The optimizers that parameters made in a `with` block take, by tag."""

from __future__ import annotations

from caffe2lite.python import context
from caffe2lite.python.modifier_context import ModifierContext, UseModifierBase

DEFAULT_OPTIM = "DEFAULT"


class OptimizerContext(ModifierContext, context.DefaultManaged):
    """The optimizers in force, by parameter tag."""

    def has_optimizer(self, name):
        """Return whether there is one of that name."""
        return self._has_modifier(name)

    def get_optimizer(self, name):
        """Return the one of that name."""
        if not self.has_optimizer(name):
            raise AssertionError(f"no optimizer {name!r} is in force")
        return self._get_modifier(name)


class UseOptimizer(UseModifierBase):
    """`with UseOptimizer(opt)` or `with UseOptimizer({tag: opt})`: for the parameters made inside."""

    def _context_class(self):
        return OptimizerContext
