"""The name legacy scripts import: every `caffe2.X` is the very module `caffe2lite.X`."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys


class _AliasLoader(importlib.abc.Loader):
    """Hands out the module object of caffe2lite under its alias."""

    def __init__(self, real):
        self.real = real

    def create_module(self, spec):
        module = importlib.import_module(self.real)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module):
        # The import system has just put the alias's spec on the module, which has run already: give it its own back.
        module.__spec__ = self._own_spec

    def get_code(self, fullname):
        """The code of the real module, for `python -m caffe2.…`."""
        return importlib.util.find_spec(self.real).loader.get_code(self.real)


class _AliasFinder(importlib.abc.MetaPathFinder):
    """Answers an import of `caffe2.X` with `caffe2lite.X`."""

    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith("caffe2."):
            return None
        real = "caffe2lite" + fullname[len("caffe2") :]
        try:
            found = importlib.util.find_spec(real)
        except ModuleNotFoundError:
            return None
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None
        spec = importlib.machinery.ModuleSpec(fullname, _AliasLoader(real), origin=found.origin, is_package=is_package)
        if is_package:
            spec.submodule_search_locations = list(found.submodule_search_locations)
        return spec


sys.meta_path.insert(0, _AliasFinder())
