"""Tags of layers: where a layer appears, and how it is placed."""

from __future__ import annotations

import functools

from caffe2lite.python import context


class TagContext(context.DefaultManaged):
    """The tags that new layers get."""

    def __init__(self, tags=None):
        self.tags = list(tags or [])

    def add_tags(self, tags):
        """Give these to layers from here on."""
        self.tags += tags

    def remove_tags(self, tags):
        """Take back one of each."""
        for tag in tags:
            self.tags.remove(tag)


class Tags:
    """`with Tags(Tags.CPU_ONLY):` (or as decorator): layers made inside have the tag, or each of a list."""

    EXCLUDE_FROM_TRAIN = "exclude_from_train"
    EXCLUDE_FROM_EVAL = "exclude_from_eval"
    EXCLUDE_FROM_PREDICTION = "exclude_from_prediction"
    EXCLUDE_FROM_ACCUMULATE_PRED = "exclude_from_accumulate_pred"
    PREPROCESSING = "preprocessing"
    HANDLE_AS_SPARSE_LAYER = "handle_as_sparse_layer"
    PREFER_GPU = "prefer_gpu"
    CPU_ONLY = "cpu_only"
    LOCAL = "local"
    SPARSE_SHARDED = "sparse_sharded"
    SPARSE_DONT_SHARD = "sparse_dont_shard"
    COMPONENT = "component:"
    PIPELINE = "pipeline:"
    HOGWILD_DENSE = "hogwild_dense"
    EXTRA_INFO = "extra_info:"
    EMPTY_TAG = "empty_tag"

    DT_TAGS = (SPARSE_SHARDED, SPARSE_DONT_SHARD, COMPONENT, HOGWILD_DENSE)

    PREDICTION_SCHEMA = "prediction_schema"
    FEATURE_TRANSFORM = "feature_transform"
    FEATURE_TRANSFORM_SCHEMA = "feature_transform_schema"

    TRAIN_ONLY = [EXCLUDE_FROM_PREDICTION, EXCLUDE_FROM_EVAL, EXCLUDE_FROM_ACCUMULATE_PRED]
    EVAL_ONLY = [EXCLUDE_FROM_PREDICTION, EXCLUDE_FROM_TRAIN, EXCLUDE_FROM_ACCUMULATE_PRED]
    PREDICTION_ONLY = [EXCLUDE_FROM_TRAIN, EXCLUDE_FROM_EVAL, EXCLUDE_FROM_ACCUMULATE_PRED]

    def __init__(self, tags):
        self.tags = tags if isinstance(tags, list) else [tags]

    def __enter__(self):
        TagContext.current().add_tags(self.tags)
        return self

    def __exit__(self, type, value, traceback):
        TagContext.current().remove_tags(self.tags)

    def __call__(self, func):
        @functools.wraps(func)
        def tagged(*args, **kwargs):
            with self:
                return func(*args, **kwargs)

        return tagged
