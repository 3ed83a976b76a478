"""Caffe2's own test files, run on caffe2lite.

They are fetched from the last public wheel that carried Caffe2 into a cache of the user's; nothing of them is kept
here but the names of the tests that genuine Caffe2 passes there (genuine_passes.txt) or skips for want of a GPU
(genuine_without_gpu.txt), and for tests that need what
caffe2lite is not meant to have, or that newer libraries fail, a reason (exceptions.txt, newer_libraries.txt).
"""

from caffe2lite.conformance.running import Outcome, run_files
from caffe2lite.conformance.scoring import Score, gpu_status, score, status
from caffe2lite.conformance.upstream import fetch, test_files

__all__ = ["Outcome", "Score", "fetch", "gpu_status", "run_files", "score", "status", "test_files"]
