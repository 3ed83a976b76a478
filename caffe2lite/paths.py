"""Paths that nets name: within one folder where that is asked for, and of files, not of pipes or devices."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

VARIABLE = "CAFFE2LITE_FILES"


def allowed(path: str) -> str:
    """The path; PermissionError where the environment's CAFFE2LITE_FILES names a folder that it does not lie in.

    Links are followed before that is decided.
    """
    folder = os.environ.get(VARIABLE)
    if folder and not _within(os.path.realpath(path), os.path.realpath(folder)):
        raise PermissionError(errno.EPERM, f"it is outside of {folder}, to which {VARIABLE} confines files", path)
    return path


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def open_file(path: str) -> BinaryIO:
    """Open a file for reading; OSError where that is not allowed, or it is no file."""
    # A pipe without a writer would else make this wait.
    handle = os.open(allowed(path), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise OSError(errno.EINVAL, f"it is {_kind(mode)}, not a file", path)
    return open(handle, "rb")


def _kind(mode: int) -> str:
    for test, words in (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    ):
        if test(mode):
            return words
    return "something else"
