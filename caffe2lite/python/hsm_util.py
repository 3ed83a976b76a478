"""Trees of words for hierarchical softmax, and the paths from the root to each word."""

from __future__ import annotations

from caffe2lite.proto import hsm_pb2


def create_node_with_words(words, name="node"):
    """Return a node with these words."""
    return hsm_pb2.NodeProto(name=name, word_ids=list(words))


def create_node_with_nodes(nodes, name="node"):
    """Return a node with these nodes below."""
    return hsm_pb2.NodeProto(name=name, children=nodes)


def create_hierarchy(tree_proto):
    """Return a HierarchyProto with the path to each word; the nodes of the tree get their offsets.

    A node's children have consecutive outputs: first its nodes, then its words; nodes count in the order of a walk
    that goes down before it goes on.
    """
    hierarchy = hsm_pb2.HierarchyProto()
    size = 0

    def walk(node, path):
        nonlocal size
        index, length = size, len(node.children) + len(node.word_ids)
        node.offset = index
        size += length

        def step(target):
            return [*path, hsm_pb2.PathNodeProto(index=index, length=length, target=target)]

        for target, child in enumerate(node.children):
            walk(child, step(target))
        for target, word in enumerate(node.word_ids, len(node.children)):
            hierarchy.paths.add(word_id=word, path_nodes=step(target))

    walk(tree_proto.root_node, [])
    hierarchy.size = size
    return hierarchy
