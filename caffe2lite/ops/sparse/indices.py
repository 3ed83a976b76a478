"""Dictionaries from keys to consecutive numbers, maps, and hashes of indices."""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit import locks
from caffe2lite.ops.kit.compiled import loop, pays
from caffe2lite.ops.kit.dtypes import dtype_of
from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import FORBID_GRADIENT, NO_GRADIENT, operator
from caffe2lite.proto import caffe2_pb2

_T = caffe2_pb2.TensorProto


class Index(Object):
    """Keys of one type, numbered from 1 in the order in which they came; 0 is for those that are not known."""

    title = "an index (IntIndexCreate, LongIndexCreate or StringIndexCreate makes one)"
    type_name = "std::unique_ptr<caffe2::IndexBase>"
    blob_type = "std::unique_ptr<caffe2::IndexBase>"

    def __init__(self, dtype: str, max_elements: int) -> None:
        self.kind, self.max_elements = np.dtype(dtype), max_elements
        self.frozen = False
        self.numbers: dict = {}
        self._lock = locks.lock()

    def get(self, keys):
        """The number of each key; new ones are added unless the index is frozen."""
        result = np.zeros(keys.shape, np.int64)
        flat = result.reshape(-1)
        with self._lock:
            for i, key in enumerate(keys.reshape(-1).tolist()):
                number = self.numbers.get(key)
                if number is None and not self.frozen:
                    number = self._add(key)
                flat[i] = number or 0
        return result

    def _add(self, key) -> int:
        if len(self.numbers) + 1 >= self.max_elements:
            raise ValueError(f"the index is full: it has max_elements = {self.max_elements}")
        number = self.numbers[key] = len(self.numbers) + 1
        return number

    def load(self, keys) -> None:
        """Make these the keys, numbered from 1."""
        with self._lock:
            listed = keys.reshape(-1).tolist()
            if len(set(listed)) != len(listed):
                key = next(k for i, k in enumerate(listed) if k in listed[:i])
                raise ValueError(f"the key {key!r} comes twice")
            if len(listed) + 1 > self.max_elements:
                raise ValueError(f"{len(listed)} keys do not fit into max_elements = {self.max_elements}")
            self.numbers = {key: i + 1 for i, key in enumerate(listed)}

    def keys(self):
        """The keys in the order of their numbers."""
        made = np.empty(len(self.numbers), self.kind)
        for key, number in self.numbers.items():
            made[number - 1] = key
        return made

    def check(self, keys) -> None:
        """ValueError where the keys are of another type."""
        if keys.dtype != self.kind:
            raise ValueError(f"the index has keys of {self.kind}, not of {keys.dtype}")

    def write(self, proto) -> None:
        keys = self.keys()
        proto.tensor.dims.append(len(keys))
        if np.dtype(self.kind).kind == "O":
            proto.tensor.data_type = _T.STRING
            proto.tensor.string_data.extend(keys.tolist())
        elif self.kind == np.int64:
            proto.tensor.data_type = _T.INT64
            proto.tensor.int64_data.extend(keys.tolist())
        else:
            proto.tensor.data_type = _T.INT32
            proto.tensor.int32_data.extend(keys.tolist())
        proto.tensor.device_detail.device_type = 0
        proto.tensor.segment.begin, proto.tensor.segment.end = 0, len(keys)
        proto.content = f"{self.max_elements} {int(self.frozen)}".encode()

    @classmethod
    def read(cls, proto):
        tensor = proto.tensor
        index = cls(dtype_of(tensor.data_type), int(proto.content.split()[0]))
        index.frozen = proto.content.split()[1:2] == [b"1"]
        values = tensor.string_data or tensor.int64_data or tensor.int32_data
        index.numbers = {key: i + 1 for i, key in enumerate(values)}
        return index


def _creator(dtype):
    def create(ctx, *, max_elements: int = 2**31 - 1):
        return Index(dtype, max_elements)

    return create


for _name, _dtype in (("IntIndexCreate", "int32"), ("LongIndexCreate", "int64"), ("StringIndexCreate", "object")):
    operator(
        "handle",
        name=_name,
        stateful=True,
        gradient=NO_GRADIENT,
        doc=f"""A dictionary from keys to the numbers 1 to max_elements - 1; 0 stands for unknown keys.

        handle, an index whose keys are {"string" if _dtype == "object" else _dtype}; no tensors. A ValueError comes later, where
        IndexGet or IndexLoad has more keys than fit.
        """,
    )(_creator(_dtype))


@operator("indices", stateful=True, gradient=NO_GRADIENT)
def IndexGet(ctx, handle, keys):
    """The number of each key (int64); unknown ones are added, or 0 where the index is frozen.

    handle, an index; keys [...] of its type, int32, int64 or string -> indices [...] int64. ValueError where the handle
    is no index, the keys are of another type, or the index is full.
    """
    needed(Index, handle).check(keys)
    return handle.get(keys)


@operator("handle", stateful=True, mutates={0: 0}, gradient=NO_GRADIENT)
def IndexLoad(ctx, handle, items, *, skip_first_entry: int = 0):
    """Make the items the keys of the index, numbered from 1.

    handle, an index; items [N] of its type, int32, int64 or string, of which `skip_first_entry` leaves out the first ->
    the handle. ValueError where the handle is no index, the items are of another type, too many, or not distinct.
    """
    needed(Index, handle).check(items)
    handle.load(items.reshape(-1)[1 if skip_first_entry else 0 :])


@operator("items", stateful=True, gradient=NO_GRADIENT)
def IndexStore(ctx, handle):
    """The keys of the index in the order of their numbers.

    handle, an index -> items [N] of its type, int32, int64 or string. ValueError where the handle is no index.
    """
    return needed(Index, handle).keys()


@operator("handle", stateful=True, mutates={0: 0}, gradient=NO_GRADIENT)
def IndexFreeze(ctx, handle):
    """No more keys are added.

    handle, an index -> the handle; no tensors. Keys that are not known get 0 from now on, of any type: int32, int64 or
    string. ValueError where the handle is no index.
    """
    needed(Index, handle).frozen = True


@operator("items", stateful=True, gradient=NO_GRADIENT)
def IndexSize(ctx, handle, *, out):
    """The number of entries, that of unknown keys included (int64).

    handle, an index -> items, a scalar int64. ValueError where the handle is no index.
    """
    size = out((), np.int64)
    size[...] = len(needed(Index, handle).numbers) + 1
    return size


@operator(
    "HashedIndices", inplace={0: 0}, types="int32 int64", gradient=FORBID_GRADIENT, infer=like(0), limits="modulo > 0"
)
def IndexHash(xp, Indices, *, seed: int = 0, modulo: int = 0, out):
    """A hash of each index, from 0 to modulo - 1.

    Indices [...] int32 or int64 -> HashedIndices of their shape and type: of the bytes b of an index in turn
    h = h * 65537 + b, from h = seed * 0xDEADBEEF on. ValueError where `modulo` is not above 0.
    """
    if modulo > np.iinfo(Indices.dtype).max:
        raise ValueError(f"modulo={modulo} is no {Indices.dtype}, the type of the indices")
    Y = out(Indices.shape, Indices.dtype)
    if pays(xp, Indices):
        _hash(Indices.reshape(-1), np.uint64((seed * 0xDEADBEEF) & 0xFFFFFFFFFFFFFFFF), modulo, Y.reshape(-1))
        return Y
    size = Indices.dtype.itemsize
    flat = xp.ascontiguousarray(Indices).reshape(-1).view("uint8" if xp is np else xp.uint8).reshape(-1, size)
    hashed = xp.full(flat.shape[0], (seed * 0xDEADBEEF) & 0xFFFFFFFFFFFFFFFF, "uint64").astype(f"uint{8 * size}")
    for k in range(size):
        hashed = hashed * hashed.dtype.type(65537) + flat[:, k].astype("int8").astype(hashed.dtype)
    signed = hashed.astype(f"int{8 * size}")
    remainder = xp.fmod(signed, signed.dtype.type(modulo))
    Y.reshape(-1)[...] = xp.where(remainder < 0, remainder + signed.dtype.type(modulo), remainder)
    return Y


@loop
def _hash(indices, start, modulo, hashed):
    factor = np.uint64(65537)
    for i in range(indices.size):
        h, rest = start, indices[i]
        for _ in range(indices.itemsize):
            h = h * factor + np.uint64(np.int8(rest & 255))
            rest >>= 8
        hashed[i] = h
        hashed[i] %= modulo


# ---- maps --------------------------------------------------------------------------------------------------------------

_C_NAMES = {"int32": "int", "int64": "long"}
_PROTO_NAMES = {"int32": "int32_t", "int64": "int64_t"}


class Map(Object):
    """A map between integers."""

    title = "a map (CreateMap or KeyValueToMap makes one)"

    def __init__(self, key: str, value: str) -> None:
        self.key, self.value = key, value
        self.items: dict[int, int] = {}

    @property
    def type_name(self) -> str:  # type: ignore[override]
        """The C++ type, spelled as GCC does."""
        k, v = _C_NAMES[self.key], _C_NAMES[self.value]
        return f"std::unordered_map<{k}, {v}, std::hash<{k}>, std::equal_to<{k}>, std::allocator<std::pair<const {k}, {v}> > >"

    @property
    def blob_type(self) -> str:  # type: ignore[override]
        """The name in a BlobProto."""
        return f"(std::unordered_map<{_PROTO_NAMES[self.key]}, {_PROTO_NAMES[self.value]}>)"

    def write(self, proto) -> None:
        pair = caffe2_pb2.TensorProtos()
        for kind, values in ((self.key, self.items.keys()), (self.value, self.items.values())):
            tensor = pair.protos.add(dims=[len(self.items)])
            tensor.device_detail.device_type = 0
            tensor.segment.begin, tensor.segment.end = 0, len(self.items)
            if kind == "int32":
                tensor.data_type = _T.INT32
                tensor.int32_data.extend(values)
            else:
                tensor.data_type = _T.INT64
                tensor.int64_data.extend(values)
        proto.content = pair.SerializeToString()


def _map_class(key: str, value: str):
    def read(cls, proto):
        pair = caffe2_pb2.TensorProtos.FromString(proto.content)
        made = Map(key, value)
        numbers = [list(t.int32_data) or list(t.int64_data) for t in pair.protos]
        made.items = dict(zip(*numbers))
        return made

    name = f"(std::unordered_map<{_PROTO_NAMES[key]}, {_PROTO_NAMES[value]}>)"
    return type("Map", (Object,), {"type_name": name, "blob_type": name, "read": classmethod(read)})


for _key in ("int32", "int64"):
    for _value in ("int32", "int64"):
        _map_class(_key, _value)


def _integer(number: int) -> str:
    name = dtype_of(number)
    if name not in _C_NAMES:
        raise ValueError(f"keys and values of a map are int32 or int64, not {name}")
    return name


@operator("map", stateful=True, num_inputs=(0, 0))
def CreateMap(ctx, *, key_dtype: int = _T.INT32, value_dtype: int = _T.INT32):
    """An empty map.

    map from int32 or int64 to int32 or int64, as the two arguments say, numbers of TensorProto.DataType; no tensors.
    ValueError where an argument names another type.
    """
    return Map(_integer(key_dtype), _integer(value_dtype))


@operator("map", stateful=True, types={"keys": "int32 int64", "values": "int32 int64"})
def KeyValueToMap(ctx, keys, values):
    """The map of pairs of keys and values; a map that is there already keeps what it has and gets the new keys.

    keys [...] int32 or int64, values alike, int32 or int64 -> map. ValueError where there is not a value for each key.
    """
    if keys.shape != values.shape:
        raise ValueError(f"there must be a value for each key, got {list(keys.shape)} and {list(values.shape)}")
    made, present = Map(keys.dtype.name, values.dtype.name), ctx.outputs[0].value
    if isinstance(present, Map) and present.type_name == made.type_name:
        made = present
    for key, value in zip(keys.reshape(-1).tolist(), values.reshape(-1).tolist()):
        made.items.setdefault(key, value)
    return made


@operator("keys values", stateful=True)
def MapToKeyValue(ctx, map):
    """The keys and the values of a map.

    map -> keys [N] and values [N], int32 or int64 each, in the order in which they came. ValueError where the input is
    no map.
    """
    needed(Map, map)
    keys, values = np.array(list(map.items), map.key), np.array(list(map.items.values()), map.value)
    return keys, values
