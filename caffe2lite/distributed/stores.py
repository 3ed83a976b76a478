"""Key-value stores in which processes find each other."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import pathlib
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from caffe2lite.extras import install
from caffe2lite.paths import allowed

DEFAULT_TIMEOUT = 30.0
_CONNECT_SECONDS = 5.0
_SPEAKS_AFTER = 5.0  # seconds from which on somebody who waits says so
T = TypeVar("T")

log = logging.getLogger("caffe2lite")


class StoreError(RuntimeError):
    """A store that cannot be used."""


class StoreHandlerTimeoutError(RuntimeError):
    """A key that nobody has set in time."""

    surfaces = True  # scripts catch this very type from operators


def poll(step: Callable[[], T | None], timeout: float, what: Callable[[], str]) -> T:
    """Call `step` until it gives something else than None; StoreHandlerTimeoutError says `what` was waited for."""
    begin = time.monotonic()
    end = begin + timeout
    says_at = begin + _SPEAKS_AFTER
    pause = 0.0005
    while True:
        found = step()
        if found is not None:
            return found
        now = time.monotonic()
        if now > end:
            raise StoreHandlerTimeoutError(f"waited {timeout:g} s for {what()}")
        if now > says_at:
            log.warning("waiting for %s, for %.0f s of %g by now", what(), now - begin, timeout)
            says_at = end
        time.sleep(pause)
        pause = min(1.5 * pause, 0.02)


class Store:
    """Keys are str, values are bytes, and nobody unpickles them.  StoreError where the store itself fails."""

    def hasten(self, seconds: float) -> None:
        """No question that this process asks from now on may take longer."""

    def set(self, key: str, value: bytes) -> None:
        """Set a key; readers see the old value or the new one, never a part."""
        raise NotImplementedError

    def peek(self, key: str) -> bytes | None:
        """The value of a key, None where it is not set."""
        raise NotImplementedError

    def add(self, key: str, amount: int) -> int:
        """Add to a counter that begins with 0; its new value."""
        raise NotImplementedError

    def get(self, key: str, timeout: float = DEFAULT_TIMEOUT) -> bytes:
        """The value of a key, waiting until it is set."""
        return poll(lambda: self.peek(key), timeout, lambda: f"the key {key!r}")

    def wait(self, keys: Iterable[str], timeout: float = DEFAULT_TIMEOUT) -> None:
        """Wait until all keys are set."""
        missing = list(keys)

        def step() -> bool | None:
            missing[:] = [k for k in missing if self.peek(k) is None]
            return None if missing else True

        poll(step, timeout, lambda: f"the keys {', '.join(missing)}")


class FileStore(Store):
    """A folder that all processes see, with a file a key."""

    def __init__(self, path: str, prefix: str = "") -> None:
        self.folder = pathlib.Path(path)
        self.prefix = prefix
        with self._explained("make or open"):
            allowed(path)
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as e:
            gone = "" if self.folder.is_dir() else ": it is no folder any more" if what != "make or open" else ""
            raise StoreError(f"cannot {what} the store, {self}{gone} ({e.strerror})") from e

    def __repr__(self) -> str:
        return f"folder {self.folder}"

    def _file(self, key: str) -> pathlib.Path:
        name = f"{self.prefix}_{key}"
        plain = "".join(c if c.isalnum() else "-" for c in name)[-60:]
        return self.folder / f"{plain}.{hashlib.sha256(name.encode()).hexdigest()[:24]}"

    def set(self, key: str, value: bytes) -> None:
        with self._explained("write to"):
            handle, beside = tempfile.mkstemp(dir=self.folder, prefix=".set-")  # for its owner only
            try:
                with os.fdopen(handle, "wb") as f:
                    f.write(value)
                os.replace(beside, self._file(key))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(beside)
                raise

    def peek(self, key: str) -> bytes | None:
        with self._explained("read"):
            try:
                return self._file(key).read_bytes()
            except FileNotFoundError:
                if self.folder.is_dir():
                    return None
                raise

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._explained("write to"):
            handle = os.open(self.folder / ".lock", os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(handle, "ab") as f:
            fcntl.lockf(f, fcntl.LOCK_EX)
            yield

    def add(self, key: str, amount: int) -> int:
        with self._locked():
            total = int(self.peek(key) or b"0") + amount
            self.set(key, str(total).encode())
        return total


class RedisStore(Store):
    """A Redis server (the `redis` extra)."""

    def __init__(self, host: str, port: int = 6379, prefix: str = "") -> None:
        try:
            import redis
        except ImportError:
            raise RuntimeError(f"a Redis store needs a package: {install('redis')}") from None
        self.prefix = prefix
        self.address = f"{host}:{port}"
        self._connect = lambda seconds: redis.Redis(
            host=host,
            port=port,
            socket_timeout=seconds,
            socket_connect_timeout=min(seconds, _CONNECT_SECONDS),
            retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
        )
        self._errors = redis.RedisError
        self._seconds = 0.0
        self.hasten(DEFAULT_TIMEOUT)
        try:
            socket.create_connection((host, port), _CONNECT_SECONDS).close()
        except OSError as e:
            raise StoreError(f"the Redis server at {self.address} does not answer: {e}") from None

    def __repr__(self) -> str:
        return f"Redis at {self.address}"

    def hasten(self, seconds: float) -> None:
        if seconds != self._seconds:
            self._seconds, self._client = seconds, self._connect(seconds)

    def _ask(self, question: Callable[..., Any], *words: Any) -> Any:
        try:
            return question(*words)
        except self._errors as e:
            raise StoreError(f"the Redis server at {self.address} does not answer as it should: {e}") from e

    def set(self, key: str, value: bytes) -> None:
        self._ask(self._client.set, self.prefix + key, value)

    def peek(self, key: str) -> bytes | None:
        return self._ask(self._client.get, self.prefix + key)  # type: ignore[no-any-return]

    def add(self, key: str, amount: int) -> int:
        return int(self._ask(self._client.incrby, self.prefix + key, amount))
