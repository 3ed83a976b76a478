"""Imports run one way: proto, devices, (db, distributed), ops, engine, python, and what stands on it; no module is in a circle."""

import ast
import functools
import pathlib

import caffe2lite

ROOT = pathlib.Path(caffe2lite.__file__).parent
BELOW = {  # {layer: what it may import besides itself and the version}; "" is the package itself
    "": "absent",
    "absent": "",
    "extras": "",
    "paths": "",
    "proto": "",
    "devices": "extras proto",
    "db": "extras paths proto",
    "distributed": "extras paths proto devices",
    "ops": "extras paths proto devices db distributed",
    "engine": "extras proto devices db distributed ops",
    "python": "extras proto devices db distributed ops engine draw",
    "contrib": "proto python",
    "experiments": "",
    "inspect": "extras proto devices db ops engine",
    "draw": "extras proto ops engine inspect",
    "exchange": "extras proto db ops engine inspect python",
    "port": "absent extras proto ops engine",
    "conformance": "extras proto ops engine python port",
    "doctor": "extras devices db distributed ops engine",
    "commands": "extras devices db ops engine inspect draw exchange port conformance doctor",
    "cli": "extras devices doctor commands",
    "__main__": "cli",
}
FOR_TESTS = {"caffe2lite.distributed.store_ops_test_util"}  # what legacy tests import; nothing here does


def _module(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def graph():
    """{module of the package: modules of the package that it imports, within functions or not}."""
    paths = {_module(path): path for path in ROOT.rglob("*.py")}
    return {name: set(_imported(name, path, paths)) - {name} for name, path in paths.items()}


def _imported(name, path, modules):
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name in modules)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: -(node.level - 1) or None] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            for a in node.names:
                found = next((m for m in (f"{source}.{a.name}", source) if m in modules), None)
                if found is not None:
                    yield found


def circles(imports):
    """Groups of modules that reach each other, each sorted."""
    reached = {}
    for start in imports:
        seen, todo = set(), [start]
        while todo:
            new = imports[todo.pop()] - seen
            seen |= new
            todo += new
        reached[start] = seen
    groups = {tuple(sorted(m for m in reached[name] if name in reached[m])) for name in imports}
    return sorted(groups - {()})


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}) == [("b", "c"), ("d",)]


def test_no_module_is_in_a_circle():
    assert circles(graph()) == []


BELOW_CORE = {
    "caffe2lite.python",
    *(f"caffe2lite.python.{name}" for name in ("_import_c_extension", "context", "lazy", "scope")),
}


def test_core_imports_nothing_above_itself():
    core = "caffe2lite.python._core"
    wrong = [
        f"{module} imports {m}"
        for module, imported in graph().items()
        if f"{module}.".startswith(f"{core}.")
        for m in imported
        if _layer(m) == "python" and not f"{m}.".startswith(f"{core}.") and m not in BELOW_CORE
    ]
    assert not wrong


def _layer(module):
    return module.split(".")[1] if "." in module else ""


def test_no_module_reaches_up():
    wrong = []
    for module, imported in graph().items():
        layer = _layer(module)
        if module not in FOR_TESTS:
            allowed = {layer, "", *BELOW[layer].split()}
            wrong += [f"{module} imports {m}" for m in imported if _layer(m) not in allowed]
    assert not wrong
