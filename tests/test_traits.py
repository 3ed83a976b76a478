"""Traits of operators: what tools know of them, stated in their records, where their names say it too."""

import pytest

import caffe2lite.engine.c_api  # noqa: F401 - registers the operators
from caffe2lite.ops.kit import registry

NAMES = {  # {what a name begins or ends with: the trait that such an operator must have}
    "*Fill": "fill",
    "Atomic*": "under_mutex",
    "NCCL*": "among_gpus",
    "Python*": "user_code",
    "*CommonWorld": "common_world",
    "*StoreHandlerCreate": "store",
}


@pytest.mark.parametrize("pattern", NAMES)
def test_operators_have_the_traits_that_their_names_say(pattern):
    begins, ends = pattern.split("*")
    named = {n for n in registry.names() if n.startswith(begins) and n.endswith(ends)}
    assert named == {n for n in registry.names() if NAMES[pattern] in registry.traits(n)}


def test_whoever_takes_a_common_world_or_waits_at_a_queue_says_how():
    for name in registry.names():
        record = registry.find(name)
        if record.inputs[:1] == ("comm_world",):
            assert len(record.traits & {"collective", "paired"}) == 1, name
        if record.inputs[:1] == ("queue",) and record.blocking:
            assert len(record.traits & {"enqueues", "dequeues"}) == 1, name
        if "root" in record.args and record.traits & {"collective", "among_gpus"}:
            assert "rooted" in record.traits, name


def test_a_word_that_is_no_trait_is_refused():
    with pytest.raises(ValueError, match="Nameless: 'quick' is no trait; there are among_gpus, "):
        registry.operator("Y", name="Nameless", traits="fill quick")(lambda xp: None)
    assert registry.get("Nameless") is None
