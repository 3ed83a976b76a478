"""Helpers of tests: random blobs, a TestCase with a clean workspace."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
import unittest

import numpy as np

from caffe2lite.python import core, workspace


def rand_array(*dims):
    """Return an array, float32, of uniform numbers in [-0.5, 0.5); without dimensions, of one number."""
    return np.asarray(np.random.rand(*dims) - 0.5, np.float32)


def randBlob(name, type, *dims, **kwargs):
    """Feed uniform numbers in [offset, offset + 1)."""
    workspace.FeedBlob(name, np.random.rand(*dims).astype(type) + kwargs.get("offset", 0.0))


def randBlobsFloat32(names, *dims, **kwargs):
    """randBlobFloat32 for several names."""
    for name in names:
        randBlobFloat32(name, *dims, **kwargs)


def randBlobFloat32(name, *dims, **kwargs):
    """randBlob of float32."""
    randBlob(name, np.float32, *dims, **kwargs)


def str_compare(a, b, encoding="utf8"):
    """Return whether two strings are equal, either of which may be bytes."""
    left, right = (text.decode(encoding) if isinstance(text, bytes) else text for text in (a, b))
    return left == right


def numOps(net):
    """Return how many operators a net has."""
    return len(net.Proto().op)


def get_default_test_flags():
    """Return what tests give to GlobalInit."""
    return [
        "caffe2",
        "--caffe2_log_level=0",
        "--caffe2_cpu_allocator_do_zero_fill=0",
        "--caffe2_cpu_allocator_do_junk_fill=1",
    ]


def caffe2_flaky(test_method):
    """Decorator: mark a test as flaky; it then runs in flaky mode only."""
    test_method.__caffe2_flaky__ = True
    return test_method


def is_flaky_test_mode():
    """Return whether CAFFE2_RUN_FLAKY_TESTS=1: run the flaky tests, and only these."""
    return os.getenv("CAFFE2_RUN_FLAKY_TESTS", "0") == "1"


class TestCase(unittest.TestCase):
    """A test that starts and ends with an empty workspace; `self.ws` is a workspace of its own."""

    @classmethod
    def setUpClass(cls):
        """Start Caffe2 once, with the arguments of a test."""
        workspace.GlobalInit(get_default_test_flags())
        core.SetEnginePref({}, {})

    def setUp(self):
        flaky = getattr(getattr(self, self._testMethodName), "__caffe2_flaky__", False)
        if flaky != is_flaky_test_mode():
            self.skipTest("flaky: run it in flaky mode" if flaky else "only flaky tests run in flaky mode")
        self.ws = workspace.C.Workspace()
        workspace.ResetWorkspace()

    def tearDown(self):
        workspace.ResetWorkspace()

    def make_tempdir(self):
        """Return a temporary directory that is removed after the test."""
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(self._remove_tempdir, folder)
        return folder

    def _remove_tempdir(self, path):
        shutil.rmtree(path, ignore_errors=True)
