"""Communicators between devices, processes and machines.

stores.py       key-value stores in which processes find each other: a shared folder, Redis
handshake.py    agreeing on a fresh run over a store that may hold keys of dead ones
pmi.py          MPICH's questions at start-up answered from a store, so that no mpirun is needed
world.py        MPI_COMM_WORLD, however it was started
messages.py     what its ranks tell each other beside their collectives
ending.py       how a process leaves the others
hydra.py        MPICH's launcher at the end of a process, and when one is gone without a word
calls.py        who a collective is, and what ranks decide that have come to different ones
turns.py        whose turn it is on a common world
collective.py   what a common world is: broadcast, sum, gather and the rest
mpi.py          common worlds of MPI processes, each call with a deadline
connections.py  MPI's connections to other hosts, watched, for a closed one is a dead peer
links.py        how blobs on GPUs take part: MPI, directly or through pinned memory, or NCCL
nccl.py         what NCCL wants to be told, and NCCL among the GPUs of one process
launch.py       `rendezvous()`: what Parallelize wants to know, from the environment of a launcher
"""

from caffe2lite.distributed.launch import rendezvous

__all__ = ["rendezvous"]
