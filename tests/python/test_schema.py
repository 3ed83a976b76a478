"""Records: their names, columns, how they are built, fed and combined."""

import numpy as np
import pytest

from caffe2lite.python import core, schema, workspace


@pytest.fixture(autouse=True)
def fresh():
    workspace.ResetWorkspace()


def test_columns_and_their_names():
    record = schema.Struct(
        ("label", np.float32),
        ("ids", schema.List(np.int64)),
        ("scores", schema.Map(np.int32, np.float32)),
        ("user:age", np.int32),
        ("user:name", str),
    )
    assert record.field_names() == [
        "label",
        "ids:lengths",
        "ids:values",
        "scores:lengths",
        "scores:values:keys",
        "scores:values:values",
        "user:age",
        "user:name",
    ]
    assert record.user.age.field_type() == np.int32
    assert record["ids:values"] == record.ids.items
    assert "user:age" in record and "user:size" not in record
    with pytest.raises(AttributeError, match="size"):
        record.user.size  # noqa: B018


def test_records_add_up_and_subtract():
    a = schema.Struct(("x", np.int32), ("s", schema.Struct(("u", np.int32))))
    b = schema.Struct(("y", np.float32), ("s", schema.Struct(("v", np.int64))))
    assert (a + b).field_names() == ["x", "s:u", "s:v", "y"]
    assert ((a + b) - b).field_names() == ["x", "s:u"]
    with pytest.raises(TypeError, match="merging"):
        a + schema.Struct(("x", np.float32))


def test_a_list_of_lists():
    record = schema.List(schema.List(np.float32))
    assert record.field_names() == ["lengths", "values:lengths", "values:values"]
    rebuilt = schema.from_column_list(record.field_names(), record.field_types())
    assert rebuilt.field_names() == record.field_names()


def test_fed_records_come_back():
    record = schema.NewRecord(core.Net("feed"), schema.Struct(("x", np.int32), ("l", schema.List(np.float32))))
    columns = [np.array([1, 2], np.int32), np.array([2, 1], np.int32), np.array([1, 2, 3], np.float32)]
    schema.FeedRecord(record, columns)
    back = schema.FetchRecord(record)
    for field, array in zip(back.field_blobs(), columns):
        np.testing.assert_array_equal(field, array)
    assert back.x().dtype == np.int32


def test_a_scalar_checks_what_it_is_given():
    scalar = schema.Scalar((np.float32, (2,)))
    scalar.set_value(core.BlobReference("x"))
    assert str(scalar()) == "x" and scalar.field_types() == [np.dtype((np.float32, (2,)))]


def test_new_records_have_blobs_named_by_field():
    net = core.Net("named")
    record = schema.NewRecord(net, schema.Struct(("x", np.int32), ("l", schema.List(np.float32))))
    assert [str(b) for b in record.field_blobs()] == ["x", "l:lengths", "l:values"]
    cloned = schema.NewRecord(net, record)
    assert not set(map(str, cloned.field_blobs())) & set(map(str, record.field_blobs()))


def test_equality_is_by_structure():
    make = lambda: schema.Struct(("x", np.int32), ("l", schema.List(np.float32)))
    assert schema.equal_schemas(make(), make())
    assert not schema.equal_schemas(make(), schema.Struct(("x", np.int64), ("l", schema.List(np.float32))))
    assert schema.is_schema_subset(schema.Struct(("x", np.int32)), make())
    assert not schema.is_schema_subset(schema.Struct(("z", np.int32)), make())
