"""Every public module, function, class and method of caffe2.python says what it is, in a page of docs/api."""

import importlib.util
import inspect
import pathlib

ROOT = pathlib.Path(__file__).parent.parent


def tool():
    spec = importlib.util.spec_from_file_location("api_pages", ROOT / "tools" / "api_pages.py")
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


def test_every_module_has_its_page():
    pages = tool()
    for module in pages.modules():
        name = module.__name__.removeprefix("caffe2lite.python.")
        assert (ROOT / "docs" / "api" / f"{name}.md").exists(), "run: python tools/api_pages.py"
