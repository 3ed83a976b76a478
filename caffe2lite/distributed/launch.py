"""The `rendezvous` of Parallelize, from the environment that a launcher makes."""

from __future__ import annotations

import os
from typing import Any

_FAMILIES = (  # rank, size
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),  # of srun; a batch script has an id and a number of tasks, too
    ("RANK", "WORLD_SIZE"),
)


def rendezvous(engine: str = "GLOO", kv_handler: object = None) -> dict[str, Any] | None:
    """The dict for `Parallelize(rendezvous=…)`: number of shards and shard id as mpirun, srun or torchrun tell them.

    None where the environment tells of one process or of none.  torchrun starts processes that do not know each
    other, and so does srun where it has no PMI for this MPI (`srun --mpi=list`): give them a `kv_handler`.
    """
    for rank, size in _FAMILIES:
        if rank in os.environ and size in os.environ:
            shards = int(os.environ[size])
            if shards < 2:
                return None
            return {
                "kv_handler": kv_handler,
                "num_shards": shards,
                "shard_id": int(os.environ[rank]),
                "engine": engine,
                "mpi_rendezvous": kv_handler is None,
                "exit_nets": None,
            }
    return None
