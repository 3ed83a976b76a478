"""Metrics count what they say."""

import numpy as np
import pytest
from running import check, check_again, floats, refused, run

SCORES = floats(50, 6)
LABELS = np.random.default_rng(0).integers(0, 6, 50).astype("int32")


@pytest.mark.parametrize("k", [1, 2, 6])
def test_accuracy(k):
    best = np.argsort(-SCORES, axis=1, kind="stable")[:, :k]
    check("Accuracy", [SCORES, LABELS], [(best == LABELS[:, None]).any(axis=1).mean()], {"top_k": k})


def test_of_equal_scores_the_earlier_is_better():
    even = np.ones((2, 3), "f")
    assert run("Accuracy", [even, np.array([0, 1], "int32")])[0] == 0.5
    assert run("Accuracy", [even, np.array([0, 5], "int32")], {"top_k": 3})[0] == 0.5  # 5 is no class


def test_accuracy_of_each_class():
    found = SCORES.argmax(axis=1)
    shares = [(found[c == LABELS] == c).mean() if (c == LABELS).any() else 0.0 for c in range(6)]
    check("MultiClassAccuracy", [SCORES, LABELS], [np.array(shares), np.bincount(LABELS, minlength=6)])
    check_again("MultiClassAccuracy", [SCORES, LABELS], [SCORES[:3, :], LABELS[:3]], outputs=2)
    shares, amounts = run("MultiClassAccuracy", [floats(0, 3), LABELS[:0]], outputs=2)
    assert not shares.any() and not amounts.any()


def test_perplexity():
    p = floats(7, low=0.1)
    check("Perplexity", [p], [np.exp(-np.log(p.astype("d")).mean())])
    check("Perplexity", [np.full(9, 0.25, "f")], [4.0])
    check_again("Perplexity", [p], [p[:3]])


@pytest.mark.parametrize(("kind", "inputs", "words"), [
    ("Accuracy", [SCORES, LABELS[:3]], r"\[50, 6\] and \[3\]"),
    ("Accuracy", [SCORES[0], LABELS[:6]], r"\[6\] and \[6\]"),
    ("MultiClassAccuracy", [SCORES, LABELS + 1], "from 0 to 5, for 6 classes; found 1 to 6"),
    ("MultiClassAccuracy", [SCORES, LABELS - 1], "found -1 to 4"),
    ("Perplexity", [SCORES], r"vector, found \[50, 6\]"),
])  # fmt: skip
def test_refusals(kind, inputs, words):
    refused(kind, inputs, words, outputs=2 if kind == "MultiClassAccuracy" else 1)
