"""Workspaces as objects, with the functions of caffe2.python.workspace as methods."""

from __future__ import annotations

import functools
import uuid

from caffe2lite.python import workspace


class Workspace:
    """`w = Workspace(); w.FeedBlob("x", x)`: whatever the module workspace can do, in a workspace of its own."""

    def __init__(self):
        self.workspace_id = f"{type(self).__name__}-{uuid.uuid4()}"
        with self._ctx:
            pass  # makes it

    @property
    def _ctx(self):
        """A context in which this is the current workspace."""
        return workspace.WorkspaceGuard(self.workspace_id)

    def __getattr__(self, attr):
        function = getattr(workspace, attr)

        @functools.wraps(function)
        def inside(*args, **kwargs):
            with self._ctx:
                return function(*args, **kwargs)

        return inside

    def __del__(self):
        # At the end of the interpreter the module may be gone already.
        if workspace is not None and "workspace_id" in self.__dict__:
            self.ResetWorkspace()
