"""Many rendezvous over one folder that is never emptied: 2 to 6 shards that start at random moments.

    python benchmarks/rendezvous.py [--count 200] [--delay 1.0] [--seed 1]       needs the extra mpi

Each shard makes a common world, broadcasts, and ends; a rendezvous succeeds when all of them end with status 0.
Exit status 1 where one did not.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

# Interpreters take longer to start than shards to meet: they are forked from one that has imported everything.
SHARDS = """
import os, random, sys, time, traceback
import numpy as np
from caffe2.python import core, workspace
import mpi4py

def shard(rank, size, folder, delay):
    time.sleep(delay)
    workspace.RunOperatorOnce(core.CreateOperator("FileStoreHandlerCreate", [], ["store"], path=folder))
    workspace.RunOperatorOnce(core.CreateOperator("CreateCommonWorld", ["store"], ["world"], size=size, rank=rank))
    workspace.FeedBlob("x", np.full(1000, rank, "f"))
    workspace.RunOperatorOnce(core.CreateOperator("Broadcast", ["world", "x"], ["x"], root=size - 1))
    assert (workspace.FetchBlob("x") == size - 1).all()

for line in sys.stdin:
    size, seed, folder, longest = eval(line)
    rng = random.Random(seed)
    delays = [longest * rng.random() for _ in range(size)]
    children = []
    for rank in range(size):
        child = os.fork()
        if not child:
            try:
                shard(rank, size, folder, delays[rank])
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
            sys.exit(0)
        children.append(child)
    print([os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) for c in children], flush=True)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--delay", type=float, default=1.0, help="longest delay of a shard, in seconds")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    start, succeeded = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        forker = subprocess.Popen(
            [sys.executable, "-c", SHARDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for number in range(options.count):
            size = rng.randint(2, 6)
            print((size, rng.random(), folder, options.delay), file=forker.stdin, flush=True)
            told = forker.stdout.readline().strip()
            succeeded += told == str([0] * size)
            if told != str([0] * size):
                print(f"rendezvous {number} of {size} shards: exit statuses {told}", flush=True)
        forker.stdin.close()
        forker.wait()
        files = len(os.listdir(folder))
    seconds = time.monotonic() - start
    print(f"{succeeded} of {options.count} rendezvous succeeded in {seconds:.0f} s; the folder holds {files} files")
    sys.exit(succeeded != options.count)


if __name__ == "__main__":
    main()
