"""Reading and mending of legacy scripts."""

import ast
import json
import pathlib
import re
import subprocess
import sys
import time

import pytest

from caffe2lite import port
from caffe2lite.port import bridges

pytest.importorskip("fissix", reason="the extra port is not installed")
pytest.importorskip("libcst", reason="the extra port is not installed")
click_testing = pytest.importorskip("click.testing", reason="the extra tools is not installed")
from caffe2lite.commands import cli  # noqa: E402 - it needs click


def run(*args):
    return click_testing.CliRunner().invoke(cli, [str(a) for a in args], catch_exceptions=False)


LEGACY = """\
# A training script, of 2017.
import numpy as np, cPickle
from collections import Mapping, OrderedDict
import six
from caffe2.python import core, workspace, brew, net_drawer, nosuchmodule
from caffe2.python.modeling import initializers as init

net = core.Net("n")
net.Relu("x", "y", axsi=1)
net.ZeroEven("x", "z")
net.NextName()
core.CreateOperator("FC", ["x", "w", "b"], ["y"])
brew.fc(None, "x", "y", 3, 4)
brew.nosuchhelper
workspace.FeedBlob("x", np.zeros(3, np.float) / 2)  # the comment stays
print "half", 7 / 2, 7 / 2.0
assert {}.has_key(1) is False
small = -np.Inf
data = np.zeros(2).tostring()
values = np.asscalar(np.ones(1)) + np.asscalar(-data)
"""


@pytest.fixture(scope="module")
def report():
    return port.examine_source(LEGACY, "train.py")


@pytest.mark.parametrize("line, code, word, fix", [
    (2, "P002", "renamed", "safe"), (3, "P005", "collections.Mapping", "safe"), (5, "C101", "nosuchmodule", "ask"),
    (4, "P007", "six is not needed", "safe"), (9, "C102", "Relu(axsi=)", "note"), (10, "C101", "ZeroEven", "ask"),
    (14, "C101", "nosuchhelper", "ask"), (15, "N001", "numpy.float", "safe"),
    (16, "P001", "print", "safe"), (16, "P006", "7 / 2", "ask"), (17, "P002", "has_key", "safe"),
    (18, "N001", "numpy.Inf", "safe"), (19, "N002", "tostring", "safe"), (20, "N001", "numpy.asscalar", "safe"),
])  # fmt: skip
def test_what_is_found_and_where(report, line, code, word, fix):
    assert any(f.line == line and f.code == code and word in f.message and f.fix == fix for f in report.findings), [
        f for f in report.findings if f.line == line
    ]


def test_nothing_else_is_found(report):
    assert {f.line for f in report.findings} == {2, 3, 4, 5, 9, 10, 14, 15, 16, 17, 18, 19, 20}
    assert [f.message for f in report.findings if f.code == "P006"] == [
        "`7 / 2` was rounded down for integers in Python 2",
    ]


@pytest.mark.parametrize("source, line, word", [
    ("class A:\n  def __div__(self, o): return 1\n", 2, "__div__"),
    ("class A:\n  def __cmp__(self, o): return 1\n", 2, "__cmp__"),
    ("def f():\n  yield 1\n  raise StopIteration()\n", 3, "StopIteration"),
    ("x = 'a'.encode('hex')\n", 1, "hex"),
    ("import string\nstring.upper('x')\n", 2, "string.upper"),
])  # fmt: skip
def test_what_python_2_did_by_itself(source, line, word):
    found = port.examine_source(source, "a.py").findings
    assert [(f.line, f.fix) for f in found if word in f.message] == [(line, "ask")], found


@pytest.mark.parametrize("source", [
    "class A:\n  def __div__(self, o): return 1\n  __truediv__ = __div__\n",
    "class A:\n  def __next__(self):\n    raise StopIteration\n",
    "def f():\n  yield 1\n  def g():\n    raise StopIteration\n",
    "x = 'a'.encode('utf-8')\n",
])  # fmt: skip
def test_what_works_as_it_is(source):
    assert port.examine_source(source, "a.py").runs_as_is


def test_lines_are_those_of_the_file():
    source = "import urllib, urllib2\nprint 1\ndef f((a, b), c):\n    print a, b\n    return np.int(c) / 2\nimport numpy as np\n"
    found = port.examine_source(source, "a.py").findings
    assert {f.code: f.line for f in found if f.code in ("P006", "N001")} == {"P006": 5, "N001": 5}


def test_what_is_used_of_caffe2(report):
    used = {(u.kind, u.name): u.state for u in report.uses}
    assert used["operator", "Relu"] == used["operator", "FC"] == used["name", "caffe2.python.brew.fc"] == "supported"
    assert used["module", "caffe2.python.modeling.initializers"] == "supported"
    assert used["module", "caffe2.python.nosuchmodule"] == used["operator", "ZeroEven"] == "missing"
    assert ("operator", "NextName") not in used


def test_mending_keeps_the_rest():
    mended = port.mend(LEGACY, "train.py")
    expected = (
        LEGACY.replace("import numpy as np, cPickle", "import numpy as np, pickle")
        .replace("import six\n", "")
        .replace("import Mapping, OrderedDict", "import OrderedDict\nfrom collections.abc import Mapping")
        .replace("np.float)", "float)")
        .replace('print "half", 7 / 2, 7 / 2.0', 'print("half", 7 / 2, 7 / 2.0)')
        .replace("{}.has_key(1) is False", "(1 in {}) is False")
        .replace("-np.Inf", "-np.inf")
        .replace("tostring", "tobytes")
        .replace("np.asscalar(np.ones(1)) + np.asscalar(-data)", "np.ones(1).item() + (-data).item()")
    )
    assert mended.text.replace("1 in {} is False", "(1 in {}) is False") == expected
    assert {f.code for f in mended.asks} == {"C101", "P006"}


def test_python_3_is_left_alone(tmp_path):
    source = "import numpy\nfrom collections import OrderedDict\n\n\n"
    source += "x = {  'a':1 }\nprint(x['a'] / 2)\ntry:\n    unicode\nexcept NameError:\n    unicode = str\n"
    (tmp_path / "s.py").write_text(source)
    assert port.mend(source, "s.py").text == source
    result = run("port", tmp_path / "s.py")
    assert result.exit_code == 0 and "nothing to do" in result.output


def test_the_mended_script_runs(tmp_path):
    source = "import numpy as np\nx = np.zeros(3, dtype=np.float)\nprint 'sum', x.sum(), np.product([2, 3])\n"
    mended = tmp_path / "mended.py"
    mended.write_text(port.mend(source, "s.py").text)
    done = subprocess.run([sys.executable, mended], capture_output=True, text=True)
    assert done.stdout == "sum 0.0 6\n", done.stderr


def test_write_keeps_the_original_and_o_touches_nothing(tmp_path):
    folder = tmp_path / "old"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.py").write_text("print 1\n")
    (folder / "sub" / "b.py").write_text("x = 1\n")
    assert run("port", folder, "--diff").output.split("\n")[3:5] == ["-print 1", "+print(1)"]
    assert run("port", folder).exit_code == 1
    assert run("port", folder, "-o", tmp_path / "new").exit_code == 0
    assert (folder / "a.py").read_text() == "print 1\n" and (tmp_path / "new" / "a.py").read_text() == "print(1)\n"
    assert (tmp_path / "new" / "sub" / "b.py").read_text() == "x = 1\n"
    run("port", folder, "--write")
    assert (folder / "a.py").read_text() == "print(1)\n" and (folder / "a.py.orig").read_text() == "print 1\n"
    assert not (folder / "sub" / "b.py.orig").exists()


def test_what_write_keeps_of_a_file(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"# coding: latin-1\nprint 'caf\xe9'\n")
    path.chmod(0o755)
    run("port", path, "--write")
    assert path.read_bytes() == b"# coding: latin-1\nprint('caf\xe9')\n" and path.stat().st_mode & 0o777 == 0o755
    path.write_text(path.read_text("latin-1") + "print 2\n", "latin-1")
    run("port", path, "--write")
    assert (
        b"print 'caf" in (tmp_path / "a.py.orig").read_bytes() and b"print 2" in (tmp_path / "a.py.orig.2").read_bytes()
    )
    assert path.read_bytes().endswith(b"print(2)\n")
    path.write_bytes(b"print 1\r\nx = 2\r\n")
    run("port", path, "--write")
    assert path.read_bytes() == b"print(1)\r\nx = 2\r\n"


@pytest.mark.parametrize("source, mended", [
    ("import sys\nprint >>sys.stderr, 1\n", "import sys\nprint(1, file=sys.stderr)\n"),  # Python 3 reads it as a shift
    ("x = 1\nprint\n", "x = 1\nprint()\n"),
    ("if 1:\n\tprint 1\n        print 2\n", "if 1:\n        print(1)\n        print(2)\n"),
])  # fmt: skip
def test_python_2_that_is_hard_to_tell(source, mended, tmp_path):
    (tmp_path / "a.py").write_text(source)
    run("port", tmp_path / "a.py", "--write")
    assert (tmp_path / "a.py").read_text() == mended


def notebook(*sources, kernel="python2"):
    """A notebook of code cells, as nbformat writes it."""
    cells = [{"cell_type": "markdown", "metadata": {}, "source": ["Größe"]}]
    cells += [
        {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": source.splitlines(keepends=True),
        }
        for source in sources
    ]
    metadata = {
        "kernelspec": {"display_name": kernel.title(), "language": "python", "name": kernel},
        "language_info": {"version": "2"},
    }
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 2}
    return json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


MAGIC = "%matplotlib inline\n!pip install \\\n  six\nfiles = !ls\nif files:\n    %time 3\nlen?\n"


def test_notebooks_by_cell(tmp_path):
    (tmp_path / "n.ipynb").write_text(notebook(MAGIC + 'print "%s" \\\n % 1', "%%bash\nls 'x", "\nx = 1\nprint x"))
    (facts,) = json.loads(run("port", "--json", tmp_path / "n.ipynb").output)
    assert facts["python2"] and [(f["cell"], f["line"], f["code"]) for f in facts["findings"]] == [
        (None, 1, "P001"), (2, 8, "P001"), (4, 3, "P001"),
    ]  # fmt: skip


def test_a_mended_notebook_changes_where_it_must(tmp_path):
    path = tmp_path / "n.ipynb"
    before = notebook(MAGIC + "print 1", "%%bash\nls 'x", "x = 1", "%%time\nprint reduce(max, [1])\n", "")
    after = notebook(
        MAGIC + "print(1)", "%%bash\nls 'x", "x = 1", "%%time\nprint(reduce(max, [1]))\n", "", kernel="python3"
    )
    after = after.replace('"Python3"', '"Python 3"').replace(',\n  "language_info": {\n   "version": "2"\n  }', "")
    path.write_text(before)
    assert '+    "print(1)"' in run("port", "--diff", path).output and path.read_text() == before
    result = run("port", "--write", path)
    assert path.read_text().replace('    "from functools import reduce\\n",\n', "") == after
    assert path.with_name("n.ipynb.orig").read_text() == before
    assert result.exit_code == 0 and "written" in result.output


def test_a_notebook_of_format_3(tmp_path):
    content = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["x = 1\n", "print x"]}]}], "nbformat": 3}
    (tmp_path / "n.ipynb").write_text(json.dumps(content, indent=1))
    run("port", "--write", tmp_path / "n.ipynb")
    content["worksheets"][0]["cells"][0]["input"][1] = "print(x)"
    assert (tmp_path / "n.ipynb").read_text() == json.dumps(content, indent=1)


@pytest.mark.parametrize("name, text, line, reason", [
    ("s.py", "x = 1\ndef (:\n", 2, "invalid syntax"),
    ("s.py", 'print "a"\nx = 1 +\n', 2, "unexpected"),
    ("s.ipynb", '{"cells": [\n }', 2, "no notebook"),
    ("s.ipynb", "[]", 1, "no notebook"),
    ("s.ipynb", notebook("x <- 1").replace('"language": "python"', '"language": "R"'), 1, "a notebook of r"),
    ("s.ipynb", notebook("x = 1", "print 1\ndef (:"), 2, "unexpected '('"),
])  # fmt: skip
def test_what_is_no_python(name, text, line, reason, tmp_path):
    (tmp_path / name).write_text(text)
    result = run("port", tmp_path / name)
    assert result.exit_code == 1 and "P008" in result.output and reason in result.output
    assert "could not be read" in result.output and "nothing of Caffe2" not in result.output
    found = json.loads(run("port", "--json", tmp_path / name).output)[0]["findings"]
    assert [f["line"] for f in found if f["code"] == "P008"] == [line]
    assert "left as it is" in run("port", "--diff", tmp_path / name).output


# ---- where values go ---------------------------------------------------------------------------------------------

FLOWS = """\
import cPickle, StringIO, struct
from PIL import Image
import urllib2
with open("e.pkl") as f:
    e = cPickle.load(f)
x = open("w.pkl", "w"); cPickle.dump(e, x)
net.ParseFromString(open("net.pb", mode="r").read())
with open("net.pb", 'w') as f: f.write(net.SerializeToString())
im = Image.open(StringIO.StringIO(urllib2.urlopen("x").read()))
first = zip([1], [2])
print first[0], {}.keys()[0]
h = open("h.bin"); data = h.read(4); n = struct.unpack("<i", data)
words = open("words.txt").read().split()
"""


def test_files_that_hold_bytes_are_opened_as_such():
    found = {f.line: f.code for f in port.examine_source(FLOWS, "a.py").findings if f.code in ("P009", "P010")}
    assert found == {4: "P009", 5: "P010", 6: "P009", 7: "P009", 8: "P009", 9: "P009", 12: "P009"}
    lines = port.mend(FLOWS, "a.py").text.split("\n")
    assert lines[3:9] == [
        """with open("e.pkl", 'rb') as f:""", "    e = pickle.load(f, encoding='latin1')",
        'x = open("w.pkl", "wb"); pickle.dump(e, x)', 'net.ParseFromString(open("net.pb", mode="rb").read())',
        "with open(\"net.pb\", 'wb') as f: f.write(net.SerializeToString())",
        'im = Image.open(io.BytesIO(urllib.request.urlopen("x").read()))',
    ]  # fmt: skip
    assert lines[9:13] == [
        "first = list(zip([1], [2]))", "print(first[0], list({}.keys())[0])",
        """h = open("h.bin", 'rb'); data = h.read(4); n = struct.unpack("<i", data)""", 'words = open("words.txt").read().split()',
    ]  # fmt: skip


def test_a_file_of_both_pythons_that_loses_bytes_is_of_python_2():
    report = port.examine_source("import pickle\nx = pickle.load(open('a'))\n", "a.py")
    assert report.python2 and not report.runs_as_is
    assert port.examine_source("import pickle\nx = pickle.load(open('a', 'rb'))\n", "a.py").runs_as_is
    mixed = "import pickle\nf = open('a', 'w')\nf.write('head')\npickle.dump(1, f)\n"
    assert [f.fix for f in port.examine_source(mixed, "a.py").findings if f.code == "P009"] == ["ask"]


@pytest.mark.parametrize("source, word, instead", [
    ("import yaml\nx = yaml.load(open('f'))\n", "PyYAML 6", "safe_load"),
    ("from scipy.misc import imread\n", "SciPy 1.2", "imageio"),
    ("import numpy as np\nx = np.fromstring(b'a', np.uint8)\n", "NumPy 2.3", "frombuffer"),
    ("from PIL import Image\nx = Image.ANTIALIAS\n", "Pillow 10", "LANCZOS"),
    ("import h5py\nf = h5py.File('a')\n", "h5py 3", "'r'"),
    ("import cv2\nx = cv2.CV_AA\n", "OpenCV 3", "LINE_AA"),
    ("import matplotlib.pyplot as plt\nplt.hist([1], normed=True)\n", "matplotlib 3.1", "density"),
])  # fmt: skip
def test_what_other_libraries_no_longer_have(source, word, instead):
    (found,) = [f for f in port.examine_source(source, "a.py").findings if f.code == "L001"]
    assert word in found.message and instead in found.remedy and found.fix == "ask"


@pytest.mark.parametrize("source", [
    "import yaml\nx = yaml.load(f, Loader=yaml.Loader)\n", "import numpy as np\nx = np.fromstring('1 2', sep=' ')\n",
    "import matplotlib\nmatplotlib.use('Agg')\n", "print('x')\n", "from __future__ import print_function\nprint('a', 'b')\n",
    "import six, io\nkinds = [file, io.IOBase] if six.PY2 else [io.IOBase]\n",
])  # fmt: skip
def test_what_is_no_finding(source, monkeypatch):
    monkeypatch.setattr(bridges, "is_installed", lambda module: True)
    assert port.examine_source(source, "a.py").findings == [] or port.examine_source(source, "a.py").runs_as_is


def test_names_that_the_project_defines_are_known(tmp_path):
    (tmp_path / "README").write_text("")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "detector.py").write_text(
        "class Model(object):\n    def ConvShared(self, x): pass\ndef mine(m): pass\n"
    )
    (tmp_path / "lib" / "op.cc").write_text("REGISTER_CPU_OPERATOR(ZeroMany, ZeroManyOp<CPUContext>);\n")
    (tmp_path / "lib" / "build.py").write_text("from caffe2.python import brew\nbrew.Register(mine)\n")
    (tmp_path / "train.py").write_text(
        "from caffe2.python import brew\nmodel.ConvShared('x')\nbrew.mine(model)\nmodel.net.ZeroMany('x', 'x')\nmodel.Nowhere('x')\n"
    )
    (report,) = [port.examine(str(tmp_path / "train.py"))]
    assert [(f.line, f.code) for f in report.findings] == [(4, "C101"), (5, "C101")]
    assert "lib/op.cc makes it for Caffe2's C++ engine" in report.findings[0].message


def test_cython_is_read(tmp_path):
    (tmp_path / "a.pyx").write_text(
        "import numpy as np\ncimport numpy as np\ncdef np.int_t x = 1  # np.float\ny = np.int\n"
    )
    found = port.examine(str(tmp_path / "a.pyx")).findings
    assert [(f.line, f.code, f.remedy) for f in found] == [(3, "L002", "np.intp_t"), (4, "L002", "np.int_")]


def test_which_python_a_project_means(tmp_path):
    both = "x = 7 / 2\nn = len([]) / 2\n"
    for name, source in (
        ("doc/a.py", both),
        ("new/b.py", "print(f'{1}')\n"),
        ("new/c.py", both),
        ("old/b.py", "print 1\n"),
        ("old/c.py", both),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    (tmp_path / "doc" / "README.md").write_text("It needs Python 2.7.\n")
    for name in ("new", "old"):
        (tmp_path / name / "setup.py").write_text("")
    assert [f.code for f in port.examine(str(tmp_path / "doc" / "a.py")).findings] == ["P006", "P006"]
    assert port.examine(str(tmp_path / "doc" / "a.py"), 3).findings == []
    assert port.examine(str(tmp_path / "new" / "c.py")).findings == []
    assert len(port.examine(str(tmp_path / "new" / "c.py"), 2).findings) == 2
    assert port.examine(str(tmp_path / "old" / "c.py")).python2


def test_a_summary_has_a_row_for_each_file(tmp_path):
    (tmp_path / "a.py").write_text("print 1\n")
    (tmp_path / "b.py").write_text("x = 1\n")
    lines = run("port", "--summary", tmp_path, "--python3").output.split("\n")
    assert [line.split()[-3:] for line in lines[1:3]] == [["2", "1", "0"], ["3", "0", "0"]]


# ---- text of any length and depth --------------------------------------------------------------------------------


def patterns():
    """Every pattern of the package that meets what users give, by file and line."""
    root = pathlib.Path(port.__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            called = (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and ast.unparse(node.func.value) == "re"
            )
            if called and node.args and isinstance(node.args[0], ast.Constant):
                flags = re.M if "re.M" in ast.unparse(node) else 0
                yield f"{path.relative_to(root)}:{node.lineno}", node.args[0].value, flags


LONG = 20_000


@pytest.mark.parametrize("place, pattern, flags", list(patterns()))
def test_no_pattern_takes_long(place, pattern, flags):
    """A pattern is tried on what fits its parts over and over: one that goes back and forth would take minutes."""
    compiled = re.compile(pattern, flags)
    pieces = {
        *pattern.replace("\\b", " ").replace("\\", ""),
        "a",
        "0",
        " ",
        "\n",
        "_",
        ".",
        "a_",
        "0.",
        "a, ",
        "(",
        "%0",
        "_grad",
        "from __future__ import ",
    }
    began = time.process_time()
    for piece in pieces:
        text = piece * (LONG // len(piece))
        for end in ("", "!", "\0", "?"):
            for method in (compiled.match, compiled.fullmatch):
                method(text + end)
            compiled.search((text + end)[:2000])
    assert time.process_time() - began < 10, place


@pytest.mark.parametrize(
    "cell", ["a, b, " * 5000, "a " * 5000 + "=", "%" * 5000, "x." * 5000 + "?!", "from a import " + "b, " * 5000]
)
def test_long_lines_of_notebooks(cell, tmp_path):
    (tmp_path / "n.ipynb").write_text(notebook("%matplotlib inline\n" + cell))
    began = time.process_time()
    run("port", tmp_path / "n.ipynb")
    assert time.process_time() - began < 10


@pytest.mark.parametrize("source", [
    "x = 1" + "+1" * 30_000, "x = " + "(" * 5000 + "1" + ")" * 5000, "x = a" + ".a" * 30_000, "x = " + "-" * 30_000 + "1",
    "print 1" + "+1" * 30_000,
])  # fmt: skip
def test_what_is_nested_too_deeply_is_said(source, tmp_path):
    (tmp_path / "a.py").write_text(source + "\n")
    for command in ("port", "run"):
        result = run(command, tmp_path / "a.py")
        # How deep is too deep depends on Python's version: a sentence, or the work is done.
        assert result.exit_code in (0, 1 if command == "port" else 2), result.output
        assert "Traceback" not in result.output and "RecursionError" not in result.output


def test_a_mended_file_is_not_mended_again(tmp_path):
    """Though its neighbours are of Python 2: what it prints would change."""
    text = 'd = {"a": 1.0}\nfor k, v in d.iteritems():\n    print "key", k, v\n'
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "other.py").write_text('print "hello"\n')
    line = [sys.executable, "-m", "caffe2lite"]
    for turn in range(2):
        subprocess.run([*line, "port", "--write", "train.py"], cwd=tmp_path, capture_output=True)
        assert (tmp_path / "train.py").read_text() == text.replace("iteritems", "items").replace(
            'print "key", k, v', 'print("key", k, v)'
        ), turn
    said = subprocess.run([*line, "run", "train.py"], cwd=tmp_path, capture_output=True, text=True)
    assert said.stdout == "key a 1.0\n", said.stderr
    assert [p.name for p in tmp_path.glob("*.orig*")] == ["train.py.orig"]


@pytest.mark.parametrize("source, after, fixes", [
    ("import six\nx = 1\n", "x = 1\n", ["safe"]),
    ("import os, six\nprint(os.sep)\n", "import os\nprint(os.sep)\n", ["safe"]),
    ("from six.moves import range, zip\nx = range(3)\n", "x = range(3)\n", ["safe"]),
    ("from six.moves import range, cPickle\nx = cPickle\n", "from six.moves import cPickle\nx = cPickle\n", ["safe", "ask"]),
    ("import six\nx = six.PY2\n", "import six\nx = six.PY2\n", ["ask"]),
    ("import six\n__all__ = ['six']\n", "import six\n__all__ = ['six']\n", ["ask"]),
    ("try:\n    import six\nexcept ImportError:\n    pass\n", "try:\n    import six\nexcept ImportError:\n    pass\n", ["note"]),
])  # fmt: skip
def test_a_bridge_that_nothing_asks_for_is_left_out(source, after, fixes, monkeypatch):
    pytest.importorskip("libcst")
    monkeypatch.setattr(bridges, "is_installed", lambda module: False)
    assert port.mend(source, "a.py").text == after
    assert [f.fix for f in port.examine_source(source, "a.py").findings] == fixes


def test_what_was_written_decides_the_exit_status(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("print 7 / 2\n")
    assert run("port", path).exit_code == 1
    assert run("port", "--diff", path).exit_code == 1
    assert run("port", "--write", path).exit_code == 1, "the division is for a person"
    path.write_text("print 7\n")
    assert run("port", "--write", path).exit_code == 0
    path.write_text("print 7 7\n")
    assert run("port", "--write", path).exit_code == 1, "it cannot be read"
