"""The kinds of fields that records consist of: Scalar, Struct, List.

A record is a Field: a Scalar (one tensor), a Struct (named fields) or a List (lengths, and values of all its items one
after the other). Flattened, it is a list of columns named by their path: `a`, `b:lengths`, `b:values:x`.
"""

from __future__ import annotations

import collections
import logging

import numpy as np

from caffe2lite.python._core.operators import BlobReference

logger = logging.getLogger(__name__)

FIELD_SEPARATOR = ":"


def _join_field_name(prefix, suffix):
    return FIELD_SEPARATOR.join(part for part in (prefix, suffix) if part)


def normalized_field(field_or_type_or_blob, keep_blobs=True):
    """Return a copy of a field, or a Scalar of a type, or a Scalar over a blob."""
    if isinstance(field_or_type_or_blob, Field):
        return field_or_type_or_blob.clone(keep_blobs=keep_blobs)
    if isinstance(field_or_type_or_blob, (type, np.dtype)):
        return Scalar(dtype=field_or_type_or_blob)
    return Scalar(blob=field_or_type_or_blob)


# What a feature is, for models that read it from metadata.
FeatureSpec = collections.namedtuple(
    "FeatureSpec",
    [
        "feature_type",
        "feature_names",
        "feature_ids",
        "feature_is_request_only",
        "desired_hash_size",
        "feature_to_index",
    ],
    defaults=(None,) * 6,
)


class Metadata(
    collections.namedtuple("Metadata", ["categorical_limit", "expected_value", "feature_specs"], defaults=(None,) * 3)
):
    """What is known of a scalar: ids are below `categorical_limit`; `expected_value` stands for a missing one."""

    __slots__ = ()


class Field:
    """A field of a record; Scalar, Struct and List are its kinds. Fields are equal when their schemas are."""

    __slots__ = ("_field_offsets", "_parent")

    def __init__(self, children):
        """Children are in the order of their columns."""
        self._parent = (None, 0)
        offsets = [0]
        for child in children:
            offsets.append(offsets[-1] + len(child.field_names()))
        self._field_offsets = offsets

    def _members(self):
        """Return the parts, with the names that their columns begin with."""
        return []

    def clone_schema(self):
        """Return a copy without blobs."""
        return self.clone(keep_blobs=False)

    def field_names(self):
        """Return the paths of the columns."""
        return [_join_field_name(name, below) for name, child in self._members() for below in child.field_names()]

    def field_types(self):
        """NumPy types of the columns."""
        return [kind for _, child in self._members() for kind in child.field_types()]

    def field_metadata(self):
        """Metadata (or None) of the columns."""
        return [metadata for _, child in self._members() for metadata in child.field_metadata()]

    def field_blobs(self):
        """Return blobs (or arrays) of the columns; AssertionError where one is missing."""
        return [blob for _, child in self._members() for blob in child.field_blobs()]

    def all_scalars(self):
        """Return the Scalars of the columns."""
        return [scalar for _, child in self._members() for scalar in child.all_scalars()]

    def has_blobs(self):
        """Return whether every column has a blob."""
        return all(child.has_blobs() for _, child in self._members())

    def clone(self, keep_blobs=True):
        """A copy."""
        raise NotImplementedError(f"{type(self).__name__} says not how to copy itself")

    def _set_parent(self, parent, relative_id):
        self._parent = (parent, relative_id)

    def slice(self):
        """Return the columns of this field among those of the outermost one."""
        first = self._child_base_id()
        return slice(first, first + len(self.field_names()))

    def _child_base_id(self, child_index=None):
        parent, place = self._parent
        first = 0 if child_index is None else self._field_offsets[child_index]
        return first if parent is None else first + parent._child_base_id(place)

    def __eq__(self, other):
        if not isinstance(other, Field):
            return NotImplemented
        return equal_schemas(self, other, check_field_metas=True)

    __hash__ = None

    def _pprint_impl(self, indent, str_buffer):
        raise NotImplementedError(f"{type(self).__name__} says not how to print itself")

    def _pprint_members(self, indent, lines, begin, end):
        lines.append("  " * indent + begin)
        for name, child in self._pprint_names():
            lines.append("  " * (indent + 1) + name + "=\n")
            child._pprint_impl(indent + 2, lines)
        lines.append("  " * indent + end)

    def __repr__(self):
        lines = []
        self._pprint_impl(0, lines)
        return "".join(lines)


class List(Field):
    """Lists of items: the lengths, and the items of all lists one after the other."""

    __slots__ = ("_items", "lengths")

    def __init__(self, values, lengths_blob=None):
        if isinstance(lengths_blob, Field):
            if not isinstance(lengths_blob, Scalar):
                raise AssertionError(f"lengths are a Scalar, got {lengths_blob!r}")
            self.lengths = normalized_field(lengths_blob)
        else:
            self.lengths = Scalar(np.int32, lengths_blob)
        self._items = normalized_field(values)
        self._adopt()

    def _adopt(self):
        children = [child for _, child in self._members()]
        for i, child in enumerate(children):
            child._set_parent(self, i)
        Field.__init__(self, children)

    def _members(self):
        return [("lengths", self.lengths), ("values", self._items)]

    def _pprint_names(self):
        return [("lengths", self.lengths), ("_items", self._items)]

    def _pprint_impl(self, indent, str_buffer):
        self._pprint_members(indent, str_buffer, type(self).__name__ + "(\n", ")\n")

    def clone(self, keep_blobs=True):
        return type(self)(
            normalized_field(self._items, keep_blobs=keep_blobs), normalized_field(self.lengths, keep_blobs=keep_blobs)
        )

    def __getattr__(self, item):
        """The items (`items`, `value`), or a field of them."""
        if item.startswith("_"):
            raise AttributeError(item)
        items = self._items
        if isinstance(items, Struct) and item in items.fields:
            return items.fields[item]
        if item in ("items", "value"):
            return items
        if isinstance(items, Struct):
            raise AttributeError(item)
        raise AttributeError(f"Field not found in list: {item}.")

    def __getitem__(self, item):
        """A column by its path."""
        name, _, below = item.partition(FIELD_SEPARATOR)
        for member, child in self._members():
            if member == name:
                return child[below] if below else child
        raise KeyError(f"Field not found in list: {item}.")


class ListWithEvicted(List):
    """A List that also knows which ids were evicted."""

    __slots__ = ("_evicted_values",)

    def __init__(self, values, lengths_blob=None, evicted_values=None):
        if isinstance(evicted_values, Field):
            if not isinstance(evicted_values, Scalar):
                raise AssertionError(f"evicted values are a Scalar, got {evicted_values!r}")
            self._evicted_values = normalized_field(evicted_values)
        else:
            self._evicted_values = Scalar(np.int64, evicted_values)
        super().__init__(values, lengths_blob=lengths_blob)

    def _members(self):
        return [*super()._members(), ("_evicted_values", self._evicted_values)]

    def _pprint_names(self):
        return [*super()._pprint_names(), ("_evicted_values", self._evicted_values)]

    def clone(self, keep_blobs=True):
        return type(self)(
            normalized_field(self._items, keep_blobs=keep_blobs),
            normalized_field(self.lengths, keep_blobs=keep_blobs),
            normalized_field(self._evicted_values, keep_blobs=keep_blobs),
        )


class Struct(Field):
    """Named fields, as attributes and by path: `s.a`, `s['b:c']`, `s[0]`; `s['a', 'b']` is a smaller Struct.

    `Struct(("a:b", x))` nests; `+` merges two Structs, `-` takes fields away. It cannot be changed.
    """

    __slots__ = ("_frozen", "fields")

    def __init__(self, *fields):
        for pair in fields:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise AssertionError(f"A field is a pair (name, field), got {pair!r}")
            if not pair[0]:
                raise AssertionError(f"a field needs a name, got {pair!r}")
            if not isinstance(pair[0], str):
                raise TypeError(f"Field names are strings, got {pair[0]!r}")
            if pair[0] == "lengths":
                raise AssertionError("Struct cannot contain a field named `lengths`.")
        self.fields = {}
        for name, field in fields:
            name, field = self._struct_from_nested_name(name, normalized_field(field))
            known = self.fields.get(name)
            if known is not None:
                if not isinstance(field, Struct) or not isinstance(known, Struct):
                    raise ValueError(f"Duplicate field name: {name}")
                field = known + field
            self.fields[name] = field
        for i, field in enumerate(self.fields.values()):
            field._set_parent(self, i)
        super().__init__(self.fields.values())
        self._frozen = True

    def _struct_from_nested_name(self, nested_name, field):
        """Return ('a', a Struct with 'b:c') for 'a:b:c'."""
        name, _, below = nested_name.partition(FIELD_SEPARATOR)
        return name, Struct((below, field)) if below else field

    def _members(self):
        return list(self.fields.items())

    _pprint_names = _members

    def get_children(self):
        """Return (name, field) pairs."""
        return list(self.fields.items())

    def _pprint_impl(self, indent, str_buffer):
        self._pprint_members(indent, str_buffer, "Struct( \n", ") \n")

    def clone(self, keep_blobs=True):
        return type(self)(
            *[(name, normalized_field(field, keep_blobs=keep_blobs)) for name, field in self.fields.items()]
        )

    def _get_field_by_nested_name(self, nested_name):
        name, _, below = nested_name.partition(FIELD_SEPARATOR)
        field = self.fields.get(name)
        if field is None or not below:
            return field
        try:
            return field[below]
        except (KeyError, TypeError):
            return None

    def __contains__(self, item):
        return self._get_field_by_nested_name(item) is not None

    def __len__(self):
        return len(self.fields)

    def __iter__(self):
        return iter(self.fields.values())

    def __getitem__(self, item):
        if isinstance(item, (list, tuple)):
            names = list(self.fields)
            return Struct(*[(names[key] if isinstance(key, int) else key, self[key]) for key in item])
        if isinstance(item, int):
            return list(self.fields.values())[item]
        field = self._get_field_by_nested_name(item)
        if field is None:
            raise KeyError(f'field "{item}" not found')
        return field

    def get(self, item, default_value):
        """Return the field at a path, or `default_value`."""
        field = self._get_field_by_nested_name(item)
        return default_value if field is None else field

    def __getattr__(self, item):
        if item.startswith("__") or item in Struct.__slots__:
            raise AttributeError(item)
        try:
            return self.fields[item]
        except KeyError:
            raise AttributeError(item) from None

    def __setattr__(self, key, value):
        if getattr(self, "_frozen", False) and not key.startswith("_"):
            raise TypeError(f"a Struct does not change once it is made: {key} cannot be set")
        object.__setattr__(self, key, value)

    def __setstate__(self, state):
        for slots in state:
            for key, value in (slots or {}).items():
                object.__setattr__(self, key, value)

    def __add__(self, other):
        if not isinstance(other, Struct):
            return NotImplemented
        merged = dict(self.fields)
        for name, right in other.fields.items():
            left = merged.get(name)
            if left is not None:
                if not isinstance(left, Struct) or not isinstance(right, Struct):
                    raise TypeError(
                        f"Type of left_field, {type(left)}, and type of right_field, {type(right)}, "
                        f"must both the Struct to allow merging of the field, {name}"
                    )
                right = left + right
            merged[name] = right
        return Struct(*merged.items())

    def __sub__(self, other):
        if not isinstance(other, Struct):
            return NotImplemented
        rest = dict(self.fields)
        for name, right in other.fields.items():
            left = rest.get(name)
            if left is None:
                continue
            if type(left) is not type(right):
                raise TypeError(
                    f"Type of left_field, {type(left)}, is not the same as that of right_field, {type(right)}, "
                    f"yet they have the same field name, {name}"
                )
            remaining = left - right if isinstance(left, Struct) else None
            if remaining:
                rest[name] = remaining
            else:
                del rest[name]
        return Struct(*rest.items())


class Scalar(Field):
    """One tensor: a NumPy type, possibly with the shape of one element (`(np.float32, (2, 3))`), and maybe a blob.

    The blob is a BlobReference, or an array of elements.
    """

    __slots__ = ("_blob", "_metadata", "_original_dtype", "dtype")

    def __init__(self, dtype=None, blob=None, metadata=None):
        self._metadata = None
        self.set(dtype, blob, metadata, unsafe=True)
        super().__init__([])

    def field_names(self):
        return [""]

    def field_type(self):
        """Return the NumPy type."""
        return self.dtype

    def field_types(self):
        return [self.dtype]

    def field_metadata(self):
        return [self._metadata]

    def has_blobs(self):
        return self._blob is not None

    def field_blobs(self):
        return [self.get()]

    def all_scalars(self):
        return [self]

    def clone(self, keep_blobs=True):
        return Scalar(dtype=self._original_dtype, blob=self._blob if keep_blobs else None, metadata=self._metadata)

    def get(self):
        """Return the blob or array; AssertionError where there is none."""
        if self._blob is None:
            raise AssertionError(f"{self!r} holds no blob or array yet")
        return self._blob

    def __call__(self):
        """Return the blob or array."""
        return self.get()

    @property
    def metadata(self):
        """The Metadata, or None."""
        return self._metadata

    def set_metadata(self, value):
        """Attach Metadata."""
        if not isinstance(value, Metadata):
            raise AssertionError(f"metadata must be Metadata, got {type(value)}")
        self._metadata = value
        self._validate_metadata()

    def _validate_metadata(self):
        if self._metadata is None or self._metadata.categorical_limit is None:
            return
        if self.dtype is not None and not np.issubdtype(self.dtype, np.integer):
            raise AssertionError(f"`categorical_limit` can be specified only in integral fields but got {self.dtype}")

    def set_value(self, blob, throw_on_type_mismatch=False, unsafe=False):
        """Replace the blob; with `throw_on_type_mismatch` an array of another type is an AssertionError."""
        if throw_on_type_mismatch and self.dtype.base != np.void:
            if not isinstance(blob, np.ndarray):
                raise AssertionError(f"Got {blob!r}")
            if blob.dtype.base != self.dtype.base:
                raise AssertionError(f"Expected {self.dtype.base}, got {blob.dtype.base}")
        self.set(dtype=self._original_dtype, blob=blob, metadata=self._metadata, unsafe=unsafe)

    def set(self, dtype=None, blob=None, metadata=None, unsafe=False):
        """Replace everything; meant for a Scalar that nobody else has seen (`unsafe=True` says so)."""
        if not unsafe:
            logger.warning(
                "Scalar should be considered immutable. Only call Scalar.set() on newly created Scalar with "
                "unsafe=True. This will become an error soon."
            )
        if isinstance(blob, (str, bytes)):
            raise ValueError(
                "Passing str blob to Scalar.set() is ambiguous. "
                "Do either set(blob=np.array(blob)) or set(blob=BlobReference(blob))"
            )
        self._original_dtype = dtype
        dtype = _element_type(dtype)
        if blob is not None and not isinstance(blob, BlobReference):
            blob, dtype = _as_elements(blob, dtype)
        self.dtype = np.dtype(np.void) if dtype is None else dtype
        if self.dtype.fields:
            raise AssertionError("Cannot create Scalar with a structured dtype. Use from_dtype instead.")
        self._blob = blob
        if metadata is not None:
            self.set_metadata(metadata)
        self._validate_metadata()

    def set_type(self, dtype):
        """Replace the type."""
        self._original_dtype = dtype
        self.dtype = np.dtype(np.void if dtype is None else dtype)
        self._validate_metadata()

    def _pprint_impl(self, indent, str_buffer):
        str_buffer.append("  " * indent + f"Scalar({self.dtype!r}, {self._blob!r}, {self._metadata!r})\n")

    def id(self):
        """Return which column of the outermost record this is."""
        return self._child_base_id()


def _element_type(dtype):
    if dtype is None:
        return None
    if isinstance(dtype, tuple):
        base, shape = dtype
        if base is np.void:
            raise TypeError(
                f"Cannot set the Scalar with type {dtype}. If this blob is the output of some operation, please "
                "verify the input of that operation has proper type."
            )
        if shape == 1:  # NumPy would drop this axis
            dtype = (base, (1,))
    return np.dtype(dtype)


def _as_elements(value, dtype):
    """Return (array, type) of a value: numbers become vectors, the shape of the elements becomes part of the type."""
    is_array = isinstance(value, np.ndarray)
    if dtype is not None and dtype != np.void:
        value = np.array(value, dtype=dtype.base)
        if value.size == 0 and not is_array:
            value = value.reshape((0, *dtype.shape))
    elif not is_array:
        raise AssertionError(f"Invalid blob type: {type(value)}")
    if value.ndim == 0 and not is_array:
        value = value.reshape((1,))
    if value.ndim > 1 and dtype is not None and dtype.base != np.void:
        dtype = np.dtype((dtype.base, value.shape[1:]))
    return value, dtype


def equal_schemas(schema, original_schema, check_field_names=True, check_field_types=True, check_field_metas=False):
    """Return whether the columns of two fields agree."""
    if not isinstance(schema, Field) or not isinstance(original_schema, Field):
        raise AssertionError(f"expected two fields, got {schema!r} and {original_schema!r}")
    return (
        (not check_field_names or schema.field_names() == original_schema.field_names())
        and (not check_field_types or schema.field_types() == original_schema.field_types())
        and (not check_field_metas or schema.field_metadata() == original_schema.field_metadata())
    )
