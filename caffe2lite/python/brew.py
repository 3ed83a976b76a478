"""Helpers that add a layer and its parameters to a model: `brew.fc(model, "x", "y", 10, 5)`.

A helper takes, from weak to strong, the model's own `arg_scope`, the defaults of `brew.arg_scope(...)`, and what its
call says.  `brew.Register(f)` adds a helper.
"""

from __future__ import annotations

import functools
import inspect

from caffe2lite.python.helpers import (
    algebra,
    array_helpers,
    control_ops,
    nonlinearity,
    normalization,
    pooling,
    quantization,
    tools,
    train,
)
from caffe2lite.python.helpers import (
    arg_scope as _arg_scope,
)
from caffe2lite.python.helpers import (
    conv as _conv,
)
from caffe2lite.python.helpers import (
    db_input as _db_input,
)
from caffe2lite.python.helpers import (
    dropout as _dropout,
)
from caffe2lite.python.helpers import (
    elementwise_linear as _elementwise_linear,
)
from caffe2lite.python.helpers import (
    fc as _fc,
)
from caffe2lite.python.model_helper import ModelHelper

arg_scope = _arg_scope.arg_scope
_registry = {"arg_scope": arg_scope}


def has_helper(helper_or_helper_name):
    """Return whether a helper of this name (or of this function's name) is registered."""
    name = helper_or_helper_name if isinstance(helper_or_helper_name, str) else helper_or_helper_name.__name__
    return name in _registry


def Register(helper):
    """Make the function `helper(model, …)` callable as `brew.NAME`."""
    name = helper.__name__
    if has_helper(name):
        raise AttributeError(f"Helper {name} already exists. Please change your helper name.")
    _registry[name] = globals()[name] = _scoped(helper)


def _scoped(helper):
    """`helper`, given the defaults of the model and of the scopes around the call."""
    name = helper.__name__
    parameters = inspect.signature(helper).parameters.values()
    known = None if any(p.kind is p.VAR_KEYWORD for p in parameters) else {p.name for p in parameters}

    @functools.wraps(helper)
    def call(*args, **kwargs):
        model = args[0] if args and isinstance(args[0], ModelHelper) else kwargs.get("model")
        if model is None:
            raise RuntimeError(
                "The first input of helper function should be model. "
                "Or you can provide it in kwargs as model=<your_model>."
            )
        defaults = model.arg_scope
        if known is not None:
            defaults = {k: v for k, v in defaults.items() if k in known}
        return helper(*args, **{**defaults, **_arg_scope.get_current_scope().get(name, {}), **kwargs})

    return call


def __getattr__(name):
    raise AttributeError(f"Helper function {name} not registered.")


for _helper in (
    algebra.arg_min,
    algebra.batch_mat_mul,
    algebra.mat_mul,
    algebra.reduce_sum,
    algebra.sparse_lengths_sum_4bit_rowwise_sparse,
    algebra.sub,
    algebra.sum,
    algebra.transpose,
    array_helpers.concat,
    array_helpers.depth_concat,
    control_ops.cond,
    control_ops.loop,
    _conv.conv,
    _conv.conv_nd,
    _conv.conv_transpose,
    _conv.group_conv,
    _conv.group_conv_deprecated,
    _db_input.db_input,
    _dropout.dropout,
    _elementwise_linear.elementwise_linear,
    _fc.fc,
    _fc.fc_decomp,
    _fc.fc_prune,
    _fc.fc_sparse,
    _fc.packed_fc,
    nonlinearity.prelu,
    nonlinearity.relu,
    nonlinearity.tanh,
    normalization.instance_norm,
    normalization.layer_norm,
    normalization.lrn,
    normalization.moments_with_running_stats,
    normalization.softmax,
    normalization.spatial_bn,
    normalization.spatial_gn,
    pooling.average_pool,
    pooling.max_pool,
    pooling.max_pool_with_index,
    quantization.fused_8bit_rowwise_quantized_to_float,
    tools.image_input,
    tools.video_input,
    train.accuracy,
    train.add_weight_decay,
    train.iter,
):
    Register(_helper)
