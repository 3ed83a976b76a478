"""Changes to a finished net, given as objects that are called with it."""

from __future__ import annotations

import abc

from caffe2lite.python import core, schema


class NetModifier(metaclass=abc.ABCMeta):
    """A change to a net: `modifier(net, …)` applies it.

    `grad_map` maps blobs to their gradients, `blob_to_device` blobs to where they live; with
    `modify_output_record` what the modifier computes becomes part of the net's output.
    """

    @abc.abstractmethod
    def modify_net(self, net, init_net=None, grad_map=None, blob_to_device=None):
        """Apply the change."""

    def __call__(self, net, init_net=None, grad_map=None, blob_to_device=None, modify_output_record=False):
        self.modify_net(
            net,
            init_net=init_net,
            grad_map=grad_map,
            blob_to_device=blob_to_device,
            modify_output_record=modify_output_record,
        )


def defined_blob(net, name):
    """Return the reference of a blob that the net must know."""
    blob = core.BlobReference(name)
    if not net.BlobIsDefined(blob):
        raise AssertionError(f"blob {blob} is not defined in net {net.Name()}")
    return blob


def log_and_output(net, blob, every_n, field_name=None, dtype=None):
    """Print a blob every n runs (n >= 1), and add it to the net's output where a field name is given."""
    if every_n >= 1:
        net.Print(blob, [], every_n=every_n)
    if field_name is None:
        return
    field = schema.Scalar(dtype, blob)
    if net.output_record() is None:
        net.set_output_record(schema.Struct((field_name, field)))
    else:
        net.AppendOutputRecordField(field_name, field)
