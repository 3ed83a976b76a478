"""Arguments of operators and nets: Argument messages from Python values, and back."""

from __future__ import annotations

import collections.abc

import numpy as np
from google.protobuf.message import Message

from caffe2lite.proto import caffe2_pb2


def fill_argument(argument, key, value):
    """Write `key` and `value` into the Argument message `argument`."""
    argument.name = key
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
    elif isinstance(value, collections.abc.Iterable):
        _fill_list(argument, key, value)
    else:
        raise ValueError(f"Unknown argument type: key={key} value={value}, value type={type(value)}")


def _fill_list(argument, key, value):
    items = list(value)
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
            f"Unknown iterable argument type: key={key} value={value}, value type={type(value)}[{kinds}]; "
            "a list holds numbers of one kind, strings or messages"
        )


def MakeArgument(key, value):
    """Return the Argument message for `key` = `value`: a number, string, NetDef, other message, array or list of one kind."""
    argument = caffe2_pb2.Argument()
    fill_argument(argument, key, value)
    return argument


_ARGUMENT_LISTS = ("floats", "ints", "strings", "nets")
_ARGUMENT_SINGLES = ("f", "i", "s", "n")


def ArgsToDict(args):
    """Return {name: value} of Argument messages; None where an argument carries no value, strings as bytes."""
    values = {}
    for argument in args:
        values[argument.name] = None
        for field in _ARGUMENT_SINGLES:
            if argument.HasField(field):
                values[argument.name] = getattr(argument, field)
        for field in _ARGUMENT_LISTS:
            if len(getattr(argument, field)):
                values[argument.name] = list(getattr(argument, field))
    return values
