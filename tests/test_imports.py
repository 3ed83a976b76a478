"""Imports run one way: proto, devices, (db, distributed), ops, engine, python."""

import ast
import pathlib

import caffe2lite

ROOT = pathlib.Path(caffe2lite.__file__).parent
LAYERS = ["proto", "devices", "db", "distributed", "ops", "engine", "python"]
ALLOWED = {
    "proto": {"proto"},
    "devices": {"proto", "devices"},
    "db": {"proto", "db"},
    "distributed": {"distributed"},
    "ops": {"proto", "devices", "db", "distributed", "ops"},
    "engine": {"proto", "devices", "db", "distributed", "ops", "engine"},
}
FOR_TESTS = {ROOT / "distributed" / "store_ops_test_util.py"}  # what legacy tests import; nothing here does


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{a.name}" for a in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "caffe2lite" and len(parts) > 1:
                yield parts[1]


def test_no_module_reaches_up():
    wrong = []
    for layer, allowed in ALLOWED.items():
        for path in (ROOT / layer).rglob("*.py"):
            if path in FOR_TESTS:
                continue
            wrong += [
                f"{path.relative_to(ROOT)} imports {m}" for m in imported(path) if m in LAYERS and m not in allowed
            ]
    assert not wrong
