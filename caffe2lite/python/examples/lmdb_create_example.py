"""Write images and labels into an lmdb database, and read them back through a net.

python -m caffe2.python.examples.lmdb_create_example --output_file images.lmdb
"""

from __future__ import annotations

import argparse

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import model_helper, utils, workspace


def create_db(output_file, count=128, seed=0):
    """Write `count` random images (3 x 32 x 32, float32) with labels; the sum of all pixels."""
    import lmdb

    random = np.random.RandomState(seed)
    total = 0.0
    with lmdb.open(output_file, map_size=1 << 30) as env, env.begin(write=True) as transaction:
        for i in range(count):
            image = random.rand(3, 32, 32).astype(np.float32)
            record = caffe2_pb2.TensorProtos()
            record.protos.extend(
                [
                    utils.NumpyArrayToCaffe2Tensor(image),
                    utils.NumpyArrayToCaffe2Tensor(np.array(random.randint(0, 10), np.int32)),
                ]
            )
            transaction.put(f"{i:08d}".encode(), record.SerializeToString())
            total += float(image.sum())
    return total


def read_db_with_caffe2(db_file, expected_checksum, count=128, batch_size=32):
    """Read all batches by TensorProtosDBInput; the sum of all pixels, which must be what was written."""
    model = model_helper.ModelHelper(name="lmdbtest")
    data, _label = model.TensorProtosDBInput([], ["data", "label"], batch_size=batch_size, db=db_file, db_type="lmdb")
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    total = 0.0
    for _ in range(count // batch_size):
        workspace.RunNet(model.net)
        total += float(workspace.FetchBlob(data).sum())
    if not np.isclose(total, expected_checksum, rtol=1e-4):
        raise RuntimeError(f"read pixels that sum up to {total}, wrote {expected_checksum}")
    return total


def main(argv=None):
    """The command line."""
    parser = argparse.ArgumentParser(description="Writes images into an LMDB and reads them back.")
    parser.add_argument("--output_file", required=True, help="the database's folder")
    args = parser.parse_args(argv)
    total = read_db_with_caffe2(args.output_file, create_db(args.output_file))
    print(f"128 images written to {args.output_file} and read back; the sum of their pixels is {total:.1f}")


if __name__ == "__main__":
    main()
