"""Objects that are current inside a `with` block, per class and thread."""

from __future__ import annotations

import functools
import threading

_local = threading.local()


def _stack_of(cls):
    """Return the stack of objects of this class that the thread is inside of."""
    if not hasattr(_local, "stacks"):
        _local.stacks = {}
    return _local.stacks.setdefault(cls, [])


def _get_managed_classes(obj):
    """Return the classes under which `obj` becomes current: its own and those it derives from."""
    return [cls for cls in type(obj).__mro__ if issubclass(cls, Managed) and cls not in (Managed, DefaultManaged)]


class Managed:
    """`with X() as x:` makes `X.current()` answer x inside the block; as a decorator, inside the function."""

    @classmethod
    def current(cls, value=None, required=True):
        """`value` if given, else the innermost object of the class; AssertionError if there is none and `required`."""
        if value is not None:
            if not isinstance(value, cls):
                raise AssertionError(f"expected a {cls.__name__}, got {value!r}")
            return value
        stack = _stack_of(cls)
        if stack:
            return stack[-1]
        if issubclass(cls, DefaultManaged):
            stack.append(cls())
            return stack[-1]
        if required:
            raise AssertionError(f"Context {cls} is required but none is active.")
        return None

    def __enter__(self):
        for cls in _get_managed_classes(self):
            _stack_of(cls).append(self)
        return self

    def __exit__(self, *args):
        for cls in _get_managed_classes(self):
            stack = _stack_of(cls)
            if not stack or stack[-1] is not self:
                raise AssertionError(f"Contexts of {cls} are left in another order than they were entered")
            stack.pop()

    def __call__(self, func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            with self:
                return func(*args, **kwargs)

        return wrapper


class DefaultManaged(Managed):
    """A Managed class of which there always is a current object: one is made when needed."""
