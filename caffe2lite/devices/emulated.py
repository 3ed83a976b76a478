"""GPUs emulated on the CPU: arrays that carry their device and are as strict as CuPy's."""

from __future__ import annotations

from caffe2lite.devices.base import Device


def devices() -> list[Device]:
    """The emulated GPUs."""
    return []
