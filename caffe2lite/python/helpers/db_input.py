"""Batches from a database."""

from __future__ import annotations


def db_input(model, blobs_out, batch_size, db, db_type):
    """Read batches of serialized tensors from the database at path `db`."""
    reader = model.param_init_net.CreateDB([], "dbreader_" + db, db=db, db_type=db_type)
    return model.net.TensorProtosDBInput(reader, blobs_out, batch_size=batch_size)
