"""Scopes that share parameters: a name made under one scope is taken from another."""

from __future__ import annotations

import contextlib
import logging

from caffe2lite.python import scope

logger = logging.getLogger(__name__)


class ParameterSharingContext:
    """A stack of overrides `scope -> scope`: the longest prefix that matches is replaced, then that of what replaced it."""

    def __init__(self):
        self._scope_overrides = {}
        self._contexts = []

    def _resolve_scope_overrides(self, candidate_scope, below=()):
        prefix = max((p for p in self._scope_overrides if candidate_scope.startswith(p)), key=len, default=None)
        target = self._scope_overrides.get(prefix, candidate_scope)
        if target == candidate_scope:
            return candidate_scope
        if target in below:
            raise RecursionError(f"parameter sharing goes in a circle at scope {target!r}")
        return self._resolve_scope_overrides(target, (*below, target)) + candidate_scope[len(prefix) :]

    def get_parameter_name(self, name):
        """Return the full name of parameter `name` in the current scope."""
        here = scope.CurrentNameScope()
        shared = self._resolve_scope_overrides(here)
        if shared != here:
            logger.info("parameter %s of scope %s is shared from scope %s", name, here, shared)
        return shared + name

    def add_scope_overrides(self, shared_scopes):
        """Let scopes share the parameters of others, {scope: scope whose parameters it takes}, from now on."""
        self._contexts.append(shared_scopes)
        self._scope_overrides.update(shared_scopes)

    def pop(self):
        """Drop the overrides added last."""
        if not self._contexts:
            raise AssertionError("no parameter sharing to leave")
        self._contexts.pop()
        self._scope_overrides = {k: v for context in self._contexts for k, v in context.items()}


parameter_sharing_context = ParameterSharingContext()


def _normalize_namescope(namescope):
    separator = scope.NAMESCOPE_SEPARATOR
    return namescope if not namescope or namescope.endswith(separator) else namescope + separator


@contextlib.contextmanager
def ParameterSharing(shared_scopes):
    """Within it, `{"b": "a"}` takes the parameters made under scope b (below the current scope) from scope a."""
    if not isinstance(shared_scopes, dict):
        raise AssertionError(
            f"shared_scopes is a dict, scope -> scope whose parameters it takes; got {shared_scopes!r}"
        )
    here = scope.CurrentNameScope()
    overrides = {}
    for scope_from, scope_to in shared_scopes.items():
        if scope_to.startswith(scope_from):
            raise AssertionError(f"Illegal override for parameter sharing. {scope_from} is prefix of {scope_to}")
        overrides[here + _normalize_namescope(scope_from)] = here + _normalize_namescope(scope_to)
    parameter_sharing_context.add_scope_overrides(overrides)
    try:
        yield
    finally:
        parameter_sharing_context.pop()
