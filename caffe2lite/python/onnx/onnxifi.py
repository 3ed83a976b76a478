"""ONNXIFI, an interface of vendors' runtimes, no longer exists: these say so."""

from __future__ import annotations

_GONE = "ONNXIFI runtimes no longer exist: export the net with caffe2.python.onnx.frontend and run it with onnxruntime"


def onnxifi_set_option(option_name, option_value):
    """Raises: there is no runtime whose option could be set."""
    raise RuntimeError(f"cannot set {option_name}: {_GONE}")


def onnxifi_get_option(option_name):
    """Raises: there is no runtime whose option could be read."""
    raise RuntimeError(f"cannot read {option_name}: {_GONE}")


def onnxifi_caffe2_net(
    pred_net,
    input_shapes,
    max_batch_size=1,
    max_seq_size=1,
    debug=False,
    use_onnx=True,
    merge_fp32_inputs_into_fp16=False,
    adjust_batch=True,
    block_list=None,
    weight_names=None,
    net_ssa_rewritten=False,
    timeout=0,
):
    """Raises: there is no runtime that could take over parts of the net."""
    raise RuntimeError(f"cannot lower net {pred_net.name!r}: {_GONE}")
