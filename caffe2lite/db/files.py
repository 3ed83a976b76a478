"""Files of databases: read so that no change of theirs ends the process, written so that a name never has half a file."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
from collections.abc import Iterator

from caffe2lite.db.base import DBError
from caffe2lite.paths import allowed, open_file


class ReadFile:
    """A file that is read piece by piece, as long as it stays what it was when it was opened.

    It is not mapped into memory: where a mapped file becomes shorter, the process that reads it is ended by a signal.
    `live`: its owner writes into it while others read, as lmdb does.
    """

    def __init__(self, path: str, live: bool = False) -> None:
        self.path, self._live = path, live
        try:
            self._file = open_file(path)
        except OSError as e:
            raise DBError(f"{path}: cannot be opened: {e.strerror}") from None
        self._begun = os.fstat(self._file.fileno())

    @property
    def size(self) -> int:
        """Bytes that it had when it was opened; more may have been added since."""
        return self._begun.st_size

    def read(self, at: int, size: int) -> bytes:
        """That many bytes of it; DBError where it has become shorter, or was written anew."""
        self.check()
        found = os.pread(self._file.fileno(), size, at)
        while len(found) < size:  # a call returns 2 GiB at most
            more = os.pread(self._file.fileno(), size - len(found), at + len(found))
            if not more:
                self.check()
                raise DBError(f"{self.path}: it ends at byte {at + len(found):,}, and {at + size:,} are needed")
            found += more
        return found

    def check(self) -> None:
        """DBError where the file has become shorter, or was written anew, since it was opened."""
        now = os.fstat(self._file.fileno())
        if now.st_size < self.size:
            raise DBError(
                f"{self.path}: it became shorter while it was read: {now.st_size:,} bytes, {self.size:,} before"
            )
        if not self._live and now.st_size == self.size and now.st_mtime_ns != self._begun.st_mtime_ns:
            raise DBError(f"{self.path}: it was changed while it was read")

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):  # it was opened
            self.close()


def beside(path: str) -> str:
    """A name in the same folder for what is to become `path`; what killed processes of this machine left there is removed."""
    folder, name = os.path.split(os.path.abspath(path))
    prefix = f".{name}.{socket.gethostname()}."
    for other in os.listdir(folder):
        owner = other[len(prefix) :].partition(".")[0]
        if other.startswith(prefix) and owner.isdecimal() and not _alive(int(owner)):
            _remove(os.path.join(folder, other))
    return os.path.join(folder, f"{prefix}{os.getpid()}.{secrets.token_hex(4)}")


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        pass
    return True


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)


class NewFile:
    """A file that appears under its name, in the place of one that is there, when it is whole.

    Until then it has no name where the system can do that (Linux: O_TMPFILE), so that nothing stays of a process that is
    killed; elsewhere a name of its own beside the other's, which a later writer on the same machine removes.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._named = ""  # its name until it is shown
        self._shown = False
        with self._told():
            self._beside = beside(allowed(path))
            self._file = os.fdopen(self._open(), "wb")

    def _open(self) -> int:
        flag = getattr(os, "O_TMPFILE", 0)
        if flag and os.path.isdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # a file system without it
                return os.open(os.path.dirname(self._beside), os.O_WRONLY | flag, 0o666)
        self._named = self._beside
        return os.open(self._beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)

    def write(self, content: bytes) -> None:
        """Add bytes."""
        with self._told():
            self._file.write(content)

    def commit(self) -> None:
        """Write it out, and let it appear; after that more can be added, and committed."""
        with self._told():
            self._file.flush()
            os.fsync(self._file.fileno())
            if self._shown:
                return
            if not self._named:  # a link cannot take the place of a file: it needs a name for a moment
                folder = os.open(os.path.dirname(self._beside), os.O_RDONLY)
                try:  # with a folder given, Python asks the system to follow the link in /proc
                    link = f"/proc/self/fd/{self._file.fileno()}"
                    os.link(link, self._beside, src_dir_fd=folder, follow_symlinks=True)
                finally:
                    os.close(folder)
                self._named = self._beside
            os.replace(self._named, self.path)
            self._shown = True

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as e:
            raise DBError(f"{self.path}: cannot be written: {e.strerror}") from None

    def close(self) -> None:
        """Close it; one that was never committed is gone."""
        with contextlib.suppress(OSError):  # what cannot be written was told by `commit`, or is not wanted
            self._file.close()
        if self._named and not self._shown:
            _remove(self._named)
