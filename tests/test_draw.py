"""Pictures of nets: nothing overlaps, lines run one way, what a file says is only ever text, and the page works in a browser."""

import base64
import collections
import hashlib
import io
import itertools
import json
import re
import shutil
import subprocess
import sys
import time
from xml.etree import ElementTree

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, data_parallel_model, workspace
from hypothesis import given, settings
from hypothesis import strategies as st
from test_seed import build

from caffe2lite import draw, inspect
from caffe2lite.devices import emulated
from caffe2lite.draw import folding, raster, values
from caffe2lite.draw.graph import graph_of
from caffe2lite.ops.kit.infer import Spec

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EVIL = "</script><script>document.title='evil'</script>\"'<img src=x onerror=\"document.title='evil'\">&\x07"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def trained():
    """A data-parallel training net and its sync net, on four emulated GPUs."""
    emulated.use(4)
    workspace.ResetWorkspace()
    model = build("gpu", 4)
    data_parallel_model.FinalizeAfterCheckpoint(model)
    yield model.net.Proto(), model._checkpoint_net.Proto()
    workspace.ResetWorkspace()
    emulated.use(0)


def chain(length):
    """A net of that many operators in four towers, with shortcuts."""
    net = core.Net("chain")
    for i in range(length):
        tower, step = i % 4, i // 4
        with core.NameScope(f"tower{tower}"):
            if step % 5 == 4:
                net.Sum([f"b{step - 1}", f"b{step - 4}"], f"b{step}")
            else:
                net.Relu(f"b{step - 1}" if step else "data", f"b{step}")
    return net.Proto()


def no_overlap(drawing):
    rows = collections.defaultdict(list)
    for box in drawing.boxes:
        rows[box.y].append(box)
    for row in rows.values():
        row.sort(key=lambda b: b.x)
        assert all(a.x + a.width <= b.x for a, b in itertools.pairwise(row))


def test_devices_are_lanes_and_the_backward_part_runs_up_beside_the_forward_part(trained):
    drawing, _ = draw.drawing_of(trained[0])
    no_overlap(drawing)
    assert [lane.label for lane in drawing.lanes if "gpu" in lane.label] == ["gpu_0", "gpu_1", "gpu_2", "gpu_3"]
    graph, boxes = graph_of(trained[0]), {b.node: b for b in drawing.boxes}
    assert sorted(boxes) == list(range(len(graph.nodes)))
    lanes = {lane.label: lane for lane in drawing.lanes}
    for n, node in enumerate(graph.nodes):
        lane = lanes[node.device]
        assert lane.x <= boxes[n].x and boxes[n].x + boxes[n].width <= lane.x + lane.width
    for edge in graph.edges:
        a, b = graph.nodes[edge.source], graph.nodes[edge.target]
        if a.backward == b.backward:
            assert (boxes[edge.source].y > boxes[edge.target].y) == a.backward


def test_a_sync_net_is_lanes_with_the_bytes_that_move(trained):
    net = trained[1]
    drawing, words = draw.drawing_of(net, {"gpu_0/fc1_w": Spec((16, 8))})
    assert [lane.label for lane in drawing.lanes] == ["gpu_0", "gpu_1", "gpu_2", "gpu_3"]
    assert [lane.note for lane in drawing.lanes] == ["sends 1.54 kB", "gets 512 B", "gets 512 B", "gets 512 B"]
    assert "each gets the values of gpu_0" in words
    moved = {(line.points[0][0], line.points[-1][0]) for line in drawing.lines}
    middle = [lane.x + lane.width / 2 for lane in drawing.lanes]
    assert moved == {(middle[0], m) for m in middle[1:]}
    assert len(drawing.boxes) == len(net.op) and {"fc1_w", "512 B"} <= {label.text for label in drawing.labels}


def test_broadcasts_of_shards_go_to_the_other_shards():
    net = core.Net("sync")
    for blob in ("gpu_0/w", "gpu_0/b"):
        net.Broadcast(["cw", blob], blob, engine="GLOO")
    drawing, _ = draw.drawing_of(net.Proto())
    assert [lane.label for lane in drawing.lanes] == ["gpu_0", "other shards"]
    assert {b.kind for b in drawing.boxes} == {"collective"} and len(drawing.lines) == 2


def test_a_broadcast_over_a_world_without_a_name():
    net = caffe2_pb2.NetDef()
    net.op.add(type="Broadcast", input=["", "gpu_0/w"])
    assert [b.title for b in draw.drawing_of(net)[0].boxes] == ["Broadcast"]


def test_collectives_are_marked():
    net = core.Net("net")
    net.Relu("x", "y")
    net.Allreduce(["cw", "y"], "y", engine="MPI")
    assert [n.kind for n in graph_of(net.Proto()).nodes[:2]] == ["operator", "collective"]
    assert "⇄ Allreduce (MPI)" in draw.picture(net.Proto(), "svg").decode()


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_net_can_be_drawn(data):
    names = st.sampled_from(["a", "b", "c", "gpu_0/a", "gpu_1/x/y/b", "", "\ud7ff&<", EVIL])
    net = caffe2_pb2.NetDef(name=data.draw(names))
    for _ in range(data.draw(st.integers(0, 12))):
        op = net.op.add(type=data.draw(st.sampled_from(["Relu", "NoSuch", "ReluGradient", "Copy", "Broadcast", EVIL])))
        op.input.extend(data.draw(st.lists(names, max_size=3)))
        op.output.extend(data.draw(st.lists(names, max_size=2)))
        op.control_input.extend(data.draw(st.lists(names, max_size=1)))
        op.device_option.device_type = data.draw(st.integers(0, 3))
        op.device_option.device_id = data.draw(st.integers(0, 11))
    drawing, _ = draw.drawing_of(net)
    no_overlap(drawing)
    root = ElementTree.fromstring(draw.picture(net, "svg"))
    assert len([g for g in root.iter(f"{SVG}g") if g.get("class", "").startswith("box ")]) == len(drawing.boxes)
    assert root.find(f".//{SVG}script") is None
    page = draw.to_html([net], EVIL)
    assert page.count("<script") == 2 and page.count("</script") == 2 and "<img" not in page
    facts = json.loads(re.search(r'id="facts">(.*?)</script>', page, re.S)[1])
    assert [n["type"] for n in facts["nets"][0]["nodes"][: len(net.op)]] == [op.type for op in net.op]
    assert draw.picture(net, "dot").startswith(b"digraph")


def test_two_thousand_operators_in_five_seconds():
    net = chain(2000)
    start = time.process_time()
    page = draw.to_html([net], "chain")
    assert time.process_time() - start < 5
    assert len(page) < 4_000_000
    drawing, _ = draw.drawing_of(net)
    no_overlap(drawing)
    assert [f.label for f in drawing.frames] == [f"tower{i}" for i in range(4)]


def inside(a, b):
    """Whether frame (or box) a lies within frame b."""
    return b.x <= a.x and b.y <= a.y and a.x + a.width <= b.x + b.width and a.y + a.height <= b.y + b.height


def apart(a, b):
    return a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y


def test_a_scope_within_a_scope_is_a_frame_within_a_frame():
    net = core.Net("scopes")
    for before, name in itertools.pairwise(["data", "a/data", "a/b/c/d/x", "a/b/c/d/y", "a/b/e/z", "top"]):
        net.Relu(before, name)
    drawing, _ = draw.drawing_of(net.Proto())
    frames = {f.label: f for f in drawing.frames}
    assert list(frames) == ["a", "b", "c/d", "e"]  # outer ones are drawn first
    assert inside(frames["b"], frames["a"]) and inside(frames["c/d"], frames["b"]) and inside(frames["e"], frames["b"])
    assert apart(frames["c/d"], frames["e"])
    held = {
        label: {drawing.boxes[i].detail for i in range(5) if inside(drawing.boxes[i], f)} for label, f in frames.items()
    }
    assert held["c/d"] == {"a/b/c/d/x", "a/b/c/d/y"} and held["e"] == {"a/b/e/z"} and "top" not in held["a"]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=6), st.integers(0, 3)), min_size=1, max_size=20))
def test_frames_lie_in_each_other_or_apart(made):
    net = caffe2_pb2.NetDef(name="scopes")
    names = ["/".join([*scope, f"blob{i}"]) for i, (scope, _) in enumerate(made)]
    for i, (name, (_, back)) in enumerate(zip(names, made)):
        net.op.add(type="Relu", input=[names[max(0, i - back)]], output=[name])
    drawing, _ = draw.drawing_of(net)
    no_overlap(drawing)
    for a, b in itertools.combinations(drawing.frames, 2):
        assert apart(a, b) or inside(a, b) or inside(b, a)
    for box in drawing.boxes:
        assert all(apart(box, f) or inside(box, f) for f in drawing.frames)


def test_a_file_with_several_nets(tmp_path):
    plan = core.Plan("plan")
    nets = [core.Net("first"), core.Net("second")]
    nets[0].Relu("x", "y")
    nets[1].Relu("y", "z")
    nets[1].Tanh("z", "z")
    plan.AddNets(nets)
    (tmp_path / "plan.pb").write_bytes(plan.Proto().SerializeToString())
    file = inspect.read(tmp_path / "plan.pb")
    draw.draw(file, tmp_path / "all.html")
    assert (tmp_path / "all.html").read_text().count("<template") == 2
    assert draw.draw(file, tmp_path / "largest.svg") == ["first"]
    assert "Tanh" in (tmp_path / "largest.svg").read_text()
    draw.draw(file, tmp_path / "first.dot", net="first")
    assert "Tanh" not in (tmp_path / "first.dot").read_text()
    with pytest.raises(ValueError, match="no net 'third'; it has 'first', 'second'"):
        draw.draw(file, tmp_path / "third.svg", net="third")
    with pytest.raises(ValueError, match=r"ends in none of \.html, \.svg, \.png, \.dot"):
        draw.draw(file, tmp_path / "x.jpg")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed here")
def test_graphviz_takes_what_is_written(trained):
    odd = core.Net("odd")
    odd.Relu(EVIL, 'quotes " and \\ and \n and é')
    for net in (trained[1], odd.Proto()):
        done = subprocess.run(["dot", "-Tpng"], input=draw.picture(net, "dot"), capture_output=True, check=True)
        assert done.stdout.startswith(b"\x89PNG")


def browse(page, tmp_path, script=""):
    """The page's elements after a script of ours ran in it, as Chromium sees them."""
    path = tmp_path / "page.html"
    page = re.sub(r"script-src '[^']*'", "script-src 'unsafe-inline'", page)  # the page allows no script but its own
    path.write_text(page.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    flags += (
        f" --disable-component-update --disable-sync --virtual-time-budget=2000 --user-data-dir={tmp_path / 'profile'}"
    )
    done = subprocess.run(
        [CHROMIUM, *flags.split(), "--window-size=1400,900", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


KEYS = """
const told = [];
const press = (key, target = document.getElementById("view")) =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const note = () => told.push(document.querySelector("#panel h2").textContent);
note();
press("ArrowRight"); note();
press("ArrowDown"); note();
press("ArrowUp"); note();
const box = document.getElementById("search");
box.value = "tanh"; box.dispatchEvent(new Event("input")); press("Enter", box); note();
told.push(document.getElementById("found").textContent);
press("Escape", box); note();
press("+"); press("0");
document.body.dataset.told = JSON.stringify(told);
"""


def test_the_page_allows_its_own_script_alone(trained):
    page = draw.to_html(trained, EVIL)
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)[1]
    rules = dict(rule.split(maxsplit=1) for rule in policy.split("; "))
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert rules.pop("script-src") == f"'sha256-{digest}'"
    assert rules.pop("style-src") == "'unsafe-inline'" and rules.pop("img-src") == "data:"
    assert rules == {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'"}
    assert not re.search(
        r"<[^>]+\son\w+\s*=", re.sub(r"<script.*?</script>", "", page, flags=re.S)
    )  # no handlers in elements


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed here")
def test_the_page_in_a_browser(tmp_path):
    net = core.Net("browsed")
    net.Relu("x", "y")
    net.Tanh("y", "z")
    net.Softmax("z", EVIL)
    seen = browse(draw.to_html([net.Proto()], EVIL, {"x": Spec((2, 3))}), tmp_path, KEYS)
    told = json.loads(re.search(r'data-told="(.*?)"', seen)[1].replace("&quot;", '"'))
    assert told == ["browsed", "Relu", "Tanh", "Relu", "Tanh", "1 of 1", "browsed"]
    assert "<img" not in re.sub(r"<script.*?</script>", "", seen, flags=re.S)
    assert not re.search(r"<title>evil</title>", seen)


@pytest.fixture(scope="module")
def nested():
    """A net with an If within a While, and a step net."""
    inner, body, net = core.Net("inner"), core.Net("body"), core.Net("outer")
    inner.Tanh("y", "y")
    body.Relu("x", "y")
    branch = net.Proto().op.add
    body.Proto().op.add(type="If", input=["cond"], output=["y"]).arg.add(name="then_net").n.CopyFrom(inner.Proto())
    with core.NameScope("a"):
        net.Relu("x", "p")
    branch(type="While", input=["cond"], output=["x"]).arg.add(name="loop_net").n.CopyFrom(body.Proto())
    with core.NameScope("b"):
        for i in range(8):
            net.Relu(f"p{i}", f"p{i + 1}")
    return net.Proto()


def facts_of(page):
    return json.loads(re.search(r'id="facts">(.*?)</script>', page, re.S)[1])


def test_nets_within_operators_are_on_the_page_and_know_where_they_are(nested):
    outer, body, inner = facts_of(draw.to_html([nested], "n"))["nets"]
    assert outer["parent"] is None and outer["nodes"][1]["nets"] == [["loop_net", 1]]
    assert body["parent"] == [0, 1] and body["nodes"][1]["nets"] == [["then_net", 2]]
    assert inner["parent"] == [1, 1] and [n["type"] for n in inner["nodes"][:1]] == ["Tanh"]


def test_step_nets_that_are_text_are_nets_too():
    step, net = core.Net("step"), core.Net("recurrent")
    step.Tanh("x", "y")
    net.Proto().op.add(type="RecurrentNetwork", input=["x"], output=["y"]).arg.add(
        name="step_net", s=str(step.Proto()).encode()
    )
    assert [n["name"] for n in facts_of(draw.to_html([net.Proto()], "n"))["nets"]] == ["recurrent", str(step)]


def test_folded_scopes_hold_every_operator_once(trained):
    for net in trained:
        graph = graph_of(net)
        made = folding.folded(graph)
        assert sorted(n for members in made.members for n in members) == list(range(len(graph.nodes)))
        of = {n: i for i, members in enumerate(made.members) for n in members}
        links = {(of[e.source], of[e.target]) for e in graph.edges} - {(i, i) for i in of.values()}
        assert links == {(e.source, e.target) for e in made.graph.edges}
        for members in made.members:
            assert len({(graph.nodes[n].device, graph.nodes[n].scope.split("/")[0]) for n in members}) == 1


OPENED = """
const told = [], shown = () => told.push(document.querySelector("#panel h2").textContent);
const link = (text) => [...document.querySelectorAll("#panel button")].find((b) => b.textContent.includes(text)).click();
select(1); link("loop_net"); shown();
link("then_net of If"); shown();
document.getElementById("back").click(); shown();
document.getElementById("back").click(); shown();
told.push(document.getElementById("back").hidden);
document.getElementById("fold").click();
told.push(net.nodes.length < nets[0].nodes.length);
select(net.nodes.findIndex((n) => n.type === "b")); shown(); link("show its operators"); shown();
told.push(new DOMParser().parseFromString(picture(), "image/svg+xml").querySelectorAll("g.box").length);
const image = new Image();
image.src = asUrl(picture());
image.decode().then(() => { told.push(image.width > 100); document.body.dataset.told = JSON.stringify(told); });
"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed here")
def test_inner_nets_open_scopes_fold_and_the_picture_can_be_saved(nested, tmp_path):
    seen = browse(draw.to_html([nested], "n"), tmp_path, OPENED)
    told = json.loads(re.search(r'data-told="(.*?)"', seen)[1].replace("&quot;", '"'))
    count = len(graph_of(nested).nodes)
    assert told == ["body", "inner", "If", "While", True, True, "b", "Relu", count, True]


@pytest.mark.parametrize("array, expected", [
    (np.arange(48.0).reshape(6, 8), (0, 23.5, 47, 0, [2] * 24)),
    (np.array([np.nan, -1, np.inf, 3], "float16"), (-1, 1, 3, 2, [1] + [0] * 22 + [1])),
    (np.array([True, False, True]), (0, 2 / 3, 1, 0, [1] + [0] * 22 + [2])),
    (np.zeros((2, 0)), (None, None, None, 0, [])), (np.full(3, np.nan), (None, None, None, 3, [])),
    (np.array([b"a", b"b"], object), (None, None, None, 0, [])), (np.full(4, 7, "int64"), (7, 7, 7, 0, [])),
    (np.array([-3.4e38, 3.4e38], "float32"), (-3.4e38, 0, 3.4e38, 0, [1] + [0] * 22 + [1])),
])  # fmt: skip
def test_what_a_tensor_holds(array, expected):
    found = values.values_of(array)
    *numbers, bins = expected
    told = found.least, found.mean, found.most, found.odd
    assert all(a is b or a == pytest.approx(b, rel=1e-5) for a, b in zip(told, numbers, strict=True))
    assert found.bins == bins
    assert found.shape == array.shape and len(found.first) <= 7


def test_a_png_has_the_colours_of_lanes_at_their_places(trained):
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(draw.picture(trained[0], "png")))
    drawing, _ = draw.drawing_of(trained[0])
    scale = image.width / drawing.width
    assert image.height == round(drawing.height * scale)
    for lane, colour in zip(drawing.lanes, raster.LANES):
        x, y = (lane.x + lane.width / 2) * scale, 42.5 * scale
        assert image.getpixel((round(x), round(y))) == tuple(bytes.fromhex(colour[1:]))
    for box in drawing.boxes:
        place = round((box.x + 8) * scale), round((box.y + box.height - 5) * scale)
        assert image.getpixel(place) in ((255, 255, 255), (251, 251, 250)), "the body of an operator"


def test_without_pillow_a_sentence_says_what_to_install(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(RuntimeError, match="PNG needs Pillow: pip install pillow"):
        draw.picture(trained[1], "png")


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed here")
def test_a_page_of_two_thousand_operators_answers_at_once(tmp_path):
    script = """
    const began = performance.now();
    for (let i = 0; i < 20; i++) { zoom(i % 2 ? 1.5 : 1 / 1.5); select(i * 97); document.body.getBoundingClientRect(); }
    document.body.dataset.told = JSON.stringify((performance.now() - began) / 20);
    """
    seen = browse(draw.to_html([chain(2000)], "chain"), tmp_path, script)
    assert float(re.search(r'data-told="(.*?)"', seen)[1]) < 250  # milliseconds for a step, layout included
