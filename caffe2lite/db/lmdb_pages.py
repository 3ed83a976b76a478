"""The pages of an lmdb file, read without the package lmdb.

The package forbids a process to open a database twice, so that a script could not look into a database that its net reads;
reading the file (data version 1: a B+ tree of pages) needs no library.  Of the two meta pages the one with the later
transaction is valid; a reader sees the database as it was when it was opened.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from caffe2lite.db.base import Cursor, DBError
from caffe2lite.db.files import ReadFile

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_META = struct.Struct("<II8xQ")  # magic, version, (address), size of the map
_TREE = struct.Struct("<IHHQQQQQ")  # pad, flags, depth, pages of branches, of leaves, of large values, entries, root
_HEADER = struct.Struct("<QHHHH")  # number of the page, pad, flags, end of the table of nodes, begin of the nodes
_NODE = struct.Struct("<HHHH")  # size (or page) in two halves, flags, size of the key
_BRANCH, _LEAF, _LARGE = 1, 2, 4  # flags of pages
_ELSEWHERE, _OTHERS = 1, 2 | 4  # flags of nodes: the value has pages of its own; a named database, duplicates
_NOTHING = (1 << 64) - 1  # the root of an empty tree
_DEEPEST = 32
_PAGES_KEPT = 64


class _Place(NamedTuple):
    page: int
    node: int


class Pages:
    """A data.mdb file."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._file = ReadFile(os.path.join(source, "data.mdb") if os.path.isdir(source) else source, live=True)
        self._kept: dict[int, bytes] = {}
        first = self._meta(0)
        if first is None:
            raise DBError(
                f"{source}: cannot be opened as lmdb: its first page is none of an lmdb of version {_VERSION}"
            )
        self.page_size = first[0]
        self.root, last_page, _ = max((m[1:] for m in (first, self._meta(self.page_size)) if m), key=lambda m: m[2])
        needed = (last_page + 1) * self.page_size
        if self._file.size < needed:
            raise DBError(
                f"{source}: data.mdb is truncated: it has {self._file.size:,} bytes, and {needed:,} are in use"
            )

    def _meta(self, at: int) -> tuple[int, int, int, int] | None:
        """Size of pages, root, last page and transaction of a meta page; None where there is none."""
        size = _HEADER.size + _META.size + 2 * _TREE.size + 16
        if at + size > self._file.size:
            return None
        page = self._file.read(at, size)
        trees = _HEADER.size + _META.size
        if _META.unpack_from(page, _HEADER.size)[:2] != (_MAGIC, _VERSION):
            return None
        page_size = _TREE.unpack_from(page, trees)[0]
        if page_size < 256 or page_size & (page_size - 1):
            return None
        root = _TREE.unpack_from(page, trees + _TREE.size)[-1]
        last_page, transaction = struct.unpack_from("<QQ", page, trees + 2 * _TREE.size)
        return page_size, root, last_page, transaction

    def _damaged(self, page: int) -> DBError:
        return DBError(f"{self.source}: page {page} is damaged")

    def page(self, page: int) -> bytes:
        """The content of a page."""
        content = self._kept.get(page)
        if content is None:
            at = page * self.page_size
            if at + self.page_size > self._file.size:
                raise self._damaged(page)
            if len(self._kept) >= _PAGES_KEPT:
                self._kept.clear()
            content = self._kept[page] = self._file.read(at, self.page_size)
        return content

    def flags_and_count(self, page: int) -> tuple[int, int]:
        """Flags of a page and how many nodes it has."""
        _, _, flags, table_end, _ = _HEADER.unpack_from(self.page(page))
        if flags & (_BRANCH | _LEAF) and not _HEADER.size <= table_end <= self.page_size:
            raise self._damaged(page)
        return flags, (table_end - _HEADER.size) // 2

    def _node(self, page: int, index: int) -> tuple[int, int, int, int, int]:
        """Where in its page the key of a node begins, and its size; the two halves of the node's number, its flags."""
        content = self.page(page)
        (offset,) = struct.unpack_from("<H", content, _HEADER.size + 2 * index)
        if offset + _NODE.size > self.page_size:
            raise self._damaged(page)
        low, high, flags, key_size = _NODE.unpack_from(content, offset)
        begin = offset + _NODE.size
        if begin + key_size > self.page_size:
            raise self._damaged(page)
        return begin, key_size, low, high, flags

    def child(self, page: int, index: int) -> int:
        """The page that a node of a branch points to."""
        _, _, low, high, flags = self._node(page, index)
        return low | high << 16 | flags << 32

    def key(self, page: int, index: int) -> bytes:
        """The key of a node."""
        begin, size, *_ = self._node(page, index)
        return self.page(page)[begin : begin + size]

    def value(self, page: int, index: int) -> bytes:
        """The value of a node of a leaf."""
        begin, key_size, low, high, flags = self._node(page, index)
        size = low | high << 16
        begin += key_size
        if flags & _OTHERS:
            raise DBError(f"{self.source}: it has named databases or duplicate keys, which Caffe2's records have not")
        if not flags & _ELSEWHERE:
            if begin + size > self.page_size:
                raise self._damaged(page)
            return self.page(page)[begin : begin + size]
        if begin + 8 > self.page_size:
            raise self._damaged(page)
        (large,) = struct.unpack_from("<Q", self.page(page), begin)
        if not self.flags_and_count(large)[0] & _LARGE:
            raise self._damaged(large)
        at = large * self.page_size + _HEADER.size
        if at + size > self._file.size:
            raise self._damaged(page)
        return self._file.read(at, size)


class PageCursor(Cursor):
    """A walk over the leaves, in the order of the keys."""

    supports_seek = True

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._path: list[_Place] = []  # from the root to a leaf; empty: past the last record
        self.seek_to_first()

    def seek_to_first(self) -> None:
        self._path = []
        if self._pages.root != _NOTHING:
            self._descend(self._pages.root)

    def _descend(self, page: int, key: bytes | None = None) -> None:
        """Go down to the first record of a subtree, or to the last leaf that may hold `key`."""
        while True:
            flags, count = self._pages.flags_and_count(page)
            if not flags & (_BRANCH | _LEAF) or len(self._path) > _DEEPEST or (flags & _BRANCH and not count):
                raise DBError(f"{self._pages.source}: page {page} is damaged")
            index = 0 if key is None else self._search(page, flags, count, key)
            self._path.append(_Place(page, index))
            if flags & _LEAF:
                if index >= count:
                    self._path[-1] = _Place(page, count - 1)
                    self.next()
                return
            page = self._pages.child(page, index)

    def _search(self, page: int, flags: int, count: int, key: bytes) -> int:
        """In a leaf the first node whose key is not before `key`; in a branch the last one whose key is not after it."""
        low, high = (1, count) if flags & _BRANCH else (0, count)  # the first key of a branch is left out
        while low < high:
            middle = (low + high) // 2
            here = self._pages.key(page, middle)
            if here < key or (flags & _BRANCH and here == key):
                low = middle + 1
            else:
                high = middle
        return low - 1 if flags & _BRANCH else low

    def seek(self, key: bytes) -> None:
        self._path = []
        if self._pages.root != _NOTHING:
            self._descend(self._pages.root, key)

    def next(self) -> None:
        while self._path:
            page, index = self._path.pop()
            flags, count = self._pages.flags_and_count(page)
            if index + 1 < count:
                self._path.append(_Place(page, index + 1))
                if flags & _BRANCH:
                    self._descend(self._pages.child(page, index + 1))
                return

    def valid(self) -> bool:
        return bool(self._path)

    def key(self) -> bytes:
        return self._pages.key(*self._here())

    def value(self) -> bytes:
        return self._pages.value(*self._here())

    def _here(self) -> _Place:
        if not self._path:
            raise DBError(f"{self._pages.source}: the cursor is past the last record")
        return self._path[-1]
