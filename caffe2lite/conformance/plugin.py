"""The pytest plugin under which Caffe2's test files run: old names are put back, nothing else is changed.

CAFFE2LITE_GENUINE names the folder of Caffe2's own Python files where these are to be the front end.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from caffe2lite.conformance import genuine
from caffe2lite.port import legacy

legacy.put_back()  # before the test files are imported
_folder = os.environ.get("CAFFE2LITE_GENUINE")
if _folder:
    genuine.install(_folder)


def pytest_configure(config: Any) -> None:
    """Old files draw large examples slowly; that is no fault of the engine."""
    try:
        from hypothesis import HealthCheck, settings
    except ImportError:
        return
    importlib.import_module("caffe2.python.hypothesis_test_util")  # it loads a profile, of which the rest is kept
    settings.register_profile("upstream", settings(), deadline=None, suppress_health_check=list(HealthCheck))
    settings.load_profile("upstream")
