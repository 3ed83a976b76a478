"""Torch tensors that are a blob's tensor: they share its memory, and follow when the blob's array becomes another."""

from __future__ import annotations

import weakref

import torch

from caffe2lite.devices import HOST


class _Follower:
    """Stands among the tokens that a blob takes back when its array changes, on behalf of a torch tensor."""

    def __init__(self, blob, tensor):
        self.blob = blob
        self.tensor = weakref.ref(tensor)
        blob.tokens.append(self)

    def __getitem__(self, _):
        return True

    def __setitem__(self, _, valid):
        tensor = self.tensor()
        # A tensor of a blob that was reset keeps the memory that it had.
        if tensor is not None and self.blob.is_tensor:
            tensor.data = torch.from_numpy(self.blob.value)
            self.blob.tokens.append(self)


class BlobTensor(torch.Tensor):
    """What FetchTorch returns: `resize_` resizes the blob."""

    def resize_(self, *sizes):
        """Change the shape, of the blob too; elements keep their places in memory order."""
        shape = tuple(sizes if isinstance(sizes[0], int) else sizes[0])
        kept = self._blob.value.reshape(-1).copy()
        flat = self._blob.resize(shape, kept.dtype).reshape(-1)
        count = min(flat.size, kept.size)
        flat[:count] = kept[:count]
        return self


def fetch(blob):
    """Return a torch tensor that is the blob's tensor, on the CPU or on a GPU (by DLPack)."""
    if blob.device is HOST:
        tensor = torch.from_numpy(blob.value).as_subclass(BlobTensor)
        tensor._blob = blob
        _Follower(blob, tensor)
        return tensor
    return torch.from_dlpack(blob.value)


def feed(blob, tensor):
    """Make a contiguous CPU tensor the blob's tensor; others are copied.  Those that were the blob's before stay as they are."""
    blob.tokens[:] = [token for token in blob.tokens if not isinstance(token, _Follower)]
    array = tensor.detach().cpu().numpy()
    if tensor.device.type != "cpu" or tensor.requires_grad or not tensor.is_contiguous():
        blob.borrow(array.copy())
        return
    blob.borrow(array)
    _Follower(blob, tensor)
