"""What MPI ranks tell each other beside their collectives: that one has given up, has ended, or is still there.

Messages go over MPI_COMM_WORLD, which nothing else uses, and hold plain text.
"""

from __future__ import annotations

import threading
import time
from typing import Any

_BYTES = 240
_ROLL_CALL_SECONDS = 0.6  # within the second that an error may come after its deadline
_ANSWER_SECONDS = 0.1
_LISTEN_SECONDS = 0.25
_GIVEN_UP, _WAITS, _ENDED, _ASKED, _HERE, _WHERE, _THERE = range(0x7FF0, 0x7FF7)  # tags


class Messages:
    """The messages of one process.  `kept` gets what MPI may still send from."""

    def __init__(self, mpi: Any, kept: list[Any]) -> None:
        self.mpi, self.comm, self.kept = mpi, mpi.COMM_WORLD, kept
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self._silent = threading.Event()
        self.ended: dict[int, float] = {}  # MPI ranks whose scripts have ended, and since when this is known
        self.heard_at = dict.fromkeys(range(self.size), time.monotonic())  # when each was last heard of

    def _say(self, text: str, rank: int, tag: int) -> Any:
        content = text.encode()[:_BYTES].ljust(_BYTES)
        request = self.comm.Isend(content, rank, tag)
        self.kept.append((content, request))
        return request

    def _say_all(self, text: str, tag: int) -> list[Any]:
        return [self._say(text, rank, tag) for rank in range(self.size) if rank != self.rank]

    def _heard(self, tag: int) -> dict[int, str]:
        heard: dict[int, str] = {}
        while True:
            message = self.comm.Improbe(self.mpi.ANY_SOURCE, tag, status := self.mpi.Status())
            if message is None:
                return heard
            content = bytearray(_BYTES)
            message.Recv(content)
            heard[status.Get_source()] = content.decode(errors="replace").rstrip()

    # ---- giving up -------------------------------------------------------------------------------------------

    def roll_call(self, plight: str) -> dict[int, str]:
        """Give up before all MPI ranks: what those say that wait, too; those that are well or dead say nothing."""
        self._say_all(plight, _GIVEN_UP)
        return self._answers(_WAITS, _GIVEN_UP, seconds=_ROLL_CALL_SECONDS)

    def _answers(self, *tags: int, seconds: float) -> dict[int, str]:
        heard: dict[int, str] = {}
        end = time.monotonic() + seconds
        while len(heard) < self.size - 1 and time.monotonic() < end:
            for tag in tags:
                heard.update(self._heard(tag))
            time.sleep(0.005)
        return heard

    def given_up(self, plight: str) -> tuple[int, str] | None:
        """(MPI rank, its plight) of a rank that has given up, None where none has; it is told what we wait for."""
        for rank, why in self._heard(_GIVEN_UP).items():
            self._say(plight, rank, _WAITS)
            self._answers(seconds=_ANSWER_SECONDS)  # MPI sends on only while it is called, and this process may end now
            return rank, why
        return None

    # ---- waiting ---------------------------------------------------------------------------------------------

    def ask_where(self) -> None:
        """Ask all what they wait for."""
        self._say_all("", _WHERE)

    def who_waits(self) -> dict[int, str]:
        """What those that `ask_where` has reached wait for; the others are not in any collective."""
        return self._heard(_THERE)

    def tell_where(self, plight: str) -> None:
        """Tell those who ask what this process waits for."""
        for rank in self._heard(_WHERE):
            self._say(plight, rank, _THERE)

    # ---- the end ---------------------------------------------------------------------------------------------

    def say_ended(self) -> list[Any]:
        """Tell all that this script has ended: it takes part in nothing any more.  The requests that send this."""
        return self._say_all("", _ENDED)

    def listen(self) -> None:
        """Hear who has ended, and who is there."""
        now = time.monotonic()
        for rank in self._heard(_ENDED):
            self.ended[rank] = self.heard_at[rank] = now
        for rank in self._heard(_HERE):
            self.heard_at[rank] = now

    def ask_whether_there(self) -> None:
        """Ask all that have not ended; `listen` hears their answers."""
        for rank in range(self.size):
            if rank != self.rank and rank not in self.ended:
                self._say("", rank, _ASKED)

    def answer(self) -> None:
        """From now on a thread answers those who ask whether this process is still there, whatever its script does."""

        def answer() -> None:
            while not self._silent.wait(_LISTEN_SECONDS):
                for rank in self._heard(_ASKED):
                    self._say("", rank, _HERE)

        self._answers_them = threading.Thread(target=answer, name="caffe2lite-here", daemon=True)
        self._answers_them.start()

    def answer_no_more(self) -> None:
        """MPI is about to end."""
        self._silent.set()
        self._answers_them.join()

    def drain(self) -> None:
        """Receive what nobody needs any more."""
        for tag in range(_GIVEN_UP, _THERE + 1):
            self._heard(tag)
