"""How the code is laid out: private names stay in their file or package, functions are of a size to be read, types are named."""

import ast
import pathlib

import pytest

import caffe2lite

ROOT = pathlib.Path(caffe2lite.__file__).parent
CAFFE2S = {"caffe2lite.python._import_c_extension"}  # the name under which Caffe2's scripts import it


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in ROOT.rglob("*.py") if not path.name.endswith("_pb2.py")}


def private(name):
    return name.startswith("_") and not name.startswith("__")


def borrowed(name, tree, modules):
    """Private names of other files that the module `name` uses: (line, what)."""
    ours = {}  # what it calls a name that it imports from us: where that comes from
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = [(a.asname or a.name, a.name) for a in node.names if a.name in modules]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "caffe2lite":
            imported = [(a.asname or a.name, f"{node.module}.{a.name}") for a in node.names]
        else:
            continue
        for called, source in imported:
            ours[called] = source
            parts = source.split(".")
            for i, part in enumerate(parts):
                package = ".".join(parts[:i])
                whole = f"{package}.{part}"
                at_home = whole in modules and f"{name}.".startswith(f"{package}.")  # a private module, in its package
                if private(part) and not at_home and whole not in CAFFE2S:
                    yield node.lineno, source
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr) and isinstance(node.value, ast.Name):
            source = ours.get(node.value.id)
            if source is not None and f"{source}.{node.attr}" not in modules:
                yield node.lineno, f"{source}.{node.attr}"


def test_borrowing_is_found():
    modules = {"caffe2lite", "caffe2lite.a", "caffe2lite.a._b", "caffe2lite.c"}
    text = "from caffe2lite.a import _x\nfrom caffe2lite.a._b import y as _y\nfrom caffe2lite import a\na._z, a.z, _y\n"
    found = [what for _, what in borrowed("caffe2lite.c", ast.parse(text), modules)]
    assert found == ["caffe2lite.a._x", "caffe2lite.a._b.y", "caffe2lite.a._z"]
    assert list(borrowed("caffe2lite.a.d", ast.parse("from caffe2lite.a import _b\n_b.x"), modules)) == []


def test_private_names_stay_at_home():
    found = [
        f"{path.relative_to(ROOT)}:{line} uses {what}"
        for name, path in MODULES.items()
        for line, what in borrowed(name, ast.parse(path.read_text()), MODULES)
    ]
    assert not found


LONG = 60  # lines of a function's body, its docstring left out: what fits on a screen


def long_functions(tree):
    """(name, lines) of the functions that are too long."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            if lines > LONG:
                yield node.name, lines


def test_functions_fit_on_a_screen():
    found = [
        f"{path.relative_to(ROOT)}: {name} has {lines} lines"
        for path in MODULES.values()
        for name, lines in long_functions(ast.parse(path.read_text()))
    ]
    assert not found


def test_what_a_user_gets_wrong_is_raised():
    """`python -O` drops an assert, and with it what a script has got wrong."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "python").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert)
    ]
    assert not found


CHECKED = ["engine", "devices", "distributed", "db", "inspect", "exchange", "ops/kit"]  # by mypy


@pytest.mark.parametrize("area", CHECKED)
def test_types_say_more_than_any(area):
    """Below a tenth of the parameters that have a type."""
    types = [
        ast.unparse(node.annotation)
        for path in (ROOT / area).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.arg) and node.annotation is not None
    ]
    assert types.count("Any") < len(types) / 10
