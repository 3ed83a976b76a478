"""Programs that came with Caffe2, under their names and with their command lines: `python -m caffe2.python.examples.NAME`."""
