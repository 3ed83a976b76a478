"""The parts of caffe2.python.core, which gathers them."""
