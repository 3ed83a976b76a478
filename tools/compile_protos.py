#!/usr/bin/env python3
"""Compile proto/*.proto into caffe2lite/proto/*_pb2.py, and *_pb2.pyi for type checkers.

    pip install grpcio-tools==1.62.3        # protoc 25: its output runs on protobuf 4.25 up to 7.x
    python tools/compile_protos.py

The files are compiled under the name `caffe2/proto/X.proto`, which is how nets and other tools know them.
Newer compilers write code that refuses older protobuf runtimes, hence the pinned one.
"""

import pathlib
import re
import shutil
import tempfile

from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main() -> None:
    """Compile every message file and point its imports at caffe2lite."""
    with tempfile.TemporaryDirectory() as tmp:
        tree = pathlib.Path(tmp)
        package = tree / "caffe2" / "proto"
        package.mkdir(parents=True)
        for source in sorted((ROOT / "proto").glob("*.proto")):
            shutil.copy(source, package)
        names = [f"caffe2/proto/{p.name}" for p in sorted(package.glob("*.proto"))]
        if protoc.main(["protoc", f"-I{tmp}", f"--python_out={tmp}", f"--pyi_out={tmp}", *names]):
            raise SystemExit("protoc failed")
        for made in sorted(package.glob("*_pb2.py*")):
            text = re.sub(r"from caffe2\.proto import", "from caffe2lite.proto import", made.read_text())
            (ROOT / "caffe2lite" / "proto" / made.name).write_text(text)
            print(f"caffe2lite/proto/{made.name}")


if __name__ == "__main__":
    main()
