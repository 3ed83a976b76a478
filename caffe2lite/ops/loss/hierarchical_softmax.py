"""Softmax over the nodes of a tree of words: a word's probability is the product along its path."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.shapes import rows_of
from caffe2lite.ops.nn.softmax import softmax_rows
from caffe2lite.proto import hsm_pb2

_TINY = 1e-20  # probabilities below it count as this much in a logarithm


def _message(kind: Any, content: bytes, what: str) -> Any:
    message = kind()
    try:
        message.ParseFromString(content)
    except DecodeError as e:
        raise ValueError(f"the argument {what} holds no {kind.__name__}: {e}") from None
    return message


def _paths(hierarchy: bytes, W: Any) -> dict[int, list[tuple[slice, int]]]:
    """{word: [(rows of W, which of them)]}."""
    tree = _message(hsm_pb2.HierarchyProto, hierarchy, "hierarchy")
    table = {}
    for path in tree.paths:
        nodes = []
        for node in path.path_nodes:
            if not 0 <= node.index <= node.index + node.length <= W.shape[0] or not 0 <= node.target < node.length:
                raise ValueError(f"word {path.word_id}: a node of its path is outside of the {W.shape[0]} rows of W")
            nodes.append((slice(node.index, node.index + node.length), node.target))
        table[path.word_id] = nodes
    return table


def _check(X: Any, W: Any, b: Any, labels: Any = None) -> Any:
    if X.ndim < 1 or W.ndim != 2 or b.shape != W.shape[:1]:
        raise ValueError(f"X, W and b do not fit: {list(X.shape)}, {list(W.shape)}, {list(b.shape)}")
    rows = rows_of(X)
    if rows.shape[1] != W.shape[1] or (labels is not None and labels.size != len(rows)):
        raise ValueError(
            f"rows of X have {rows.shape[1]} values and those of W {W.shape[1]}; {len(rows)} labels are needed"
        )
    return rows


def _groups(xp: Any, labels: Any, table: Any) -> Iterator[tuple[Any, list[tuple[slice, int]]]]:
    """(samples, path) for each word among the labels."""
    for word in sorted(set(labels.reshape(-1).tolist())):
        if word not in table:
            raise ValueError(f"label {word} is no word of the hierarchy")
        yield xp.nonzero(labels.reshape(-1) == word)[0], table[word]


def _places(labels: Any, table: Any) -> tuple[list[int], int]:
    """Where each sample's scores begin in the intermediate output, and its size: scores and softmax of each node."""
    places, end = [], 0
    for word in labels.reshape(-1).tolist():
        places.append(end)
        end += 2 * sum(rows.stop - rows.start for rows, _ in table.get(word, ()))
    return places, end


def _gradient(g: Any) -> Any:
    inputs = [g.I(0), g.I(1), g.I(2), g.I(3), g.O(1), g.GO(0)]
    return g.single("HSoftmaxGradient", inputs, [g.GI(0), g.GI(1), g.GI(2), g.GO(1)])


@operator("Y intermediate", types={"X": "float32", "W": "=X", "b": "=X", "labels": "int32"}, gradient=_gradient)
def HSoftmax(xp, X, W, b, labels, *, hierarchy: bytes, out):
    """Y[i] = -log of the probability of word labels[i]; and the scores and softmax of all nodes on its path.

    Morin and Bengio, Hierarchical Probabilistic Neural Network Language Model, 2005.  X [N, D], W [M, D], b [M],
    labels [N] (int32), Y [N], intermediate [size]; float32.  ValueError where the shapes do not fit, a label is no
    word, a path leads outside of W, or hierarchy is no HierarchyProto.
    """
    rows, table = _check(X, W, b, labels), _paths(hierarchy, W)
    places, size = _places(labels, table)
    Y, inner = out[0]((len(rows),), X.dtype), out[1]((size,), X.dtype)
    begin = xp.asarray(places, dtype="int64")
    for samples, path in _groups(xp, labels, table):
        x, at = rows[samples], begin[samples][:, None]
        loss = xp.zeros(len(x), X.dtype)
        for node, target in path:
            score = x.dot(W[node].T) + b[node]
            p = xp.empty_like(score)
            softmax_rows(xp, score, p)
            span = xp.arange(score.shape[1])
            inner[at + span] = score
            inner[at + score.shape[1] + span] = p
            at = at + 2 * score.shape[1]
            loss -= xp.log(xp.maximum(p[:, target], _TINY))
        Y[samples] = loss
    return Y, inner


@operator(
    "dX dW db dintermediate",
    types={"X": "float32", "W": "=X", "b": "=X", "labels": "int32", "intermediate": "=X", "dY": "=X"},
    infer=like(0, 1, 2, 4),
)
def HSoftmaxGradient(xp, X, W, b, labels, intermediate, dY, *, hierarchy: bytes, out):
    """Gradients of HSoftmax.

    X [N, D], W [M, D], b [M], labels [N] (int32), intermediate [size], dY [N], the gradients as what they are of;
    float32.  ValueError where the shapes do not fit or a label is no word.
    """
    rows, table = _check(X, W, b, labels), _paths(hierarchy, W)
    places, size = _places(labels, table)
    if intermediate.size != size or dY.size != len(rows):
        raise ValueError(f"the intermediate output must have {size} values and dY {len(rows)}")
    made = [o(a.shape, a.dtype) for o, a in zip(out, (X, W, b, intermediate))]
    for target in made:
        target[...] = 0
    dX, dW, db = made[:3]
    intermediate, dinner = intermediate.reshape(-1), made[3].reshape(-1)
    begin, dx = xp.asarray(places, dtype="int64"), dX.reshape(rows.shape)
    for samples, path in _groups(xp, labels, table):
        x, at, d = rows[samples], begin[samples][:, None], dY.reshape(-1)[samples][:, None]
        for node, target in path:
            n = node.stop - node.start
            span = xp.arange(n)
            p = intermediate[at + n + span]
            to_p = xp.zeros_like(p)
            to_p[:, target] = -d[:, 0] / xp.maximum(p[:, target], _TINY)
            to_score = p * (to_p - (to_p * p).sum(axis=1, keepdims=True))
            dinner[at + span] = to_score
            dinner[at + n + span] = to_p
            at = at + 2 * n
            dW[node] += to_score.T.dot(x)
            db[node] += to_score.sum(axis=0)
            dx[samples] += to_score.dot(W[node])
    return tuple(made)


@operator(
    "names scores", types={"X": "float32", "W": "=X", "b": "=X"}, host="X W b names scores", gradient=FORBID_GRADIENT
)
def HSoftmaxSearch(xp, X, W, b, *, tree: bytes, beam: float = 0.01, topN: int = 5, out):
    """The topN best nodes for each sample and their -log probabilities; children are followed within the beam.

    X [N, D], W [M, D], b [M], names [N, topN] (strings), scores [N, topN]; float32.  ValueError where the shapes do
    not fit, a node is outside of W, or tree is no TreeProto.
    """
    rows = _check(X, W, b)
    root = _message(hsm_pb2.TreeProto, tree, "tree").root_node
    names, scores = out[0]((len(rows), topN), "object"), out[1]((len(rows), topN), X.dtype)
    names[...] = b""
    scores[...] = 0
    for i, x in enumerate(rows):
        found = sorted(_search(x, W, b, root, 0.0, beam), key=lambda pair: pair[1])[:topN]
        for k, (name, score) in enumerate(found):
            names[i, k], scores[i, k] = name.encode(), score
    return names, scores


def _search(x: Any, W: Any, b: Any, node: Any, before: float, beam: float) -> Iterator[tuple[str, float]]:
    """(name, score) of all nodes and words below, as far as the beam reaches."""
    count = len(node.children) + len(node.word_ids)
    if not count:
        return
    if not 0 <= node.offset <= node.offset + count <= W.shape[0]:
        raise ValueError(f"node {node.name!r} of the tree is outside of the {W.shape[0]} rows of W")
    part = slice(node.offset, node.offset + count)
    score = W[part].dot(x) + b[part]
    score = score - score.max()
    costs = [before + c for c in (math.log(sum(map(math.exp, score.tolist()))) - score).tolist()]
    for child, cost in zip(node.children, costs):
        if cost < before + beam:
            yield child.name, cost
            yield from _search(x, W, b, child, cost, beam)
    for word, cost in zip(node.word_ids, costs[len(node.children) :]):
        if cost < before + beam:
            yield str(word), cost


@operator("tree", types="int32 int64", host="labels tree", gradient=None)
def HuffmanTreeHierarchy(xp, labels, *, num_classes: int, out):
    """A tree in which frequent labels have short paths: a serialised TreeProto, as the one string of a tensor.

    Huffman, A Method for the Construction of Minimum-Redundancy Codes, 1952.  labels [N] (int32 or int64), tree [1]
    (a string).  ValueError where a label is not from 0 to num_classes - 1.
    """
    if num_classes < 0:
        raise ValueError(f"num_classes must not be negative, found {num_classes}")
    if labels.ndim != 1:
        raise ValueError(f"the labels must be a vector, found the shape {list(labels.shape)}")
    check_result((num_classes,), "int64")
    counts = [0] * num_classes
    for label in labels.reshape(-1).tolist():
        if not 0 <= label < num_classes:
            raise ValueError(f"label {label} is not from 0 to {num_classes - 1}")
        counts[label] += 1
    order = itertools.count()
    heap: list[tuple[int, int, Any]] = [(count, next(order), label) for label, count in enumerate(counts)]
    heapq.heapify(heap)
    while len(heap) > 1:
        (few, _, left), (more, _, right) = heapq.heappop(heap), heapq.heappop(heap)
        heapq.heappush(heap, (few + more, next(order), (left, right)))
    made = hsm_pb2.TreeProto()
    if heap and isinstance(heap[0][2], tuple):
        _write(heap[0][2], made.root_node, 0)
    Y = out((1,), "object")
    Y[0] = made.SerializeToString()
    return Y


def _write(pair: Any, node: Any, offset: int) -> int:
    """Fill a NodeProto; the next free offset."""
    node.offset = offset
    offset += 2
    for side in pair:
        if isinstance(side, tuple):
            offset = _write(side, node.children.add(), offset)
        else:
            node.word_ids.append(side)
    return offset + 1
