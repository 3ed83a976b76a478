"""imagenet_trainer under its older name."""

from __future__ import annotations

from caffe2lite.python import workspace
from caffe2lite.python.examples.imagenet_trainer import (  # noqa: F401 - they are this module's functions too
    AddImageInput,
    AddNullInput,
    LoadModel,
    RunEpoch,
    SaveModel,
    Train,
    main,
)

if __name__ == "__main__":
    workspace.GlobalInit(["caffe2", "--caffe2_log_level=2"])
    main()
