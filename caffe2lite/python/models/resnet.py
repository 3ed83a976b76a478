"""Residual networks: ResNet and ResNeXt of 18 to 200 layers, and the small ResNet for 32 x 32 images."""

from __future__ import annotations

import logging

from caffe2lite.python import brew

log = logging.getLogger("resnext_builder")

# Number of layers -> residual blocks in each of the four stages; the first block of a stage has its stride.
RESNEXT_BLOCK_CONFIG = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
}
RESNEXT_STRIDES = [1, 2, 2, 2]


class ResNetBuilder:
    """Adds residual blocks to a model, each to the end of the one before (`prev_blob`)."""

    def __init__(self, model, prev_blob, no_bias, is_test, bn_epsilon=1e-5, bn_momentum=0.9):
        self.model, self.prev_blob = model, prev_blob
        self.comp_count = self.comp_idx = 0  # blocks so far, and layers of the block so far
        self.no_bias = int(bool(no_bias))
        self.is_test, self.bn_epsilon, self.bn_momentum = is_test, bn_epsilon, bn_momentum

    def add_conv(self, in_filters, out_filters, kernel, stride=1, group=1, pad=0):
        """Add a convolution."""
        self.comp_idx += 1
        self.prev_blob = brew.conv(
            self.model,
            self.prev_blob,
            f"comp_{self.comp_count}_conv_{self.comp_idx}",
            in_filters,
            out_filters,
            weight_init=("MSRAFill", {}),
            kernel=kernel,
            stride=stride,
            group=group,
            pad=pad,
            no_bias=self.no_bias,
        )
        return self.prev_blob

    def add_relu(self):
        """Add a ReLU, in place."""
        self.prev_blob = brew.relu(self.model, self.prev_blob, self.prev_blob)
        return self.prev_blob

    def add_spatial_bn(self, num_filters):
        """Add batch normalization."""
        self.prev_blob = self._spatial_bn(self.prev_blob, f"comp_{self.comp_count}_spatbn_{self.comp_idx}", num_filters)
        return self.prev_blob

    def _spatial_bn(self, blob_in, blob_out, num_filters, constants=None):
        constants = constants or {"epsilon": self.bn_epsilon, "momentum": self.bn_momentum}
        return brew.spatial_bn(self.model, blob_in, blob_out, num_filters, **constants, is_test=self.is_test)

    def add_bottleneck(self, input_filters, base_filters, output_filters, stride=1, group=1, spatial_batch_norm=True):
        """Add a block of 1x1, 3x3 and 1x1 convolutions; return its number of filters."""
        layers = [
            (input_filters, base_filters, {"kernel": 1, "stride": 1}),
            (base_filters, base_filters, {"kernel": 3, "stride": stride, "group": group, "pad": 1}),
            (base_filters, output_filters, {"kernel": 1}),
        ]
        self._add_block(layers, stride, spatial_batch_norm)
        return output_filters

    def add_simple_block(self, input_filters, num_filters, down_sampling=False, spatial_batch_norm=True):
        """Add a block of two 3x3 convolutions."""
        stride = 2 if down_sampling else 1
        layers = [
            (input_filters, num_filters, {"kernel": 3, "stride": stride, "pad": 1}),
            (num_filters, num_filters, {"kernel": 3, "pad": 1}),
        ]
        # The shortcut of these blocks is normalized with constants of its own, as in Caffe2.
        self._add_block(layers, stride, spatial_batch_norm, {"epsilon": 1e-3})

    def _add_block(self, layers, stride, spatial_batch_norm, shortcut_bn=None):
        self.comp_idx = 0
        shortcut = self.prev_blob
        for i, (in_filters, out_filters, args) in enumerate(layers, 1):
            self.add_conv(in_filters, out_filters, **args)
            if spatial_batch_norm:
                self.add_spatial_bn(out_filters)
            if i < len(layers):
                self.add_relu()
        in_filters, out_filters = layers[0][0], layers[-1][1]
        if in_filters != out_filters:
            name = f"shortcut_projection_{self.comp_count}"
            shortcut = brew.conv(
                self.model,
                shortcut,
                name,
                in_filters,
                out_filters,
                weight_init=("MSRAFill", {}),
                kernel=1,
                stride=stride,
                no_bias=self.no_bias,
            )
            if spatial_batch_norm:
                shortcut = self._spatial_bn(shortcut, f"{name}_spatbn", out_filters, shortcut_bn)
        self.prev_blob = brew.sum(self.model, [shortcut, self.prev_blob], f"comp_{self.comp_count}_sum_{self.comp_idx}")
        self.comp_idx += 1
        self.add_relu()
        self.comp_count += 1


def create_resnet_32x32(model, data, num_input_channels, num_groups, num_labels, is_test=False):
    """Add a ResNet for 32 x 32 images, with 6 * num_groups blocks; return the softmax."""
    brew.conv(model, data, "conv1", num_input_channels, 16, kernel=3, stride=1)
    brew.spatial_bn(model, "conv1", "conv1_spatbn", 16, epsilon=1e-3, is_test=is_test)
    brew.relu(model, "conv1_spatbn", "relu1")
    builder = ResNetBuilder(model, "relu1", no_bias=0, is_test=is_test)
    previous = 16
    for group, filters in enumerate((16, 32, 64)):
        for block in range(2 * num_groups):
            builder.add_simple_block(previous, filters, down_sampling=block == 0 and group > 0)
            previous = filters
    brew.average_pool(model, builder.prev_blob, "final_avg", kernel=8, stride=1)
    brew.fc(model, "final_avg", "last_out", 64, num_labels)
    return brew.softmax(model, "last_out", "softmax")


def create_resnet50(
    model,
    data,
    num_input_channels,
    num_labels,
    label=None,
    is_test=False,
    no_loss=False,
    no_bias=0,
    conv1_kernel=7,
    conv1_stride=2,
    final_avg_kernel=7,
):
    """Add a ResNet-50; return (softmax, loss) with a label, the last layer with `no_loss`, else the softmax."""
    shape = {"num_layers": 50, "num_groups": 1, "num_width_per_group": 64}  # one group: no ResNeXt
    ends = {"conv1_kernel": conv1_kernel, "conv1_stride": conv1_stride, "final_avg_kernel": final_avg_kernel}
    wanted = {"label": label, "is_test": is_test, "no_loss": no_loss, "no_bias": no_bias}
    return create_resnext(model, data, num_input_channels, num_labels, **shape, **wanted, **ends)


def create_resnext(
    model,
    data,
    num_input_channels,
    num_labels,
    num_layers,
    num_groups,
    num_width_per_group,
    label=None,
    is_test=False,
    no_loss=False,
    no_bias=1,
    conv1_kernel=7,
    conv1_stride=2,
    final_avg_kernel=7,
    log=None,
    bn_epsilon=1e-5,
    bn_momentum=0.9,
):
    """Add a ResNeXt with num_groups groups of num_width_per_group filters in the first stage; return as create_resnet50."""
    if num_layers not in RESNEXT_BLOCK_CONFIG:
        raise ValueError(f"{num_layers} layers is none of {sorted(RESNEXT_BLOCK_CONFIG)}")
    filters = [64, 256, 512, 1024, 2048] if num_layers >= 50 else [64, 64, 128, 256, 512]

    blob = brew.conv(
        model,
        data,
        "conv1",
        num_input_channels,
        filters[0],
        weight_init=("MSRAFill", {}),
        kernel=conv1_kernel,
        stride=conv1_stride,
        pad=3,
        no_bias=no_bias,
    )
    blob = brew.spatial_bn(
        model, blob, "conv1_spatbn_relu", filters[0], epsilon=bn_epsilon, momentum=bn_momentum, is_test=is_test
    )
    blob = brew.max_pool(model, brew.relu(model, blob, blob), "pool1", kernel=3, stride=2, pad=1)

    # As in Caffe2, bn_epsilon and bn_momentum reach the first layer only: weights trained there rely on it.
    builder = ResNetBuilder(model, blob, no_bias=no_bias, is_test=is_test)
    inner = num_groups * num_width_per_group
    for stage, (blocks, stride) in enumerate(zip(RESNEXT_BLOCK_CONFIG[num_layers], RESNEXT_STRIDES)):
        dim_in, dim_out = filters[stage], filters[stage + 1]
        for block in range(blocks):
            dim_in = builder.add_bottleneck(
                dim_in, inner, dim_out, stride=stride if block == 0 else 1, group=num_groups
            )
        inner *= 2

    pooled = brew.average_pool(
        model, builder.prev_blob, "final_avg", kernel=final_avg_kernel, stride=1, global_pooling=True
    )
    last = brew.fc(model, pooled, f"last_out_L{num_labels}", filters[-1], num_labels)
    if no_loss:
        return last
    if label is not None:
        return model.SoftmaxWithLoss([last, label], ["softmax", "loss"])
    return brew.softmax(model, last, "softmax")
