"""Arguments of operators and nets: Argument messages from Python values, and back."""

from __future__ import annotations

from caffe2lite.ops.kit.arguments import write
from caffe2lite.proto import caffe2_pb2


def MakeArgument(key, value):
    """Return the Argument message for `key` = `value`: a number, string, NetDef, other message, array or list of one kind."""
    argument = caffe2_pb2.Argument()
    write(argument, key, value)
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
