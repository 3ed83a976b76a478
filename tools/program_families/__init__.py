"""Families of programs: functions of a random.Random that return a program, a list of steps (pieces of Python)."""

import importlib
import pkgutil

from program_families.base import FAMILIES

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["FAMILIES"]
