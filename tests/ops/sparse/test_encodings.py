"""Positions, paths, keys."""

import itertools

import numpy as np
import pytest
from running import refused, run

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_positions(dtype):
    at = np.array([[0, 0], [5, 5]], dtype)
    (Y,) = run("SinusoidPositionEncoding", [at], {"embedding_size": 6, "alpha": 50.0, "amplitude": 2.0})
    for k in range(6):
        angle = at / 50.0 ** (k / 6)
        np.testing.assert_allclose(Y[..., k], 2 * (np.cos(angle) if k % 2 else np.sin(angle)), atol=1e-5)
    (mixed,) = run(
        "SinusoidPositionEncoding",
        [np.array([[0, 7], [5, -1]], dtype)],
        {"embedding_size": 6, "alpha": 50.0, "amplitude": 2.0},
    )
    np.testing.assert_array_equal(mixed, Y)  # the first column counts, as in Caffe2
    (negative,) = run("SinusoidPositionEncoding", [np.array([[-3]], dtype)], {"embedding_size": 2})
    assert np.isnan(negative).all()


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_the_best_of_all_paths(steps):
    scores, transitions = RNG.random((steps, 3)).astype("f"), RNG.random((3, 3)).astype("f")

    def total(path):
        return sum(scores[t, s] for t, s in enumerate(path)) + sum(
            transitions[a, b] for a, b in itertools.pairwise(path)
        )

    want = max(itertools.product(range(3), repeat=steps), key=total)
    assert run("ViterbiPath", [scores, transitions])[0].tolist() == list(want)


def test_best_and_path_change_places():
    scores = RNG.random((4, 3)).astype("f")
    path = np.array([0, 2, 1, 1], "int32")
    (Y,) = run("SwapBestPath", [scores, path])
    assert Y.argmax(axis=1).tolist() == path.tolist()
    np.testing.assert_array_equal(np.sort(Y), np.sort(scores))
    np.testing.assert_array_equal(Y[range(4), scores.argmax(axis=1)], scores[range(4), path])


def test_key_split():
    keys = np.array([2, 0, 2, 1, 0])
    for k, places in enumerate(run("KeySplit", [keys], {"categorical_limit": 4}, outputs=4)):
        np.testing.assert_array_equal(places, np.flatnonzero(keys == k).astype("int32"), strict=True)


def test_dense_vector_to_id_list():
    X = np.array([[0, 1, 0.4, 0.5], [0, 0, 0, 0], [-1, -1.5, -0.2, 2]], "f")
    lengths, ids = run("DenseVectorToIdList", [X], outputs=2)
    assert lengths.tolist() == [2, 0, 2] and ids.tolist() == [1, 3, 1, 3]
    assert lengths.dtype == ids.dtype == "int32"


S = RNG.random((4, 3)).astype("f")


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args"),
    [
        (r"a matrix of positions is needed, found \[3\]", "SinusoidPositionEncoding", [np.arange(3)], {}),
        (r"found \[4, 3\] and \[4, 3\]", "ViterbiPath", [S, S], {}),
        (r"scores \[4, 3\], path \[2\]", "SwapBestPath", [S, np.array([0, 1], "int32")], {}),
        ("a state of the path is 3; it must be from 0 to 2", "SwapBestPath", [S, np.array([0, 1, 2, 3], "int32")], {}),
        (
            "categorical_limit=2 outputs are needed, one a key; found 1",
            "KeySplit",
            [np.arange(2)],
            {"categorical_limit": 2},
        ),
        ("a key is 1; it must be from 0 to 0", "KeySplit", [np.arange(2)], {"categorical_limit": 1}),
        (r"found the shape \[3\]", "DenseVectorToIdList", [S[0]], {}),
    ],
)
def test_refusals(words, kind, inputs, args):
    refused(kind, inputs, words, args, outputs=2 if kind == "DenseVectorToIdList" else 1)
