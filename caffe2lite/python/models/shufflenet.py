"""ShuffleNet V2: light convolutions on half of the channels, then a shuffle."""

from __future__ import annotations

from caffe2lite.python import brew

# Width -> channels of the first convolution, of stages 2 to 4, and of the last convolution.
OUTPUT_CHANNELS = {
    "0.5x": [24, 48, 96, 192, 1024],
    "1.0x": [24, 116, 232, 464, 1024],
    "1.5x": [24, 176, 352, 704, 1024],
    "2.0x": [24, 244, 488, 976, 2048],
}


class ShuffleNetV2Builder:
    """Builds the network, unit after unit, from `data` on; `detection` adds a convolution before each unit."""

    def __init__(
        self,
        model,
        data,
        num_input_channels,
        num_labels,
        num_groups=2,
        width="1.0x",
        is_test=False,
        detection=False,
        bn_epsilon=1e-5,
    ):
        self.model = model
        self.prev_blob = data
        self.num_input_channels = num_input_channels
        self.num_labels = num_labels
        self.num_groups = num_groups
        self.output_channels = OUTPUT_CHANNELS[width]
        self.stage_repeats = [3, 7, 3]
        self.is_test = is_test
        self.detection = detection
        self.bn_epsilon = bn_epsilon

    def create(self):
        """Build all of it; the last blob, of num_labels values an image, is last_out_L<num_labels>."""
        first, *stages, last = self.output_channels
        self.prev_blob = brew.conv(
            self.model,
            self.prev_blob,
            "stage1_conv",
            self.num_input_channels,
            first,
            weight_init=("MSRAFill", {}),
            kernel=3,
            stride=2,
        )
        self.prev_blob = brew.max_pool(self.model, self.prev_blob, "stage1_pool", kernel=3, stride=2)
        in_channels = first
        for stage, (channels, repeats) in enumerate(zip(stages, self.stage_repeats), 2):
            self.add_spatial_ds_unit(f"stage{stage}_stride2", in_channels, channels)
            for repeat in range(1, repeats + 1):
                self.add_basic_unit(f"stage{stage}_stride1_repeat{repeat}", channels)
            in_channels = channels
        self.prev_blob = brew.conv(self.model, self.prev_blob, "conv5", in_channels, last, kernel=1)
        self.prev_blob = self.model.net.AveragePool(self.prev_blob, "avg_pool", kernel=7)
        self.prev_blob = brew.fc(self.model, self.prev_blob, f"last_out_L{self.num_labels}", last, self.num_labels)

    def add_spatial_ds_unit(self, prefix, in_channels, out_channels, stride=2):
        """Halve the image and make out_channels of in_channels, half of them by each of two branches."""
        half = out_channels // 2
        left = right = self.prev_blob
        if self.detection:
            left = self.add_detection_unit(left, f"{prefix}_left_detection", in_channels, in_channels)
        left = self.add_dwconv3x3_bn(left, f"{prefix}left_dwconv", in_channels, stride)
        left = self.add_conv1x1_bn(left, f"{prefix}_left_conv1", in_channels, half)
        if self.detection:
            right = self.add_detection_unit(right, f"{prefix}_right_detection", in_channels, in_channels)
        right = self._right_branch(right, prefix, in_channels, half, stride)
        return self._join(prefix, right, left)

    def add_basic_unit(self, prefix, in_channels, stride=1):
        """Work on half of the channels and passes the other half on."""
        half = in_channels // 2
        left, right = self.model.net.Split(self.prev_blob, [f"{prefix}_left", f"{prefix}_right"])
        if self.detection:
            right = self.add_detection_unit(right, f"{prefix}_right_detection", half, half)
        return self._join(prefix, self._right_branch(right, prefix, half, half, stride), left)

    def _right_branch(self, blob, prefix, in_channels, out_channels, stride):
        blob = self.add_conv1x1_bn(blob, f"{prefix}_right_conv1", in_channels, out_channels)
        blob = self.add_dwconv3x3_bn(blob, f"{prefix}_right_dwconv", out_channels, stride)
        return self.add_conv1x1_bn(blob, f"{prefix}_right_conv2", out_channels, out_channels)

    def _join(self, prefix, right, left):
        joined = brew.concat(self.model, [right, left], f"{prefix}_concat")
        self.prev_blob = self.model.net.ChannelShuffle(joined, f"{prefix}_ch_shuffle", group=self.num_groups, kernel=1)
        return self.prev_blob

    def _spatial_bn(self, blob_in, blob_out, channels):
        return brew.spatial_bn(self.model, blob_in, blob_out, channels, epsilon=self.bn_epsilon, is_test=self.is_test)

    def add_detection_unit(self, prev_blob, prefix, in_channels, out_channels, kernel=3, pad=1):
        """Return a convolution of each channel by itself, which widens what each place sees."""
        conv = brew.conv(
            self.model,
            prev_blob,
            f"{prefix}_conv",
            in_channels,
            out_channels,
            kernel=kernel,
            weight_init=("MSRAFill", {}),
            group=in_channels,
            pad=pad,
        )
        return self._spatial_bn(conv, f"{prefix}_bn", out_channels)

    def add_conv1x1_bn(self, prev_blob, blob, in_channels, out_channels):
        """1x1 convolution, batch normalization, ReLU."""
        conv = brew.conv(self.model, prev_blob, blob, in_channels, out_channels, kernel=1, weight_init=("MSRAFill", {}))
        normalized = self._spatial_bn(conv, f"{blob}_bn", out_channels)
        return brew.relu(self.model, normalized, normalized)

    def add_dwconv3x3_bn(self, prev_blob, blob, channels, stride):
        """3x3 convolution of each channel by itself, batch normalization."""
        conv = brew.conv(
            self.model,
            prev_blob,
            blob,
            channels,
            channels,
            kernel=3,
            weight_init=("MSRAFill", {}),
            stride=stride,
            group=channels,
            pad=1,
        )
        return self._spatial_bn(conv, f"{blob}_bn", channels)


def create_shufflenet(model, data, num_input_channels, num_labels, label=None, is_test=False, no_loss=False):
    """Add ShuffleNet V2, width 1.0x; return (softmax, loss) with a label, else the last layer."""
    builder = ShuffleNetV2Builder(model, data, num_input_channels, num_labels, is_test=is_test)
    builder.create()
    if no_loss or label is None:
        return builder.prev_blob
    return model.SoftmaxWithLoss([builder.prev_blob, label], ["softmax", "loss"])
