"""Convolutions."""

from __future__ import annotations

from caffe2lite.python import core
from caffe2lite.python.modeling import initializers
from caffe2lite.python.modeling.parameter_info import ParameterTags


def _cudnn_args(use_cudnn, exhaustive_search, ws_nbytes_limit):
    """Operator arguments that choose cuDNN and how it looks for its algorithm."""
    if not use_cudnn:
        return {}
    args = {"engine": "CUDNN", "exhaustive_search": exhaustive_search}
    if ws_nbytes_limit:
        args["ws_nbytes_limit"] = ws_nbytes_limit
    return args


def _check_engine(engine, use_cudnn):
    if engine is not None and use_cudnn != (engine == "CUDNN"):
        only = "CUDNN" if use_cudnn else ""
        raise ValueError(f'When use_cudnn={use_cudnn}, the only engine you can specify is "{only}"')


def _ConvBase(
    model,
    is_nd,
    blob_in,
    blob_out,
    dim_in,
    dim_out,
    kernel,
    weight_init=None,
    bias_init=None,
    WeightInitializer=None,
    BiasInitializer=None,
    group=1,
    transform_inputs=None,
    use_cudnn=False,
    order="NCHW",
    cudnn_exhaustive_search=False,
    ws_nbytes_limit=None,
    float16_compute=False,
    **kwargs,
):
    if is_nd:
        kernels = kernel if isinstance(kernel, list) else [kernel]
        kernel_args = {"kernels": kernels}
        if order != "NCHW":
            raise AssertionError(f"an N-d convolution works on NCHW, got {order}")
    elif isinstance(kernel, list):
        if len(kernel) != 2:
            raise AssertionError(f"a convolution of images has a kernel of two sides, got {kernel}")
        kernels, kernel_args = kernel, {"kernel_h": kernel[0], "kernel_w": kernel[1]}
    else:
        kernels, kernel_args = [kernel] * 2, {"kernel": kernel}
    if use_cudnn or kwargs.get("engine") == "CUDNN":
        _check_engine(kwargs.get("engine"), use_cudnn)
    kwargs.update(_cudnn_args(use_cudnn, cudnn_exhaustive_search, ws_nbytes_limit))

    use_bias = not kwargs.pop("no_bias", False)
    blob_out = blob_out or model.net.NextName()
    channels = int(dim_in / group)
    shape = [dim_out, channels, *kernels] if order == "NCHW" else [dim_out, *kernels, channels]
    weight_init = initializers.update_initializer(WeightInitializer, weight_init, ("XavierFill", {}))
    bias_init = initializers.update_initializer(BiasInitializer, bias_init, ("ConstantFill", {}))
    if not model.init_params:
        weight_init = bias_init = initializers.ExternalInitializer()
    inputs = [blob_in, model.create_param(blob_out + "_w", shape, weight_init, tags=ParameterTags.WEIGHT)]
    if use_bias:
        inputs.append(model.create_param(blob_out + "_b", [dim_out], bias_init, tags=ParameterTags.BIAS))

    if transform_inputs is not None:
        transform_inputs(model, blob_out, inputs)
    if float16_compute:
        kwargs["float16_compute"] = True
    if group != 1:
        kwargs["group"] = group
    return model.net.Conv(inputs, blob_out, **kernel_args, order=order, **kwargs)


def conv(
    model,
    blob_in,
    blob_out,
    dim_in,
    dim_out,
    kernel,
    weight_init=None,
    bias_init=None,
    WeightInitializer=None,
    BiasInitializer=None,
    group=1,
    transform_inputs=None,
    **kwargs,
):
    """2-d convolution, `kernel` one size or [height, width]; parameters OUT_w and, unless `no_bias`, OUT_b."""
    return _ConvBase(
        model,
        False,
        blob_in,
        blob_out,
        dim_in,
        dim_out,
        kernel,
        weight_init,
        bias_init,
        WeightInitializer,
        BiasInitializer,
        group,
        transform_inputs,
        **kwargs,
    )


def conv_nd(
    model,
    blob_in,
    blob_out,
    dim_in,
    dim_out,
    kernel,
    weight_init=None,
    bias_init=None,
    WeightInitializer=None,
    BiasInitializer=None,
    group=1,
    transform_inputs=None,
    order="NCHW",
    **kwargs,
):
    """Convolution of as many dimensions as the list `kernel` has; NCHW only."""
    return _ConvBase(
        model,
        True,
        blob_in,
        blob_out,
        dim_in,
        dim_out,
        kernel,
        weight_init,
        bias_init,
        WeightInitializer,
        BiasInitializer,
        group,
        transform_inputs,
        order=order,
        **kwargs,
    )


def conv_transpose(
    model,
    blob_in,
    blob_out,
    dim_in,
    dim_out,
    kernel,
    weight_init=None,
    bias_init=None,
    use_cudnn=False,
    order="NCHW",
    cudnn_exhaustive_search=False,
    ws_nbytes_limit=None,
    **kwargs,
):
    """Transposed convolution (deconvolution) with a square kernel."""
    weight_init = weight_init or ("XavierFill", {})
    bias_init = bias_init or ("ConstantFill", {})
    blob_out = blob_out or model.net.NextName()
    shape = [dim_in, dim_out, kernel, kernel] if order == "NCHW" else [dim_in, kernel, kernel, dim_out]
    if model.init_params:
        weight = getattr(model.param_init_net, weight_init[0])([], blob_out + "_w", shape=shape, **weight_init[1])
        bias = getattr(model.param_init_net, bias_init[0])([], blob_out + "_b", shape=[dim_out], **bias_init[1])
    else:
        weight = core.ScopedBlobReference(blob_out + "_w", model.param_init_net)
        bias = core.ScopedBlobReference(blob_out + "_b", model.param_init_net)
    model.AddParameter(weight, ParameterTags.WEIGHT)
    model.AddParameter(bias, ParameterTags.BIAS)
    kwargs.update(_cudnn_args(use_cudnn, cudnn_exhaustive_search, ws_nbytes_limit))
    return model.net.ConvTranspose([blob_in, weight, bias], blob_out, kernel=kernel, order=order, **kwargs)


def group_conv(model, blob_in, blob_out, dim_in, dim_out, kernel, weight_init=None, bias_init=None, group=1, **kwargs):
    """Convolution of each group of channels by itself, as one operator."""
    return conv(
        model,
        blob_in,
        blob_out,
        dim_in,
        dim_out,
        kernel,
        weight_init=weight_init,
        bias_init=bias_init,
        group=group,
        **kwargs,
    )


def group_conv_deprecated(
    model,
    blob_in,
    blob_out,
    dim_in,
    dim_out,
    kernel,
    weight_init=None,
    bias_init=None,
    group=1,
    use_cudnn=False,
    order="NCHW",
    cudnn_exhaustive_search=False,
    ws_nbytes_limit=None,
    **kwargs,
):
    """Convolution of groups as split, one convolution a group (OUT_gconv_0, …), and concatenation."""
    if dim_in % group:
        raise ValueError(f"{dim_in} input channels do not split into {group} groups")
    if dim_out % group:
        raise ValueError(f"{dim_out} output channels do not split into {group} groups")
    weight_init = weight_init or ("XavierFill", {})
    bias_init = bias_init or ("ConstantFill", {})
    blob_out = blob_out or model.net.NextName()
    use_bias = not kwargs.pop("no_bias", False)
    group_in, group_out = dim_in // group, dim_out // group
    shape = [group_out, group_in, kernel, kernel] if order == "NCHW" else [group_out, kernel, kernel, group_in]
    kwargs.update(_cudnn_args(use_cudnn, cudnn_exhaustive_search, ws_nbytes_limit))
    splits = model.net.DepthSplit(
        blob_in, [f"_{blob_out}_gconv_split_{i}" for i in range(group)], dimensions=[group_in] * group, order=order
    )
    splits = splits if group > 1 else [splits]
    outputs = []
    for i in range(group):
        name = f"{blob_out}_gconv_{i}"
        if model.init_params:
            weight = getattr(model.param_init_net, weight_init[0])([], name + "_w", shape=shape, **weight_init[1])
        else:
            weight = core.ScopedBlobReference(name + "_w", model.param_init_net)
        model.AddParameter(weight, ParameterTags.WEIGHT)
        inputs = [splits[i], weight]
        if use_bias:
            if model.init_params:
                bias = getattr(model.param_init_net, bias_init[0])([], name + "_b", shape=[group_out], **bias_init[1])
            else:
                bias = core.ScopedBlobReference(name + "_b", model.param_init_net)
            model.AddParameter(bias, ParameterTags.BIAS)
            inputs.append(bias)
        outputs.append(model.net.Conv(inputs, name, kernel=kernel, order=order, **kwargs))
    return model.net.Concat(outputs, [blob_out, f"_{blob_out}_concat_dims"], order=order)[0]
