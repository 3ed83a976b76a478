"""Arguments of an OperatorDef: from the annotation in a kernel's signature to the value in the message.

As in Caffe2, an argument must sit in the field of its type: `scale=2` is an integer and no float.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import Message

from caffe2lite.proto import caffe2_pb2

REQUIRED = inspect.Parameter.empty


_BOUNDS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


class Arg:
    """A declared argument: name, kind of value, default (REQUIRED where there is none), and limits as ("> 0", …).

    One that is `seldom` read may hold another kind of value where it is not: see `read`.
    """

    __slots__ = ("default", "kind", "limits", "name", "seldom")

    def __init__(self, name: str, kind: str, default: Any = REQUIRED, seldom: bool = False) -> None:
        if kind not in _READERS:
            raise TypeError(f"argument {name}: no such kind {kind!r}; one of {', '.join(_READERS)}")
        self.name, self.kind, self.default, self.seldom = name, kind, default, seldom
        self.limits: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Arg({self.name!r}, {self.kind!r}, {self.default!r})"


class Declared(dict[str, Arg]):
    """The arguments of an operator by name, and which of them are required and which limited."""

    def __init__(self, args: Mapping[str, Arg]) -> None:
        super().__init__(args)
        self.required = [arg for arg in args.values() if arg.default is REQUIRED]
        self.limited = [arg for arg in args.values() if arg.limits]


class Group(NamedTuple):
    """Arguments that are one parameter of a kernel: `build(values)` makes it of those that an operator names."""

    fields: Mapping[str, Arg]
    build: Callable[[Mapping[str, Any]], Any]


_GROUPS: dict[str, Group] = {}


def group(annotation: str, fields: Mapping[str, Arg], build: Callable[[Mapping[str, Any]], Any]) -> None:
    """Let a keyword-only parameter with this annotation stand for all arguments of `fields`."""
    if annotation in _GROUPS:
        raise ValueError(f"there is a group of arguments {annotation} already")
    _GROUPS[annotation] = Group(fields, build)


def fields_of(kind: Any) -> None:
    """Let a keyword-only parameter of that NamedTuple, whose fields all have defaults, stand for these arguments."""
    fields = {name: Arg(name, type(value).__name__, value) for name, value in kind._field_defaults.items()}
    group(kind.__name__, fields, lambda values: kind(**values))


def group_of(annotation: object) -> Group | None:
    """The group that a parameter with this annotation stands for, if any."""
    return _GROUPS.get(annotation) if isinstance(annotation, str) else None


def limit(title: str, declared: Mapping[str, Arg], limits: str) -> None:
    """Set the limits of arguments: "decay > 0, decay < 1, k >= 1"."""
    for text in filter(None, limits.split(", ")):
        name, bound = text.split(" ", 1)
        if name not in declared or bound.split()[0] not in _BOUNDS:
            raise TypeError(f"operator {title}: {text!r} is no limit of an argument")
        declared[name].limits += (bound,)


def declare(title: str, name: str, kind: Any, default: Any) -> Arg:
    """The Arg of a keyword-only parameter, whose annotation names the kind."""
    if not isinstance(kind, str):
        kind = getattr(kind, "__name__", str(kind)) if "[" not in str(kind) else str(kind)
    kind = kind.replace(" | None", "").removeprefix("caffe2_pb2.")
    try:
        return Arg(name, kind, default)
    except TypeError as e:
        raise TypeError(f"operator {title}: {e}") from None


def _single(field: str, convert: Callable[[Any], Any]) -> Callable[[Any, str, str], Any]:
    def read(message: caffe2_pb2.Argument, title: str, kind: str) -> Any:
        if not message.HasField(field):
            raise ValueError(
                f"argument {message.name} of {title} must be {_WORDS[kind]} (field {field!r} of Argument), "
                f"but the message holds {_held(message)}"
            )
        return convert(getattr(message, field))

    return read


def _repeated(field: str, convert: Callable[[Any], Any]) -> Callable[[Any, str, str], Any]:
    """A list in another field, or a single value, is an empty list: so it is in Caffe2."""
    return lambda message, title, kind: [convert(v) for v in getattr(message, field)]


Shape = list[int]  # in annotations: the argument `shape` of a fill


def _shape(message: caffe2_pb2.Argument, title: str, kind: str) -> list[int] | Misplaced:
    """Sizes, which may not be a number where they are read."""
    if message.HasField("i"):
        return Misplaced(f"argument {message.name} of {title} must be a list of sizes, found the number {message.i}")
    return list(message.ints)


class Misplaced(str):
    """What is wrong with an argument that is in the field of another type, for whoever reads it."""


def read(value: Any) -> Any:
    """The value of an argument that is seldom read; ValueError where it is misplaced."""
    if isinstance(value, Misplaced):
        raise ValueError(value)
    return value


def nets_in(message: caffe2_pb2.Argument) -> list[caffe2_pb2.NetDef]:
    """The nets that an argument holds as messages."""
    return [*([message.n] if message.HasField("n") else []), *message.nets]


class Values:
    """The numbers or strings of an argument, of whatever field; as an array they are made once."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self._arrays: dict[tuple[str, str], np.ndarray] = {}

    def array(self, field: str, dtype: str) -> np.ndarray:
        """Return those of a field (floats, ints, strings); nobody may write into it."""
        made = self._arrays.get((field, dtype))
        if made is None:
            try:
                made = np.array(list(getattr(self.message, field)), dtype)
            except OverflowError as e:
                raise ValueError(f"a value of the argument {self.message.name} is out of the range of {dtype}") from e
            self._arrays[field, dtype] = made
            made.flags.writeable = False
        return made


def _held(message: caffe2_pb2.Argument) -> str:
    fields = [f"{d.name}={str(v)[:40]}" for d, v in message.ListFields() if d.name != "name"]
    return ", ".join(fields) or "nothing"


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


_READERS: Mapping[str, Callable[[Any, str, str], Any]] = {
    "int": _single("i", int),
    "bool": _single("i", bool),
    "float": _single("f", float),
    "str": _single("s", _text),
    "bytes": _single("s", bytes),
    "NetDef": _single("n", lambda v: v),
    "TensorProto": _single("t", lambda v: v),
    "list[int]": _repeated("ints", int),
    "Shape": _shape,
    "list[bool]": _repeated("ints", bool),
    "list[float]": _repeated("floats", float),
    "list[str]": _repeated("strings", _text),
    "list[bytes]": _repeated("strings", bytes),
    "list[NetDef]": _repeated("nets", lambda v: v),
    "list[TensorProto]": _repeated("tensors", lambda v: v),
    "list[QTensorProto]": _repeated("qtensors", lambda v: v),
    "Values": lambda message, title, kind: Values(message),
    "Argument": lambda message, title, kind: message,  # for the few that take several types
}

_WORDS = {
    "int": "an integer",
    "bool": "a boolean",
    "float": "a float",
    "str": "a string",
    "bytes": "a string",
    "NetDef": "a net",
    "TensorProto": "a tensor",
}


def check_required(title: str, declared: Declared, given: Container[str]) -> None:
    """ValueError where an argument is absent that the operator cannot do without."""
    for arg in declared.required:
        if arg.name not in given:
            raise ValueError(f"operator {title} needs the argument {arg.name!r} ({arg.kind})")


def parse(
    title: str, declared: Declared, messages: Iterable[caffe2_pb2.Argument], limited: bool = True
) -> dict[str, Any]:
    """Values of the declared arguments that the messages hold; others are left out, so that defaults apply.

    Arguments that the operator does not know are passed over, as Caffe2 does: gradient operators inherit all
    arguments of their forward operator.  ValueError for a value in the wrong field, a required one that is absent or, if
    `limited`, one beyond a limit.
    """
    values: dict[str, Any] = {}
    for message in messages:
        arg = declared.get(message.name)
        if arg is None:
            continue
        try:
            values[arg.name] = _READERS[arg.kind](message, title, arg.kind)
        except ValueError as e:
            if not arg.seldom:
                raise
            values[arg.name] = Misplaced(e)
    check_required(title, declared, values)
    for arg in declared.limited if limited else ():
        for text in arg.limits:
            value = values.get(arg.name, arg.default)
            symbol, bound = text.split()
            if not _BOUNDS[symbol](value, float(bound)):
                raise ValueError(f"argument {arg.name} of {title} must be {text}, found {value}")
    return values


# ---- writing -----------------------------------------------------------------------------------------------------


def write(argument: caffe2_pb2.Argument, name: str, value: Any) -> None:
    """Give an Argument a name and a value: a number, string, NetDef, other message, array, or a list of one kind."""
    argument.name = name
    kind = type(value)
    if kind is int:
        argument.i = value
        return
    if kind is float:
        argument.f = value
        return
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        argument.s = value.encode("utf-8")
    elif isinstance(value, bytes):
        argument.s = value
    elif isinstance(value, int):
        argument.i = int(value)  # a bool, to protobuf, is no int
    elif isinstance(value, float):
        argument.f = value
    elif isinstance(value, caffe2_pb2.NetDef):
        argument.n.CopyFrom(value)
    elif isinstance(value, Message):
        argument.s = value.SerializeToString()
    elif isinstance(value, Iterable):
        _write_list(argument, name, value)
    else:
        raise ValueError(f"Unknown argument type: key={name} value={value}, value type={kind}")


def _write_list(argument: caffe2_pb2.Argument, name: str, values: Iterable[Any]) -> None:
    items = list(values)
    if all(isinstance(v, float) for v in items):
        argument.floats.extend(items)
    elif all(isinstance(v, (int, np.integer, np.bool_)) for v in items):
        argument.ints.extend(int(v) for v in items)
    elif all(isinstance(v, (str, bytes)) for v in items):
        argument.strings.extend(v.encode("utf-8") if isinstance(v, str) else v for v in items)
    elif all(isinstance(v, caffe2_pb2.NetDef) for v in items):
        argument.nets.extend(items)
    elif all(isinstance(v, Message) for v in items):
        argument.strings.extend(v.SerializeToString() for v in items)
    else:
        kinds = {type(v) for v in items}
        raise ValueError(
            f"Unknown iterable argument type: key={name} value={values}, value type={type(values)}[{kinds}]; "
            "a list holds numbers of one kind, strings or messages"
        )
