"""Dictionaries, maps, hashes."""

import numpy as np
import pytest
from running import check_places, refused, run
from session import Session

from caffe2lite.engine.errors import OperatorError

KEYS = {
    "IntIndexCreate": np.array([[7, 3], [7, 9]], "int32"),
    "LongIndexCreate": np.array([[7, 3], [7, 9]]),
    "StringIndexCreate": np.array([[b"x", b"y"], [b"x", b"z"]], object),
}


@pytest.mark.parametrize("kind", KEYS)
def test_an_index_numbers_keys_as_they_come(kind):
    keys = KEYS[kind]
    do = Session(keys=keys, more=keys[::-1].copy())
    do(kind, "", "index")
    assert do("IndexGet", "index keys", "at")[0].tolist() == [[1, 2], [1, 3]]
    assert do("IndexGet", "index more", "at")[0].tolist() == [[1, 3], [1, 2]]
    assert do("IndexSize", "index", "size")[0] == 4
    np.testing.assert_array_equal(do("IndexStore", "index", "all")[0], keys.reshape(-1)[[0, 1, 3]], strict=True)


@pytest.mark.parametrize("kind", KEYS)
def test_a_frozen_index_knows_no_more(kind):
    keys = KEYS[kind]
    do = Session(items=keys.reshape(-1)[1:3], keys=keys)
    do(kind, "", "index")
    do("IndexLoad", "index items", "index")
    do("IndexFreeze", "index", "index")
    assert do("IndexGet", "index keys", "at")[0].tolist() == [[2, 1], [2, 0]]
    do("IndexLoad", "index items", "index", skip_first_entry=1)
    assert do("IndexGet", "index keys", "at")[0].tolist() == [[1, 0], [1, 0]]


def test_an_index_refuses():
    do = Session(keys=np.array([1, 2, 1]), words=np.array([b"a"], object), x=np.zeros(1))
    do("LongIndexCreate", "", "index", max_elements=2)
    for words, kind, inputs in (
        ("it has max_elements = 2", "IndexGet", "index keys"),
        ("the index has keys of int64, not of object", "IndexGet", "index words"),
        ("the key 1 comes twice", "IndexLoad", "index keys"),
    ):
        with pytest.raises(OperatorError, match=words):
            do(kind, inputs, "index" if kind == "IndexLoad" else "y")
    with pytest.raises(OperatorError, match=r"an index .* is needed, found a tensor"):
        do("IndexSize", "x", "y")


@pytest.mark.parametrize("value", ["int32", "int64"])
@pytest.mark.parametrize("key", ["int32", "int64"])
def test_maps(key, value):
    do = Session(
        k=np.array([3, 1, 3], key),
        v=np.array([30, 10, 99], value),
        k2=np.array([1, 2], key),
        v2=np.array([0, 20], value),
    )
    do("KeyValueToMap", "k v", "map")
    do("KeyValueToMap", "k2 v2", "map")
    found, held = do("MapToKeyValue", "map", "keys values")
    np.testing.assert_array_equal(found, np.array([3, 1, 2], key), strict=True)
    np.testing.assert_array_equal(held, np.array([30, 10, 20], value), strict=True)


def test_an_empty_map_and_what_is_none():
    do = Session(x=np.zeros(1))
    do("CreateMap", "", "map", key_dtype=10)
    found, held = do("MapToKeyValue", "map", "keys values")
    assert (found.shape, found.dtype, held.dtype) == ((0,), "int64", "int32")
    with pytest.raises(OperatorError, match="int32 or int64, not float32"):
        do("CreateMap", "", "map", key_dtype=1)
    with pytest.raises(OperatorError, match=r"a map .* is needed, found a tensor"):
        do("MapToKeyValue", "x", "keys values")
    refused("KeyValueToMap", [np.array([1]), np.array([1, 2])], r"got \[1\] and \[2\]")


@pytest.mark.parametrize(("dtype", "bits"), [("int32", 32), ("int64", 64)])
def test_hash(dtype, bits):
    ids = np.array([0, 1, -1, 123456789], dtype)

    def hashed(number, seed, modulo):
        h = seed * 0xDEADBEEF
        for byte in np.array([number], dtype).tobytes():
            h = h * 65537 + (byte - 256 if byte > 127 else byte)
        h %= 1 << bits
        return (h - (1 << bits) if h >> (bits - 1) else h) % modulo

    (Y,) = run("IndexHash", [ids], {"seed": 7, "modulo": 1000})
    np.testing.assert_array_equal(Y, np.array([hashed(i, 7, 1000) for i in ids], dtype), strict=True)
    check_places("IndexHash", [ids], {"modulo": 10})
    refused("IndexHash", [ids], "modulo.* > 0", {"modulo": 0})
