"""Operators, one file a family; registry.py holds the decorator that registers them.

Importing this package imports every family beside it: a new operator needs a file, and no entry in a list.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
