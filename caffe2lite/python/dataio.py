"""Readers, writers and pipes: what adds the operators that fetch, store and pass on records.

A reader is set up once per task (`setup_ex`), then read in each thread: `read_ex` returns nets, the blob that says that
there is no more, and the blobs of a record. Simple readers only define `read(net)`.
"""

from __future__ import annotations

import time

import numpy as np

from caffe2lite.python import core
from caffe2lite.python.schema import Field, Struct, from_blob_list


class Reader:
    """Reads records of `schema`."""

    def __init__(self, schema=None):
        if schema is not None and not isinstance(schema, Field):
            raise AssertionError(f"a schema is a Field, got {schema!r}")
        self._schema = schema

    def schema(self):
        """Return the schema of the records."""
        if self._schema is None:
            raise AssertionError(f"{type(self).__name__} was made without a schema")
        return self._schema

    def _set_schema(self, schema):
        self._schema = schema

    def setup_ex(self, init_net, finish_net):
        """Add what runs once before and after all reading."""

    def read_ex(self, local_init_net, local_finish_net):
        """Return (nets, stop blob, blobs) for one thread, whose own init and finish nets are given."""
        read_net = core.Net("reader_body")
        return ([read_net], *self.read(read_net))

    def read_record_ex(self, local_init_net, local_finish_net):
        """read_ex, the blobs as a record."""
        nets, should_stop, fields = self.read_ex(local_init_net, local_finish_net)
        return nets, should_stop, self._as_record(fields)

    def _as_record(self, fields):
        return from_blob_list(self._schema, fields) if self._schema else fields

    def read(self, read_net):
        """Add the operators that read to `read_net`; return (stop blob, blobs)."""
        raise NotImplementedError(f"{type(self).__name__} has no read")

    def reset(self, net):
        """Add an operator that begins anew."""
        raise NotImplementedError(f"{type(self).__name__} cannot begin anew")

    def read_record(self, read_net):
        """read, the blobs as a record."""
        should_stop, fields = self.read(read_net)
        return should_stop, self._as_record(fields)

    def execution_step(self, reader_net_name=None, external_should_stop=None):
        """Return (step that reads until the end, record)."""
        reader_net = core.Net(reader_net_name or "reader")
        should_stop, fields = self.read_record(reader_net)
        if external_should_stop is not None:
            should_stop = reader_net.Or([external_should_stop, should_stop])
        step = core.execution_step(f"{reader_net_name}_step", reader_net, should_stop_blob=should_stop)
        return step, fields


class Writer:
    """Writes records."""

    _schema = None

    def schema(self):
        """Return the schema of the records written so far, or None."""
        return self._schema

    def write(self, writer_net, fields):
        """Add the operators that write the blobs `fields` to `writer_net`."""
        raise NotImplementedError(f"{type(self).__name__} has no write")

    def _blobs(self, fields):
        if isinstance(fields, Field):
            self._schema = fields
            return fields.field_blobs()
        return fields

    def write_record(self, writer_net, fields):
        """write, for a record or blobs."""
        self.write(writer_net, self._blobs(fields))

    def setup_ex(self, init_net, finish_net):
        """Add what runs once before and after all writing."""
        self.commit(finish_net)

    def write_ex(self, fields, local_init_net, local_finish_net, stop_blob):
        """Return the nets that write, for one thread; they set `stop_blob` when nothing more can be written."""
        write_net = core.Net("write_net")
        self.write(write_net, fields)
        return [write_net]

    def write_record_ex(self, fields, local_init_net, local_finish_net, stop_blob=None):
        """Return (nets, stop blob): write_ex for a record or blobs."""
        fields = self._blobs(fields)
        if stop_blob is None:
            stop_blob = local_init_net.NextName("dequeue_status")
        return self.write_ex(fields, local_init_net, local_finish_net, stop_blob), stop_blob

    def commit(self, finish_net):
        """Add what makes the written records visible."""


class ReaderBuilder:
    """Makes readers that share one set-up."""

    def schema(self):
        """The schema of the readers."""
        raise NotImplementedError

    def setup(self, **kwargs):
        """Called once before the first reader is made; return arguments for new_reader."""
        raise NotImplementedError

    def new_reader(self, **kwargs):
        """A reader, or a pipe that has one."""
        raise NotImplementedError


class PipedReaderBuilder(ReaderBuilder):
    """A ReaderBuilder whose readers go through `piper(reader=reader, **kwargs)`."""

    def __init__(self, builder, piper):
        self._builder = builder
        self._piper = piper

    def new_reader(self, **kwargs):
        piped = self._piper(reader=self._builder.new_reader(**kwargs), **kwargs)
        return piped if isinstance(piped, Reader) else piped.reader()

    def setup(self, **kwargs):
        return self._builder.setup(**kwargs)

    def schema(self):
        return self._builder.schema()


class Pipe:
    """Something that has writers at one end and readers at the other.

    Its set-up is found by the task under the attribute `obj_key` of the nets that use it.
    """

    def __init__(self, schema=None, obj_key=None):
        self._schema = schema
        self._obj_key = obj_key
        self._num_writers = self._num_readers = 0

    def schema(self):
        """Return the schema of the records, or None."""
        return self._schema

    def setup(self, global_init_net):
        """Add what runs before everything."""

    def reader(self):
        """A new Reader."""
        raise NotImplementedError

    def writer(self):
        """A new Writer."""
        raise NotImplementedError

    def num_readers(self):
        """Return how many readers it has."""
        return self._num_readers

    def num_writers(self):
        """Return how many writers it has."""
        return self._num_writers

    def _new_writer(self, writer_schema, writer_init_net):
        if writer_schema is not None and self._schema is None:
            self._schema = writer_schema
        self._num_writers += 1
        self._register(writer_init_net)

    def _new_reader(self, reader_init_net):
        self._num_readers += 1
        self._register(reader_init_net)

    def _register(self, net):
        if self._obj_key is not None:
            net.add_attribute(self._obj_key, self)


class CounterReader(Reader):
    """Counts 0, 1, 2, … without end."""

    def __init__(self):
        super().__init__(schema=Struct(("iter", np.int64)))
        self.counter = self.should_stop = None

    def setup_ex(self, global_init_net, global_finish_net):
        if self.counter is not None:
            return
        self.counter = global_init_net.CreateCounter([], init_count=0)
        self.should_stop = global_init_net.ConstantFill([], shape=[], dtype=core.DataType.BOOL, value=False)

    def read_ex(self, local_init_net, local_finish_net):
        net = core.Net("limited_reader_counter")
        return [net], self.should_stop, [net.CountUp([self.counter], 1)]


def _never(net):
    return net.ConstantFill([], 1, shape=[], value=False, dtype=core.DataType.BOOL)


class ReaderWithLimitBase(Reader):
    """A reader that stops when the one inside does, or a limit is reached; a subclass says which."""

    def __init__(self, reader):
        super().__init__(reader._schema)
        self.reader = reader
        self.net = core.Net("reader_with_limit")
        self._data_finished = self.net.AddExternalInput(self.net.NextName("data_finished"))

    def setup_ex(self, global_init_net, global_finish_net):
        global_init_net.ConstantFill([], [self._data_finished], shape=[], value=False, dtype=core.DataType.BOOL)
        self.reader.setup_ex(global_init_net, global_finish_net)
        self.setup_limiter(global_init_net, global_finish_net)

    def read_ex(self, local_init_net, local_finish_net):
        condition_net = core.Net("limited_reader_condition")
        should_stop = self.check_limiter_condition(condition_net)
        nets, finished, fields = self.reader.read_ex(local_init_net, local_finish_net)
        self._set_schema(self.reader._schema)
        # The limit was looked at when its net ended: from here on its blob can say that the reader is done.
        done_net = core.Net("limited_reader_post")
        done_net.Copy(finished, should_stop)
        done_net.Or([self._data_finished, finished], [self._data_finished])
        return [condition_net, *nets, done_net], should_stop, fields

    def setup_limiter(self, global_init_net, global_finish_net):
        """Add what the limit needs once."""
        raise NotImplementedError(f"{type(self).__name__} has no setup_limiter")

    def check_limiter_condition(self, stop_condition_net):
        """Add the check to a net; return the blob that says whether the limit is reached."""
        raise NotImplementedError("Subclass must implement `check_limiter_condition`")

    def data_finished(self):
        """Return the blob that says whether the reader inside came to its end."""
        return self._data_finished


class ReaderWithLimit(ReaderWithLimitBase):
    """Reads at most `num_iter` times, over all threads (None: no limit)."""

    def __init__(self, reader, num_iter=1):
        super().__init__(reader)
        self.num_iter = num_iter
        self.counter = None if num_iter is None else self.net.AddExternalInput(self.net.NextName("counter"))

    def setup_limiter(self, global_init_net, global_finish_net):
        if self.counter:
            global_init_net.CreateCounter([], [self.counter], init_count=int(self.num_iter))

    def check_limiter_condition(self, stop_condition_net):
        if self.counter:
            return stop_condition_net.CountDown([self.counter], 1)
        return _never(stop_condition_net)


def CountUntil(num_iter):
    """Return a reader that counts from 0 to num_iter - 1."""
    return ReaderWithLimit(CounterReader(), num_iter)


class ReaderWithTimeLimit(ReaderWithLimitBase):
    """Reads for `duration` seconds (0: no limit)."""

    def __init__(self, reader, duration=0):
        super().__init__(reader)
        self.timer = None
        self.duration = duration
        self.duration_ns_blob = None

    def setup_limiter(self, global_init_net, global_finish_net):
        if self.duration > 0:
            self.timer = global_init_net.TimerBegin([], counter_name="epoch_timer")
            start_time = global_init_net.TimerGet(self.timer)
            self.duration_ns_blob = global_init_net.ConstantFill([start_time], value=int(self.duration * 10**9))
            global_finish_net.TimerEnd([self.timer], [])

    def check_limiter_condition(self, stop_condition_net):
        if self.duration > 0:
            elapsed = stop_condition_net.TimerGet([self.timer])
            return stop_condition_net.GE([elapsed, self.duration_ns_blob])
        return _never(stop_condition_net)


class ReaderWithDelay(Reader):
    """Waits `delay` seconds before each read; for tests."""

    def __init__(self, reader, delay):
        super().__init__(reader._schema)
        self.reader = reader
        self.delay = delay

    def setup_ex(self, global_init_net, global_finish_net):
        self.reader.setup_ex(global_init_net, global_finish_net)

    def read_ex(self, local_init_net, local_finish_net):
        read_net = core.Net("reader_body")

        def sleep_op(*_):
            time.sleep(self.delay)

        read_net.Python(sleep_op)([], [])
        return ([read_net], *self.reader.read(read_net))


class CompositeReader(Reader):
    """Reads from several readers at once, their records side by side; ends when one of them does."""

    def __init__(self, names, readers):
        if len(names) != len(readers):
            raise AssertionError(f"{len(readers)} readers got {len(names)} names")
        super().__init__(schema=Struct(*[(name, reader.schema()) for name, reader in zip(names, readers)]))
        self._readers = readers
        self._names = names

    def setup_ex(self, init_net, finish_net):
        for each in self._readers:
            each.setup_ex(init_net, finish_net)

    def read_ex(self, local_init_net, local_finish_net):
        parts = [reader.read_record_ex(local_init_net, local_finish_net) for reader in self._readers]
        fields = [blob for _, _, record in parts for blob in record.field_blobs()]
        final_stop = parts[-1][1]
        nets = []
        for name, (reader_nets, should_stop, _) in zip(self._names, parts):
            nets.extend(reader_nets)
            if should_stop is not final_stop:  # one stop blob is checked after every net: the last reader's
                stop_net = core.Net(f"{name}_stop")
                stop_net.Or([final_stop, should_stop], [final_stop])
                nets.append(stop_net)
        return nets, final_stop, fields

    def reset(self, net):
        for reader in self._readers:
            reader.reset(net)


class CompositeReaderBuilder(ReaderBuilder):
    """Makes CompositeReaders."""

    def __init__(self, names, reader_builders):
        self._names = names
        self._reader_builders = reader_builders
        self._schema = Struct(*[(name, builder.schema()) for name, builder in zip(names, reader_builders)])

    def schema(self):
        return self._schema

    def setup(self, **kwargs):
        merged = {}
        for builder in self._reader_builders:
            more = builder.setup(**kwargs)
            if more.keys() & merged.keys():
                raise AssertionError(f"several readers return the arguments {more.keys() & merged.keys()}")
            merged.update(more)
        return merged

    def new_reader(self, **kwargs):
        readers = []
        for builder in self._reader_builders:
            reader = builder.new_reader(**kwargs)
            if not isinstance(reader, Reader):
                if not hasattr(reader, "reader"):
                    raise ValueError(f"readers are Readers or Pipes, got {reader!r}")
                reader = reader.reader()
            readers.append(reader)
        composite = CompositeReader(self._names, readers)
        if composite.schema() != self._schema:
            raise AssertionError(f"the readers have another schema: {composite.schema()!r}, not {self._schema!r}")
        return composite
