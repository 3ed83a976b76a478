"""Matrix products, sums, transpositions."""

from __future__ import annotations


def transpose(model, blob_in, blob_out, use_cudnn=False, **kwargs):
    """Transpose."""
    if use_cudnn:
        kwargs["engine"] = "CUDNN"
    return model.net.Transpose(blob_in, blob_out, **kwargs)


def sum(model, blob_in, blob_out, **kwargs):
    """Sum of all inputs."""
    return model.net.Sum(blob_in, blob_out, **kwargs)


def sub(model, blob_in, blob_out, **kwargs):
    """Difference."""
    return model.net.Sub(blob_in, blob_out, **kwargs)


def mat_mul(model, blob_in, blob_out, **kwargs):
    """Product of two matrices."""
    return model.net.MatMul(blob_in, blob_out, **kwargs)


def arg_min(model, blob_in, blob_out, **kwargs):
    """Index of the least element along an axis."""
    return model.net.ArgMin(blob_in, blob_out, **kwargs)


def reduce_sum(model, blob_in, blob_out, **kwargs):
    """Sum over axes."""
    return model.net.ReduceSum(blob_in, blob_out, **kwargs)


def batch_mat_mul(model, blob_in, blob_out, enable_tensor_core=False, **kwargs):
    """Add the products of a batch of matrices."""
    if enable_tensor_core:
        kwargs["engine"] = "TENSORCORE"
    return model.net.BatchMatMul(blob_in, blob_out, **kwargs)


def sparse_lengths_sum_4bit_rowwise_sparse(model, blob_in, blob_out, **kwargs):
    """Add sums of rows of a pruned table, quantized to four bits a row."""
    return model.net.SparseLengthsSum4BitRowwiseSparse(blob_in, blob_out, **kwargs)
