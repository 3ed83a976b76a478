"""A small process beside one that a launcher has started, for the moment when that one is gone without a word.

Hydra ends a job whose rank leaves without MPI_Finalize, but with the status that the rank has left with: 0 after
`os._exit(0)`.  And MPI's shared memory stays where the ranks are killed while they start.  The guardian holds a copy of
the connection to the launcher, so that it is the guardian that says how the job ends.
"""

from __future__ import annotations

import os
import subprocess

_SCRIPT = """
while read -r word; do
    case $word in
    done) exit ;;
    /*) set -- "$@" "$word" ;;
    esac
done
rm -f "$@"
if printf 'cmd=abort exitcode=1\\n' 2>/dev/null; then
    printf 'rank %s has ended without a word (os._exit, or a signal): the job is ended\\n' "$RANK" >&2
fi
"""


class Guardian:
    """Watches over this process until it is told that all is done."""

    def __init__(self, launcher: int, rank: str) -> None:
        reads, self._pipe = os.pipe()
        environment = {"RANK": rank, "PATH": os.environ.get("PATH", os.defpath)}
        subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "guardian"], stdin=reads, stdout=launcher, env=environment, start_new_session=True
        )
        os.close(reads)

    def _tell(self, word: str) -> None:
        try:
            os.write(self._pipe, f"{word}\n".encode())
        except OSError:
            pass  # it is gone, or this is a child

    def remove_at_death(self, file: str) -> None:
        """The file goes if this process dies."""
        self._tell(file)

    def dismiss(self) -> None:
        """This process ends as it should."""
        self._tell("done")

    def forget(self) -> None:
        """In a forked child: it is not the one that is watched."""
        os.close(self._pipe)


def connection() -> int:
    """The descriptor of the connection to the launcher, -1 where this process has inherited none."""
    told = os.environ.get("PMI_FD", "")
    return int(told) if told.isdecimal() else -1


def start() -> Guardian | None:
    """The guardian of this process, None where its launcher is not asked over an inherited connection."""
    if connection() < 0 or not os.path.exists("/bin/sh"):
        return None
    return Guardian(connection(), os.environ.get("PMI_RANK", "?"))
