"""Every public module, function, class and method of caffe2.python says what it is, and has the defaults that it has in
Caffe2; the documentation builds as a site."""

import importlib
import importlib.util
import inspect
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent


PUBLIC = [line.split("\t") for line in (ROOT / "tests" / "golden" / "public_names.txt").read_text().splitlines()[1:]]
OTHERWISE = {
    "caffe2.python.hypothesis_test_util:temp_workspace name",  # bytes, of Python 2's time
    "caffe2.python.onnx.backend:Caffe2Backend.onnx_graph_to_caffe2_net opset_version",  # the model says it
}


def tool():
    spec = importlib.util.spec_from_file_location("build_docs", ROOT / "tools" / "build_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_everything_public_has_a_docstring():
    pages = tool()
    missing = []
    for module in pages.modules():
        if not module.__doc__:
            missing.append(module.__name__)
        for name, value in pages.public(module):
            parts = [(name, value)]
            if inspect.isclass(value):
                parts += [(f"{name}.{method}", function) for method, function in pages.members(value)]
            missing += [f"{module.__name__}.{title}" for title, part in parts if not inspect.getdoc(part)]
    assert not missing


def test_the_site_builds(tmp_path):
    pytest.importorskip("mkdocs", reason="the site needs mkdocs, of the extra `dev`")
    target = tmp_path / "site"
    subprocess.run(
        [sys.executable, ROOT / "tools" / "build_docs.py", target], check=True, capture_output=True, text=True
    )
    for name in ("index.html", "operators/index.html", "api/core/index.html", "search/search_index.json"):
        assert (target / name).exists()


def resolve(name):
    """What a line of public_names.txt names, classmethods and staticmethods as the functions that they are."""
    module, _, inner = name.partition(":")
    owner, _, method = inner.partition(".")
    value = getattr(importlib.import_module(module), owner)
    return inspect.unwrap(getattr(value, method)) if method else value


def show(value):
    """A default as public_names.txt writes it."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"{type(value).__name__}({', '.join(map(show, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{show(k)}: {show(v)}' for k, v in value.items())})"
    if isinstance(value, (int, float, str, bool, type(None), bytes)):
        return repr(value)
    return value.__name__ if hasattr(value, "__name__") else type(value).__name__


def test_what_is_public_in_caffe2_has_a_docstring_and_the_same_defaults():
    here = {
        module.__name__.replace("caffe2lite", "caffe2", 1) for module in tool().modules()
    }  # without what needs an extra
    wrong = []
    for name, *defaults in PUBLIC:
        if name.partition(":")[0] not in here:
            continue
        value = resolve(name)
        if not name.partition(":")[2].startswith("_") and not name.endswith("__init__") and not inspect.getdoc(value):
            wrong.append(f"{name} has no docstring")
        parameters = inspect.signature(value).parameters if defaults else {}
        for pair in defaults:
            parameter, _, default = pair.partition("=")
            if f"{name} {parameter}" not in OTHERWISE and show(parameters[parameter].default) != default:
                wrong.append(
                    f"{name}({parameter}={show(parameters[parameter].default)}) has the default {default} in Caffe2"
                )
    assert not wrong
