"""Operators, a folder a family; kit/ holds what they share, and the decorator that registers them.

Importing this package imports every file of every family: a new operator needs no entry in a list.
"""

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
