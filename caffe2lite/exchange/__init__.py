"""The way out of Caffe2's files, and in: npz, safetensors, torch's state dicts, ONNX.

from caffe2lite import exchange
exchange.export_tensors("model.minidb", "model.safetensors")
exchange.import_tensors("model.safetensors", "model.minidb")

Tensors go one after the other, so that memory holds the largest; torch.save alone needs all of them.  What a format cannot
hold is an error (CannotHold) that names it, before anything is written.
"""

from caffe2lite.exchange.formats import FORMATS, CannotHold, format_of
from caffe2lite.exchange.models import export_model, import_model
from caffe2lite.exchange.moving import Moved, export_tensors, import_tensors

__all__ = [
    "FORMATS",
    "CannotHold",
    "Moved",
    "export_model",
    "export_tensors",
    "format_of",
    "import_model",
    "import_tensors",
]
