"""Operators as functions on arrays: `Functional.Relu(x)`, each in a workspace of its own."""

from __future__ import annotations

from collections import namedtuple

import caffe2lite.python._import_c_extension as C
from caffe2lite.python import core

string_types = (str,)


def namedtupledict(typename, field_names, *args, **kwargs):
    """Return a namedtuple whose items can be taken by name as well, `t["field"]`, also by names that Python has no syntax for."""
    names = field_names.replace(",", " ").split() if isinstance(field_names, str) else list(field_names)
    places = {name: i for i, name in enumerate(names)}
    base = namedtuple(typename, names, *args, **{"rename": True, **kwargs})

    def item(self, key):
        return tuple.__getitem__(self, places[key] if isinstance(key, str) else key)

    return type(typename, (base,), {"__slots__": (), "__getitem__": item})


class _Functional:
    def __getattr__(self, op_type):
        def call(*arrays, **kwargs):
            """Run the operator; return its outputs, by number or by name (output_0, … where it names none).

            `num_output` says how many, where the operator can have several; other keywords are its arguments.
            """
            op_schema = C.OpSchema.get(op_type)
            if op_schema is None:
                raise AttributeError(f"there is no operator {op_type}")
            if not op_schema.min_input <= len(arrays) <= op_schema.max_input:
                raise ValueError(
                    f"{op_type} takes {op_schema.min_input} to {op_schema.max_input} inputs, got {len(arrays)}"
                )
            num_output = kwargs.pop("num_output", None)
            if num_output is None and op_schema.min_output != op_schema.max_output:
                num_output = op_schema.max_output if op_schema.max_output <= len(op_schema.output_desc) else None
                if num_output is None:
                    raise ValueError(f"{op_type} can have any number of outputs: say num_output=N")
            num_output = num_output or op_schema.max_output
            device = kwargs.get("device_option")
            inputs = [f"input_{i}" for i in range(len(arrays))]
            outputs = [f"output_{i}" for i in range(num_output)]
            ws = C.Workspace()
            for name, array in zip(inputs, arrays):
                ws.create_blob(name).feed(array, device)
            ws._run_operator(core.CreateOperator(op_type, inputs, outputs, **kwargs).SerializeToString())
            return namedtupledict("output", outputs)(*(ws.blobs[name].fetch() for name in outputs))

        call.__name__ = op_type
        return call


Functional = _Functional()
