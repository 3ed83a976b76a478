"""A stand-in for `cupy.cuda.nccl` between emulated GPUs, as strict as CuPy's: numbers for pointers, types and streams.

Ranks of several processes exchange over MPI, those of one process over a list of the group's calls.  Nothing is done when
a call is made: it waits on its stream until the stream's mark is asked for.
"""

import ctypes
import itertools
import secrets
import threading
import zlib

import numpy as np

available = True
NCCL_SUM = 0
TYPES = dict(enumerate(("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")))
calls = []  # names of all calls, for tests
before = []  # what happens at the begin of each call
_streams = {}  # what waits, by the stream's number
_group = []  # calls of the group that is open
_depth = 0


class NcclError(RuntimeError):
    pass


def get_unique_id():
    return secrets.token_bytes(128)


def groupStart():
    global _depth
    _depth += 1


def groupEnd():
    global _depth
    _depth -= 1
    if _depth == 0:
        together, _group[:] = list(_group), []
        _streams.setdefault(0, []).append(lambda: _local(together))


class Stream:
    """For `Gpu.side_stream` of emulated devices."""

    def __init__(self, device=None):
        self.handle = len(_streams) + 1
        _streams[self.handle] = []

    def follow(self):
        pass

    def mark(self):
        return run(self.handle)


def run(stream):
    """Begin the work of a stream, in order; a question whether it is done."""
    pending = _streams.setdefault(stream, [])

    def work():
        while pending:
            pending[0]()
            pending.pop(0)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()

    def done():
        worker.join(0.001)
        return not worker.is_alive()

    return done


def view(address, count, datatype):
    """The memory that a call was told of."""
    for number in (address, count, datatype):
        if not isinstance(number, int):
            raise TypeError(f"an integer is required, not {type(number).__name__}")
    if datatype not in TYPES or count < 0 or (address == 0 and count):
        raise NcclError("NCCL_ERROR_INVALID_ARGUMENT")
    kind = np.dtype(TYPES[datatype])
    return np.frombuffer((ctypes.c_char * (count * kind.itemsize)).from_address(address), kind)


class NcclCommunicator:
    def __init__(self, ndev, commId, rank):
        if type(commId) is not bytes or len(commId) != 128:
            raise TypeError("Argument 'commId' has incorrect type (expected bytes)")
        from mpi4py import MPI

        # In these tests all processes take part, with MPI's ranks.
        world = MPI.COMM_WORLD
        self._mpi = world.Create_group(world.Get_group(), zlib.crc32(commId) & 0x3FFF)
        if set(self._mpi.allgather(commId)) != {commId} or (world.Get_size(), world.Get_rank()) != (ndev, rank):
            raise NcclError("NCCL_ERROR_INVALID_USAGE")
        self._rank, self._ndev, self._aborted = rank, ndev, False

    @staticmethod
    def initAll(devices):
        made = []
        for number, device in enumerate(devices):
            comm = NcclCommunicator.__new__(NcclCommunicator)
            comm._mpi, comm._rank, comm._ndev, comm._device = None, number, len(devices), device
            made.append(comm)
        return made

    def _call(self, name, root, stream, source, target):
        if type(stream) is not int or not 0 <= root < self._ndev:
            raise NcclError("NCCL_ERROR_INVALID_ARGUMENT")
        for act in before:
            act()
        calls.append(name)
        call = (name, self._rank, root, source, target)
        if _depth:
            _group.append(call)
        else:
            _streams[stream].append(lambda: self._between_processes(*call))

    def _between_processes(self, name, rank, root, source, target):
        if name == "send":
            self._mpi.Send(source.view(np.uint8), root)
        elif name == "recv":
            self._mpi.Recv(target.view(np.uint8), root)
        else:
            everybody = self._mpi.allgather(source.tobytes())
            results(name, root, [np.frombuffer(b, source.dtype) for b in everybody], {rank: target})

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        assert op == NCCL_SUM
        self._call("allReduce", 0, stream, view(sendbuf, count, datatype), view(recvbuf, count, datatype))

    def reduce(self, sendbuf, recvbuf, count, datatype, op, root, stream):
        assert op == NCCL_SUM
        self._call("reduce", root, stream, view(sendbuf, count, datatype), view(recvbuf, count, datatype))

    def broadcast(self, sendbuff, recvbuff, count, datatype, root, stream):
        self._call("broadcast", root, stream, view(sendbuff, count, datatype), view(recvbuff, count, datatype))

    def reduceScatter(self, sendbuf, recvbuf, recvcount, datatype, op, stream):
        assert op == NCCL_SUM
        source = view(sendbuf, recvcount * self._ndev, datatype)
        self._call("reduceScatter", 0, stream, source, view(recvbuf, recvcount, datatype))

    def allGather(self, sendbuf, recvbuf, count, datatype, stream):
        target = view(recvbuf, count * self._ndev, datatype)
        self._call("allGather", 0, stream, view(sendbuf, count, datatype), target)

    def send(self, sendbuf, count, datatype, peer, stream):
        self._call("send", peer, stream, view(sendbuf, count, datatype), None)

    def recv(self, recvbuf, count, datatype, peer, stream):
        self._call("recv", peer, stream, None, view(recvbuf, count, datatype))

    def check_async_error(self):
        if self._aborted:
            raise NcclError("NCCL_ERROR_INVALID_ARGUMENT")

    def abort(self):
        calls.append("abort")
        self._aborted = True

    def destroy(self):
        calls.append("destroy")


def _local(together):
    """A group of calls of one process: as many as there are ranks make one collective."""
    for _, batch in itertools.groupby(together, key=lambda call: call[0]):
        batch = sorted(batch, key=lambda call: call[1])
        name, _, root, _, _ = batch[0]
        results(name, root, [call[3].copy() for call in batch], {call[1]: call[4] for call in batch})


def results(name, root, sources, targets):
    """Write what the ranks in `targets` get."""
    size = len(sources)
    if len({s.size for s in sources}) != 1:
        raise NcclError("NCCL_ERROR_INVALID_USAGE")
    for rank, target in targets.items():
        total = np.sum(sources, axis=0, dtype=sources[0].dtype)
        if name == "allReduce":
            target[:] = total
        elif name == "broadcast":
            target[:] = sources[root]
        elif name == "allGather":
            target[:] = np.concatenate(sources)
        elif name == "reduceScatter":
            target[:] = np.split(total, size)[rank]
        elif name == "reduce" and rank == root:
            target[:] = total
