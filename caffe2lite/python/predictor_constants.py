"""The keys of exported models, as default values of a message."""

from __future__ import annotations

from caffe2lite.proto import predictor_consts_pb2 as predictor_consts

predictor_constants = predictor_consts.PredictorConsts()
