"""Running test files of Caffe2's and counting: on files of our own that stand for them."""

import pathlib
import shutil

import pytest

import caffe2lite
from caffe2lite.conformance import Outcome, gpu_status, pinned, run_files, score, scoring, status, test_files
from caffe2lite.conformance.running import WHOLE, kept_outcomes
from caffe2lite.conformance.upstream import Tree

test_files.__test__ = False  # it lists files

PLAIN = """
import unittest
import numpy as np
from caffe2.python import core, workspace

class TestPlain(unittest.TestCase):
    def test_old_names(self):
        self.assertEquals(np.float, float)
    def test_wrong(self):
        assert False
    @unittest.skip("not here")
    def test_left_out(self):
        pass
"""


@pytest.fixture
def tree(tmp_path):
    found = Tree(tmp_path / "tests", tmp_path / "caffe2")
    for name, text in {
        "plain_test.py": PLAIN,
        "broken_test.py": "import nowhere",
        "slow_test.py": "import time\ntime.sleep(60)",
        "mkl/other_test.py": "",
        "helper.py": "",
    }.items():
        path = found.tests / "python" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return found


def test_files_are_run_and_their_outcomes_kept(tree, tmp_path):
    files = test_files(tree)
    assert files == ["python/broken_test.py", "python/plain_test.py", "python/slow_test.py"]
    assert test_files(tree, ["plain"]) == files[1:2]
    outcomes = {o.file: o for o in run_files(tree, files[:2], tmp_path / "kept")}
    outcomes |= {o.file: o for o in run_files(tree, files[2:], tmp_path / "kept", limit=2)}
    plain, broken, slow = (outcomes[f"python/{n}_test.py"] for n in ("plain", "broken", "slow"))
    assert plain.tests == {
        "TestPlain::test_old_names": "passed", "TestPlain::test_wrong": "failed", "TestPlain::test_left_out": "skipped",
    }  # fmt: skip
    assert broken.tests and set(broken.tests.values()) == {"failed"} and slow.tests == {WHOLE: "failed"}
    assert (plain.trouble, slow.trouble) == ("", "timeout") and kept_outcomes(tmp_path / "kept") == outcomes


@pytest.mark.parametrize("options, said", [
    (["--only", "nosuch"], "holds 'nosuch'"),
    (["--python", shutil.which("false")], "cannot run the tests"),
    (["--python", "/nowhere/python"], "/nowhere/python"),
])  # fmt: skip
def test_what_cannot_be_run_is_told_at_once(options, said, tree, tmp_path, monkeypatch):
    click_testing = pytest.importorskip("click.testing", reason="the extra tools is not installed")
    from caffe2lite.commands import cli

    monkeypatch.setattr("caffe2lite.conformance.fetch", lambda: tree)
    monkeypatch.setattr("caffe2lite.conformance.upstream.cache", lambda: tmp_path / "cache")
    result = click_testing.CliRunner().invoke(cli, ["conformance", *options])
    assert result.exit_code == 2 and said in result.output, result.output
    assert not list((tmp_path / "cache").rglob("*.json"))


def test_the_score_is_over_what_genuine_passes(monkeypatch):
    monkeypatch.setattr(
        scoring, "genuine_passes", lambda: {"python/a_test.py": ["T::good", "T::bad", "T::other", "T::gone"]}
    )
    monkeypatch.setattr(scoring, "exceptions", lambda pinned: [("*::other", "it tests something else")])
    tests = {"T::good": "passed", "T::bad": "failed", "T::other": "failed", "T::more": "passed"}
    outcome = Outcome("python/a_test.py", tests, 1.0, "")
    found = score(outcome)
    assert (found.genuine, found.passed, found.missing, found.more) == (4, 1, ["T::bad", "T::gone"], 1)
    assert found.excepted == {"T::other": "it tests something else"}
    page = status({outcome.file: outcome}, "ours", "caffe2lite 1")
    assert "of the other 3 **1 pass (33.3%)**" in page and "| python/a_test.py | 4 | 1 | 1 | 2 | 1 |  |" in page
    assert "not run yet" not in page and "1 files with 4 more tests were not run yet" in status(
        {}, "ours", "caffe2lite 1"
    )
    assert "* python/a_test.py T::bad" in page and "* 1: it tests something else" in page


def test_the_score_on_gpus_is_over_what_genuine_skips_for_want_of_one(monkeypatch):
    monkeypatch.setattr(scoring, "genuine_passes", lambda: {"python/a_test.py": ["T::cpu"]})
    wanted = {"python/a_test.py": ["T::gpu", "T::more_gpus"], "python/b_test.py": ["T::x"]}
    monkeypatch.setattr(scoring, "genuine_without_gpu", lambda: wanted)
    outcome = Outcome("python/a_test.py", {"T::cpu": "passed", "T::gpu": "passed", "T::more_gpus": "skipped"}, 1.0, "")
    page = gpu_status({outcome.file: outcome}, 8, "caffe2lite 1")
    assert (
        "on 8 emulated GPUs" in page
        and "of the other 2 **1 pass (50.0%)**" in page
        and "of the other 1 **1 pass" in page
    )
    assert "| python/a_test.py | 2 | 1 |  | 1 |  |" in page and "* python/a_test.py T::more_gpus" in page
    assert "1 files with 1 more tests were not run yet" in page


def test_what_is_recorded_of_genuine():
    assert sum(map(len, scoring.genuine_without_gpu().values())) == 87
    passes = scoring.genuine_passes()
    assert sum(map(len, passes.values())) == 1502 and "TestScopes::testDeviceScope" in passes["python/core_test.py"]
    assert all(reason for _, reason in scoring.exceptions())
    assert set(scoring.exceptions(pinned=True)) < set(scoring.exceptions())


def test_the_pinned_environment_imports_this_caffe2lite_and_nothing_beside_it(tmp_path):
    packages = tmp_path / "lib" / "python3.10" / "site-packages"
    packages.mkdir(parents=True)
    pinned._link(tmp_path)
    pinned._link(tmp_path)  # again, as each run does
    assert sorted(p.name for p in packages.iterdir()) == ["caffe", "caffe2", "caffe2lite"]
    assert (packages / "caffe2lite").resolve() == pathlib.Path(caffe2lite.__file__).parent.resolve()
    assert (packages / "caffe2" / "__init__.py").exists() and (packages / "caffe" / "proto").is_dir()


def test_no_newer_library_excuses_a_test_in_an_environment_of_its_time():
    file = "python/operator_test/index_hash_ops_test.py"
    (test,) = [t for t in scoring.genuine_passes()[file] if t.endswith("::test_index_hash_ops")]
    outcome = Outcome(file, {test: "failed"}, 1.0, "")
    assert test in score(outcome).excepted and test in score(outcome, pinned=True).missing
    page = status({file: outcome}, "ours", "versions", pinned=True)
    assert "in an environment of Caffe2's time" in page and f"* {file} {test}" in page
