"""Nets of a LayerModelHelper."""

from __future__ import annotations

from caffe2lite.python import core, schema
from caffe2lite.python.layers.layers import InstantiationContext
from caffe2lite.python.layers.tags import Tags


def _layers(model, excluded_by, include_tags):
    return [
        layer
        for layer in model.layers
        if excluded_by not in layer.tags and (include_tags is None or not layer.tags.isdisjoint(include_tags))
    ]


def shrink_output_schema(net, out_schema):
    """Return what of a schema the net makes."""
    columns = zip(
        out_schema.field_names(), out_schema.field_types(), out_schema.field_blobs(), out_schema.field_metadata()
    )
    made = [column for column in columns if net.BlobIsDefined(column[2])]
    if len(made) == len(out_schema.field_names()):
        return out_schema
    return schema.from_column_list(*(list(part) for part in zip(*made))) if made else schema.Struct()


def generate_predict_net(model, include_tags=None):
    """Return the net that predicts; with `include_tags` only layers that have one of these tags."""
    net = core.Net("predict_net")
    for layer in _layers(model, Tags.EXCLUDE_FROM_PREDICTION, include_tags):
        layer.add_operators(net, context=InstantiationContext.PREDICTION)
    net.set_input_record(model.input_feature_schema.clone())
    net.set_output_record(shrink_output_schema(net, model.output_schema.clone()))
    return net


def generate_eval_net(model, include_tags=None):
    """Return the net that evaluates: outputs and metrics, no update."""
    net = core.Net("eval_net")
    for layer in _layers(model, Tags.EXCLUDE_FROM_EVAL, include_tags):
        layer.add_operators(net, context=InstantiationContext.EVAL)
    net.set_input_record(model.input_feature_schema + model.trainer_extra_schema)
    net.set_output_record(model.output_schema + model.metrics_schema)
    return net


def generate_training_nets_forward_only(model, include_tags=None):
    """Return (init net, net) of a training without gradients."""
    net = core.Net("train_net")
    init_net = model.create_init_net("train_init_net")
    for layer in _layers(model, Tags.EXCLUDE_FROM_TRAIN, include_tags):
        layer.add_operators(net, init_net)
    net.set_input_record(model.input_feature_schema + model.trainer_extra_schema)
    net.set_output_record(shrink_output_schema(net, model.output_schema + model.metrics_schema))
    return init_net, net


def generate_training_nets(model, include_tags=None):
    """Return (init net, net) of a training: with regularizers, gradients, and updates if there is a loss."""
    init_net, net = generate_training_nets_forward_only(model, include_tags)
    model.apply_regularizers_on_loss(net, init_net)
    if model.has_loss():
        grad_map = net.AddGradientOperators(model.loss.field_blobs())
        model.apply_post_grad_net_modifiers(net, init_net, grad_map)
        model.apply_optimizers(net, init_net, grad_map)
        model.apply_regularizers_after_optimizer(net, init_net, grad_map)
        model.apply_final_net_modifiers(net, init_net, grad_map)
    return init_net, net
