"""Key-value stores in which processes find each other."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from caffe2lite.extras import install

DEFAULT_TIMEOUT = 30.0
T = TypeVar("T")


class StoreHandlerTimeoutError(RuntimeError):
    """A key that nobody has set in time."""

    surfaces = True  # scripts catch this very type from operators


def poll(step: Callable[[], T | None], timeout: float, what: Callable[[], str]) -> T:
    """Call `step` until it gives something else than None; StoreHandlerTimeoutError says `what` was waited for."""
    end = time.monotonic() + timeout
    pause = 0.0005
    while True:
        found = step()
        if found is not None:
            return found
        if time.monotonic() > end:
            raise StoreHandlerTimeoutError(f"waited {timeout:g} s for {what()}")
        time.sleep(pause)
        pause = min(1.5 * pause, 0.02)


class Store:
    """Keys are str, values are bytes."""

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
        self.folder.mkdir(parents=True, exist_ok=True)

    def __repr__(self) -> str:
        return f"folder {self.folder}"

    def _file(self, key: str) -> pathlib.Path:
        name = f"{self.prefix}_{key}"
        plain = "".join(c if c.isalnum() else "-" for c in name)[-60:]
        return self.folder / f"{plain}.{hashlib.sha256(name.encode()).hexdigest()[:24]}"

    def set(self, key: str, value: bytes) -> None:
        handle, beside = tempfile.mkstemp(dir=self.folder, prefix=".set-")
        with os.fdopen(handle, "wb") as f:
            f.write(value)
        os.replace(beside, self._file(key))

    def peek(self, key: str) -> bytes | None:
        try:
            return self._file(key).read_bytes()
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self.folder / ".lock", "ab") as f:
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
        self._client = redis.Redis(host=host, port=port, socket_timeout=DEFAULT_TIMEOUT)
        try:
            self._client.ping()
        except redis.RedisError as e:
            raise RuntimeError(f"the Redis server at {self.address} does not answer: {e}") from None

    def __repr__(self) -> str:
        return f"Redis at {self.address}"

    def set(self, key: str, value: bytes) -> None:
        self._client.set(self.prefix + key, value)

    def peek(self, key: str) -> bytes | None:
        return self._client.get(self.prefix + key)  # type: ignore[return-value]

    def add(self, key: str, amount: int) -> int:
        return int(self._client.incrby(self.prefix + key, amount))  # type: ignore[arg-type]
