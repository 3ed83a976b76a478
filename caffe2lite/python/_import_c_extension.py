"""The engine under the names of Caffe2's C extension."""

import sys as _sys

from caffe2lite.engine import c_api as _c_api

_sys.modules[__name__] = _c_api
