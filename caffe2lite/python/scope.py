"""Name scopes and device scopes, kept per thread."""

from __future__ import annotations

import contextlib
import threading

from caffe2lite.proto import caffe2_pb2

NAMESCOPE_SEPARATOR = "/"
_NAMESCOPE_SEPARATOR = NAMESCOPE_SEPARATOR  # the name that Caffe2's scripts know


class _ThreadScopes(threading.local):
    """The scopes a thread starts with: no name prefix, no device."""

    namescope = ""
    devicescope = None


_threadlocal_scope = _ThreadScopes()


def CurrentNameScope():
    """Return the prefix that blob names get here: '' or a path that ends in '/'."""
    return _threadlocal_scope.namescope


def CurrentDeviceScope():
    """Return the DeviceOption that operators get here, or None."""
    return _threadlocal_scope.devicescope


@contextlib.contextmanager
def NameScope(prefix, reset=False):
    """Prefix blob names with `prefix/` inside the block; `reset` forgets the scopes around it."""
    if prefix is not None and not isinstance(prefix, str):
        raise AssertionError(f"a name scope is a string, got {prefix!r}")
    outer = _threadlocal_scope.namescope
    own = prefix + NAMESCOPE_SEPARATOR if prefix else ""
    _threadlocal_scope.namescope = own if reset else outer + own
    try:
        yield
    finally:
        intact = _threadlocal_scope.namescope.endswith(own)
        _threadlocal_scope.namescope = outer
        if not intact:
            raise AssertionError(f"the name scope was changed inside of `with NameScope({prefix!r})` by something else")


@contextlib.contextmanager
def DeviceScope(scope, node_name=None):
    """Place the operators of the block on `scope` (a DeviceOption) and/or on the node `node_name`.

    A node name that is not given comes from the scope around; extra_info adds up.
    """
    device = caffe2_pb2.DeviceOption()
    if scope:
        if not isinstance(scope, caffe2_pb2.DeviceOption):
            raise AssertionError(f"a device scope is a DeviceOption (core.DeviceOption), got {scope!r}")
        device.CopyFrom(scope)
    elif not node_name:
        raise AssertionError("DeviceScope needs a DeviceOption or a node_name")
    outer = _threadlocal_scope.devicescope
    if node_name:
        device.node_name = node_name
    if outer is not None:
        if outer.HasField("node_name") and not device.HasField("node_name"):
            device.node_name = outer.node_name
        device.extra_info.extend(outer.extra_info)
    device.extra_info.sort()
    _threadlocal_scope.devicescope = device
    try:
        yield
    finally:
        intact = _threadlocal_scope.devicescope == device
        _threadlocal_scope.devicescope = outer
        if not intact:
            raise AssertionError("the device scope was changed inside of `with DeviceScope(...)` by something else")


@contextlib.contextmanager
def EmptyNameScope():
    """Inside the block blob names get no prefix."""
    outer = _threadlocal_scope.namescope
    _threadlocal_scope.namescope = ""
    try:
        yield
    finally:
        _threadlocal_scope.namescope = outer


@contextlib.contextmanager
def EmptyDeviceScope():
    """Inside the block operators get no device."""
    outer = _threadlocal_scope.devicescope
    _threadlocal_scope.devicescope = None
    try:
        yield
    finally:
        _threadlocal_scope.devicescope = outer
