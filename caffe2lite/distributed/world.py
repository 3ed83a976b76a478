"""MPI_COMM_WORLD, however it was started, and its end.

Started by a launcher (mpirun, srun) MPI finds the others itself.  Started by hand, processes meet in a store first.
Once a collective has missed its deadline, the world is dead: a peer is gone, and MPI has no way to go on without it.
Then nothing waits for MPI any more, not even the end of the process.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import sys
import threading
import time
from types import ModuleType, TracebackType
from typing import Any

from caffe2lite.distributed import connections, handshake, pmi
from caffe2lite.distributed.stores import DEFAULT_TIMEOUT, Store
from caffe2lite.extras import install

_PMI_VARIABLES = ("PMI_FD", "PMI_PORT", "PMI_RANK", "MPI_LOCALRANKID")
_PMIX_VARIABLES = ("PMIX_RANK", "OMPI_COMM_WORLD_RANK")
_INTERFACE_VARIABLES = ("UCX_NET_DEVICES", "FI_TCP_IFACE", "OMPI_MCA_btl_tcp_if_include")
_FINALIZE_SECONDS = 5.0
_ROLL_CALL_SECONDS = 0.6  # within the second that an error may come after its deadline
_ANSWER_SECONDS = 0.1
_CALL_TAG, _ANSWER_TAG = 0x7FFE, 0x7FFF  # on MPI_COMM_WORLD, which nothing else uses
_PLIGHT_BYTES = 240


class WorldError(RuntimeError):
    """Processes that cannot talk to each other, or no longer."""


class World:
    """The processes of this run.  `rank_of[shard]` is the MPI rank of a shard."""

    def __init__(self, mpi: ModuleType, manager: pmi.Manager | None, listeners: str) -> None:
        self.mpi = mpi
        self.comm = mpi.COMM_WORLD
        self.manager = manager
        for comm in (mpi.COMM_WORLD, mpi.COMM_SELF):  # errors of a request may be those of COMM_SELF
            comm.Set_errhandler(mpi.ERRORS_RETURN)
        self.broken = ""  # why the world is dead
        self.verdict = ""  # the whole error, when the others have been asked: what all threads that wait then raise
        self.kept: list[Any] = []  # buffers of requests that never came to an end

        self.listeners = listeners  # where MPI listens here
        self.watch: connections.Watch | None = None

    def declare_dead(self, why: str) -> None:
        """No collective may be started any more, and the process must not wait for MPI when it ends."""
        self.broken = self.broken or why

    def unlink_shared_memory(self) -> None:
        """Take away the names of MPICH's shared memory, which every rank has mapped by now: a killed job leaves none."""
        try:
            with open("/proc/self/maps") as f:
                names = {
                    line.split()[-1] for line in f if "/dev/shm/mpich_shm_" in line and not line.endswith("(deleted)\n")
                }
        except OSError:
            return
        for name in names:
            with contextlib.suppress(OSError):  # another rank of this host was first
                os.unlink(name)

    def roll_call(self, plight: str) -> dict[int, str]:
        """Give up before all MPI ranks: what those say that wait, too; those that are well or dead say nothing."""
        me, size = self.comm.Get_rank(), self.comm.Get_size()
        for rank in range(size):
            if rank != me:
                self._say(plight, rank, _CALL_TAG)
        heard: dict[int, str] = {}
        end = time.monotonic() + _ROLL_CALL_SECONDS
        while len(heard) < size - 1 and time.monotonic() < end:
            for tag in (_ANSWER_TAG, _CALL_TAG):
                heard.update(self._heard(tag))
            time.sleep(0.005)
        return heard

    def given_up(self, plight: str) -> tuple[int, str] | None:
        """(MPI rank, its plight) of a rank that has given up, None where none has; it is told what we wait for."""
        for rank, why in self._heard(_CALL_TAG).items():
            self._say(plight, rank, _ANSWER_TAG)
            end = time.monotonic() + _ANSWER_SECONDS
            while time.monotonic() < end:  # MPI sends on only while it is called, and this process may end now
                self._heard(_ANSWER_TAG)
                time.sleep(0.002)
            return rank, why
        return None

    def _say(self, text: str, rank: int, tag: int) -> None:
        content = text.encode()[:_PLIGHT_BYTES].ljust(_PLIGHT_BYTES)
        self.kept.append((content, self.comm.Isend(content, rank, tag)))

    def _heard(self, tag: int) -> dict[int, str]:
        heard: dict[int, str] = {}
        status = self.mpi.Status()
        while self.comm.Iprobe(self.mpi.ANY_SOURCE, tag, status):
            content = bytearray(_PLIGHT_BYTES)
            self.comm.Recv(content, status.Get_source(), tag)
            heard[status.Get_source()] = content.decode(errors="replace").rstrip()
        return heard

    @functools.cached_property
    def takes_gpu_memory(self) -> bool:
        """Whether the MPI library can be given pointers to CUDA memory."""
        for library in (self.mpi.__file__, None):
            try:
                return bool(ctypes.CDLL(library).MPIX_Query_cuda_support())  # Open MPI, MPICH
            except (AttributeError, OSError):
                pass
        return os.environ.get("MPICH_GPU_SUPPORT_ENABLED") == "1"  # Cray


_world: World | None = None
_lock = threading.Lock()


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


def _start(mpi: ModuleType, timeout: float) -> tuple[Any, bool]:
    """(MPI's library, whether it has started in time).

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
    starter.join(timeout)
    return library, done == [0]


def _leave() -> None:
    """End without MPI_Finalize, which would wait for the dead; a launcher then ends the others."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _launched(timeout: float) -> World:
    MPI = _import_mpi()  # noqa: N806 - mpi4py's own name
    before = connections.sockets()
    if not _start(MPI, timeout)[1]:
        atexit.register(_leave)
        raise WorldError(f"MPI did not start within {timeout:g} s: a peer of this job does not answer")
    world = World(MPI, None, connections.listeners(before))
    atexit.register(_end_launched, world)
    _give_up_with_the_script(world)
    return world


def _give_up_with_the_script(world: World) -> None:
    """When an exception ends the script, the others need not wait for their deadline.

    A launcher ends them when this process has ended; processes that were started by hand are told.
    """
    tell = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        known = world.broken
        world.declare_dead("this process has failed")
        tell(kind, error, trace)
        if world.manager and not known:
            world.roll_call(f"its script ended with {kind.__name__}: {error}")

    sys.excepthook = hook


def _end_launched(world: World) -> None:
    if world.broken:
        _leave()
    if world.watch:
        world.watch.stop()
    if not world.mpi.Is_finalized():
        world.mpi.Finalize()


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
    library, started = _start(MPI, timeout)
    for name in manager.environment:
        os.environ.pop(name, None)
    if not started or manager.error:
        atexit.register(manager.say_goodbye)
        raise WorldError(f"MPI did not start within {timeout:g} s: {manager.error or 'a peer does not answer'}")
    world = World(MPI, manager, connections.listeners(before))
    leaving = threading.Event()
    # A ctypes call lets the manager answer.  Python starts no thread any more when it ends: this one is there before.
    ender = threading.Thread(target=lambda: leaving.wait() and library.MPI_Finalize(), daemon=True)
    ender.start()
    atexit.register(_end_by_hand, world, leaving, ender)
    _give_up_with_the_script(world)
    return world


def _end_by_hand(world: World, leaving: threading.Event, ender: threading.Thread) -> None:
    assert world.manager is not None
    if not world.broken:
        if world.watch:
            world.watch.stop()
        leaving.set()
        ender.join(_FINALIZE_SECONDS)
        if ender.is_alive():  # others have still work to do, or are dead: neither is this process's failure
            world.manager.wait_no_longer()
            ender.join(_FINALIZE_SECONDS)
    world.manager.say_goodbye()
