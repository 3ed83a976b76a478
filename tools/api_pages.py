"""Write docs/api/MODULE.md, a page for each module of caffe2lite.python, from signatures and docstrings.

    python tools/api_pages.py
"""

from __future__ import annotations

import importlib
import inspect
import pathlib
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import caffe2lite.python

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs" / "api"


def modules() -> Iterator[ModuleType]:
    """The public modules, those that need a package which is not installed left out."""
    for info in pkgutil.walk_packages(caffe2lite.python.__path__, "caffe2lite.python."):
        if any(part.startswith("_") for part in info.name.split(".")):
            continue
        try:
            module = importlib.import_module(info.name)
        except ImportError as e:
            print(f"left out {info.name}: {e}")
            continue
        if module.__name__ == info.name:  # else another name of the C extension
            yield module


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Its functions and classes: those that it defines, or that a private module beside it defines for it."""
    listed = getattr(module, "__all__", None)
    for name, value in vars(module).items():
        if name.startswith("_") or (listed is not None and name not in listed):
            continue
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        home = getattr(value, "__module__", "") or ""
        own = home == module.__name__ or (home.startswith("caffe2lite.python.") and "._" in home)
        if own or listed is not None:
            yield name, value


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """The methods and properties that a class itself defines."""
    for name, value in vars(cls).items():
        if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, property)):
            yield name, value if isinstance(value, property) else getattr(cls, name)


def signature(value: Any) -> str:
    """`(a, b=1)`, or nothing where Python does not know it."""
    try:
        return re.sub(r"<[^=]*? at 0x[0-9a-f]+>", "…", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return ""


def page(module: ModuleType) -> str:
    """The page of a module."""
    name = module.__name__.replace("caffe2lite", "caffe2", 1)
    lines = [f"# {name}", "", inspect.cleandoc(module.__doc__ or ""), ""]
    for title, value in sorted(public(module), key=lambda item: item[0].lower()):
        lines += [f"## `{title}{signature(value)}`", "", inspect.getdoc(value) or "", ""]
        if inspect.isclass(value):
            for method, function in members(value):
                text = inspect.getdoc(function)
                shown = method if isinstance(function, property) else method + signature(function)
                lines.append(f"- `{shown}`" + (f": {' '.join(text.split())}" if text else ""))
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write all pages and the list of them."""
    DOCS.mkdir(parents=True, exist_ok=True)
    index = ["# Modules of caffe2.python", "", "Made by `python tools/api_pages.py`.", ""]
    for module in sorted(modules(), key=lambda m: m.__name__):
        name = module.__name__.removeprefix("caffe2lite.python.")
        (DOCS / f"{name}.md").write_text(page(module))
        first = (module.__doc__ or "").strip().split("\n")[0]
        index.append(f"- [{name}]({name}.md): {first}")
    (DOCS / "README.md").write_text("\n".join(index) + "\n")


if __name__ == "__main__":
    main()
