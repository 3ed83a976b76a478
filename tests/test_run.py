"""Legacy scripts run with no edits: Python 2, NumPy's old names, the bridges, and what is told of a run."""

import importlib
import json
import operator
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from caffe2.python import workspace

from caffe2lite import port
from caffe2lite.engine import instance
from caffe2lite.port import legacy, meaning, python2, run_script, running, stand_ins, text

pytest.importorskip("fissix", reason="the extra port is not installed")
click_testing = pytest.importorskip("click.testing", reason="the extra tools is not installed")

PYTHON2 = """
import cPickle, ConfigParser
from StringIO import StringIO
from caffe2.python import core, workspace
import numpy as np
import beside

print 7 / 2, 7 / 2.0, np.arange(4) / 2,
n = 7
n /= 2
words = {'a': 1}
it = iter([1, 2])
it.next()
try:
    raise ValueError, "bad"
except ValueError, e:
    pass
workspace.FeedBlob("x", np.array([-1, 2], dtype=np.float32))
for i in xrange(3):
    workspace.RunOperatorOnce(core.CreateOperator("Relu", ["x"], ["y"]))
result = [n, words.has_key('a'), list(words.iteritems()), it.next(), `n`, 0777, map(abs, [-1])[0],
          str(e), workspace.FetchBlob("y").tolist(), beside.half(5), isinstance(u'', basestring), np.float,
          isinstance(True, np.bool), cPickle.dumps(1) != ""]
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "beside.py").write_text("def half(x):\n    print 'half of', x\n    return x / 2\n")
    (tmp_path / "train.py").write_text(PYTHON2)
    workspace.ResetWorkspace()
    yield tmp_path / "train.py"
    sys.modules.pop("beside", None)


def test_python_2_means_what_it_meant(script, capsys):
    result = run_script(str(script))["result"]
    assert result == [3, True, [("a", 1)], 2, "3", 511, 1, "bad", [0, 2], 2, True, float, True, True]
    assert capsys.readouterr().out.split("\n")[0] == "3 3.5 [0 0 1 1] half of 5"
    assert script.read_text() == PYTHON2 and not (script.parent / "__pycache__").exists()


OLD_WAYS = """
import string, sys, md5
class Version(object):
    def __init__(self, n): self.n = n
    def __cmp__(self, other): return cmp(self.n, other.n)
    def __div__(self, n): return Version(self.n / n)
def first(words):
    for word in words:
        if not word: raise StopIteration
        yield word
reload(sys)
sys.setdefaultencoding("utf8")
result = [Version(7) / 2 == Version(3), Version(1) < Version(2), max(Version(1), Version(2)).n, list(first(["a", "", "b"])),
          "a".decode("utf8"), "hi".encode("hex"), "6869".decode("hex"), "aGk=".decode("base64"), string.upper("x"),
          string.join(["a", "b"], "-"), md5.new("a").hexdigest()[:4]]
print result
"""


def test_what_python_2_did_with_classes_generators_and_text(tmp_path):
    (tmp_path / "old.py").write_text(OLD_WAYS)
    expected = [True, True, 2, ["a"], "a", "6869", "hi", "hi", "X", "a-b", "0cc1"]
    assert run_script(str(tmp_path / "old.py"))["result"] == expected


DIVIDING = """
import numpy as np
class Box(object): pass
count = [0]
def next_key():
    count[0] += 1
    return 0
def halve(x):
    x /= 2
    return x
whole, half, box = np.arange(4), np.ones(2), Box()
halve(whole)
halve(half)
rows = np.arange(6).reshape(2, 3)
rows[1] /= 2
rows[:, 1:] /= 2
box.n = 9
box.n /= 2
words = {'a': [7]}
words['a'][next_key()] /= 2
result = [whole.tolist(), half.tolist(), rows.tolist(), box.n, words, count, halve(7), halve(7.)]
print result
"""


def test_division_in_place(tmp_path):
    (tmp_path / "d.py").write_text(DIVIDING)
    found = run_script(str(tmp_path / "d.py"))["result"]
    assert found == [[0, 0, 1, 1], [0.5, 0.5], [[0, 0, 1], [1, 1, 1]], 4, {"a": [3]}, [1], 3, 3.5]


def test_pickles_of_python_2_in_files_opened_as_text(tmp_path):
    (tmp_path / "two.pkl").write_bytes(b"\x80\x02}q\x01U\x01aq\x02U\x01\xe9q\x03s.")  # {'a': '\xe9'}
    (tmp_path / "p.py").write_text(
        "import cPickle, os\nhere = os.path.dirname(__file__)\n"
        "with open(os.path.join(here, 'two.pkl')) as f: two = cPickle.load(f)\n"
        "with open(os.path.join(here, 'new.pkl'), 'w') as f: cPickle.dump({'w': [1]}, f, 2)\n"
        "with open(os.path.join(here, 'new.pkl'), 'rb') as f: new = cPickle.load(f)\n"
        "print cPickle.loads(cPickle.dumps(new))\n"
    )
    found = run_script(str(tmp_path / "p.py"))
    assert (found["two"], found["new"]) == ({"a": "\xe9"}, {"w": [1]})


def notebook(*sources):
    made = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": source} for source in sources]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": "# words"}, *made], "metadata": {}, "nbformat": 4})


def test_a_notebook_runs_cell_after_cell(tmp_path):
    path = tmp_path / "n.ipynb"
    path.write_text(notebook("%matplotlib inline\nn = 7", "print n\n!ls\nhalf = n / 2"))
    assert run_script(str(path))["half"] == 3
    path.write_text(notebook("def f(x):\n    print x\n    return x / 0\n", "\n\nf(1)\n"))
    with pytest.raises(ZeroDivisionError) as raised:
        run_script(str(path))
    places = [(e.frame.code.raw.co_filename, e.lineno + 1) for e in raised.traceback]
    assert places[-3:-1] == [(f"{path}, cell 3", 3), (f"{path}, cell 2", 3)]
    path.write_text(notebook("n = 1", "\nprint print"))
    with pytest.raises(python2.Unreadable, match="cell 3: line 2"):
        run_script(str(path))


def test_a_traceback_shows_the_lines_of_the_file(tmp_path):
    body = 'def f((a, b), c):\n    print a, """x\ny""", 0777\n    return b / c\n'
    source = f"import urllib, urllib2\nprint reduce(max, [1])\n{body}f((1, 2), 0)\n"
    path = tmp_path / "old.py"
    path.write_text(source)
    with pytest.raises(ZeroDivisionError) as raised:
        run_script(str(path))
    lines = [entry.lineno + 1 for entry in raised.traceback if str(entry.path) == str(path)]
    assert lines == [7, 6]


def test_a_script_of_python_3_divides_as_python_3(tmp_path):
    (tmp_path / "s.py").write_text("import six, sys\nx = [7 / 2, list(six.iteritems({1: 2})), sys.argv, __name__]\n")
    found = run_script(str(tmp_path / "s.py"), ["--flag", "1"])["x"]
    assert found == [3.5, [(1, 2)], [str(tmp_path / "s.py"), "--flag", "1"], "__main__"]


def test_future_division_in_python_2(tmp_path):
    (tmp_path / "s.py").write_text("from __future__ import division\nprint 1\nx = 7 / 2\n")
    assert run_script(str(tmp_path / "s.py"))["x"] == 3.5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # an older NumPy has some of them still
def test_names_are_put_back_and_taken_away_again():
    import collections
    import inspect

    with legacy.names():
        assert np.float is float and np.NaN is not None and np.alltrue([True]) and np.cast["int32"](2.5) == 2
        assert np.in1d([1, 5], [5]).tolist() == [False, True] and np.asscalar(np.array([3])) == 3
        assert collections.Mapping and inspect.getargspec(lambda a, b=1: 0).args == ["a", "b"]
    assert not hasattr(collections, "Mapping") and not hasattr(np, "float")


@pytest.mark.parametrize("name", sorted(stand_ins._MADE))
def test_stand_ins_for_modules_that_are_not_installed(name, monkeypatch):
    """Each is made by our finder alone, whatever is installed here."""
    if name == "onnx.mapping":
        pytest.importorskip("onnx", reason="the extra onnx is not installed")
    if name == "six.moves.tkinter":
        pytest.importorskip("tkinter", reason="this Python was made without tkinter")
    finder = stand_ins.Finder()
    for loaded in [n for n in sys.modules if n.split(".")[0] in ("six", "future", "past")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    assert module.__spec__.loader.__class__ is stand_ins.Finder
    for loaded in [n for n in sys.modules if n == name or n.split(".")[0] in ("six", "future", "past")]:
        monkeypatch.delitem(sys.modules, loaded)


def test_a_class_with_a_metaclass_by_six():
    class Meta(type):
        pass

    made = stand_ins._six()["with_metaclass"](Meta, dict)

    class Kind(made):
        pass

    assert type(Kind) is Meta and issubclass(Kind, dict)


@pytest.mark.parametrize(
    "a, b, expected",
    [(7, 2, 3), (-7, 2, -4), (7, 2.0, 3.5), (np.int64(7), 2, 3), (np.arange(3), 2, [0, 0, 1]), (np.ones(1), 2, [0.5])],
)
def test_division_of_python_2(a, b, expected):
    assert np.array_equal(meaning.divide(a, b), expected)


@pytest.mark.parametrize("method, owner, args, expected", [
    ("next", iter([5]), (), 5), ("has_key", {1: 2}, (1,), True), ("iteritems", {1: 2}, (), [(1, 2)]),
    ("tostring", np.zeros(2, "u1"), (), b"\0\0"), ("ptp", np.array([1, 4]), (), 3), ("keys", {1: 2}, (), [1]),
])  # fmt: skip
def test_methods_that_are_gone(method, owner, args, expected):
    found = meaning.call(owner, method, *args)
    assert (list(found) if method in ("iteritems", "keys") else found) == expected


def test_neither_python_2_nor_3(tmp_path):
    (tmp_path / "s.py").write_text("def (:\n")
    with pytest.raises(python2.Unreadable, match=r"s\.py: line 1: neither Python 3 nor Python 2"):
        run_script(str(tmp_path / "s.py"))


def test_a_failing_script_is_told_as_by_python(tmp_path):
    """The traceback begins in the script, and so does the place where a failed operator was added."""
    (tmp_path / "s.py").write_text(
        "from caffe2.python import core, workspace\n"
        "net = core.Net('n')\nnet.Relu('nowhere', 'y')\n"
        "workspace.RunNetOnce(net)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "caffe2lite", "run", tmp_path / "s.py"], capture_output=True, text=True
    )
    said = done.stderr.split("\n")
    first = next(i for i, line in enumerate(said) if line.startswith("Traceback"))
    assert done.returncode == 1 and f'"{tmp_path}/s.py", line 4' in said[first + 1]
    added = next(i for i, line in enumerate(said) if "was added here" in line)
    assert f'"{tmp_path}/s.py", line 3' in said[added + 1] and not said[added + 2].startswith("  File")
    done = subprocess.run(
        [sys.executable, "-m", "caffe2lite", "run", "--trace", tmp_path / "no" / "t.json", tmp_path / "s.py"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "there is no folder" in done.stderr


def test_profile_and_traces(tmp_path, script):
    from caffe2lite.commands import cli

    before = list(instance.watchers)
    result = click_testing.CliRunner().invoke(
        cli,
        ["run", "--profile", "--trace", str(tmp_path / "t.json"), "--trace-blobs", str(script)],
        catch_exceptions=False,
    )
    instance.watchers[:] = before
    assert "Relu" in result.output and "3 runs of operators" in result.output
    assert "Relu -> y: float32[2] 0 … 1 … 2" in result.output
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [e["name"] for e in events] == ["Relu"] * 3 and events[0]["args"] == {"inputs": ["x"], "outputs": ["y"]}


def test_emulated_gpus_and_errors_of_the_script(tmp_path):
    (tmp_path / "s.py").write_text(
        "import sys\nfrom caffe2.python import workspace\nprint(workspace.NumGpuDevices())\nsys.exit(7)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "caffe2lite", "run", "--gpus", "3", tmp_path / "s.py"], capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("3\n", 7), done.stderr


@pytest.mark.mpi
def test_shards(tmp_path):
    pytest.importorskip("mpi4py", reason="the extra mpi is not installed")
    (tmp_path / "s.py").write_text("from mpi4py import MPI\nprint(f'<{MPI.COMM_WORLD.allreduce(1)}>', flush=True)\n")
    done = subprocess.run(
        [sys.executable, "-m", "caffe2lite", "run", "--shards", "2", tmp_path / "s.py"], capture_output=True, text=True
    )
    assert re.findall("<.>", done.stdout) == ["<2>", "<2>"], done.stdout + done.stderr  # MPI may write there too


# ---- text and bytes of Python 2 ----------------------------------------------------------------------------------

TEXTS = """
import cPickle, csv, os, struct, subprocess, urllib, base64
from StringIO import StringIO
from caffe2.proto import caffe2_pb2
here = os.path.dirname(os.path.abspath(__file__)) + '/'
net = caffe2_pb2.NetDef(name='n\xff'.decode('latin-1') if 0 else 'n')
net.op.add(type='Relu')
with open(here + 'net.pb', 'w') as f: f.write(net.SerializeToString())
back = caffe2_pb2.NetDef()
back.ParseFromString(open(here + 'net.pb').read())
with open(here + 'rows.csv', 'wb') as f: csv.writer(f).writerow(['a', 'b'])
rows = list(csv.reader(open(here + 'rows.csv', 'rb')))
words = {}
for line in open(here + 'rows.csv', 'rb'):
    words[line.strip().split(',')[0]] = os.path.join(here, line.strip())
memory = StringIO()
cPickle.dump({'w': 1}, memory)
memory.seek(0)
packed = StringIO(struct.pack('<i', 258))
out = subprocess.check_output(['echo', 'hi']).split('\\n')[0]
ordered = sorted([3, 1, 2], cmp=lambda a, b: b - a)
result = [back.op[0].type, rows, words['a'] == here + 'a,b', cPickle.load(memory), struct.unpack('<i', packed.read(4))[0],
          out == 'hi', '%s!' % out, 'say ' + out, isinstance(out, str), ordered, round(2.5), round(-0.5), urllib.quote('a b'),
          base64.b64encode('hi') == 'aGk=', zip([1], [2])[0], {1: 2}.keys()[0], 'h' in out, out[0] == 'h',
          isinstance(open(here + 'net.pb'), file)]
print result
"""


def test_text_and_bytes_are_one(tmp_path, capsys):
    (tmp_path / "t.py").write_text(TEXTS)
    found = run_script(str(tmp_path / "t.py"))["result"]
    here = True
    assert found == ["Relu", [["a", "b"]], here, {"w": 1}, 258, True, "hi!", "say hi", True, [3, 2, 1], 3.0, -1.0, "a%20b", True,
                     (1, 2), 1, True, True, True]  # fmt: skip


def test_bytes_of_no_encoding_stay_the_same(tmp_path, capfdbinary):
    (tmp_path / "a.bin").write_bytes(b"caf\xe9\n\x00")
    (tmp_path / "a.txt").write_bytes("café\n".encode("latin-1"))
    (tmp_path / "s.py").write_text(
        "import os, sys\nhere = os.path.dirname(os.path.abspath(__file__)) + '/'\n"
        "for name in ('a.bin', 'a.txt'): open(here + name + '.copy', 'w').write(open(here + name).read())\n"
        "print open(here + 'a.txt').read(),\n"
    )
    run_script(str(tmp_path / "s.py"))
    for name in ("a.bin", "a.txt"):
        assert (tmp_path / f"{name}.copy").read_bytes() == (tmp_path / name).read_bytes()


@pytest.mark.parametrize("made, expected", [
    (lambda b: b == "ab" and operator.eq("ab", b) and {"ab": 1}[b] and {b: 1}["ab"], 1),
    (lambda b: b + "c", "abc"), (lambda b: "c" + b, "cab"),
    (lambda b: b.split("b"), ["a", ""]), (lambda b: b.replace("a", "x"), "xb"), (lambda b: operator.mod("%s %d", (b, 1)), "ab 1"),
    (lambda b: f"{b:>3}", " ab"), (list, ["a", "b"]), (lambda b: b[0] + b[-1], "ab"),
    (lambda b: b.startswith(("x", "a")), True), (lambda b: b.join(["x", "y"]), "xaby"), (lambda b: b < "b", True),
    (lambda b: pickle.loads(pickle.dumps(b)), b"ab"), (lambda b: bytes(b), b"ab"), (lambda b: repr(b), "'ab'"),
    (lambda b: text.Bytes(b"\xff") + "c", b"\xffc"), (lambda b: np.frombuffer(b, "u1").tolist(), [97, 98]),
])  # fmt: skip
def test_bytes_that_understand_text(made, expected):
    assert made(text.Bytes(b"ab")) == expected


# ---- projects ----------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a package beside `tools`, one that PYTHONPATH would lead to, and modules of Python 2 in all of them."""
    files = {
        "README": "", "tools/train.py": "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))\n"
        "from pkg import part\nimport nearby\nresult = part.half(7), nearby.half(9)\n",
        "pkg/__init__.py": "", "pkg/part.py": "import sister\ndef half(x):\n    print x\n    return sister.half(x)\n",
        "pkg/sister.py": "def half(x): return x / 2\n", "lib/python/nearby.py": "def half(x):\n\tprint x\n        return x / 2\n",
    }  # fmt: skip
    for name, source in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_the_whole_project_is_converted(project, capfd):
    assert run_script(str(project / "tools" / "train.py"))["result"] == (3, 4)
    said = capfd.readouterr().err
    assert "nearby is in" in said and "PYTHONPATH=" in said


def test_a_module_is_run_as_by_python_m(project, monkeypatch):
    (project / "pkg" / "__main__.py").write_text(
        "import sister\nresult = sister.half(5), __name__, __package__\nprint result\n"
    )
    monkeypatch.chdir(project)
    assert running.run_module("pkg")["result"] == (2, "__main__", "pkg")
    with pytest.raises(ModuleNotFoundError, match="no module nowhere"):
        running.run_module("nowhere")


def test_a_version_can_be_asked_for_and_is_hinted_at(tmp_path):
    (tmp_path / "s.py").write_text("n = 7 / 2\nprint([0] * n)\n")
    command = [sys.executable, "-m", "caffe2lite", "run"]
    done = subprocess.run([*command, tmp_path / "s.py"], capture_output=True, text=True)
    assert done.returncode == 1 and "caffe2lite run --python2" not in done.stdout
    done = subprocess.run([*command, "--python2", tmp_path / "s.py"], capture_output=True, text=True)
    assert done.stdout == "[0, 0, 0]\n"
    (tmp_path / "h.py").write_text("for i in range(7 // 1 * 1.0): pass\n")
    done = subprocess.run([*command, tmp_path / "h.py"], capture_output=True, text=True)
    assert "if it means Python 2: caffe2lite run --python2" in done.stderr


def test_a_library_of_operators_is_found_where_a_script_looks_for_it(tmp_path):
    (tmp_path / "s.py").write_text(
        "import os\nfrom caffe2.python import dyndep\npath = os.path.join('/nowhere/lib', 'libcaffe2_detectron_ops_gpu.so')\n"
        "assert os.path.exists(path) and not os.path.exists('/nowhere/lib/other.so')\ndyndep.InitOpsLibrary(path)\n"
    )
    run_script(str(tmp_path / "s.py"))


@pytest.mark.parametrize("source, expected", [
    ("import numpy as np\nresult = [float(np.ones(1)), int(np.ones((1, 1))), int('7'), float(2)]\n", [1.0, 1, 7, 2.0]),
    ("import yaml\nresult = yaml.load('a: 1')\n", {"a": 1}),
    ("import yaml, numpy as np\nclass Own(dict): pass\nx = yaml.load(yaml.dump([Own(a=1), np.arange(2)]))\n"
     "result = type(x[0]).__name__, x[1].tolist()\n", ("Own", [0, 1])),
    ("import yaml\ntry:\n    result = yaml.load('!!python/object/apply:os.system [\"exit 3\"]')\n"
     "except yaml.YAMLError as e:\n    result = 'os.system' in str(e)\n", True),
    ("import numpy as np\nresult = np.fromstring(np.arange(2, dtype='u1').tobytes(), np.uint8).tolist()\n", [0, 1]),
    ("import numpy as np\nnp.set_printoptions(threshold=np.nan)\nresult = 1\n", 1),
    ("from PIL import Image\nresult = Image.ANTIALIAS == Image.LANCZOS\n", True),
    ("from scipy.misc import imresize\nimport numpy as np\nresult = imresize(np.zeros((4, 6), 'u1'), (2, 3)).shape\n", (2, 3)),
])  # fmt: skip
def test_what_other_libraries_had_is_there(source, expected, tmp_path):
    for library in (name for name in ("yaml", "PIL", "scipy") if name in source):
        pytest.importorskip(library, reason=f"{library} is not installed")
    (tmp_path / "s.py").write_text(source)
    assert run_script(str(tmp_path / "s.py"))["result"] == expected
    import numpy

    assert "libraries" not in numpy.set_printoptions.__module__  # what was put there is taken away again


ONLY_3 = {
    "a list that is unpacked in another": "x = [*range(3), 7 / 2]",
    "a dict in another": "x = {**{}, 'a': 7 / 2}",
    "the rest of a sequence": "a, *b = 1, 7 / 2",
    "a keyword that is only one": "def f(*, a): return a\nx = 7 / 2",
    "an annotation": "def f(*a: int): return a\nx = 7 / 2",
    "two unpacked arguments": "x = max(*[1], *[7 / 2])",
    "an underscore in a number": "x = 1_000 / 3",
    "letters without a coding line": "x = 7 / 2  # Größe",
    "an f-string among names of Python 2": "x = f'{7 / 2}'\ny = xrange(3)",
    "a class of Python 3's errors": "try:\n    open('/no')\nexcept FileNotFoundError:\n    x = 7 / 2",
    "a module": "from pathlib import Path\nx = 7 / 2",
    "a function of a module": "import subprocess\nsubprocess.run\nx = 7 / 2",
    "super without arguments": "class A(object):\n    def __init__(self): super().__init__()\nx = 7 / 2",
    "the encoding of a file": "def f(): return open('a', encoding='utf-8')\nx = 7 / 2",
}
OF_BOTH = {
    "nothing": "x = 7 / 2",
    "a coding line": "# -*- coding: utf-8 -*-\nx = 7 / 2  # Größe",
    "a backport that is guarded": "try:\n    from pathlib import Path\nexcept ImportError:\n    Path = str\nx = 7 / 2",
    "a name made where it is missing": "try:\n    FileNotFoundError\nexcept NameError:\n    FileNotFoundError = IOError\nx = 7 / 2",
    "a bridge": "from builtins import super\nfrom urllib.parse import quote\nx = 7 / 2",
    "print by a function": "from __future__ import print_function\nprint(7 / 2, end='')\nx = 7 / 2",
    "one unpacked argument": "x = max(1, *[7 / 2])",
}


@pytest.fixture
def of_python2(tmp_path):
    """A project whose README asks for Python 2."""
    (tmp_path / "README.md").write_text("It needs Python 2.7.\n")
    return tmp_path / "script.py"


@pytest.mark.parametrize("source", ONLY_3.values(), ids=ONLY_3)
def test_what_only_python_3_has_is_python_3_whatever_the_project_says(of_python2, source):
    of_python2.write_text(source + "\nassert not isinstance(7 / 2, int)\n")
    run_script(str(of_python2))
    assert not port.examine(str(of_python2)).python2


@pytest.mark.parametrize("source", OF_BOTH.values(), ids=OF_BOTH)
def test_what_both_can_read_is_what_the_project_says_unless_one_is_asked_for(of_python2, source, capfd):
    pytest.importorskip("fissix")
    of_python2.write_text(source + "\nfound = type(7 / 2)\n")
    assert run_script(str(of_python2))["found"] is int
    assert "is taken for Python 2, as README.md says; --python3" in capfd.readouterr().err
    assert run_script(str(of_python2), version=3)["found"] is float
    assert capfd.readouterr().err == ""
    assert port.examine(str(of_python2)).python2 and not port.examine(str(of_python2), 3).python2


def test_python_3_wins_over_names_of_python_2_when_it_is_asked_for(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("class Own(object):\n    def f(self): return 7 / 2\nfound = Own().f(), list({1: 2}.iteritems())\n")
    assert run_script(str(path))["found"][0] == 3
    assert run_script(str(path), version=3)["found"][0] == 3.5
