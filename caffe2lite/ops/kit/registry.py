"""The table of operators, and the decorator that puts one there.

An operator is a function.  Its signature is the schema: positional parameters are the inputs (default `None`:
optional; `*Xs`: any number), keyword-only parameters are the arguments of its OperatorDef, with type and default
(no default: required).  A parameter `out` receives the allocator of the output: `out(shape, dtype)` is the array
to write into (a tuple of allocators where there are several outputs).

    @operator("Y", inplace={0: 0}, types="float32", infer=like(0),
              gradient=single("LeakyReluGradient", "O0 GO0 -> GI0"))
    def LeakyRelu(xp, X, *, alpha: float = 0.01, out):
        '''Y = X where X >= 0, alpha * X elsewhere.'''
        Y = out(X.shape, X.dtype)
        ...
        return Y

`xp` is NumPy or CuPy, by the operator's device.  An operator with state or effects says `stateful=True` and takes
a context instead (see engine/instance.py).  Everything else in the package reads the `Operator` records made here.
"""

from __future__ import annotations

import copy
import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from caffe2lite.ops.kit import arguments, forms
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, NO_GRADIENT, Maker
from caffe2lite.ops.kit.infer import Cost, Infer

CPU, CUDA = 0, 1
MANY = 2**31 - 1  # how Caffe2's schemas say "any number"

__all__ = ["CPU", "CUDA", "FORBID_GRADIENT", "MANY", "NO_GRADIENT", "Operator", "find", "names", "operator"]

_REGISTRY: dict[str, Operator] = {}


# What tools may have to know of an operator besides its schema: {trait: meaning}.
TRAITS = {
    "among_gpus": "several GPUs of the process take part",
    "checks_values": "refuses inputs for their values, not only for shapes and types",
    "class_labels": "its integers are classes, of which 0 always is one",
    "collective": "all shards of the common world in its first input take part",
    "common_world": "makes or ends a common world",
    "copy": "its output has its input's values, maybe elsewhere",
    "dequeues": "takes from the queue in its first input",
    "enqueues": "fills the queue in its first input",
    "fill": "its outputs follow from arguments, and from shapes of inputs at most",
    "paired": "meets one other shard, which it finds by a tag",
    "rooted": "one of those that take part is the root, by an argument",
    "stops_gradient": "is there to pass no gradient on",
    "store": "opens a store, by which shards find each other",
    "to_all": "all that take part have the same value afterwards",
    "under_mutex": "works while it holds the mutex in its first input",
    "user_code": "calls a function of the process that built the net",
}


@dataclass(frozen=True, eq=False, repr=False)
class Operator:
    """One operator: schema, kernels, gradient, inference and doc.  Callable on plain arrays, for tests.

    The fields with defaults are options of `operator` as they are:

    stateful    has state or effects: its kernel takes a context
    blocking    waits for other operators; must not hold up a thread that these need
    peer        may read its inputs from another GPU: True where that one can be reached, "any" for plain copies
    gradient    a maker, NO_GRADIENT (its inputs get none), FORBID_GRADIENT (asking is a mistake), or None: as in Caffe2
                it has none (gradient operators, mostly), and asking is an error too
    infer       shapes and dtypes of the outputs, see infer.py
    cost        (FLOPs, bytes written, bytes read), from the same as `infer`
    """

    name: str
    inputs: tuple[str, ...]
    variadic: bool
    needs: int  # inputs that the kernel cannot do without; the schema may allow fewer
    min_inputs: int
    max_inputs: int
    input_counts: frozenset[int]  # those allowed, where these are not all between
    outputs: tuple[str, ...]
    min_outputs: int
    max_outputs: int
    output_counts: frozenset[int]
    args: arguments.Declared
    groups: Mapping[str, arguments.Group]
    takes_out: bool
    inplace: frozenset[tuple[int, int]]
    enforced: frozenset[tuple[int, int]]
    aliases: frozenset[tuple[int, int]]
    alike: tuple[int, ...]
    broadcasts: bool
    shapes: tuple[forms.Form, ...]
    checks: Sequence[tuple[Callable[..., None], frozenset[str]]]
    types: Mapping[int, tuple[str, ...]]
    cuda_types: Mapping[int, tuple[str, ...]]
    host: frozenset[str]
    anywhere: frozenset[str]
    uninitialised: frozenset[str]
    counts: Callable[[int, int], bool] | None
    traits: frozenset[str]
    step_nets: frozenset[str]
    written: str
    module: str
    kernels: dict[tuple[str, int | None], Callable[..., Any]]
    stateful: bool = False
    blocking: bool = False
    peer: bool | str = False
    gradient: Maker | None = None
    infer: Infer | None = None
    cost: Cost | None = None
    binders: dict[Callable[..., Any], Callable[..., Any]] = field(default_factory=dict)
    fitting: set[tuple[int, int]] = field(default_factory=set)  # numbers of operands that have been found to fit

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    @functools.cached_property
    def doc(self) -> str:
        """What it computes."""
        return inspect.cleandoc(self.written)

    def __call__(self, xp: ModuleType, *inputs: Any, **args: Any) -> Any:
        """Run the plain kernel on arrays: `Relu(numpy, x)`.  Outputs are new arrays."""
        if self.takes_out and "out" not in args:
            new = NewArray(xp)
            count = len(self.outputs)
            args["out"] = new if self.max_outputs == 1 else (new,) * max(count, 1)
        return self.kernels["", None](xp, *inputs, **self.parameters(args))

    @functools.cached_property
    def bare(self) -> Mapping[str, Any]:
        """A kernel's parameters where there are no arguments; ValueError where that cannot be."""
        return self.parameters(arguments.parse(self.name, self.args, ()))

    def parameters(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """A kernel's parameters from an operator's arguments: those of a group become one."""
        made = dict(args)
        for name, group in self.groups.items():
            if name not in args:
                made[name] = group.build({field: made.pop(field) for field in group.fields if field in made})
        return made

    def engine(self, name: str = "", device: int | None = None) -> Callable[[Callable[..., Any]], Operator]:
        """Decorator: a further kernel of this operator, for an engine, a device type, or both.

        Its parameters are those of the plain kernel, with the same names and defaults (TypeError otherwise).
        """

        def add(function: Callable[..., Any]) -> Operator:
            if (name, device) in self.kernels:
                raise ValueError(f"operator {self.name} has a kernel for engine {name!r} and device {device} already")
            wanted, found = _parameters(self.kernels["", None]), _parameters(function)
            if found != wanted:
                raise TypeError(
                    f"a kernel of operator {self.name} must take the plain one's parameters, {wanted}; "
                    f"{function.__qualname__} takes {found}"
                )
            self.kernels[name, device] = function
            return self

        return add

    def bind(self, kernel: Callable[..., Any]) -> Operator:
        """Decorator: how a warmed plain kernel is replayed.

        The function gets `(xp, inputs, outputs, args)`, lists of the very arrays of this call, and returns a callable
        without parameters that does the same work on them again, or None where it has none for this case.
        """
        self.binders[self.kernels["", None]] = kernel
        return self

    def kernel(self, device: int, engines: Iterable[str] = ()) -> tuple[str, Callable[..., Any]]:
        """(engine, kernel): the first of `engines` that exists, an exact device before any; else the plain one."""
        for engine in engines:
            for place in (device, None):
                found = self.kernels.get((engine, place))
                if found is not None:
                    return engine, found
        return "", self.plain(device)

    def plain(self, device: int) -> Callable[..., Any]:
        """The kernel of no engine for a device type."""
        found = self.kernels.get(("", device)) or self.kernels.get(("", None))
        if found is None:
            raise LookupError(f"{self.name} has no kernel for device type {device}")
        return found


class NewArray:
    """Allocator of an output that is no blob."""

    def __init__(self, xp: ModuleType) -> None:
        self.xp = xp

    def __call__(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray:
        return self.xp.empty(shape, dtype)

    def replaces(self, array: np.ndarray) -> bool:
        """Whether the output will stand in the place of this input."""
        return False


def operator(
    outputs: str = "",
    *,
    name: str | None = None,
    inplace: Mapping[int, int] | Sequence[tuple[int, int]] = (),
    mutates: Mapping[int, int] | Sequence[tuple[int, int]] = (),
    aliases: Mapping[int, int] | Sequence[tuple[int, int]] = (),
    types: str | Mapping[str, str] | None = None,
    cuda_types: str | Mapping[str, str] | None = None,
    alike: str = "",
    broadcasts: str = "",
    shapes: str = "",
    check: Callable[..., None] | None = None,
    host: str = "",
    anywhere: str = "",
    uninitialised: str = "",
    num_inputs: tuple[int, int] | set[int] | None = None,
    num_outputs: tuple[int, int] | set[int] | None = None,
    counts: Callable[[int, int], bool] | None = None,
    args: Mapping[str, arguments.Arg] | None = None,
    limits: str = "",
    traits: str = "",
    step_nets: str = "",
    doc: str | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], Operator]:
    """Register a kernel as an operator.

    outputs     names of the outputs: "Y mask?" (optional with "?", any number with "*")
    inplace     {input: output} pairs that may be one blob; every other pair is refused when the net is created
    mutates     pairs that must be one blob; these inputs come writable
    aliases     pairs that share storage by design
    types       dtypes the first input may have on the CPU ("float32 float64"), or {input: dtypes}; "=X" means the
                dtype of input X.  No entry: any.  `cuda_types` likewise for CUDA, where it differs
    alike       inputs that must have one shape; another one with as many values is taken for the first one's
    broadcasts  the same where one input may have more dimensions than the other, all of them 1, and the result has them
    shapes      what shapes the inputs must have: "X [N, ...], W [M, N], dY = X", see forms.py
    check       a function of the inputs and of those arguments that it names, which raises ValueError where they do not
                go together.  It is called before any kernel, whenever an input is another array: it may look at shapes,
                types and arguments, and not at values
    host        inputs that are in host memory even when the operator runs on a GPU
    anywhere    inputs that may be in any memory: the kernel reads no more than their shape, or a value or two
    uninitialised    inputs that may be blobs into which nothing has been put: the kernel gets None
    num_inputs, num_outputs    (least, most) or {the numbers allowed}, where the signature cannot say it
    counts      whether so many inputs and so many outputs go together, where this is not all of these
    limits      what values of arguments must keep: "decay > 0, decay < 1"; NaN keeps no limit
    traits      what tools must know of it, words of TRAITS
    step_nets   arguments with nets that run for each time step, on blobs that have their names within these nets alone
    options     stateful, blocking, peer, gradient, infer, cost: see Operator
    """

    def register(function: Callable[..., Any]) -> Operator:
        title = name or function.__name__
        inputs, variadic, least, declared, groups, takes_out = _signature(title, function)
        arguments.limit(title, declared, limits)
        out_names = tuple(o.rstrip("?*") for o in outputs.split())
        most_out = MANY if "*" in outputs else len(out_names)
        least_out = sum(not o.endswith(("?", "*")) for o in outputs.split())
        low, high, counts_in = _range(num_inputs or (least, MANY if variadic else len(inputs)))
        low_out, high_out, counts_out = _range(num_outputs or (least_out, most_out))
        unknown = set(traits.split()) - TRAITS.keys()
        if unknown:
            raise ValueError(f"operator {title}: {min(unknown)!r} is no trait; there are {', '.join(TRAITS)}")
        record = Operator(
            name=title,
            inputs=inputs,
            variadic=variadic,
            needs=least,
            min_inputs=low,
            max_inputs=high,
            input_counts=counts_in,
            outputs=out_names,
            min_outputs=low_out,
            max_outputs=high_out,
            output_counts=counts_out,
            args=arguments.Declared({**declared, **(args or {})}),
            groups=groups,
            takes_out=takes_out,
            inplace=_pairs(inplace) | _pairs(mutates),
            enforced=_pairs(mutates),
            aliases=_pairs(aliases),
            alike=tuple(inputs.index(operand) for operand in (alike or broadcasts).split()),
            broadcasts=bool(broadcasts),
            types=_types(title, inputs, types),
            cuda_types=_types(title, inputs, cuda_types if cuda_types is not None else types),
            shapes=forms.parse(title, inputs, shapes),
            checks=_checks(check),
            host=frozenset(host.split()),
            anywhere=frozenset(anywhere.split()),
            uninitialised=frozenset(uninitialised.split()),
            counts=counts,
            traits=frozenset(traits.split()),
            step_nets=frozenset(step_nets.split()),
            written=doc or function.__doc__ or "",
            module=function.__module__,
            kernels={("", None): function},
            **options,
        )
        if title in _REGISTRY:
            raise ValueError(f"operator {title} is registered twice, in {_REGISTRY[title].module} and {record.module}")
        _REGISTRY[title] = record
        return record

    return register


def find(name: str) -> Operator:
    """The operator of that name; LookupError with the closest names otherwise."""
    found = _REGISTRY.get(name)
    if found is None:
        close = difflib.get_close_matches(name, _REGISTRY, 3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise LookupError(f"there is no operator {name!r} here{hint}")
    return found


def get(name: str) -> Operator | None:
    """The operator of that name, or None."""
    return _REGISTRY.get(name)


def traits(name: str) -> frozenset[str]:
    """Return the traits of the operator of that name, none where there is no such operator."""
    record = _REGISTRY.get(name)
    return frozenset() if record is None else record.traits


def names() -> list[str]:
    """Names of all operators, sorted."""
    return sorted(_REGISTRY)


def _signature(
    title: str, function: Callable[..., Any]
) -> tuple[tuple[str, ...], bool, int, dict[str, arguments.Arg], dict[str, arguments.Group], bool]:
    """(inputs, variadic, least inputs, arguments, groups of them, takes `out`) of a kernel.

    Read from its code: inspect.signature would take a tenth of the time that the package takes to be imported.
    """
    function = inspect.unwrap(function)
    code, defaults = function.__code__, function.__kwdefaults__ or {}
    names, count = code.co_varnames, code.co_argcount
    end = count + code.co_kwonlyargcount
    variadic = bool(code.co_flags & inspect.CO_VARARGS)
    inputs = names[1:count] + ((names[end],) if variadic else ())  # the first is xp or the context
    declared: dict[str, arguments.Arg] = {}
    groups: dict[str, arguments.Group] = {}
    for name in names[count:end]:
        annotation = function.__annotations__.get(name)
        group = arguments.group_of(annotation)
        if group is not None:
            if name in group.fields:
                raise TypeError(f"operator {title}: parameter {name} is named as an argument of its group")
            groups[name] = group
            declared.update((field, copy.copy(arg)) for field, arg in group.fields.items())
        elif name != "out":
            declared[name] = arguments.declare(title, name, annotation, defaults.get(name, arguments.REQUIRED))
    least = count - 1 - len(function.__defaults__ or ())
    return inputs, variadic, least, declared, groups, "out" in names[count:end]


def _checks(check: Callable[..., None] | None) -> list[tuple[Callable[..., None], frozenset[str]]]:
    """The check with the names of the arguments that it wants."""
    if check is None:
        return []
    code = check.__code__
    return [(check, frozenset(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]))]


def _parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """{name: default, or REQUIRED} of a kernel's operands and arguments; variadic ones with their stars."""
    function = inspect.unwrap(function)
    code = function.__code__
    names, count = code.co_varnames, code.co_argcount
    end = count + code.co_kwonlyargcount
    required = dict.fromkeys(names[1:end], arguments.REQUIRED)
    defaults = function.__defaults__ or ()
    found = {**required, **dict(zip(names[count - len(defaults) : count], defaults)), **(function.__kwdefaults__ or {})}
    stars = [mark for mark, flag in (("*", inspect.CO_VARARGS), ("**", inspect.CO_VARKEYWORDS)) if code.co_flags & flag]
    return {**found, **{mark + name: arguments.REQUIRED for mark, name in zip(stars, names[end:])}}


def _range(numbers: tuple[int, int] | set[int]) -> tuple[int, int, frozenset[int]]:
    """(least, most, the numbers allowed if these are not all between)."""
    if isinstance(numbers, tuple):
        return (*numbers, frozenset())
    return min(numbers), max(numbers), frozenset(numbers)


def _pairs(pairs: Mapping[int, int] | Sequence[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    return frozenset(pairs.items() if isinstance(pairs, Mapping) else pairs)


def _types(title: str, inputs: tuple[str, ...], types: str | Mapping[str, str] | None) -> dict[int, tuple[str, ...]]:
    """{input index: accepted dtype names, or ("=", k) for the dtype of input k}."""
    if types is None:
        return {}
    if isinstance(types, str):
        types = {inputs[0]: types}
    table: dict[int, tuple[str, ...]] = {}
    for operand, accepted in types.items():
        index = inputs.index(operand)
        if accepted.startswith("="):
            table[index] = ("=", str(inputs.index(accepted[1:])))
        else:
            table[index] = _names_of(accepted)
    return table


@functools.cache
def _names_of(dtypes: str) -> tuple[str, ...]:
    return tuple("object" if name == "string" else np.dtype(name).name for name in dtypes.split())
