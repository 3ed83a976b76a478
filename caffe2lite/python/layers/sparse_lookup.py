"""Rows of an embedding table."""

from __future__ import annotations

import functools
import logging
import math
import operator
from collections import namedtuple

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import (
    IdList,
    IdListWithEvicted,
    IdScoreList,
    IdScoreListWithEvicted,
    LayerPsParam,
    ModelLayer,
    almost_equal_schemas,
    get_avg_length,
    get_categorical_limit,
    get_key,
)

logger = logging.getLogger(__name__)

FP16_ENGINES = ["SIMD_Q_FP16", "SIMD_Q_STOC_FP16", "SIMD_Q_STOC_MKL_FP16"]
_VERSIONS = ("fp32", "fp16", "uint8rowwise", "fused_uint8rowwise", "fused_uint4rowwise")


def get_trainer_version_based_on_optim(optim_def):
    """Return the form of the table in training: fp16 if the engine of its optimizer keeps it so."""
    return "fp16" if getattr(optim_def, "engine", None) in FP16_ENGINES else "fp32"


def get_sparse_lookup_predictor_version(
    version, blob_size=None, min_blob_size_4bits=None, embedding_dim=None, sparse_feature_name=None
):
    """Return the form of the table in predictions: 4-bit rows only for tables of even width and some size."""
    if version not in _VERSIONS:
        raise AssertionError(f"Unexpected version of sparse_lookup layer {version}, expected one of {_VERSIONS}")
    if version == "fused_uint4rowwise":
        if None in (blob_size, min_blob_size_4bits, embedding_dim):
            raise ValueError("fused_uint4rowwise needs blob_size, min_blob_size_4bits and embedding_dim")
        if blob_size < min_blob_size_4bits or embedding_dim % 2:
            logger.info("%s gets 8-bit rows: size %s, width %s", sparse_feature_name, blob_size, embedding_dim)
            return "fused_uint8rowwise"
    return version


def get_sparse_lookup_trainer_version(version):
    """Return the form of the table in training."""
    if version not in ("fp32", "fp16"):
        raise AssertionError(f"Unexpected version of sparse_lookup layer {version}, expected fp32 or fp16")
    return version


def _is_id_list(input_record):
    return almost_equal_schemas(input_record, IdList)


def _is_id_score_list(input_record):
    return almost_equal_schemas(input_record, IdScoreList, check_field_types=False)


class SparseLookup(ModelLayer):
    """Rows of a learned table for the ids of each example, brought together by `reducer`.

    Id lists take Sum, Mean, Sqrt (sum over the root of the length), Max, LogMeanExp, LogSumExp, WeightedSum and
    WeightedMean (weights 1), or None: no reduction. Id score lists take Sum, Mean, WeightedSum, WeightedMean,
    PositionWeighted, RecencyWeighted (both weigh by the scores, and learn them), None. The table has as many rows as
    the ids' categorical limit says, of `inner_shape`.
    """

    _id_list_supported_reducers = [
        "LogMeanExp", "LogSumExp", "Max", "Mean", "Sum", "WeightedSum", "WeightedMean", "Sqrt", "None",
    ]  # fmt: skip
    _id_score_list_supported_reducers = [
        "PositionWeighted", "RecencyWeighted", "Mean", "Sum", "WeightedSum", "WeightedMean", "None",
    ]  # fmt: skip
    _external = ("Sum", "WeightedSum", "PositionWeighted", "RecencyWeighted")  # with scores that come from elsewhere
    _fp16_compatible_init_op_types = ["Float16UniformFill"]
    _fp16_compatible_reducers = ["Sum", "Mean", "Sqrt", "PositionWeighted", "RecencyWeighted"]

    def __init__(
        self,
        model,
        input_record,
        inner_shape,
        reducer,
        weight_init=None,
        weight_optim=None,
        name="sparse_lookup",
        regularizer=None,
        use_external_weights=False,
        uniform_weight_init_scale_numerator=1.0,
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        self.sparse_key = get_key(self.input_record)()
        self.inner_shape = [inner_shape] if isinstance(inner_shape, int) else list(inner_shape)
        self.reducer = reducer
        self.use_external_weights = use_external_weights
        if reducer in ("PositionWeighted", "RecencyWeighted") and not _is_id_score_list(input_record):
            raise AssertionError(f"Unsupported reducer: {reducer} weighs by scores, which {self.sparse_key} has not")
        if use_external_weights and (reducer not in self._external or not _is_id_score_list(input_record)):
            raise AssertionError(f"external weights are scores to sum with, not for {reducer} of {self.sparse_key}")
        rows = get_categorical_limit(input_record)
        if not rows > 0:
            raise AssertionError(f"{self.sparse_key} should have a categorical limit > 0, but got {rows}")
        self.input_dim = rows
        self.uniform_weight_init_scale_numerator = uniform_weight_init_scale_numerator
        self.weight_init = weight_init or self._get_default_init_op()
        self.trainer_version = "fp16" if self.weight_init[0] in self._fp16_compatible_init_op_types else "fp32"
        self.evicted_values = None
        if schema.equal_schemas(input_record, IdListWithEvicted) or schema.equal_schemas(
            input_record, IdScoreListWithEvicted, check_field_types=False
        ):
            self.evicted_values = input_record._evicted_values
        lengths = input_record.lengths.metadata
        self.w = self.create_param(
            param_name="w",
            shape=[rows, *self.inner_shape],
            initializer=self.weight_init,
            optimizer=weight_optim,
            ps_param=LayerPsParam(
                sparse_key=self.sparse_key, average_length=get_avg_length(input_record) if lengths else None
            ),
            regularizer=regularizer,
        )
        if self.evicted_values:
            self.reinit_vec = self.create_param(
                param_name="reinit_vec",
                shape=self.inner_shape,
                initializer=self.weight_init,
                optimizer=model.NoOptim,
            )
        self.scale_bias = self.create_param(  # for 8-bit rows in predictions
            param_name="scale_bias",
            shape=[],
            initializer=("ConstantFill", {"value": 0.0}),
            optimizer=model.NoOptim,
        )
        self.output_schema = schema.Scalar(
            (np.float32, tuple(self.inner_shape)), self.get_next_blob_reference("output")
        )

    def get_memory_usage(self):
        return functools.reduce(operator.mul, [self.input_dim, *self.inner_shape]) * 4

    def get_fp16_compatible_parameters(self):
        return [self.w]

    def support_8bit(self):
        """Return whether 8-bit rows pay: scale and bias of each row take 8 bytes."""
        return math.prod(self.inner_shape) >= 8

    def get_8bits_compatible_parameters(self, fused=True):
        """Return what to convert for 8-bit rows: the table, and with `fused` false also the blob for scales and biases."""
        if not self.support_8bit():
            return []
        if fused:
            return [namedtuple("RowwiseQuantized8BitsWeight", "w")(self.w)]
        return [namedtuple("RowwiseQuantized8BitsWeight", "w, scale_bias")(self.w, self.scale_bias)]

    def _get_default_init_op(self):
        scale = math.sqrt(self.uniform_weight_init_scale_numerator / self.input_dim)
        return ("UniformFill", {"min": -scale, "max": scale})

    def _gather_wrapper(self, net, version, in_indices, out):
        if version == "uint8rowwise":
            raise NotImplementedError("Gather of unfused 8-bit rows")
        if version == "fused_uint8rowwise":
            table = net.Gather([self.w, in_indices], net.NextScopedBlob("table_rows_8bit"))
            return net.Fused8BitRowwiseQuantizedToFloat(table, out)
        if version not in ("fp32", "fp16"):
            raise ValueError(f"Unsupported version of operators in SparseLookup layer: {version}")
        return net.Gather([self.w, in_indices], out)

    def _reduce(self, net, kind, inputs, version, **args):
        """Add the operator SparseLengths<kind> for this form of the table."""
        suffix = {
            "fp32": "",
            "fp16": "",
            "uint8rowwise": "8BitsRowwise",
            "fused_uint8rowwise": "Fused8BitRowwise",
            "fused_uint4rowwise": "Fused4BitRowwise",
        }.get(version)
        if suffix is None:
            raise ValueError(f"Unsupported version of operators in SparseLookup layer: {version}")
        more = [self.scale_bias] if version == "uint8rowwise" else []
        if version not in ("fp32", "fp16"):
            args = {}
        getattr(net, f"SparseLengths{kind}{suffix}")([self.w, *inputs, *more], self.output_schema.field_blobs(), **args)

    def _sparse_lengths_weighted_reducer(self, in_indices, weights, reducer, net, version, grad_on_weights=0):
        inputs = [weights, in_indices, self.input_record.lengths()]
        self._reduce(net, reducer.removeprefix("SparseLengths"), inputs, version, grad_on_weights=grad_on_weights)

    def _check_reducer(self, reducers, kind):
        if self.reducer not in reducers:
            raise AssertionError(f"Unsupported reducer: {self.reducer} for {kind} {self.sparse_key}")

    def _add_ops_id_list(self, net, version):
        self._check_reducer(self._id_list_supported_reducers, "ID_LIST")
        items, lengths = self.input_record.items(), self.input_record.lengths()
        if self.reducer in ("Sum", "Mean", "WeightedSum", "WeightedMean"):
            self._reduce(net, self.reducer.removeprefix("Weighted"), [items, lengths], version)
        elif self.reducer == "Sqrt":
            weights = net.LengthsToWeights([lengths], [net.NextScopedBlob("lengths_sqrt")], power=0.5)
            self._sparse_lengths_weighted_reducer(items, weights, "WeightedSum", net, version)
        elif self.reducer == "None":
            self._gather_wrapper(net, version, items, self.output_schema.field_blobs())
        else:
            rows = self._gather_wrapper(net, version, items, net.NextScopedBlob("table_rows"))
            segments = net.LengthsToSegmentIds(lengths, net.NextScopedBlob(f"{lengths}_sid"))
            getattr(net, f"SortedSegmentRange{self.reducer}")([rows, segments], self.output_schema.field_blobs())

    def _add_ops_id_score_list(self, net, version):
        self._check_reducer(self._id_score_list_supported_reducers, "ID_SCORE_LIST")
        ids, scores, lengths = self.input_record.keys(), self.input_record.values(), self.input_record.lengths()
        if self.reducer in ("WeightedSum", "WeightedMean"):
            self._sparse_lengths_weighted_reducer(ids, scores, self.reducer, net, version)
        elif self.reducer in ("PositionWeighted", "RecencyWeighted") or self.use_external_weights:
            self._sparse_lengths_weighted_reducer(ids, scores, "WeightedSum", net, version, grad_on_weights=1)
        elif self.reducer in ("Sum", "Mean"):
            self._reduce(net, self.reducer, [ids, lengths], version)
        else:
            self._gather_wrapper(net, version, ids, self.output_schema.field_blobs())

    def _add_ops(self, net, version="fp32", is_train=True):
        if self.evicted_values and is_train:
            net.CopyRowsToTensor([self.w, self.evicted_values.get(), self.reinit_vec], [self.w])
        if _is_id_list(self.input_record):
            self._add_ops_id_list(net, version)
        elif _is_id_score_list(self.input_record):
            self._add_ops_id_score_list(net, version)
        else:
            raise AssertionError(f"Unsupported input type {self.input_record!r}")

    def add_train_ops(self, net):
        self._add_ops(net, self.trainer_version, is_train=True)

    def add_ops(self, net):
        self._add_ops(net, get_sparse_lookup_predictor_version("fp32"), is_train=False)
