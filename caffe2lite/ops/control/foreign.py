"""Operators that are doors to other runtimes: nets with them can be read and inspected, running them says what to do."""

from __future__ import annotations

from caffe2lite.ops.kit.registry import MANY, operator

_INSTEAD = (
    "{0} hands a part of a net to {1}, which is not here. Run the net it was made from instead, or take the ONNX model "
    "in its argument {2!r} to a runtime for ONNX (onnxruntime runs it on the same hardware)"
)


@operator("Ys*", num_inputs=(0, MANY))
def Onnxifi(xp, *Xs, onnx_model: bytes = b"", initializers: list[str] = (), output_resize_hints: list[int] = ()):
    """A part of a net for a backend of ONNXIFI: cannot run here.

    Inputs and outputs [...] of any type. A ValueError, always, says what to do instead.
    """
    raise ValueError(_INSTEAD.format("Onnxifi", "a library of ONNXIFI", "onnx_model"))


@operator("Ys*", num_inputs=(0, MANY))
def TensorRT(xp, *Xs, backend_buffer: bytes = b""):
    """A part of a net for TensorRT: cannot run here.

    Inputs and outputs [...] of any type. A ValueError, always, says what to do instead.
    """
    raise ValueError(_INSTEAD.format("TensorRT", "NVIDIA's TensorRT", "backend_buffer"))
