"""Fully connected layers."""

from __future__ import annotations

from caffe2lite.python import core
from caffe2lite.python.modeling import initializers
from caffe2lite.python.modeling.parameter_info import ParameterTags


def _initializers(model, WeightInitializer, weight_init, BiasInitializer, bias_init):
    if not model.init_params:
        return (initializers.ExternalInitializer(),) * 2
    return (
        initializers.update_initializer(WeightInitializer, weight_init, ("XavierFill", {})),
        initializers.update_initializer(BiasInitializer, bias_init, ("ConstantFill", {})),
    )


def _FC_or_packed_FC(
    model,
    op_call,
    blob_in,
    blob_out,
    dim_in,
    dim_out,
    weight_init=None,
    bias_init=None,
    WeightInitializer=None,
    BiasInitializer=None,
    enable_tensor_core=False,
    float16_compute=False,
    **kwargs,
):
    weight_init, bias_init = _initializers(model, WeightInitializer, weight_init, BiasInitializer, bias_init)
    blob_out = blob_out or model.net.NextName()
    bias_tags = [ParameterTags.BIAS]
    if "freeze_bias" in kwargs:
        bias_tags.append(ParameterTags.COMPUTED_PARAM)
    weight = model.create_param(blob_out + "_w", [dim_out, dim_in], weight_init, tags=ParameterTags.WEIGHT)
    bias = model.create_param(blob_out + "_b", [dim_out], bias_init, tags=bias_tags)
    if enable_tensor_core:
        kwargs["engine"] = "TENSORCORE"
    if float16_compute:
        kwargs["float16_compute"] = True
    return op_call([blob_in, weight, bias], blob_out, **kwargs)


def fc(model, *args, **kwargs):
    """Y = X w^T + b, parameters OUT_w [dim_out, dim_in] and OUT_b: (model, blob_in, blob_out, dim_in, dim_out, …)."""
    return _FC_or_packed_FC(model, model.net.FC, *args, **kwargs)


def packed_fc(model, *args, **kwargs):
    """`fc` as the operator PackedFC."""
    return _FC_or_packed_FC(model, model.net.PackedFC, *args, **kwargs)


def fc_decomp(
    model,
    blob_in,
    blob_out,
    dim_in,
    dim_out,
    rank_approx=5,
    weight_init=None,
    bias_init=None,
    WeightInitializer=None,
    BiasInitializer=None,
    **kwargs,
):
    """`fc` whose weight is the product of OUT_u [dim_out, rank] and OUT_v [dim_in, rank]."""
    weight_init, bias_init = _initializers(model, WeightInitializer, weight_init, BiasInitializer, bias_init)
    blob_out = blob_out or model.net.NextName()
    u = model.create_param(blob_out + "_u", [dim_out, rank_approx], weight_init)
    v = model.create_param(blob_out + "_v", [dim_in, rank_approx], weight_init)
    bias = model.create_param(blob_out + "_b", [dim_out], bias_init)
    return model.net.FC_Decomp([blob_in, u, v, bias], blob_out, **kwargs)


def fc_prune(
    model,
    blob_in,
    blob_out,
    dim_in,
    dim_out,
    weight_init=None,
    bias_init=None,
    mask_init=None,
    threshold=0.00001,
    need_compress_rate=False,
    comp_lb=0.05,
    **kwargs,
):
    """`fc` whose small weights are masked out while it trains."""
    blob_out = blob_out or model.net.NextName()
    weight_shape = [dim_out, dim_in]
    weight_init, bias_init = weight_init or ("XavierFill", {}), bias_init or ("ConstantFill", {})
    constant = ("ConstantFill", {})
    blobs = {  # suffix -> (shape, fill)
        "lb": ([1], ("ConstantFill", {"value": comp_lb})),
        "w": (weight_shape, weight_init),
        "m": (weight_shape, mask_init or ("ConstantFill", {"value": 1.0})),
        "ag_dw": (weight_shape, constant),
        "b": ([dim_out], bias_init),
        "mask_seq": (weight_shape, constant),
        "thres": ([1], ("ConstantFill", {"value": threshold})),
    }
    made = {}
    for suffix, (shape, (fill, fill_args)) in blobs.items():
        name = f"{blob_out}_{suffix}"
        if model.init_params:
            made[suffix] = getattr(model.param_init_net, fill)([], name, shape=shape, **fill_args)
        else:
            made[suffix] = core.ScopedBlobReference(name, model.param_init_net)
    model.AddParameter(made["w"])
    model.AddParameter(made["b"])
    inputs = [blob_in, *(made[k] for k in ("w", "m", "b", "ag_dw", "mask_seq", "thres", "lb"))]
    outputs = [blob_out, f"{blob_out}_compress_rate"] if need_compress_rate else blob_out
    return model.net.FC_Prune(inputs, outputs, **kwargs)


def fc_sparse(model, blob_in, blob_out, w_csr, iw, jw, bias, **kwargs):
    """`fc` with the weight given in compressed rows: blobs of the values, the row starts and the columns."""
    if not (w_csr and iw and jw and bias):
        raise AssertionError("fc_sparse needs the blobs w_csr, iw, jw and bias")
    model.AddParameter(w_csr)
    model.AddParameter(iw)
    model.AddParameter(jw)
    model.AddParameter(bias)
    return model.net.FC_Sparse([blob_in, w_csr, iw, jw, bias], blob_out, **kwargs)
