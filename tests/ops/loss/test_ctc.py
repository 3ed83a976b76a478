"""Decoders against the sum over all paths."""

import itertools
from collections import defaultdict

import numpy as np
import pytest
from running import check, check_again, floats, refused, run


def collapse(path):
    """Repetitions once, without blanks."""
    return tuple(c for c, _ in itertools.groupby(path) if c)


def probabilities(steps, n, classes, seed=0):
    p = np.exp(floats(steps, n, classes, seed=seed))
    return p / p.sum(axis=2, keepdims=True)


def labellings(rows):
    """{labels: probability}, of all paths."""
    total = defaultdict(float)
    for path in itertools.product(range(rows.shape[1]), repeat=len(rows)):
        total[collapse(path)] += float(np.prod([row[c] for row, c in zip(rows.astype("d"), path)]))
    return total


LENGTHS = np.array([4, 2, 0], "int32")


@pytest.mark.parametrize("given", [False, True])
def test_greedy(given):
    p = probabilities(4, 3, 5)
    steps = LENGTHS if given else [4] * 3
    paths = [p[:n, b].argmax(axis=1) for b, n in enumerate(steps)]
    inputs = [p, *([LENGTHS] if given else [])]
    for merged, found in ((1, [collapse(x) for x in paths]), (0, [tuple(c for c in x if c) for x in paths])):
        wanted = [np.array([len(f) for f in found]), np.array([c for f in found for c in f], int)]
        check("CTCGreedyDecoder", inputs, wanted, {"merge_repeated": merged})


@pytest.mark.parametrize("given", [False, True])
def test_a_wide_beam_finds_the_most_probable_labellings(given):
    p = probabilities(4, 3, 3)
    inputs = [p, *([LENGTHS] if given else [])]
    counts, labels, found = run(
        "CTCBeamSearchDecoder", inputs, {"beam_width": 200, "num_candidates": 3, "prune_threshold": 0.0}, 3
    )
    at = 0
    for b, n in enumerate(LENGTHS if given else [4] * 3):
        total = labellings(p[:n, b])
        best = sorted(total, key=lambda k: -total[k])[:3] if n else [()]
        for k in range(3):
            here = tuple(labels[at : at + counts[3 * b + k]])
            at += counts[3 * b + k]
            if n:
                assert here == best[k] and found[3 * b + k] == pytest.approx(total[here], rel=1e-4)
    assert at == labels.size


def test_further_runs():
    check_again("CTCGreedyDecoder", [probabilities(4, 3, 5)], [probabilities(2, 1, 4)], outputs=2)
    check_again("CTCBeamSearchDecoder", [probabilities(4, 3, 5)], [probabilities(2, 1, 4)], outputs=3)


@pytest.mark.parametrize("kind", ["CTCGreedyDecoder", "CTCBeamSearchDecoder"])
@pytest.mark.parametrize(("inputs", "words"), [
    ([floats(3, 4)], r"\[time, batch, classes\], got shape \[3, 4\]"),
    ([floats(4, 3, 2), LENGTHS[:2]], r"each of 3 sequences, got shape \[2\]"),
    ([floats(3, 3, 2), LENGTHS], "a sequence has 4 steps, and the input has 3"),
])  # fmt: skip
def test_refusals(kind, inputs, words):
    refused(kind, inputs, words, outputs=2)
