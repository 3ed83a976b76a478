"""Build the documentation as a site with search: README, docs/, and a page for each module of caffe2.python.

    python tools/build_docs.py [FOLDER]      # site/ unless named; open FOLDER/index.html, or serve it

It needs mkdocs, which is in the extra `dev`.  The pages of modules are made from signatures and docstrings.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pathlib
import pkgutil
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import caffe2lite.python

ROOT = pathlib.Path(__file__).resolve().parent.parent
_CONFIG = {
    "site_name": "caffe2lite",
    "theme": {"name": "readthedocs"},
    "plugins": ["search"],
    "strict": True,
    "validation": {"nav": {"omitted_files": "ignore"}},
    "nav": [
        {"Start": "index.md"},
        {"Tools": "tools.md"},
        {"Shards": "shards.md"},
        {"What shards cost": "shards-cost.md"},
        {"GPUs": "gpu.md"},
        {"Speed": "performance.md"},
        {"Operators": "operators.md"},
        {"Environment variables": "environment.md"},
        {"Security": "security.md"},
        {"Architecture": "architecture.md"},
        {"Contributing": "contributing.md"},
        {"Changes": "changelog.md"},
        {"Modules": "api/index.md"},
    ],
}


def modules() -> Iterator[ModuleType]:
    """The public modules, those that need a package which is not installed left out."""
    for info in pkgutil.walk_packages(caffe2lite.python.__path__, "caffe2lite.python."):
        if any(part.startswith("_") for part in info.name.split(".")):
            continue
        try:
            module = importlib.import_module(info.name)
        except ImportError as e:
            print(f"left out {info.name}: {e}", file=sys.stderr)
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
    """The page of a module, in Markdown."""
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


def write_pages(folder: pathlib.Path) -> None:
    """Write all pages of modules, and the list of them."""
    folder.mkdir(parents=True)
    index = ["# Modules of caffe2.python", ""]
    for module in sorted(modules(), key=lambda m: m.__name__):
        name = module.__name__.removeprefix("caffe2lite.python.")
        (folder / f"{name}.md").write_text(page(module))
        first = (module.__doc__ or "").strip().split("\n")[0]
        index.append(f"- [{name}]({name}.md): {first}")
    (folder / "index.md").write_text("\n".join(index) + "\n")


_HERE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}


def from_root(text: str) -> str:
    """A page of the root with its links as they are within the site; what the site does not hold is shown as code."""

    def link(found: re.Match[str]) -> str:
        label, target = found.groups()
        if target.startswith("http"):
            return found.group()
        target = _HERE.get(target, target.removeprefix("docs/"))
        return f"[{label}]({target})" if target.endswith(".md") and "/" not in target else f"`{label}`"

    return re.sub(r"\[([^\]]+)\]\(([^)#]+)\)", link, text)


def build(target: pathlib.Path) -> None:
    """Build the site; an exception for a page that is nowhere linked, or a link to nothing."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    with tempfile.TemporaryDirectory() as temporary:
        source = pathlib.Path(temporary) / "docs"
        shutil.copytree(ROOT / "docs", source)
        for name, made in (("README.md", "index.md"), *_HERE.items()):
            (source / made).write_text(from_root((ROOT / name).read_text()))
        for path in source.glob("*.md"):
            text = re.sub(r"\]\(\.\./(\w+\.md)\)", lambda m: f"]({_HERE.get(m[1], m[1])})", path.read_text())
            path.write_text(re.sub(r"\]\(\.\./(?!\w+\.md)[^)]*\)", "]", text))
        write_pages(source / "api")
        config = pathlib.Path(temporary) / "mkdocs.yml"
        config.write_text(json.dumps(_CONFIG))  # which is YAML too
        build_site(load_config(str(config), site_dir=str(target.resolve())))


if __name__ == "__main__":
    build(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "site"))
