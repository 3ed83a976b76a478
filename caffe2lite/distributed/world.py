"""MPI_COMM_WORLD, however it was started, and its end.

Started by a launcher (mpirun, srun) MPI finds the others itself.  Started by hand, processes meet in a store first.
Once a collective has missed its deadline, the world is dead: a peer is gone, and MPI has no way to go on without it.
Then nothing waits for MPI any more, not even the end of the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from caffe2lite.distributed import connections, ending, handshake, hydra, pmi
from caffe2lite.distributed.messages import Messages
from caffe2lite.distributed.stores import DEFAULT_TIMEOUT, Store
from caffe2lite.extras import install

_PMI_VARIABLES = ("PMI_FD", "PMI_PORT", "PMI_RANK", "MPI_LOCALRANKID")
_PMIX_VARIABLES = ("PMIX_RANK", "OMPI_COMM_WORLD_RANK")
_INTERFACE_VARIABLES = ("UCX_NET_DEVICES", "FI_TCP_IFACE", "OMPI_MCA_btl_tcp_if_include")
_LOOK_SECONDS = 0.05


class WorldError(RuntimeError):
    """Processes that cannot talk to each other, or no longer."""


class World:
    """The processes of this run."""

    def __init__(
        self,
        mpi: ModuleType,
        listeners: str,
        timeout: float,
        manager: pmi.Manager | None,
        watcher: hydra.Guardian | None,
    ) -> None:
        self.mpi = mpi
        self.comm = mpi.COMM_WORLD
        self.timeout = timeout
        self.manager = manager  # of one that was started by hand
        self.guardian = watcher  # of one that Hydra has started
        self.process = os.getpid()
        for comm in (mpi.COMM_WORLD, mpi.COMM_SELF):  # errors of a request may be those of COMM_SELF
            comm.Set_errhandler(mpi.ERRORS_RETURN)
        self.broken = ""  # why the world is dead
        self.verdict = ""  # the whole error, when the others have been asked: what all threads that wait then raise
        self.kept: list[Any] = []  # buffers of requests that never came to an end
        self.messages = Messages(mpi, self.kept)
        self.listeners = listeners  # where MPI listens here
        self.watch: connections.Watch | None = None

    def declare_dead(self, why: str) -> None:
        """No collective may be started any more, and the process must not wait for MPI when it ends."""
        self.broken = self.broken or why

    @functools.cached_property
    def takes_gpu_memory(self) -> bool:
        """Whether the MPI library can be given pointers to CUDA memory."""
        for library in (self.mpi.__file__, None):
            try:
                return bool(ctypes.CDLL(library).MPIX_Query_cuda_support())  # Open MPI, MPICH
            except (AttributeError, OSError):
                pass
        return os.environ.get("MPICH_GPU_SUPPORT_ENABLED") == "1"  # Cray


def _shared_memory() -> set[str]:
    """The files of MPICH's shared memory that this process has mapped."""
    try:
        with open("/proc/self/maps") as f:
            return {
                line.split()[-1] for line in f if "/dev/shm/mpich_shm_" in line and not line.endswith("(deleted)\n")
            }
    except OSError:
        return set()


def unlink_shared_memory() -> None:
    """Take away the names of MPICH's shared memory, when every rank has mapped it or never will: none stays."""
    for name in _shared_memory():
        with contextlib.suppress(OSError):  # another rank of this host was first
            os.unlink(name)


_world: World | None = None
_lock = threading.Lock()


def _forget() -> None:
    """In a forked child: MPI is its parent's, and so is the connection to whoever has started it."""
    global _lock
    _lock = threading.Lock()
    if _world is not None:
        _world.declare_dead("this process was forked from one that takes part: only that one can")
        ending.detach(_world)


os.register_at_fork(after_in_child=_forget)


def launched() -> bool:
    """Whether this process was started by a launcher that its MPI understands: MPICH's wheel knows nothing of PMIx."""
    if any(v in os.environ for v in _PMI_VARIABLES):
        return True
    if not any(v in os.environ for v in _PMIX_VARIABLES):
        return False
    library = _import_mpi().Get_library_version()
    return "MPICH" not in library or "pmix" in library


def get(store: Store | None, rank: int, size: int, timeout: float = DEFAULT_TIMEOUT, interface: str = "") -> World:
    """The world, which the first call starts: by the launcher, or over the store; MPI uses only this interface."""
    global _world
    with _lock:
        if _world is None:
            for variable in _INTERFACE_VARIABLES if interface else ():
                os.environ.setdefault(variable, interface)
            _world = _launched(timeout) if launched() else _by_hand(store, rank, size, timeout)
        return _world


def current() -> World | None:
    """The world, None where there is none yet."""
    return _world


def _import_mpi() -> Any:
    try:
        import mpi4py
    except ImportError:
        raise WorldError(f"several shards need MPI: {install('mpi')}") from None
    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    mpi4py.rc.threads = True
    mpi4py.rc.thread_level = "multiple"
    from mpi4py import MPI

    return MPI


def _start(mpi: ModuleType, timeout: float, look: Callable[[], None]) -> tuple[Any, bool]:
    """(MPI's library, whether it has started in time).  `look` is called now and then meanwhile.

    mpi4py's own Init would keep all other threads from running, and could not be given up.
    """
    library = ctypes.CDLL(mpi.__file__)  # finds what this module is linked with
    if mpi.Is_initialized():
        return library, True
    provided = ctypes.c_int()
    done: list[int] = []
    starter = threading.Thread(
        target=lambda: done.append(library.MPI_Init_thread(None, None, mpi.THREAD_MULTIPLE, ctypes.byref(provided))),
        daemon=True,
    )
    starter.start()
    end = time.monotonic() + timeout
    while starter.is_alive() and time.monotonic() < end:
        starter.join(_LOOK_SECONDS)
        look()
    if done != [0]:
        unlink_shared_memory()
    return library, done == [0]


def _launched(timeout: float) -> World:
    watcher = hydra.start()
    MPI = _import_mpi()  # noqa: N806 - mpi4py's own name
    before = connections.sockets()
    told: set[str] = set()

    def look() -> None:
        for name in _shared_memory() - told:
            told.add(name)
            if watcher:
                watcher.remove_at_death(name)

    library, started = _start(MPI, timeout, look)
    if not started:
        ending.leave_at_exit(watcher)
        raise WorldError(f"MPI did not start within {timeout:g} s: a peer of this job does not answer")
    world = World(MPI, connections.listeners(before), timeout, None, watcher)
    ending.arrange(world, library)
    return world


def _slurm() -> str:
    """What to say of srun to a process that it has started."""
    return " --mpi=pmi2 (without it MPI cannot ask SLURM who the others are)" if "SLURM_PROCID" in os.environ else ""


def _by_hand(store: Store | None, rank: int, size: int, timeout: float) -> World:
    if store is None:
        raise WorldError(
            f"{size} shards have no way to meet: start them by mpirun or srun{_slurm()}, or give the rendezvous a "
            f"kv_handler (FileStoreHandlerCreate, RedisStoreHandlerCreate)"
        )
    MPI = _import_mpi()  # noqa: N806
    session = handshake.meet(store, "caffe2lite", rank, size, timeout)
    manager = pmi.Manager(store, session, rank, timeout)
    manager.start()
    os.environ.update(manager.environment)
    before = connections.sockets()
    library, started = _start(MPI, timeout, lambda: None)
    for name in manager.environment:
        os.environ.pop(name, None)
    if not started or manager.error:
        ending.say_goodbye_at_exit(manager)
        raise WorldError(f"MPI did not start within {timeout:g} s: {manager.error or 'a peer does not answer'}")
    world = World(MPI, connections.listeners(before), timeout, manager, None)
    ending.arrange(world, library)
    return world
