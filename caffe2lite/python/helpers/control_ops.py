"""Conditions and loops between models."""

from __future__ import annotations

from caffe2lite.python.control_ops_util import add_if_op, add_while_op


def cond(model, cond_blob, external_blobs, then_model, else_model=None):
    """Run the net of `then_model` or of `else_model`; `external_blobs` are those of the outer net they use."""
    add_if_op(model.net, cond_blob, external_blobs, then_model.net, else_model.net if else_model else None)


def loop(model, cond_blob, external_blobs, loop_model, cond_model=None):
    """Run the net of `loop_model` while `cond_blob`, which the net of `cond_model` computes, is true."""
    add_while_op(model.net, cond_blob, external_blobs, loop_model.net, cond_model.net if cond_model else None)
