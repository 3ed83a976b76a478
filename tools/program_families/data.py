"""Readers, queues, datasets, pipelines, sessions, checkpoints, databases."""

from program_families.base import family, maybe

FIELDS = ["('a', schema.Scalar(np.int64))", "('b', schema.Scalar(np.float32))", "('c', schema.List(schema.Scalar(np.int32)))",
          "('d', schema.Struct(('x', schema.Scalar(np.float64)), ('y', schema.Scalar(str))))",
          "('e', schema.Map(schema.Scalar(np.int64), schema.Scalar(np.float32)))"]  # fmt: skip
IMPORTS = ("from caffe2.python import dataset, dataio, record_queue, queue_util, pipeline, session, task, net_builder, checkpoint\n"
           "from caffe2.python.net_builder import ops\nfrom caffe2.python.dataio import ReaderWithLimit, CompositeReader, CompositeReaderBuilder, CounterReader, ReaderWithTimeLimit\n"
           "from caffe2.python.task import Node, Task, TaskGroup, WorkspaceType, Cluster\nfrom caffe2.python.checkpoint import Job\nfrom caffe2.python.cached_reader import CachedReader\nfrom caffe2.python.text_file_reader import TextFileReader\n"
           "from caffe2.python.db_file_reader import DBFileReader")  # fmt: skip


def _filled(rng, name="ds"):
    """Steps that make a dataset of a few rows."""
    fields = rng.sample(FIELDS, rng.randint(1, 3))
    rows = rng.choice([1, 3, 5])
    return [
        f"r = schema.Struct({', '.join(fields)})",
        f"{name} = dataset.Dataset(r, {name!r})\nn = core.Net('empty')\n{name}.init_empty(n)\nworkspace.RunNetOnce(n)",
        f"""def column(name, kind):
    kind = np.dtype(kind)
    if name.endswith('lengths'):
        return np.array([1, 0, 2, 1, 1][:{rows}], 'i4')
    count = sum([1, 0, 2, 1, 1][:{rows}]) if ':' in name and not name.startswith('d') else {rows}
    if kind.kind in 'SUO':
        return np.array([str(i) for i in range(count)], object)
    return values(name, (count,), kind, 0, 9)
with core.NameScope("w"):
    w = schema.NewRecord(core.Net("w"), r)
for name, kind, blob in zip(w.field_names(), w.field_types(), w.field_blobs()):
    workspace.FeedBlob(str(blob), column(name, kind))
i, n = core.Net('setup'), core.Net('write')
x = {name}.writer(i)
x.setup_ex(i, i)
x.write(n, w.field_blobs())
workspace.RunNetOnce(i)
workspace.RunNetOnce(n)""",
    ]


@family
def datasets(rng):
    steps = [IMPORTS, *_filled(rng)]
    for i in range(rng.randint(1, 3)):
        batch = rng.choice([1, 2, 4])
        steps.append(rng.choice([
            f"n = core.Net('read{i}')\nd = ds.reader(None, batch_size={batch}{maybe(rng, 0.3, loop_over=[True], enforce_batch_size=[True])})\nd.setup_ex(n, n)\nstop, out = d.read_record(n)\nshow(n, out)\nworkspace.RunNetOnce(n)\nshow(workspace.FetchBlob(stop))",
            f"n = core.Net('i{i}')\nd = ds.random_reader(n, batch_size={batch}{maybe(rng, 0.3, loop_over=[True])})\nd.sort_and_shuffle(n, None, 1, 2) if 0 else d.computeoffset(n)\nshow(n)",
            f"n = core.Net('i{i}')\nd = ds.random_reader(n, indices=[2, 0, 1], batch_size={batch})\nd.computeoffset(n)\nk = core.Net('b{i}')\nstop, out = d.read_record(k)\nshow(n, k, out)",
            "show(ds.get_blobs(), ds.field_names(), ds.field_types(), ds.content())", "n = core.Net('trim')\nds.trim(n, multiple_of=2)\nshow(n)\nworkspace.RunNetOnce(n)",
            "s, nets = dataset.execution_step_with_progress.__name__ if 0 else (1, 2)\nshow(s)", "dataset.Const(core.Net('k'), [1, 2]) if 0 else show(len(ds.fields))",
            "ds.bind(schema.NewRecord(core.Net('bound'), r)) if 0 else show(ds.cursor if hasattr(ds, 'cursor') else 0)",
            f"step = ds.reader(None, batch_size={batch}).execution_step()\nshow(step[0] if isinstance(step, tuple) else step)" if 0 else "show(r.field_names())",
            "n = core.Net('load')\nds.load_from_dataframe(n) if 0 else None\nshow(n)",
            f"n = core.Net('hist{i}')\nit = n.CreateTreeCursor([], 'cur', fields=r.field_names())\nout = n.ReadNextBatch([it] + ds.get_blobs(), ['o%d' % i for i in range(len(ds.get_blobs()))], batch_size={batch})\nworkspace.RunNetOnce(n)\nworkspace.RunNetOnce(n)",
            "n = core.Net('pack')\nit = n.CreateTreeCursor([], 'cur2', fields=r.field_names())\np = n.PackRecords(ds.get_blobs(), 'packed', fields=r.field_names())\nn.UnPackRecords([p], ['u%d' % i for i in range(len(ds.get_blobs()))], fields=r.field_names())\nworkspace.RunNetOnce(n)",
            "n = core.Net('c')\nn.CheckDatasetConsistency(ds.get_blobs(), [], fields=r.field_names())\nworkspace.RunNetOnce(n)",
        ]))  # fmt: skip
    return steps


@family
def queues(rng):
    capacity = rng.choice([1, 3, 5])
    steps = ["from caffe2.python import queue_util, record_queue", f"init_net = core.Net('init')\nq = init_net.CreateBlobsQueue([], 'queue', capacity={capacity}, num_blobs={rng.choice([1, 2])}{maybe(rng, 0.4, field_names=[['x'], ['x', 'y']])})",
             "workspace.RunNetOnce(init_net)\nfeed('x', (2, 3))\nfeed('y', (2,), 'i4', 0, 9)"]  # fmt: skip
    for i in range(rng.randint(1, 6)):
        steps.append(rng.choice([
            "workspace.RunOperatorOnce(core.CreateOperator('SafeEnqueueBlobs', ['queue', 'x'], ['x', 'status']))\nshow(workspace.FetchBlob('status'))",
            "workspace.RunOperatorOnce(core.CreateOperator('EnqueueBlobs', ['queue', 'x', 'y'], ['x', 'y']))" if capacity > 4 else "workspace.RunOperatorOnce(core.CreateOperator('CloseBlobsQueue', ['queue'], []))",
            "workspace.RunOperatorOnce(core.CreateOperator('CloseBlobsQueue', ['queue'], []))\nworkspace.RunOperatorOnce(core.CreateOperator('SafeDequeueBlobs', ['queue'], ['out', 'status']))",
            f"n = core.Net('n{i}')\nw = queue_util.{rng.choice(['QueueWrapper', 'QueueWrapper'])}(handler=None, schema=schema.Scalar(np.float32)) if 0 else queue_util.make_queue_writer if 0 else 1\nshow(w)",
            f"n = core.Net('n{i}')\nr, w = queue_util.Queue(capacity={capacity}, schema=schema.Struct(('x', schema.Scalar()), ('y', schema.Scalar())), name='qq').reader(), None\nr.setup_ex(n, n)\nshow(n)",
            f"n = core.Net('n{i}')\nshow(queue_util.dequeue(n, 'queue', {rng.choice([1, 2])}, status='st'), n)", f"n = core.Net('n{i}')\nqueue_util.enqueue(n, 'queue', ['x'])\nqueue_util.close_queue(n.Proto() if 0 else core.execution_step('s', n), 'queue') if 0 else show(n)",
            f"r = record_queue.RecordQueue(schema.Struct(('x', schema.Scalar(np.float32)), ('y', schema.Scalar(np.int32))), 'rq{i}', {capacity})\nn = core.Net('rq')\nshow(r.build_enqueue_step.__name__ if hasattr(r, 'build_enqueue_step') else 0) if 0 else None\nshow(r.schema)",
            f"n = core.Net('m{i}')\nd = n.CreateMutex([], 'mutex{i}')\nc = n.CreateAtomicBool([], 'flag{i}')\nn.ConditionalSetAtomicBool([c, n.ConstantFill([], 1, shape=[1], value=True, dtype=core.DataType.BOOL)], [])\nworkspace.RunNetOnce(n)",
            f"n = core.Net('c{i}')\nc = n.CreateCounter([], 'count{i}', init_count={rng.choice([0, 2])})\nn.{rng.choice(['CountDown', 'CountUp', 'RetrieveCount'])}([c], 'counted{i}')\nn.CheckCounterDone([c], 'finished{i}')\nworkspace.CreateNet(n)\nworkspace.RunNet(n)",
            f"n = core.Net('st{i}')\nn.StatRegistryCreate([], 'stats{i}')\nn.StatRegistryExport(['stats{i}'], ['k{i}', 'v{i}', 't{i}'])\nworkspace.RunNetOnce(n)\nworkspace.ResetBlob('t{i}') if 0 else workspace.FeedBlob('t{i}', np.zeros(0))",
            "n = core.Net('db')\nn.CreateDB([], 'reader', db='nosuch', db_type='minidb')\nworkspace.RunNetOnce(n)",
            f"workspace.RunOperatorOnce(core.CreateOperator('Save', ['x', 'y'], [], absolute_path=False, db='f{i}', db_type='minidb'))\nn = core.Net('db{i}')\nd = n.CreateDB([], 'db{i}', db='f{i}', db_type='minidb')\nn.ReadNext([d], ['key{i}', 'value{i}']) if 0 else n.DBExists([], 'there{i}', db_name='f{i}', db_type='minidb')\nworkspace.RunNetOnce(n)",
        ]))  # fmt: skip
    return steps


@family
def pipelines(rng):
    batch = rng.choice([1, 2, 3])
    processor = rng.choice(["None", "None", "double", "process", "NB"])
    tasks = rng.choice([1, 1, 2])
    steps = [IMPORTS, "r = schema.Struct(('v', schema.Scalar(np.int32)))\nsrc = dataset.Dataset(r, 'src')\nn = core.Net('i')\nsrc.init_empty(n)\nworkspace.RunNetOnce(n)\nworkspace.FeedBlob(str(src.get_blobs()[0]), np.arange(6, dtype='i4'))",
             "def double(rec):\n    n = core.Net('double')\n    return n, schema.Struct(('v', n.Add([rec.v(), rec.v()], 'twice')))\n"
             "def process(rec):\n    with ops.loop(1):\n        ops.Copy([rec.v()], ['copied'])\n    return rec\n"
             "def NB(rec):\n    with ops.If(ops.GE([ops.Const(1), ops.Const(0)])):\n        ops.Copy([rec.v()], [rec.v()])\n    return schema.Struct(('v', ops.Copy([rec.v()])))"]  # fmt: skip
    reader = rng.choice([f"src.reader(None, batch_size={batch})", f"src.reader(None, batch_size={batch})", f"ReaderWithLimit(src.reader(None, batch_size={batch}), num_iter={rng.choice([1, 2, 9])})",
                         "CounterReader()", f"ReaderWithTimeLimit(src.reader(None, batch_size={batch}), duration=0)"])  # fmt: skip
    make = (f"dst = dataset.Dataset(r, 'dst')\nwith TaskGroup() as init_tg:\n    with Task(name='init'):\n        n = core.Net('j')\n        dst.init_empty(n)\n        ops.net(n)\n"
            f"with TaskGroup() as tg:\n    rd = {reader}\n    pipeline.pipe(rd, dst.writer(){maybe(rng, 0.3, num_threads=[1], name=['pp'], capacity=[2])}, processor={processor})")  # fmt: skip
    if rng.random() < 0.5:
        make = (f"dst = dataset.Dataset(r, 'dst')\nwith TaskGroup() as init_tg:\n    with Task(name='init'):\n        n = core.Net('j')\n        dst.init_empty(n)\n        ops.net(n)\n"
                f"with TaskGroup() as tg:\n    rd = {reader}\n    q = pipeline.pipe(rd, num_threads={tasks}, processor={processor}, capacity=10)\n    pipeline.pipe(q, dst.writer(), num_threads=1)")  # fmt: skip
    steps += [make, "s = session.LocalSession()\ns.run(init_tg)"]
    steps.append(
        "show(tg.to_task().get_step().Proto())"
        if rng.random() < 0.6
        else "show([t.name for t in tg.tasks()], str(tg.nodes_to_checkpoint()), tg.used_nodes())"
    )
    steps.append("s.run(tg)" if "CounterReader" not in reader else "show(s.is_open())")
    order = (
        "np.sort(workspace.FetchBlob(str(dst.get_blobs()[0])))"
        if tasks > 1
        else "workspace.FetchBlob(str(dst.get_blobs()[0]))"
    )
    steps.append(f"show({order})")
    if tasks > 1:
        steps.append("workspace.FeedBlob(str(dst.get_blobs()[0]), np.zeros(0))")
        steps.append(
            "for b in workspace.Blobs():\n    if 'queue' not in b and b != str(dst.get_blobs()[0]):\n        workspace.FeedBlob(b, np.zeros(0))"
        )
    return steps


@family
def sessions(rng):
    """Tasks on nodes, setups, outputs; jobs with checkpoints."""
    steps = [IMPORTS]
    nodes = rng.choice([["n"], ["n", "k"]])
    lines = []
    for i in range(rng.randint(1, 3)):
        node = rng.choice(nodes)
        kind = rng.choice(["const", "setup", "loop", "instances", "net", "step"])
        body = {
            "const": f"v{i} = ops.Const({rng.choice([1, 2.5])})\n        ops.Add([v{i}, v{i}], [v{i}])",
            "setup": f"with ops.task_init():\n            v{i} = ops.Const(3)\n        with ops.task_exit():\n            ops.Copy([v{i}], ['left{i}'])\n        ops.Add([v{i}, ops.Const(1)], [v{i}])",
            "loop": f"v{i} = ops.Const(0)\n        with ops.loop({rng.choice([2, 3])}):\n            ops.Add([v{i}, ops.Const(1)], [v{i}])",
            "instances": f"with ops.task_instance_init():\n            v{i} = ops.Const(5)\n        ops.Copy([v{i}], ['copied{i}'])",
            "net": f"n{i} = core.Net('net{i}')\n        v{i} = n{i}.ConstantFill([], 'v{i}', shape=[1], value=2.0)\n        ops.net(n{i})",
            "step": f"v{i} = ops.Const(1.5)\n        ops.stop() if 0 else None",
        }[kind]
        task = (
            f"Task(name={rng.choice(['t', f't{i}'])!r}, node={node!r})"
            if rng.random() < 0.7
            else f"Task(node={node!r}{maybe(rng, 0.4, num_instances=[1, 2])})"
        )
        lines.append(
            f"    with {task} as t{i}:\n        {body}\n        o{i} = t{i}.add_output(v{i}) if {rng.random() < 0.8} else None"
        )
    group = "TaskGroup(%s)" % rng.choice(
        ["", "", "workspace_type=WorkspaceType.GLOBAL", "workspace_type=WorkspaceType.PRIVATE"]
    )
    if rng.random() < 0.65:
        steps.append(f"with {group} as tg:\n" + "\n".join(lines))
        steps += rng.sample([
            "show(tg.to_task().get_step().Proto())", "show(tg.used_nodes(), [t.name for t in tg.tasks()], tg.workspace_type())", "show(tg.tasks_by_node().used_nodes())",
            "show([t.get_step().Proto() for t in tg.tasks()])", "show(repr(tg), str(t0))", "tg.remap_nodes if 0 else show(tg.tasks_by_node(lambda x: 'all').used_nodes())",
        ], rng.randint(1, 2))  # fmt: skip
        steps += ["s = session.LocalSession()\ns.run(tg)", "show(o0.fetch() if o0 is not None else 0)", "show(t0.outputs(), t0.output_names() if hasattr(t0, 'output_names') else 0)" if 0 else "show([o.fetch() for o in t0.outputs()])",
                  rng.choice(["s.run(tg)", "s.close()\ns.run(tg)", "c = session.CompiledRunnable(tg, session.LocalSession) if 0 else s.compile(tg)\nshow(type(c).__name__)", "show(s.is_open())", "t0.add_output('x')"])]  # fmt: skip
        return steps
    job = ["with Job() as job:", "    with job.init_group:"] + [
        "    " + line.replace("\n", "\n    ") for line in lines[:1]
    ]
    job += [
        "    with job.epoch_group:",
        "        with Task(node='n') as e:\n            c = ops.Const(1)\n            ops.Add([v0, v0], [v0])",
    ]
    stop = rng.choice(["job.set_stop_condition", "job.stop_conditions.append", ""])
    if stop:
        job.append(
            f"    with job.epoch_group:\n        with Task(node='n') as st:\n            f = ops.Const({rng.choice([True, False]) or True})\n            out = st.add_output(f)\n    {stop}(out)"
        )
    steps += ["\n".join(job), f"s = session.LocalSession()\nc = checkpoint.{rng.choice(['CheckpointManager', 'MultiNodeCheckpointManager'])}('ck', {rng.choice(['None', 'None', repr('n')])}, 'minidb')",
              f"job.compile(session.LocalSession)\nr = checkpoint.JobRunner(job, {rng.choice(['None', 'c', 'c'])})\nshow(r.train(s))", "show(sorted(job.nodes_to_checkpoint()))",
              rng.choice(["show(c.get_loading_steps.__name__ if 0 else c.get_blob_list.__name__ if 0 else 1)", "show(c.load.__name__, checkpoint.db_name(1, 'n', 'p', 'q') if hasattr(checkpoint, 'db_name') else 0)", "s.run(c.load(1))" if 0 else "s.run(c.init(['n'], retrieve_from_epoch=None)) if 0 else None",
                          "r = checkpoint.JobRunner(job, c, resume_from_epoch=1)\nshow(r.train(s))"])]  # fmt: skip
    return steps


@family
def reader_helpers(rng):
    steps = [IMPORTS, "open('t.txt', 'w').write('a\\t1\\nb\\t2\\nlong one\\t-3\\n')", *_filled(rng)]
    for i in range(rng.randint(1, 2)):
        steps.append(rng.choice([
            f"rd = TextFileReader('t.txt', schema.Struct(('s', schema.Scalar(str)), ('n', schema.Scalar({rng.choice(['np.int32', 'np.float32', 'str'])}))), batch_size={rng.choice([1, 2])}, num_passes={rng.choice([1, 2])})\nn, k = core.Net('i{i}'), core.Net('k{i}')\nrd.setup_ex(n, n)\nstop, out = rd.read_record(k)\nshow(n, k)\nworkspace.RunNetOnce(n)\nfor _ in range(4):\n    workspace.RunNetOnce(k)\n    show(workspace.FetchBlob(stop), [workspace.FetchBlob(b) for b in out.field_blobs()])",
            f"rd = ReaderWithLimit(ds.reader(None, batch_size=2), num_iter={rng.choice([1, 3])})\nn = core.Net('i{i}')\nrd.setup_ex(n, n)\nstop, out = rd.read_record(n)\nshow(n)\nrd.setup_ex(n, n)",
            f"rd = CompositeReader(['x', 'y'], [ds.reader(None, batch_size=1), ds.reader(None, batch_size=2)])\nn = core.Net('i{i}')\nrd.setup_ex(n, n)\nstop, out = rd.read_record(n)\nshow(n, out)",
            f"rd = ds.reader(None, batch_size=2)\ndb = DBFileReader('f.db', 'minidb', batch_size=2) if 0 else CachedReader(rd, db_path='f.db', db_type='minidb', loop_over={rng.choice([True, False])})\nb = db.build_cache_step(overwrite={rng.choice([True, False])})\nshow(b[0].Proto() if isinstance(b, tuple) else b.Proto())\nworkspace.RunPlan(core.to_execution_step(b)) if 0 else None",
            "rd = ds.reader(None, batch_size=1)\nshow([str(s.Proto()) for s in rd.execution_step()[:1]] if isinstance(rd.execution_step(), tuple) else 0)",
            "fs, sch = [core.Net('f')], rd if 0 else None\nrd = dataio.PipedReaderBuilder.__name__ if hasattr(dataio, 'PipedReaderBuilder') else 0\nshow(rd)",
            f"rd = CounterReader()\nn = core.Net('c{i}')\nrd.setup_ex(n, n)\nshow(rd.read_ex(n, n))\nshow(n)",
            f"rd = dataio.ReaderWithDelay(ds.reader(None), 0.0) if hasattr(dataio, 'ReaderWithDelay') else ds.reader(None)\nn = core.Net('d{i}')\nrd.setup_ex(n, n)\nshow(rd.read_ex(n, n)[0], rd.schema())",
        ]))  # fmt: skip
    return steps
