"""Tensors of strings."""

import numpy as np
import pytest
from running import refused, run

WORDS = np.array([[b"apple", b"", b"fig"], [b"ap\xff", b"pie", b"apple pie"]], object)


@pytest.mark.parametrize("length", [0, 2, 9])
def test_ends(length):
    assert run("StringPrefix", [WORDS], {"length": length})[0].tolist() == [[w[:length] for w in r] for r in WORDS]
    ends = [[w[len(w) - min(length, len(w)) :] for w in r] for r in WORDS]
    assert run("StringSuffix", [WORDS], {"length": length})[0].tolist() == ends


@pytest.mark.parametrize("text", ["", "ap", "pie", "apple"])
def test_questions(text):
    raw = text.encode()
    for kind, argument, ask in (
        ("StringStartsWith", "prefix", lambda w: w.startswith(raw)),
        ("StringEndsWith", "suffix", lambda w: w.endswith(raw)),
        ("StringEquals", "text", lambda w: w == raw),
    ):
        (Y,) = run(kind, [WORDS], {argument: text})
        assert Y.dtype == bool and Y.tolist() == [[ask(w) for w in r] for r in WORDS]


def test_join():
    assert run("StringJoin", [WORDS], {"delimiter": "|"})[0].tolist() == [b"apple||fig|", b"ap\xff|pie|apple pie|"]
    assert run("StringJoin", [WORDS], {"axis": 1})[0].tolist() == [b"apple,ap\xff,", b",pie,", b"fig,apple pie,"]
    assert run("StringJoin", [WORDS[0]])[0].tolist() == [b"apple,", b",", b"fig,"]
    assert run("StringJoin", [np.array([[1, -2]])])[0].tolist() == [b"1,-2,"]
    assert run("StringJoin", [np.array([[0.5, 1e-7]], "f")])[0].tolist() == [b"0.5,1e-07,"]
    assert run("StringJoin", [np.array([[65, 66]], "uint8")])[0].tolist() == [b"A,B,"]
    assert run("StringJoin", [np.array([[True, False]])])[0].tolist() == [b"1,0,"]


def test_refusals():
    refused("StringPrefix", [WORDS], r"length.* >= 0", {"length": -1})
    refused("StringJoin", [WORDS[:0]], r"nothing to join in an input of the shape \[0, 3\]")
    refused("StringJoin", [WORDS], r"\[2, 3\], 2", {"axis": 2})
    refused("StringJoin", [WORDS[0]], r"\[3\], 1", {"axis": 1})
    refused("StringEquals", [np.zeros(2)], "takes string there")
