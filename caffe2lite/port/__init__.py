"""Legacy code on today's Python: what it needs, how to mend it, and how to run it as it is.

from caffe2lite import port
port.examine("train.py").findings
port.run_script("train.py", ["--epochs", "3"])
"""

from caffe2lite.port.running import run_script

__all__ = ["run_script"]
