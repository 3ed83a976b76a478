"""MPICH's process management interface (PMI-1), answered from a key-value store.

A process that is started by mpirun asks it, over a socket, who the others are.  Here a thread of the process itself
answers on the other end of a pair of sockets, so that MPI_COMM_WORLD spans processes that were started by hand.
The protocol is that of the MPICH documentation's "PMI-1 wire protocol": lines of key=value pairs.
"""

from __future__ import annotations

import json
import socket
import threading

from caffe2lite.distributed.handshake import Session
from caffe2lite.distributed.stores import Store, StoreHandlerTimeoutError, poll


class Manager(threading.Thread):
    """Answers one process; `environment` is what MPI has to find in os.environ while it starts."""

    def __init__(self, store: Store, session: Session, rank: int, timeout: float) -> None:
        super().__init__(name="caffe2lite-pmi", daemon=True)
        self.store, self.session, self.rank, self.timeout = store, session, rank, timeout
        self.size = len(session.hosts)
        self.error: Exception | None = None
        self._mine: dict[str, str] = {}
        self._known = {"PMI_process_mapping": mapping(session.hosts)}
        self._barriers = 0
        self._server, self._client = socket.socketpair()

    @property
    def connection(self) -> int:
        """The descriptor over which MPI asks."""
        return self._client.fileno()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that point MPI at this thread."""
        return {"PMI_FD": str(self._client.fileno()), "PMI_RANK": str(self.rank), "PMI_SIZE": str(self.size)}

    def run(self) -> None:
        for line in self._server.makefile("r", newline="\n"):
            answer = self._answer(line.strip())
            if answer is None:
                return
            try:
                self._server.sendall(answer.encode() + b"\n")
            except OSError:
                return

    def say_goodbye(self) -> None:
        """Answer MPI's last question in advance: it asks when Python's threads are gone."""
        try:
            self._server.sendall(b"cmd=finalize_ack rc=0\n")
        except OSError:
            pass

    def _answer(self, line: str) -> str | None:
        words = dict(w.split("=", 1) for w in line.split(" ") if "=" in w)
        command = words.get("cmd", "")
        fixed = {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
            "get_appnum": "cmd=appnum appnum=0 rc=0",
            # MPICH names its shared memory by this: a name that a dead run has used would be its grave.
            "get_my_kvsname": f"cmd=my_kvsname kvsname={self.session.name} rc=0",
            "get_universe_size": f"cmd=universe_size size={self.size} rc=0",
            "finalize": "cmd=finalize_ack rc=0",
        }
        if command in fixed:
            return fixed[command]
        if command == "put":
            self._mine[words["key"]] = self._known[words["key"]] = line.split(" value=", 1)[1]
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            value = self._known.get(words["key"])
            if value is None:
                return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
            return f"cmd=get_result rc=0 msg=success value={value}"
        if command == "barrier_in":
            try:
                self._exchange()
            except StoreHandlerTimeoutError as e:
                self.error = e
                return "cmd=barrier_out rc=-1 msg=timeout"
            return "cmd=barrier_out rc=0"
        if command == "abort":
            self.error = RuntimeError(f"MPI gave up: {line}")
            return None
        return f"cmd={command}_result rc=-1 msg=unsupported"

    def _exchange(self) -> None:
        """A barrier, at which all that was put becomes known to all."""
        key = f"{self.session.name}/barrier{self._barriers}"
        self._barriers += 1
        self.store.set(f"{key}/{self.rank}", json.dumps(self._mine).encode())
        self._mine = {}
        for other in range(self.size):
            content = poll(
                lambda r=other: self.store.peek(f"{key}/{r}"),  # type: ignore[misc]
                self.timeout,
                lambda r=other: f"rank {r} on {self.session.hosts[r]} to start MPI",  # type: ignore[misc]
            )
            self._known.update(json.loads(content))


def mapping(hosts: list[str]) -> str:
    """PMI's process mapping: blocks (first host, number of hosts, ranks on each), by the hosts' names."""
    numbers: dict[str, int] = {}
    order = [numbers.setdefault(h, len(numbers)) for h in hosts]
    blocks: list[list[int]] = []
    at = 0
    while at < len(order):
        end = at
        while end < len(order) and order[end] == order[at]:
            end += 1
        blocks.append([order[at], 1, end - at])
        at = end
    return "(vector," + ",".join(f"({a},{b},{c})" for a, b, c in blocks) + ")"
