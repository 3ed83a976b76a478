"""Graphs for TensorBoard (runs where the package is installed)."""

import pytest
from caffe2.python import brew, core, model_helper

pytest.importorskip("tensorboard", reason="the package tensorboard is not a dependency")

from caffe2.contrib.tensorboard import tensorboard_exporter


def test_versions_scopes_and_devices_of_a_net():
    model = model_helper.ModelHelper("m", arg_scope={"order": "NCHW"})
    data = model.net.AddExternalInput("data")
    with core.NameScope("layer"):
        out = brew.fc(model, data, "fc", 4, 5)
        brew.relu(model, out, out)
    model.net.AveragedLoss(out, "loss")
    model.AddGradientOperators(["loss"])
    model.net.RunAllOnGPU(gpu_id=1)
    track = {}
    graph = tensorboard_exporter.nets_to_graph_def([model.net], track_blob_names=track)
    nodes = {node.name: node for node in graph.node}
    assert nodes["layer/FC"].device == "/gpu:1" and nodes["layer/FC"].input[:1] == ["data"]
    assert nodes["data"].op == "Placeholder"
    assert track["layer/fc"] == track["layer/fc_1"] == "layer/fc"
    assert any(name.startswith("GRADIENTS/") for name in nodes)
    for node in graph.node:
        assert all(name.partition(":")[0] in nodes for name in node.input)
