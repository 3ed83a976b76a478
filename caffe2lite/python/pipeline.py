"""Pipelines: tasks that read records, process them and write them to a queue, from which the next task reads."""

from __future__ import annotations

from caffe2lite.python import core, queue_util
from caffe2lite.python.dataio import Reader, Writer
from caffe2lite.python.net_builder import NetBuilder, ops
from caffe2lite.python.schema import Field, as_record
from caffe2lite.python.task import Node, Task, TaskGroup

DEFAULT_QUEUE_CAPACITY = 100


class Output:
    """What a processor returns: nets (those built by `ops` if None), a record, and a blob that stops the reader."""

    def __init__(self, nets=None, record=None, should_stop=None):
        built = NetBuilder.current().get()
        if nets is not None and built:
            raise AssertionError("a processor adds operators by `ops` or returns nets, not both")
        if nets is None:
            nets = built
        self.nets = [nets] if isinstance(nets, core.Net) else list(nets)
        self.record = None if record is None else as_record(record)
        self.should_stop = should_stop


def _init_output(output, capacity, global_init_net, global_exit_net):
    """Return (pipe or None, writer) for the output of a step."""
    if output is None:
        pipe_out = queue_util.Queue(capacity=DEFAULT_QUEUE_CAPACITY if capacity is None else capacity)
        writer = pipe_out.writer()
    else:
        if capacity is not None:
            raise AssertionError(f"capacity {capacity} is for a queue made here, and an output was given")
        if isinstance(output, Writer):
            pipe_out, writer = None, output
        elif hasattr(output, "writer"):
            pipe_out, writer = output, output.writer()
        else:
            raise ValueError(f"the output is a Writer, a queue or a stream, got {output!r}")
    writer.setup_ex(global_init_net, global_exit_net)
    return pipe_out, writer


def make_processor(processor, reader=None):
    """Return a function of a record for a function, a net or None; `processor.schema_func(reader)` says what it returns."""
    if processor is None:
        return lambda rec: rec
    if isinstance(processor, core.Net):
        return NetProcessor(processor)
    if reader is not None and hasattr(processor, "schema_func"):
        processor.schema = lambda: processor.schema_func(reader)
    return processor


def normalize_processor_output(output):
    """Return an Output for what a processor may return: Output, record, (record, stop), (nets, record, stop), nets."""
    if isinstance(output, Output):
        return output
    if isinstance(output, Field):
        return Output(record=output)
    if isinstance(output, tuple):
        if len(output) == 2 and isinstance(output[0], Field) and isinstance(output[1], core.BlobReference):
            return Output(None, *output)
        return Output(*output)
    return Output(output)


def pipe(
    input,
    output=None,
    num_threads=1,
    processor=None,
    name=None,
    capacity=None,
    group=None,
    num_runtime_threads=1,
):
    """Add a task that reads `input` (reader, queue), processes each record and writes it to `output`.

    Without `output` a new queue is made, and returned. `processor` is a function of a record, or a net.
    `num_threads` copies of the nets, or `num_runtime_threads` instances of one, run side by side; with 0 of them no
    task is made, and a reader returned that does all this.
    """
    return _pipe_step(input, output, num_threads, processor, name, capacity, group, num_runtime_threads)[0]


def pipe_and_output(
    input,
    output=None,
    num_threads=1,
    processor=None,
    name=None,
    capacity=None,
    group=None,
    num_runtime_threads=1,
    final_outputs=None,
):
    """pipe, for a task with outputs: returns (queue, TaskOutput of `final_outputs`, or a list of them)."""
    if num_threads <= 0:
        raise AssertionError(f"num_threads must be positive: {num_threads}")
    result, task = _pipe_step(
        input, output, num_threads, processor, name, capacity, group, num_runtime_threads, final_outputs
    )
    if final_outputs is None:
        return result, None
    outputs = task.outputs()
    return result, outputs if isinstance(final_outputs, (list, tuple)) else outputs[0]


def processor_name(processor):
    """Return a name for a processor, reader or writer."""
    return getattr(processor, "name", None) or type(processor).__name__


def _read_and_write(reader, output_for, timer_name):
    """Return (init net, exit net, body, end of its timer) of a thread that moves records on until there are no more."""
    init_name, exit_name, open_output = output_for
    init_net, exit_net = core.Net(init_name), core.Net(exit_name)
    read_nets, status, record = reader.read_record_ex(init_net, exit_net)
    init_net.ConstantFill([], [status], shape=[], value=False, dtype=core.DataType.BOOL)
    write_nets = []
    if record is not None:
        write_nets, _ = open_output().write_record_ex(record, init_net, exit_net, status)
    timer_start, timer_end = core.Net("timer_start"), core.Net("timer_end")
    timer = timer_start.TimerBegin([], counter_name=timer_name)
    timer_end.TimerEnd(timer, [])
    body = core.execution_step("body", [timer_start, *read_nets, *write_nets, timer_end], should_stop_blob=status)
    return init_net, exit_net, body, timer_end


def _timer_name(name, reader, output):
    ends = (processor_name(part) if part else none for part, none in ((reader, "NoInput"), (output, "NoOutput")))
    return "/".join([str(Node.current()), "pipe", name, *ends])


class _LazyOutput:
    """The output, set up for the first thread that has a record to write."""

    def __init__(self, output, capacity, init_net, exit_net):
        self.arguments = (output, capacity, init_net, exit_net)
        self.queue = self.writer = None

    def open(self):
        if self.writer is None:
            self.queue, self.writer = _init_output(*self.arguments)
        return self.writer


def _runtime_threads_task(name, group, final_outputs, reader, num_threads, output, capacity):
    """Return one set of nets, of which the task runs several instances."""
    with Task(name=name, group=group, outputs=final_outputs, num_instances=num_threads) as task:
        global_exit_net, global_init_net = core.Net("pipe:exit"), core.Net("pipe:init")
        reader.setup_ex(global_init_net, global_exit_net)
        out = _LazyOutput(output, capacity, global_init_net, global_exit_net)
        init_net, exit_net, body, timer_end = _read_and_write(
            reader, ("pipe:instance:init", "pipe:instance:exit", out.open), _timer_name(name, reader, output)
        )
        with ops.task_init():
            ops.net(global_init_net)
        with ops.task_instance_init():
            ops.net(init_net)
        ops.net(body)
        ops.net(timer_end)
        with ops.task_instance_exit():
            ops.net(exit_net)
        with ops.task_exit():
            ops.net(global_exit_net)
    return out.queue, task


def _static_threads_task(name, group, final_outputs, reader, num_threads, output, capacity):
    """Return a set of nets for each thread."""
    with Task(name=name, group=group, outputs=final_outputs) as task:
        global_exit_net, global_init_net = core.Net("exit"), core.Net("init")
        reader.setup_ex(global_init_net, global_exit_net)
        out = _LazyOutput(output, capacity, global_init_net, global_exit_net)

        def open_output():
            with NetBuilder(_fullname=task.name):  # named after the task, not after the first thread
                return out.open()

        steps = []
        for i in range(num_threads):
            with NetBuilder(name=f"t:{i}") as builder:
                init_net, exit_net, body, timer_end = _read_and_write(
                    reader, ("init", "exit", open_output), _timer_name(name, reader, output)
                )
                for part in (init_net, body, timer_end, exit_net):
                    ops.net(part)
            steps.append(core.to_execution_step(builder))
        ops.net(global_init_net)
        ops.net(core.execution_step("body", steps, concurrent_substeps=True))
        ops.net(global_exit_net)
    return out.queue, task


def _pipe_step(
    input,
    output=None,
    num_threads=1,
    processor=None,
    name=None,
    capacity=None,
    group=None,
    num_runtime_threads=None,
    final_outputs=None,
):
    if num_threads > 1 and num_runtime_threads > 1:
        raise AssertionError(
            f"give num_threads ({num_threads}) or num_runtime_threads ({num_runtime_threads}), not both"
        )
    if isinstance(input, Reader):
        reader = input
    elif hasattr(input, "reader"):
        reader = input.reader()
    else:
        raise ValueError(f"Input must be a reader, queue or stream, got {input!r}")
    if processor is not None:
        reader = ProcessingReader(reader, processor)
    if num_threads == 0 or num_runtime_threads == 0:
        if output is not None:
            raise AssertionError(f"without threads nothing would write to {output!r}")
        return reader, None

    if name is None:
        if processor is not None:
            name = processor_name(processor)
        elif output is not None:
            name = f"pipe_into:{processor_name(output)}"
        else:
            name = f"pipe_from:{processor_name(input)}"
    if num_threads > 1:
        return _static_threads_task(name, group, final_outputs, reader, num_threads, output, capacity)
    return _runtime_threads_task(name, group, final_outputs, reader, num_runtime_threads, output, capacity)


class ProcessingReader(Reader):
    """Reads processed records."""

    def __init__(self, reader, processor):
        super().__init__()
        self.reader = reader
        self.processor = make_processor(processor, reader)

    def schema(self):
        return self.processor.schema()

    def setup_ex(self, init_net, finish_net):
        self.reader.setup_ex(init_net, finish_net)

    def read_ex(self, init_net, exit_net):
        read_nets, status, record = self.reader.read_record_ex(init_net, exit_net)
        with NetBuilder() as builder:  # which the processor may use
            result = normalize_processor_output(self.processor(record))
        nets = [*read_nets, *result.nets]
        stops = [blob for blob in (result.should_stop, builder._stop_blob) if blob]
        if stops:
            stop_net = core.Net("stop_net")
            for blob in stops:
                stop_net.Or([status, blob], [status])
            nets.append(stop_net)
        if hasattr(self.processor, "setup"):
            init_net.add_attribute(TaskGroup.LOCAL_SETUP, self.processor)
        self._set_schema(result.record)
        return nets, status, result.record.field_blobs() if result.record else None


class NetProcessor:
    """A net with input and output records as a processor; every thread gets a clone of it.

    `thread_init_nets` are cloned along and run before.
    """

    def __init__(self, net, stop_signal=None, thread_init_nets=None, name=None):
        if not isinstance(net, core.Net) or not (stop_signal is None or isinstance(stop_signal, core.BlobReference)):
            raise AssertionError(f"expected a net and a stop blob, got {net!r} and {stop_signal!r}")
        self.name = name or str(net)
        self.thread_init_nets = thread_init_nets or []
        self.net = net
        self._stop_signal = stop_signal
        self._blob_maps = []
        self._frozen = False
        self._cloned_init_nets = []

    def schema(self):
        """Return the schema of what the net returns."""
        return self.net.output_record()

    def setup(self, init_net):
        """Return the clones of the init nets, for the task."""
        self._frozen = True
        nets, self._cloned_init_nets = self._cloned_init_nets, []
        return nets

    def __call__(self, rec):
        if self._frozen:
            raise AssertionError("the processor has been set up already")
        prefix = NetBuilder.current().name + "/"
        blob_remap = {}
        for net in self.thread_init_nets:
            clone, _ = core.clone_and_bind_net(net, str(net) + prefix, prefix, blob_remap)
            self._cloned_init_nets.append(clone)
        clone, names = core.clone_and_bind_net(self.net, str(self.net) + prefix, prefix, blob_remap, rec)
        stop_signal = self._stop_signal
        if stop_signal is not None and str(stop_signal) in names:
            stop_signal = core.BlobReference(names[str(stop_signal)], net=clone)
        self._blob_maps.append(names)
        return Output([clone], clone.output_record(), stop_signal)

    def blob_maps(self):
        """Return {blob of the net: its name} of each clone."""
        self._frozen = True
        return self._blob_maps
