"""caffe2lite: the caffe2.python API, and an engine for its nets, on today's Python."""

import sys

from caffe2lite.absent import AbsentFinder

__version__ = "0.2.0"

sys.meta_path.append(AbsentFinder)
