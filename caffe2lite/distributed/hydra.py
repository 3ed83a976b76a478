"""Hydra, the launcher of MPICH, at the end of a process: a goodbye without MPI_Finalize, or none at all.

MPI_Finalize waits for every rank, and ends the process where one has died or left a message behind.  What Hydra wants is
its own word for the end, after which each rank may go when it likes.

A rank that leaves without that word ends the job, with the status that it has left with: 0 after `os._exit(0)`.  And the
shared memory of MPI stays where ranks are killed while they start.  So a small process, the guardian, holds a copy of
the connection to Hydra: when its rank is gone without a word, it is the guardian that says how the job ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time

_ANSWER_SECONDS = 2.0
_SPEAK_SECONDS = 0.1

_SCRIPT = """
while read -r word; do
    case $word in
    done) exit ;;
    /*) set -- "$@" "$word" ;;
    esac
done
rm -f "$@"
sleep 0.3  # if it was Hydra that has ended this rank, because of another one, it is gone by then
printf 'cmd=get_appnum\\n' 2>/dev/null || exit
printf 'rank %s has ended without a word (os._exit, or a signal): the job is ended\\n' "$RANK" >&2
sleep 0.1  # Hydra passes that on before it ends the job
printf 'cmd=abort exitcode=1\\n'
"""


class Guardian:
    """Hydra's connection to this process, and the guardian beside it."""

    def __init__(self, connection: int, rank: str) -> None:
        self.connection = connection
        reads, self._pipe = os.pipe()
        environment = {"RANK": rank, "PATH": os.environ.get("PATH", os.defpath)}
        subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "guardian"],
            stdin=reads,
            stdout=connection,
            env=environment,
            start_new_session=True,
        )
        os.close(reads)

    def _tell(self, word: str) -> None:
        with contextlib.suppress(OSError):  # it is gone
            os.write(self._pipe, f"{word}\n".encode())

    def remove_at_death(self, file: str) -> None:
        """The file goes if this process dies."""
        self._tell(file)

    def end_job(self) -> None:
        """End all ranks, this one included, with status 1, after what it has said."""
        time.sleep(_SPEAK_SECONDS)  # Hydra passes that on before
        with contextlib.suppress(OSError):
            os.write(self.connection, b"cmd=abort exitcode=1\n")
        self._tell("done")

    def say_goodbye(self) -> None:
        """Say the word for the end, with which Hydra lets the others go on; MPI is not used any more."""
        with contextlib.suppress(OSError):
            os.write(self.connection, b"cmd=finalize\n")
            if select.select([self.connection], [], [], _ANSWER_SECONDS)[0]:
                os.read(self.connection, 200)
        self._tell("done")

    def forget(self) -> None:
        """In a forked child: it is not the one that is watched."""
        os.close(self._pipe)


def start() -> Guardian | None:
    """The guardian of this process, None where it was not started by Hydra."""
    told = os.environ.get("PMI_FD", "")
    if not told.isdecimal() or "HYDI_CONTROL_FD" not in os.environ or not os.path.exists("/bin/sh"):
        return None
    return Guardian(int(told), os.environ.get("PMI_RANK", "?"))
