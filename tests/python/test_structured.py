"""Sequences, trees and tensor trains, each against a plain computation; operators as functions."""

import itertools

import numpy as np
import pytest

from caffe2lite.proto import hsm_pb2
from caffe2lite.python import crf, crf_predict, hsm_util, tt_core, workspace
from caffe2lite.python.functional import Functional
from caffe2lite.python.model_helper import ModelHelper


@pytest.fixture(autouse=True)
def fresh():
    workspace.ResetWorkspace()


def chain(labels=3, length=4):
    rng = np.random.RandomState(0)
    model = ModelHelper("crf")
    blobs = model.net.AddExternalInputs("scores", "labels", "transitions")
    scores = rng.randn(length, labels).astype(np.float32)
    transitions = rng.randn(labels + 2, labels + 2).astype(np.float32)
    workspace.FeedBlob("scores", scores)
    workspace.FeedBlob("labels", rng.randint(labels, size=length))
    workspace.FeedBlob("transitions", transitions)

    def score(path):
        steps = [labels, *path, labels + 1]
        along = sum(transitions[a, b] for a, b in itertools.pairwise(steps))
        return along + sum(scores[i, c] for i, c in enumerate(path))

    every = {path: score(path) for path in itertools.product(range(labels), repeat=length)}
    return model, crf.CRFWithLoss(model, labels, blobs[2]), blobs, every


def run(model):
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)


def test_the_loss_of_a_crf_counts_all_paths():
    model, layer, (scores, labels, _), every = chain()
    loss = layer.crf_loss(scores, labels)
    grads = model.net.AddGradientOperators([loss])
    run(model)
    total = np.log(sum(np.exp(s) for s in every.values()))
    path = tuple(workspace.FetchBlob(labels).tolist())
    np.testing.assert_allclose(workspace.FetchBlob(loss), total - every[path], rtol=1e-4)
    # The gradient by a score is the probability of the label at this place, less 1 where it is the right one.
    expected = np.zeros((4, 3))
    for way, value in every.items():
        for place, label in enumerate(way):
            expected[place, label] += np.exp(value - total)
    expected[range(4), path] -= 1
    np.testing.assert_allclose(workspace.FetchBlob(grads[str(scores)]), expected, atol=1e-4)


@pytest.mark.parametrize("by", ["operators", "python"])
def test_predictions_of_a_crf_follow_the_best_path(by):
    model, layer, (scores, _, _), every = chain()
    if by == "operators":
        made = crf_predict.crf_update_predictions(model, layer, scores)
    else:
        made = layer.update_predictions(scores)
    run(model)
    result = workspace.FetchBlob(made)
    assert tuple(result.argmax(axis=1)) == max(every, key=every.get)
    np.testing.assert_array_equal(np.sort(result, axis=1), np.sort(workspace.FetchBlob(scores), axis=1))


def test_paths_through_a_tree_of_words():
    left = hsm_util.create_node_with_words([0, 1, 2], "left")
    right = hsm_util.create_node_with_words([3, 4], "right")
    tree = hsm_pb2.TreeProto(root_node=hsm_util.create_node_with_nodes([left, right], "root"))
    hierarchy = hsm_util.create_hierarchy(tree)
    paths = {p.word_id: [(n.index, n.length, n.target) for n in p.path_nodes] for p in hierarchy.paths}
    assert hierarchy.size == 7
    assert paths == {
        0: [(0, 2, 0), (2, 3, 0)],
        1: [(0, 2, 0), (2, 3, 1)],
        2: [(0, 2, 0), (2, 3, 2)],
        3: [(0, 2, 1), (5, 2, 0)],
        4: [(0, 2, 1), (5, 2, 1)],
    }
    assert [node.offset for node in tree.root_node.children] == [2, 5]


def test_a_tensor_train_of_full_rank_is_exact():
    W = np.random.RandomState(0).randn(12, 12)
    sizes, ranks = np.array([3, 4]), [1, 9, 1]
    flat = tt_core.tt_svd(W.reshape(9, 16), [9, 16], ranks)
    first, second = np.split(flat, [81])
    np.testing.assert_allclose(first.reshape(9, 9) @ second.reshape(9, 16), W.reshape(9, 16), atol=1e-12)
    assert tt_core.matrix_to_tt(W, sizes, sizes, ranks).shape == (9 * 9 + 9 * 16,)
    drawn = tt_core.init_tt_cores([2, 3], [3, 2], [1, 2, 1])
    np.testing.assert_array_equal(drawn, tt_core.init_tt_cores([2, 3], [3, 2], [1, 2, 1]))
    with pytest.raises(AssertionError):
        tt_core.matrix_to_tt(W, [3, 3], [3, 4], ranks)


def test_operators_as_functions():
    x = np.array([[-1.0, 2.0]], np.float32)
    np.testing.assert_array_equal(Functional.Relu(x)["output_0"], [[0, 2]])
    joined, sizes = Functional.Concat(x, x, axis=0)
    assert joined.shape == (2, 2) and sizes.tolist() == [1, 1]
    assert len(Functional.Split(x, axis=1, num_output=2)) == 2
    with pytest.raises(AttributeError, match="NoSuchOperator"):
        Functional.NoSuchOperator(x)
