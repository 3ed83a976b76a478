"""caffe2lite: the caffe2.python API, and an engine for its nets, on today's Python."""

__version__ = "0.1.0"
