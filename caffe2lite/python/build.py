"""How the engine was built."""

from caffe2lite.python._import_c_extension import get_build_options

build_options = get_build_options()
CAFFE2_NO_OPERATOR_SCHEMA = False  # operators always have schemas here
