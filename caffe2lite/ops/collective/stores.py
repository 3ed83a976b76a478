"""Key-value stores as operators: where shards find each other, and may leave blobs for each other."""

from __future__ import annotations

from caffe2lite.distributed.stores import DEFAULT_TIMEOUT, FileStore, RedisStore
from caffe2lite.ops.kit.objects import Object
from caffe2lite.ops.kit.registry import operator

_TIMEOUT_MS = int(1000 * DEFAULT_TIMEOUT)


class StoreHandler(Object):
    """A store in a blob."""

    type_name = "std::unique_ptr<caffe2::StoreHandler>"

    def __init__(self, store) -> None:
        self.store = store


@operator("handler", stateful=True, traits="store")
def FileStoreHandlerCreate(ctx, *, path: str, prefix: str = ""):
    """A store in a folder that all shards see.

    No tensors: the handler is a store, its arguments strings.  OSError where the folder cannot be made.
    """
    return StoreHandler(FileStore(path, prefix))


@operator("handler", stateful=True, traits="store")
def RedisStoreHandlerCreate(ctx, *, host: str, port: int = 6379, prefix: str = ""):
    """A store in a Redis server.

    No tensors: the handler is a store; host and prefix are strings, port an integer.  RuntimeError where the server does
    not answer, or the package redis is missing.
    """
    return StoreHandler(RedisStore(host, port, prefix))


@operator("", stateful=True, num_inputs=(2, 2))
def StoreSet(ctx, handler, data, *, blob_name: str = ""):
    """Put a blob into the store, under its own name or the given one.

    A store and a blob of any type and any shape.  ValueError where the blob holds nothing that can be serialized.
    """
    name = blob_name or ctx.op.input[1]
    _, content = next(iter(ctx.chunks(ctx.inputs[1], name, 0)))
    handler.store.hasten(DEFAULT_TIMEOUT)
    handler.store.set(name, content)


@operator("data", stateful=True, num_inputs=(1, 1))
def StoreGet(ctx, handler, *, blob_name: str = "", timeout_ms: int = _TIMEOUT_MS):
    """Take a blob from the store, waiting up to timeout_ms (caffe2lite's own argument) until somebody has put it there.

    A store; data is of any type and any shape, as it was put there.  StoreHandlerTimeoutError where nobody has put it
    there in time.
    """
    name = blob_name or ctx.op.output[0]
    handler.store.hasten(timeout_ms / 1000)
    ctx.load(ctx.outputs[0], handler.store.get(name, timeout_ms / 1000), ctx.device, f"{handler.store}, key {name!r}")


@operator("value", stateful=True, num_inputs=(1, 1))
def StoreAdd(ctx, handler, *, blob_name: str, add_value: int = 1, out):
    """Add to a counter in the store; its new value (int64).

    A store; value [1], int64.  ValueError where the key holds no counter.
    """
    value = out((1,), "int64")
    handler.store.hasten(DEFAULT_TIMEOUT)
    value[...] = handler.store.add(blob_name, add_value)
    return value


@operator("", stateful=True, blocking=True, num_inputs=(1, 2))
def StoreWait(ctx, handler, names=None, *, blob_names: list[str] = (), timeout_ms: int = _TIMEOUT_MS):
    """Wait up to timeout_ms (caffe2lite's own argument) until all the blobs are in the store.

    A store and optionally the names [n] as strings.  StoreHandlerTimeoutError where one is not
    there in time.
    """
    wanted = list(blob_names) if names is None else [n.decode() for n in names.reshape(-1)]
    handler.store.hasten(timeout_ms / 1000)
    handler.store.wait(wanted, timeout_ms / 1000)
