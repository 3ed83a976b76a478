"""What a script uses of Caffe2, and whether it is here.  The script is read, never run."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from caffe2lite import absent
from caffe2lite.ops.kit import registry
from caffe2lite.port import names
from caffe2lite.port.names import Import, dotted, imports
from caffe2lite.port.project import Own
from caffe2lite.proto import caffe2_pb2

SUPPORTED, DIFFERS, MISSING = "supported", "differs", "missing"

# Names that are here and do not do all that Caffe2's do.
_DIFFERENT = {
    "caffe2.python.dyndep.InitOpsLibrary": "libraries of Caffe2 itself are built in; one compiled for Caffe2's C++ engine "
    "cannot be loaded: write its operators in Python",
    "caffe2.python.net_drawer.GetPydotGraph": "it needs the package pydot (and Graphviz for pictures)",
    "caffe2.python.net_drawer.GetPydotGraphMinimal": "it needs the package pydot (and Graphviz for pictures)",
    "caffe2.python.data_parallel_model.Parallelize": "several shards run over MPI, whatever the engine is called",
    "caffe2.python.data_parallel_model.Parallelize_GPU": "several shards run over MPI, whatever the engine is called",
}
_NOT_ARGUMENTS = {"name", "engine", "device_option", "control_input", "debug_info", "arg", "domain"}


class Use(NamedTuple):
    """One place where a script uses something of Caffe2's."""

    kind: str  # "module", "name" or "operator"
    name: str  # caffe2.python.core, caffe2.python.core.Net, Relu
    line: int
    state: str  # SUPPORTED, DIFFERS or MISSING
    note: str  # what differs, or what to do


def uses(tree: ast.Module, own: Own | None = None) -> list[Use]:
    """Return what a module uses of Caffe2, in the order of its lines; `own` is what its project defines itself."""
    own = own or Own(frozenset(), {})
    imported = [i for i in imports(tree) if i.module.split(".")[0] == "caffe2"]
    aliases = names.aliases(imported)
    modules = list(_modules(imported))
    found = [*modules, *_names(tree, aliases, modules, own), *_operators(tree, aliases, own)]
    return sorted(dict.fromkeys(found), key=lambda use: use.line)


# ---- what is here ------------------------------------------------------------------------------------------------


@functools.cache
def _module(name: str) -> Any:
    """Our module of that name of Caffe2's; None where there is none, or where it needs what is not installed."""
    try:
        return importlib.import_module(name.replace("caffe2", "caffe2lite", 1))
    except ImportError:
        return None


def _exists(name: str) -> bool:
    """Return whether there is such a module, also where it cannot be imported here."""
    try:
        return importlib.util.find_spec(name.replace("caffe2", "caffe2lite", 1)) is not None
    except ImportError:
        return False


@functools.cache
def _resolve(name: str) -> tuple[str, str, str]:
    """Return (module, name in it, state) of a dotted name; what is behind a class or an object is not looked into."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        place = ".".join(parts[:cut])
        if not _exists(place):
            continue
        rest = parts[cut:]
        if not rest:
            return place, "", SUPPORTED
        module = _module(place)
        if module is None:
            return place, rest[0], SUPPORTED
        if not _holds(module, rest[0]):
            return place, rest[0], MISSING
        inner = getattr(module, rest[0])
        known = isinstance(inner, type) and not hasattr(inner, "__getattr__") and len(rest) > 1
        if known and not hasattr(inner, rest[1]):
            return place, ".".join(rest[:2]), MISSING
        return place, rest[0], SUPPORTED
    return name, "", MISSING


def _holds(module: Any, name: str) -> bool:
    try:
        getattr(module, name)
    except AttributeError:
        return False
    return True


# ---- modules and names -------------------------------------------------------------------------------------------


def _modules(imported: Iterable[Import]) -> Iterator[Use]:
    for i in imported:
        name = i.module
        if i.name and (_exists(i.meaning) or i.module == "caffe2.python"):
            name = i.meaning
        place, rest, state = _resolve(name)
        if rest and name == f"{place}.{rest}" and state == SUPPORTED:
            name = place
        note = "" if state == SUPPORTED else absent.why(name) or "there is no such module here"
        if state != SUPPORTED and name.startswith("caffe2.python.models."):
            note = f"a model is downloaded first: python -m caffe2.python.models.download -i {name.rpartition('.')[2]}"
        yield Use("module", name, i.node.lineno, state, note)


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names(tree: ast.Module, aliases: dict[str, str], modules: Iterable[Use], own: Own) -> Iterator[Use]:
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    shadowed = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    shadowed |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    missing = [use.name for use in modules if use.state == MISSING]
    for node in ast.walk(tree):
        name = ""
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            name = dotted(node, aliases)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in inner:
            name = aliases.get(node.id, "")
        if not name:
            continue
        place, rest, state = _resolve(name)
        whole = f"{place}.{rest}"
        if not rest or any(f"{name}.".startswith(f"{module}.") for module in missing):
            continue  # a module itself, or what is in one that is not here
        if state == MISSING and _root(node) in shadowed:
            continue  # a variable of that name, more likely than the module
        if state == MISSING and place.endswith(".brew") and rest in own.functions:
            continue  # brew.Register has put it there
        note = f"{place} has no {rest} here" if state == MISSING else _DIFFERENT.get(whole, "")
        yield Use("name", whole, node.lineno, DIFFERS if state == SUPPORTED and note else state, note)


# ---- operators ---------------------------------------------------------------------------------------------------


@functools.cache
def _methods_of_nets() -> frozenset[str]:
    """Return what a net or a model has by itself: no operators."""
    found: set[str] = set()
    for module, kind in (
        ("core", "Net"),
        ("core", "Plan"),
        ("model_helper", "ModelHelper"),
        ("cnn", "CNNModelHelper"),
        ("layer_model_helper", "LayerModelHelper"),
        ("net_builder", "NetBuilder"),
        ("models.seq2seq.seq2seq_model_helper", "Seq2SeqModelHelper"),
    ):
        owner = getattr(_module(f"caffe2.python.{module}"), kind, None)
        found.update(dir(owner))
    found.update(dir(caffe2_pb2.NetDef))
    layers = _module("caffe2.python.layers.layers")
    found.update(getattr(layers, "_LAYER_REGISTRY", ()))
    return frozenset(found)


def _operators(tree: ast.Module, aliases: dict[str, str], own: Own) -> Iterator[Use]:
    nets = _nets(tree, aliases)
    mine = own.functions | {
        n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)
    }  # methods of its own models
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if dotted(node.func, aliases).endswith(".CreateOperator"):
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield from _operator(first.value, node, own, arguments=True)
        elif isinstance(node.func, ast.Attribute) and not dotted(node.func, aliases):
            name, owner = node.func.attr, _last(node.func.value)
            if not name[:1].isupper() or name in mine or not _is_net(owner, nets):
                continue
            if registry.get(name) is not None or name not in _methods_of_nets():
                # A model's own methods of these names take more, and pass on what they do not know.
                yield from _operator(name, node, own, arguments=owner.endswith("net"))


def _operator(name: str, node: ast.Call, own: Own, arguments: bool) -> Iterator[Use]:
    record = registry.get(name)
    if record is None:
        note = "there is no such operator here; if it is your own, write it in Python (net.Python) or register it"
        if name in own.operators:
            note = f"{own.operators[name]} makes it for Caffe2's C++ engine: write it in Python (net.Python)"
        yield Use("operator", name, node.lineno, MISSING, note)
        return
    yield Use("operator", name, node.lineno, SUPPORTED, "")
    if not arguments or record.stateful or name in ("Python", "PythonDLPack"):
        return
    stray = [k.arg for k in node.keywords if k.arg and k.arg not in record.args and k.arg not in _NOT_ARGUMENTS]
    for argument in stray:
        if argument not in _TOLERATED:
            yield Use("operator", f"{name}({argument}=)", node.lineno, DIFFERS, f"{name} ignores it, as in Caffe2")


_TOLERATED = {"order", "use_cudnn", "cudnn_exhaustive_search", "exhaustive_search", "is_test", "ws_nbytes_limit",
              "init_params"}  # fmt: skip


def _nets(tree: ast.Module, aliases: dict[str, str]) -> set[str]:
    """Return the variables of the script that hold nets or models."""
    made = (".Net", ".ModelHelper", ".CNNModelHelper", ".LayerModelHelper", ".Clone", ".AddNet", "ModelHelperBase")
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = dotted(node.value.func, aliases) or "." + _last(node.value.func)
            if called.endswith(made):
                found.update(_last(t) for t in node.targets)
    return found


def _is_net(name: str, nets: set[str]) -> bool:
    plain = name.lower()
    return name in nets or plain in ("net", "model", "m") or plain.endswith(("_net", "_model", "nets"))


def _last(node: ast.expr) -> str:
    """Return the last part of a dotted expression: `net` of `self.model.net`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
