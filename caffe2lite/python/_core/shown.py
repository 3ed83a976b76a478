"""What a notebook shows of nets, plans, models, blobs and workspaces.  IPython asks for it by these methods' names."""

from __future__ import annotations

import caffe2lite.python._import_c_extension as C
from caffe2lite.engine import inference


class Pictured:
    """Nets: a page with a picture to zoom and search, and the picture itself for where pages are not shown."""

    def _repr_html_(self):
        return _inline().nets_html(self, _shapes())

    def _repr_svg_(self):
        return _inline().net_svg(self, _shapes())


class Tabled:
    """A blob: the values that the current workspace holds by its name."""

    def _repr_html_(self):
        name = str(self)
        return _inline().blobs_html({name: C.fetch_blob(name)} if C.has_blob(name) else {name: None})


def workspace_html(workspace):
    """Return a table of all blobs of a workspace."""
    return _inline().blobs_html({name: workspace.fetch_blob(name) for name in sorted(workspace.blobs)})


def _shapes():
    return inference.workspace_specs(C.Workspace.current._ws)


def _inline():
    from caffe2lite.draw import inline  # only notebooks ask for it

    return inline
