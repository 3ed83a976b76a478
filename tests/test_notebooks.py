"""What notebooks show of nets, plans, models, blobs and workspaces, and nets in memory in the browser."""

import html
import json
import pathlib
import re
import webbrowser
from xml.etree import ElementTree

import numpy as np
import pytest
from caffe2.python import brew, core, model_helper, workspace

from caffe2lite import draw
from caffe2lite.draw import inline


@pytest.fixture
def model():
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper("shown")
    brew.softmax(model, brew.fc(model, "data", "fc", 4, 3), "softmax")
    workspace.FeedBlob("data", np.arange(8, dtype="float32").reshape(2, 4))
    workspace.RunNetOnce(model.param_init_net)
    yield model
    workspace.ResetWorkspace()


def nets_of(content):
    """The nets of the page in a frame."""
    (page,) = re.findall(r'<iframe srcdoc="(.*?)"', content, re.S)
    return json.loads(re.search(r'id="facts">(.*?)</script>', html.unescape(page), re.S)[1])["nets"]


def test_a_net_is_a_page_with_the_shapes_of_the_workspace(model):
    (net,) = nets_of(model.net._repr_html_())
    assert [n["type"] for n in net["nodes"][:2]] == ["FC", "Softmax"]
    assert net["shapes"]["softmax"] == "float32 2 × 3"


def test_a_model_has_its_initialization_first(model):
    assert [n["name"] for n in nets_of(model._repr_html_())] == [str(model.param_init_net), str(model.net)]


def test_a_plan_has_all_of_its_nets(model):
    plan = core.Plan("plan")
    plan.AddStep(core.execution_step("step", [model.param_init_net, model.net]))
    assert len(nets_of(plan._repr_html_())) == 2


def test_the_picture_of_a_net(model):
    root = ElementTree.fromstring(model.net._repr_svg_())
    assert {t.text for t in root.iter("{http://www.w3.org/2000/svg}text")} >= {"FC", "softmax", "data"}


def test_a_large_net_is_told_in_numbers(monkeypatch, model):
    monkeypatch.setattr(inline, "_MOST", 1)
    assert "<td>Softmax</td><td>1</td>" in model.net._repr_html_() and "iframe" not in model.net._repr_html_()
    assert model.net._repr_svg_() is None


def cells(content):
    return [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", content)][1:]


def test_a_blob_is_what_the_workspace_holds_by_its_name(model):
    assert cells(core.BlobReference("data")._repr_html_()) == [
        ["data", "float32", "2 × 4", "0", "3.5", "7", "0, 1, 2, 3, 4, 5, …"]
    ]
    assert cells(core.BlobReference("nothing")._repr_html_())[0][:2] == ["nothing", "NoneType"]


def test_a_workspace_is_a_table_of_its_blobs(model):
    names = sorted(workspace.Blobs())
    assert [row[0] for row in cells(workspace._repr_html_())] == names
    own = workspace.C.Workspace()
    own.create_blob("<b>").feed(np.array([np.nan, 2], "float32"))
    assert cells(own._repr_html_()) == [["&lt;b&gt;", "float32 (1 NaN or infinite)", "2", "2", "2", "2", "nan, 2"]]


def test_show_opens_a_page_of_a_net_in_memory(model, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    for thing in (model, model.net, model.net.Proto()):
        path = pathlib.Path(draw.show(thing))
        assert opened.pop() == path.as_uri() and "Softmax" in path.read_text(encoding="utf-8")
        path.unlink()
    with pytest.raises(TypeError, match="a net, a plan or a model can be drawn, not a int"):
        draw.show(3)


CELLS = [
    "import numpy as np\nfrom caffe2.python import core, workspace\nfrom caffe2lite import draw\nnet = core.Net('cell')\n"
    "y = net.Relu('x', 'y')\nworkspace.FeedBlob('x', np.array([-1, 2], 'float32'))\nworkspace.RunNetOnce(net)",
    "net", "y", "workspace", "draw.show(net)",
]  # fmt: skip


def test_in_a_kernel():
    """A kernel of Jupyter runs the cells; what it would show is HTML."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed here")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "", "language": "python"}
    nbclient.NotebookClient(notebook, timeout=120).execute()
    shown = [cell.outputs[-1].data for cell in notebook.cells[1:]]
    assert all("text/html" in data for data in shown)
    assert nets_of(shown[0]["text/html"])[0]["nodes"][0]["type"] == "Relu" and "<svg" in shown[0]["image/svg+xml"]
    assert cells(shown[1]["text/html"])[0][3:6] == ["0", "1", "2"]
    assert [row[0] for row in cells(shown[2]["text/html"])] == ["x", "y"]
    assert nets_of(shown[3]["text/html"])[0]["name"] == "cell"
