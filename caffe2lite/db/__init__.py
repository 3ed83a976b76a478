"""Key-value databases that hold checkpoints and records.

`open_db("minidb", path, Mode.read)` opens one; each kind is a module here that registers itself with `db_type`.
"""

from __future__ import annotations

import importlib
import pkgutil

from caffe2lite.db.base import DB, Cursor, DBError, Mode, Transaction, db_types, open_db

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["DB", "Cursor", "DBError", "Mode", "Transaction", "db_types", "open_db"]
