"""The module of a downloaded model: its folder has this file as __init__.py, beside the two nets."""

import os

from caffe2.proto import caffe2_pb2


def _read(name):
    net = caffe2_pb2.NetDef()
    with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
        net.ParseFromString(file.read())
    return net


init_net = _read("init_net.pb")
predict_net = _read("predict_net.pb")
