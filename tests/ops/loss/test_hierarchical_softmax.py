"""Words of a tree have probabilities that sum to one; Huffman's tree is the shortest."""

import heapq

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, floats, refused, run

from caffe2lite.proto import hsm_pb2

# Rows of W: node 0 has three children (word 7, node 1, word 5), node 1 (rows 3 and 4) has the words 2 and 9.
PATHS = {7: [(0, 3, 0)], 5: [(0, 3, 2)], 2: [(0, 3, 1), (3, 2, 0)], 9: [(0, 3, 1), (3, 2, 1)]}


def hierarchy(paths=PATHS):
    made = hsm_pb2.HierarchyProto(size=len(paths))
    for word, nodes in paths.items():
        path = made.paths.add(word_id=word)
        for index, length, target in nodes:
            path.path_nodes.add(index=index, length=length, target=target)
    return made.SerializeToString()


def tree():
    made = hsm_pb2.TreeProto()
    root = made.root_node
    root.offset, root.name = 0, "root"
    inner = root.children.add(offset=3, name="inner")
    inner.word_ids.extend([2, 9])
    root.word_ids.extend([7, 5])  # after the children: the rows are inner, 7, 5
    return made.SerializeToString()


X, W, B = floats(4, 6), floats(5, 6), floats(5)
LABELS = np.array([2, 7, 9, 2], "int32")


def log_softmax(z):
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def loss(x, word):
    z = x.astype("d") @ W.T + B
    return -sum(log_softmax(z[:, i : i + n])[:, t] for i, n, t in PATHS[word])


def test_losses():
    wanted = np.array([loss(X[i : i + 1], word)[0] for i, word in enumerate(LABELS)])
    check("HSoftmax", [X, W, B, LABELS], [wanted, None], {"hierarchy": hierarchy()}, rtol=1e-4)
    every = [run("HSoftmax", [X, W, B, np.full(4, word, "int32")], {"hierarchy": hierarchy()}, 2)[0] for word in PATHS]
    np.testing.assert_allclose(np.exp(-np.stack(every)).sum(axis=0), 1, rtol=1e-5)
    assert run("HSoftmax", [X[:0], W, B, LABELS[:0]], {"hierarchy": hierarchy()}, 2)[0].shape == (0,)
    check_again("HSoftmax", [X, W, B, LABELS], [X[:2], W, B, LABELS[:2]], {"hierarchy": hierarchy()}, 2)


def test_gradients():
    check_gradient(
        "HSoftmax",
        [values(4, 6), values(5, 6), values(5), LABELS],
        [0, 1, 2],
        outputs=2,
        named=[1],
        hierarchy=hierarchy(),
    )


def test_search():
    names, scores = run("HSoftmaxSearch", [X, W, B], {"tree": tree(), "beam": 1e3, "topN": 5}, 2)
    z = X.astype("d") @ W.T + B
    first, second = -log_softmax(z[:, :3]), -log_softmax(z[:, 3:])
    for i in range(4):
        wanted = {b"inner": first[i, 0], b"7": first[i, 1], b"5": first[i, 2],
                  b"2": first[i, 0] + second[i, 0], b"9": first[i, 0] + second[i, 1]}  # fmt: skip
        assert set(names[i]) == set(wanted)
        np.testing.assert_allclose(scores[i], sorted(wanted.values()), rtol=1e-4)
        assert [wanted[n] for n in names[i]] == pytest.approx(list(scores[i]), rel=1e-4)


def test_a_narrow_beam_finds_less():
    few = run("HSoftmaxSearch", [X, W, B], {"tree": tree(), "beam": 1e-6, "topN": 5}, 2)[0]
    assert (few == b"").all()


def depths(node, depth=1):
    for word in node.word_ids:
        yield word, depth
    for child in node.children:
        yield from depths(child, depth + 1)


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_huffman(kind):
    """The sum over labels of the lengths of their paths is the least: what merging the two rarest again and again costs."""
    counts = [13, 1, 5, 2, 8, 3]
    labels = np.repeat(np.arange(6), counts).astype(kind)
    (made,) = run("HuffmanTreeHierarchy", [labels], {"num_classes": 6})
    found = dict(depths(hsm_pb2.TreeProto.FromString(made[0]).root_node))
    assert sorted(found) == list(range(6))
    heap, least = sorted(counts), 0
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        least += both
        heapq.heappush(heap, both)
    assert sum(counts[word] * depth for word, depth in found.items()) == least


ARGS = {"hierarchy": hierarchy()}


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("HSoftmax", [X, W, B, LABELS + 1], ARGS, "label 3 is no word of the hierarchy"),
    ("HSoftmax", [X, W[:4], B[:4], LABELS], ARGS, "outside of the 4 rows of W"),
    ("HSoftmax", [X, W, B[:4], LABELS], ARGS, r"\[4, 6\], \[5, 6\], \[4\]"),
    ("HSoftmax", [X, W, B, LABELS[:2]], ARGS, "4 labels are needed"),
    ("HSoftmax", [X, W, B, LABELS], {"hierarchy": b"\xff"}, "hierarchy holds no HierarchyProto"),
    ("HSoftmaxSearch", [X, W[:4], B[:4]], {"tree": tree(), "beam": 9.0}, "'inner' of the tree is outside of the 4 rows"),
    ("HSoftmaxSearch", [X, W, B], {"tree": b"\xff"}, "tree holds no TreeProto"),
    ("HuffmanTreeHierarchy", [LABELS], {"num_classes": 9}, "label 9 is not from 0 to 8"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args, outputs=1 if kind.startswith("Huffman") else 2)
