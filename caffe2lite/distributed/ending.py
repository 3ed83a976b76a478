"""How a process leaves the others: it tells them, so that nobody waits for it, and waits for nobody that is gone.

Each rank says when its script has ended, however that was.  Those that wait for it in a collective then need not wait
for their deadline, and those that have ended, too, know that nobody needs them any more.  Once a collective has missed
its deadline, nothing waits for MPI.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import sys
import threading
import time
from typing import Any

_BY_HAND_SECONDS = 5.0  # that others may work on before this process goes without them
_SPEAKS_AFTER = 5.0
_ASK_SECONDS = 1.0
_SEND_SECONDS = 1.0

log = logging.getLogger("caffe2lite")


def arrange(world: Any, library: Any) -> None:
    """Have the process end well, and tell the others when it ends badly."""
    if world.manager:
        atexit.register(_end_by_hand, world)
    else:
        leaving = threading.Event()
        # A ctypes call lets other threads run.  Python starts no thread any more when it ends: this one is there before.
        ender = threading.Thread(target=lambda: leaving.wait() and library.MPI_Finalize(), daemon=True)
        ender.start()
        world.messages.answer()
        atexit.register(_end_launched, world, leaving, ender)
    _give_up_with_the_script(world)


def leave_at_exit(guardian: Any) -> None:
    """MPI has not started: the process must not wait for it when it ends."""
    atexit.register(_leave, guardian, os.getpid())


def say_goodbye_at_exit(manager: Any) -> None:
    """As `leave_at_exit`, for a process that was started by hand."""
    process = os.getpid()
    atexit.register(lambda: manager.say_goodbye() if os.getpid() == process else None)


def _leave(guardian: Any, process: int) -> None:
    """End without MPI_Finalize, which would wait for the dead; a launcher then ends the others."""
    if os.getpid() != process:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    if guardian:
        guardian.end_job()
    os._exit(1)


def _give_up_with_the_script(world: Any) -> None:
    """When an exception ends the script, the others are told which: they need not wait for their deadline.

    A launcher ends them when this process has ended.
    """
    tell = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        known = world.broken
        world.declare_dead("this process has failed")
        tell(kind, error, trace)
        if world.manager and not known:
            world.messages.roll_call(f"its script ended with {kind.__name__}: {error}")

    sys.excepthook = hook


def _end_by_hand(world: Any) -> None:
    if os.getpid() != world.process:
        return
    if not world.broken:
        _meet_at_the_end(world, _BY_HAND_SECONDS)
        if world.watch:
            world.watch.stop()
    world.manager.say_goodbye()  # MPI_Finalize would end the process if a peer has died meanwhile


def _end_launched(world: Any, leaving: threading.Event, ender: threading.Thread) -> None:
    if os.getpid() != world.process:
        return
    if world.broken:
        _leave(world.guardian, world.process)
    _meet_at_the_end(world, None)
    if world.watch:
        world.watch.stop()
    world.messages.answer_no_more()
    if world.guardian:
        world.guardian.say_goodbye()
        return
    world.messages.drain()  # MPI_Finalize does not like what nobody has received
    leaving.set()
    ender.join(world.timeout)
    if ender.is_alive():
        log.error("MPI_Finalize did not end within %g s: a peer has died or was stopped", world.timeout)
        _leave(world.guardian, world.process)


def _meet_at_the_end(world: Any, patience: float | None) -> None:
    """Wait until all ranks have ended, for so many seconds, or for as long as they show that they are there.

    Whoever has given up on this rank had waited for a collective that this one has left out: then its status is 1, too.
    """
    messages = world.messages
    requests = messages.say_ended()
    begin = asked = time.monotonic()
    messages.heard_at = dict.fromkeys(messages.heard_at, begin)
    spoken = False
    while True:
        messages.listen()
        given_up = messages.given_up("its end")
        now = time.monotonic()
        if given_up:
            log.error("MPI rank %d has given up, while the script here has ended without an error: %s", *given_up)
            _leave(world.guardian, world.process)
        missing = [r for r in range(messages.size) if r != messages.rank and r not in messages.ended]
        if not missing and (all(r.Test() for r in requests) or now > begin + _SEND_SECONDS):
            return
        if patience is not None:
            if now > begin + patience or (world.watch and world.watch.closed()):
                return
        elif now > asked + _ASK_SECONDS:
            asked = now
            messages.ask_whether_there()
            silent = [r for r in missing if now > messages.heard_at[r] + world.timeout]
            if silent:
                log.error(
                    "MPI rank %s does not answer for %g s when the script has ended here: it has died or was stopped",
                    ", ".join(map(str, silent)),
                    world.timeout,
                )
                _leave(world.guardian, world.process)
            if now > begin + _SPEAKS_AFTER and not spoken:
                spoken = True
                log.warning("this script has ended and waits for the end of MPI rank %s", ", ".join(map(str, missing)))
        time.sleep(0.002 if now < begin + 1 else 0.02)


def detach(world: Any) -> None:
    """In a forked child: cut its copies of the connections that tell the launcher, or the parent, about the end.

    MPICH says goodbye over such a connection when the child ends; that must not be taken for the parent's.
    """
    if world.guardian:
        world.guardian.forget()
    starter = world.guardian or world.manager
    if starter:
        here, there = socket.socketpair()
        os.dup2(here.fileno(), starter.connection)
        there.sendall(b"cmd=finalize_ack rc=0\n")
        world.kept.append((here, there))
