"""`python -m caffe2lite`: the command, where its folder is not on the PATH."""

from caffe2lite.cli import main

main()
