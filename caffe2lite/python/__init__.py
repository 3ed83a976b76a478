"""What scripts import as caffe2.python: Caffe2's module names, functions and classes."""
