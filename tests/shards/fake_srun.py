"""`fake_srun.py N COMMAND…`: starts N processes with the environment that srun gives where it has no PMI that MPICH knows."""

import os
import subprocess
import sys

count = int(sys.argv[1])
clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI", "SLURM", "MPI_"))}
children = [
    subprocess.Popen(
        sys.argv[2:],
        env={
            **clean,
            "PMIX_RANK": str(rank),
            "SLURM_JOB_ID": "4711",
            "SLURM_JOB_NODELIST": "node[1-2]",
            "SLURM_LOCALID": str(rank // 2),
            "SLURM_NODEID": str(rank % 2),
            "SLURM_NTASKS": str(count),
            "SLURM_PROCID": str(rank),
            "SLURM_STEP_ID": "0",
            "SLURM_STEP_NUM_TASKS": str(count),
        },
    )
    for rank in range(count)
]
sys.exit(max(child.wait() for child in children))
