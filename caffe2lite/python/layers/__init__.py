"""Layers of a LayerModelHelper: importing this package registers every class in it under its name."""

from __future__ import annotations

import importlib
import pkgutil

from caffe2lite.python.layers.layers import ModelLayer, register_layer


def import_recursive(package):
    """Import every module inside `package`."""
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)


def find_subclasses_recursively(base_cls, sub_cls):
    """Add every subclass of `base_cls`, however far down, to the set `sub_cls`."""
    for cls in base_cls.__subclasses__():
        sub_cls.add(cls)
        find_subclasses_recursively(cls, sub_cls)


for _module in pkgutil.iter_modules(__path__, __name__ + "."):
    importlib.import_module(_module.name)

model_layer_subcls = set()
find_subclasses_recursively(ModelLayer, model_layer_subcls)
for _cls in model_layer_subcls:
    register_layer(_cls.__name__, _cls)
