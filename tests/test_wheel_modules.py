"""Every module of Caffe2's last wheel imports here, or says why it does not and what to use instead."""

import pathlib
import subprocess
import sys

import pytest

from caffe2lite import absent
from caffe2lite.port.uses import uses

NAMES = pathlib.Path(__file__).with_name("wheel_modules.txt").read_text().split()
PACKAGES = {  # modules over a package that need not be installed
    "caffe2.contrib.tensorboard.tensorboard": "tensorboard",
    "caffe2.contrib.tensorboard.tensorboard_exporter": "tensorboard",
}
# The __init__.py of a downloaded model: alone it reads nets that are not there, in Caffe2 as well.
OF_MODELS = "caffe2.python.models.__sym_init__"
IMPORT = """
import importlib, sys
for name in sys.stdin.read().split():
    try:
        importlib.import_module(name)
    except ImportError as e:
        print(name, type(e).__name__, e, sep="\\t")
"""


def test_each_imports_or_says_why_not():
    done = subprocess.run(
        [sys.executable, "-c", IMPORT],
        input="\n".join(n for n in NAMES if n != OF_MODELS),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    refused = {name: (kind, text) for name, kind, text in (line.split("\t") for line in done.stdout.splitlines())}
    for name, (kind, text) in refused.items():
        if name in PACKAGES:
            assert PACKAGES[name] in text
            continue
        package = next(p for p in [name.rsplit(".", n)[0] for n in range(name.count("."), -1, -1)] if p in refused)
        assert (kind, text) == ("ModuleNotFoundError", f"caffe2lite has no {package}: {absent.why(package)}"), name
    expected = {name for name in NAMES if absent.why(name)}
    assert refused.keys() - PACKAGES.keys() == expected  # nothing that is here is said to be absent


def test_the_sentence_is_that_of_every_way_to_import():
    with pytest.raises(ImportError, match=r"caffe2lite has no caffe2\.python\.trt: .*onnx"):
        from caffe2.python import trt  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match=r"--only python/core_test"):
        import caffe2.python.core_test
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'caffe2\.python\.nothing'$"):
        import caffe2.python.nothing  # noqa: F401


def test_port_says_it_too():
    import ast

    (use,) = uses(ast.parse("import caffe2.python.mint.app"))
    assert use.state == "missing" and "tensorboard" in use.note
