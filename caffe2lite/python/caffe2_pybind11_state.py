"""The C extension under the name of its CPU build."""

import sys as _sys

from caffe2lite.python import _import_c_extension as _c

_sys.modules[__name__] = _c
