"""One shard of a test: `worker.py SCENARIO RANK SIZE STORE KEY=VALUE…`.

RANK and STORE are `-` under an MPI launcher; RANK is `env` where another launcher has put it into the environment.
"""

import contextlib
import hashlib
import os
import pathlib
import signal
import sys
import threading
import time

import fake_nccl
import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, data_parallel_model, model_helper, optimizer, workspace

from caffe2lite.devices import emulated
from caffe2lite.distributed import handshake, mpi, rendezvous
from caffe2lite.distributed.world import World

NAMES = ["fc1_w", "fc1_b", "fc2_w", "fc2_b"]


class Shard:
    def __init__(self, rank, size, store, options):
        self.launched = rank == "-"
        self.rank = rendezvous()["shard_id"] if rank in ("-", "env") else int(rank)
        self.size, self.store, self.options = int(size), store, options
        self.timeout_ms = int(options.get("timeout_ms", 30_000))
        self.engine = options.get("engine", "GLOO")
        self.device = core.DeviceOption(caffe2_pb2.CUDA, 0) if options.get("kind") == "gpu" else core.DeviceOption(0)
        if "fake_nccl" in options:
            emulated.Gpu.nccl, emulated.Gpu.side_stream = fake_nccl, fake_nccl.Stream
        if "odd_version" in options and options["odd_version"] == str(self.rank):
            handshake.__version__ = mpi.__version__ = "0.0.1"
        if "speaks_after" in options:
            mpi._SPEAKS_AFTER = float(options["speaks_after"])
        if "cuda_aware" in options:
            World.takes_gpu_memory = True

    def handler(self):
        """Make the store handler; its blob's name, None under a launcher."""
        if self.launched or "no_store" in self.options:
            return None
        kind, _, port = self.store.partition(":")
        if kind == "redis":
            args = {"host": "127.0.0.1", "port": int(port)}
            workspace.RunOperatorOnce(core.CreateOperator("RedisStoreHandlerCreate", [], ["store"], **args))
        else:
            workspace.RunOperatorOnce(core.CreateOperator("FileStoreHandlerCreate", [], ["store"], path=self.store))
        return "store"

    def world(self, name="world"):
        """Make a common world."""
        handler = self.handler()
        self.run(
            "CreateCommonWorld",
            [handler] if handler else [],
            [name],
            size=self.size,
            rank=self.rank,
            timeout_ms=self.timeout_ms,
            mpi_rendezvous=self.launched,
            interface=self.options.get("interface", ""),
        )
        return name

    def run(self, kind, inputs, outputs, **args):
        device = core.DeviceOption(0) if kind == "CreateCommonWorld" else self.device
        op = core.CreateOperator(kind, inputs, outputs, engine=self.engine, device_option=device, **args)
        workspace.RunOperatorOnce(op)

    def feed(self, name, array):
        workspace.FeedBlob(name, array, self.device)

    def fault(self, moment):
        """Die or stop where the options say so."""
        if self.options.get("who") == str(self.rank) and self.options.get("when") == moment:
            print(f"rank {self.rank}: {self.options['what']} {moment} at {time.time():.2f}", flush=True)
            os.kill(os.getpid(), getattr(signal, self.options["what"]))


def sync(shard):
    """Train data parallel, spoil all parameters but the checkpoint's, and bring the checkpoint everywhere."""
    kind, count = shard.options.get("kind", "cpu"), int(shard.options.get("devices", 1))
    device_type = caffe2_pb2.CPU if kind == "cpu" else caffe2_pb2.CUDA

    def forward(model, scale):
        hidden = 16 + (shard.rank if shard.options.get("disagree") == "shape" else 0)
        h = brew.relu(model, brew.fc(model, "data", "fc1", 8, hidden), "h")
        h = brew.fc(model, h, "fc2", hidden, 5)
        if shard.options.get("disagree") == "number" and shard.rank == 1:
            h = brew.fc(model, h, "fc3", 5, 5)
        _, loss = model.net.SoftmaxWithLoss([h, "label"], ["softmax", "loss"])
        return [model.net.Scale(loss, scale=scale)]

    model = model_helper.ModelHelper(name="shards")
    data_parallel_model.Parallelize(
        model,
        input_builder_fun=lambda m: None,
        forward_pass_builder_fun=forward,
        optimizer_builder_fun=lambda m: optimizer.build_sgd(m, 0.1, momentum=0.9),
        devices=list(range(count)),
        rendezvous={
            "kv_handler": shard.handler(),
            "num_shards": int(shard.options.get("num_shards", shard.size)),
            "shard_id": shard.rank,
            "engine": shard.engine,
            "mpi_rendezvous": shard.launched,
            "interface": shard.options.get("interface", ""),
            "exit_nets": None,
        },
        cpu_device=kind == "cpu",
    )
    workspace.RunNetOnce(model.param_init_net)
    for d in range(count):
        option = core.DeviceOption(device_type, d)
        rng = np.random.RandomState(10 * shard.rank + d)
        workspace.FeedBlob(f"{kind}_{d}/data", rng.rand(4, 8).astype("f"), option)
        workspace.FeedBlob(f"{kind}_{d}/label", rng.randint(0, 5, 4).astype("i"), option)
    workspace.CreateNet(model.net)
    workspace.RunNet(model.net)
    for d in range(count):
        for name in NAMES:
            shape = workspace.FetchBlob(f"{kind}_{d}/{name}").shape
            value = np.random.RandomState(100 * shard.rank + d).rand(*shape).astype("f")
            workspace.FeedBlob(f"{kind}_{d}/{name}", value, core.DeviceOption(device_type, d))
    for _ in range(2):
        data_parallel_model.FinalizeAfterCheckpoint(model, cpu_mode=kind == "cpu")
    for d in range(count):
        for name in NAMES:
            have = workspace.FetchBlob(f"{kind}_{d}/{name}")
            np.testing.assert_array_equal(have, np.random.RandomState(0).rand(*have.shape).astype("f"))
    for step in range(3):
        if step == 2 and shard.options.get("fails") == str(shard.rank):
            raise ValueError("no such file")
        workspace.RunNet(model.net)
    digests = {
        hashlib.sha256(b"".join(workspace.FetchBlob(f"{kind}_{d}/{n}").tobytes() for n in NAMES)).hexdigest()
        for d in range(count)
    }
    print("parameters", *digests, flush=True)
    if shard.options.get("stays") == str(shard.rank):
        time.sleep(7)


def operators(shard):
    """Every collective against a NumPy formula, for all types that it takes."""
    world, rank, size = shard.world(), shard.rank, shard.size
    for dtype in ("float32", "float64", "float16", "int32", "int64", "uint8"):
        all_of = [np.random.RandomState(r).randint(0, 9, (3, 4)).astype(dtype) for r in range(size)]

        def feed(all_of=all_of):
            shard.feed("x", all_of[rank])
            shard.feed("x2", all_of[rank])

        for root in range(size):
            feed()
            shard.run("Broadcast", [world, "x", "x2"], ["x", "x2"], root=root)
            np.testing.assert_array_equal(workspace.FetchBlob("x"), all_of[root])
            np.testing.assert_array_equal(workspace.FetchBlob("x2"), all_of[root])
        feed()
        shard.run("Allreduce", [world, "x", "x2"], ["x", "x2"])
        for name in ("x", "x2"):
            np.testing.assert_array_equal(workspace.FetchBlob(name), sum(all_of + all_of).astype(dtype))
        feed()
        shard.run("Reduce", [world, "x"], ["y"], root=size - 1)
        expected = sum(all_of).astype(dtype) if rank == size - 1 else all_of[rank]
        np.testing.assert_array_equal(workspace.FetchBlob("y"), expected)
        feed()
        shard.run("Allgather", [world, "x"], ["y"])
        np.testing.assert_array_equal(workspace.FetchBlob("y").reshape(-1), np.concatenate(all_of).reshape(-1))
        parts = [np.random.RandomState(r).randint(0, 9, (size, 3)).astype(dtype) for r in range(size)]
        shard.feed("x", parts[rank])
        shard.run("ReduceScatter", [world, "x"], ["x"])
        np.testing.assert_array_equal(workspace.FetchBlob("x")[0], sum(parts).astype(dtype)[rank])
        shard.run("Barrier", [world], [])
    for count in (1, 7, 1000, 300_001):  # sums of floats depend on their order: all ranks must use the same one
        shard.feed("x", np.random.RandomState(rank).randn(count).astype("f"))
        shard.run("Allreduce", [world, "x"], ["x"])
        mine = workspace.FetchBlob("x")
        shard.feed("digest", np.frombuffer(hashlib.sha256(mine.tobytes()).digest(), np.uint8))
        shard.run("Allgather", [world, "digest"], ["digests"])
        assert len(set(map(bytes, workspace.FetchBlob("digests").reshape(size, -1)))) == 1, count
        expected = sum(np.random.RandomState(r).randn(count).astype("f") for r in range(size))
        np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-5)
    sizes = [0, 1, 3000, 9000, 5, 400_000] + [2000] * 300  # small ones that fill several messages, and large ones
    kinds = ["float32", "uint8", "int64", "float16"]
    shapes = [(n, kinds[i % 4]) for i, n in enumerate(sizes)]
    net = core.Net("many")
    net.Proto().device_option.CopyFrom(shard.device)
    for i in range(len(sizes)):
        net.Broadcast([world, f"b{i}"], [f"b{i}"], root=1, engine=shard.engine)
        workspace.FeedBlob(f"b{i}", np.zeros(1), shard.device)
    workspace.CreateNet(net)
    for turn in range(4):  # the second with other shapes, the third with new arrays of the same shapes
        for i, (n, dtype) in enumerate(shapes):
            n += turn > 0
            if turn == 2:
                workspace.ResetBlob(f"b{i}")
            shard.feed(f"b{i}", ((np.arange(n) + rank + i + turn) % 50).astype(dtype))
        workspace.RunNet(net)
        for i, (n, dtype) in enumerate(shapes):
            n += turn > 0
            expected = ((np.arange(n) + 1 + i + turn) % 50).astype(dtype)
            np.testing.assert_array_equal(workspace.FetchBlob(f"b{i}"), expected)
    other = (rank + 1) % size
    shard.feed("x", np.full(5, rank, "f"))
    shard.feed("y", np.zeros(5, "f"))
    workspace.FeedBlob("to", np.array([other], "i"))
    workspace.FeedBlob("from", np.array([(rank - 1) % size], "i"))
    workspace.FeedBlob("tag", np.array([7], "i"))
    if rank % 2 == 0:
        shard.run("SendTensor", [world, "x", "to", "tag"], [])
        shard.run("ReceiveTensor", [world, "y", "from", "tag"], ["y", "source", "tag_out"])
    else:
        shard.run("ReceiveTensor", [world, "y", "from", "tag"], ["y", "source", "tag_out"])
        shard.run("SendTensor", [world, "x", "to", "tag"], [])
    np.testing.assert_array_equal(workspace.FetchBlob("y"), np.full(5, (rank - 1) % size, "f"))
    shard.run("CloneCommonWorld", [world], ["clone"])
    shard.run("Barrier", ["clone"], [])
    shard.run("DestroyCommonWorld", ["clone"], ["clone"])
    if "fake_nccl" in shard.options:
        used = {"broadcast", "allReduce", "reduce", "allGather", "reduceScatter", "send", "recv"}
        assert used <= set(fake_nccl.calls), set(fake_nccl.calls)
    print("operators agree", flush=True)


def tell_shared_memory():
    """Say which file MPI's shared memory is in, as soon as there is one."""
    while True:
        lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
        names = [line.split()[-1] for line in lines if "/dev/shm/mpich_shm_" in line]
        if names:
            print(names[0], flush=True)
            return
        time.sleep(0.01)


def fault(shard):
    """A sync in the middle of which, or before or after the rendezvous, a peer dies or stops."""
    if "late" in shard.options:
        threading.Thread(target=tell_shared_memory, daemon=True).start()
        time.sleep(1.5 * shard.rank)  # the others have started MPI by then
    shard.fault("before")
    world = shard.world()
    worlds = [world, *(shard.world(f"world{i}") for i in range(1, int(shard.options.get("threads", 1))))]
    shard.fault("after")
    for i in range(40):
        shard.feed(f"p{i}", np.full(10_000, shard.rank, "f"))
    net = core.Net("sync")
    net.Proto().type = "dag" if len(worlds) > 1 else "simple"
    net.Proto().device_option.CopyFrom(shard.device)
    for i in range(len(worlds) if len(worlds) > 1 else 40):
        net.Broadcast([worlds[i % len(worlds)], f"p{i}"], [f"p{i}"], engine=shard.engine)
    workspace.CreateNet(net)
    try:
        for step in range(int(shard.options.get("steps", 50))):
            if step == 20:
                shard.fault("amid")
                fake_nccl.before.append(lambda: shard.fault("within"))
                if "flag" in shard.options:
                    pathlib.Path(shard.options["flag"]).touch()
            workspace.RunNet(net)
    finally:
        if "fake_nccl" in shard.options:
            print("NCCL was asked to", *sorted(set(fake_nccl.calls)), flush=True)
    shard.run("Barrier", [world], [])
    print("all runs done", flush=True)


def differences(shard):
    """Nets that all ranks have run well; then one rank does something else in one of them, and all go on."""
    world, rank = shard.world(), shard.rank
    kinds = {"A": "Allreduce", "B": "Allreduce", "C": "Broadcast", "L": "Allreduce"}
    nets = {}
    for name, kind in kinds.items():
        nets[name] = core.Net(name)
        nets[name].Proto().op.extend([core.CreateOperator(kind, [world, name.lower()], [name.lower()])])
    nets["M"] = core.Net("M")
    for i in range(3):
        nets["M"].Allreduce([world, f"m{i}"], [f"m{i}"])

    fails = []

    def reader(inputs, outputs):
        if fails:
            raise fails.pop()

    nets["F"] = core.Net("F")
    nets["F"].Python(reader)([], ["read"])
    nets["F"].Allreduce([world, "a"], ["a"])

    def left_out():
        if rank:
            fails.append(ValueError("on this rank alone"))
            with contextlib.suppress(ValueError):
                run("F")
        run("F")

    def feed():
        for name in "abcr":
            shard.feed(name, np.full(4, 1 + rank, "f"))
        shard.feed("k", np.ones(4, "f"))
        shard.feed("l", np.full(90_000, 1 + rank, "f"))
        for i in range(3):
            shard.feed(f"m{i}", np.full(5, 10 * i + rank, "f"))

    def check():
        feed()
        for name in "ABCLM":
            workspace.RunNet(nets[name])
        for name, right in (("a", 3), ("b", 3), ("c", 1), ("l", 3), ("m0", 1), ("m1", 21), ("m2", 41)):
            assert (workspace.FetchBlob(name) == right).all(), (name, workspace.FetchBlob(name))

    def run(*names):
        for name in names:
            workspace.RunNet(nets[name])

    def odd(name, array, net):
        if rank:
            shard.feed(name, array)
        run(net)

    feed()
    for net in nets.values():
        workspace.CreateNet(net)
    check()
    cases = {
        "shape": lambda: odd("a", np.ones(6, "f"), "A"),
        "smaller": lambda: odd("a", np.ones(2, "f"), "A"),
        "dtype": lambda: odd("a", np.ones(4, "i4"), "A"),
        "large": lambda: odd("l", np.ones(90_001, "f"), "L"),
        "broadcast dtype": lambda: odd("c", np.ones(4, "i4"), "C"),
        "broadcast shape": lambda: odd("c", np.ones(6, "f"), "C"),
        "many": lambda: odd("m1", np.ones(7, "f"), "M"),
        "root": lambda: shard.run("Broadcast", [world, "r"], ["r"], root=rank),
        "kind": lambda: shard.run("Broadcast" if rank else "Allreduce", [world, "k"], ["k"]),
        "order": lambda: run("A", "B") if rank else run("B", "A"),
        "mixed": lambda: run("A", "C") if rank else run("C", "A"),
        "left out": left_out,
    }

    for name in shard.options["cases"].split(","):
        feed()
        try:
            cases[name]()
        except RuntimeError as e:
            sys.stdout.write(f"{name} on rank {rank}: {e}".replace("\n", " ") + "\n")  # in one piece
            sys.stdout.flush()
        for net in nets.values():  # which counts its runs anew
            workspace.CreateNet(net, overwrite=True)
    check()
    print("afterwards all is right", flush=True)


def graph(shard):
    """Allreduces of one world in a graph, whose order another straggler on each rank decides."""
    world, rank = shard.world(), shard.rank
    net = core.Net("graph")
    net.Proto().type, net.Proto().num_workers = shard.options["net"], 4

    def slow(which):
        def make(inputs, outputs):
            time.sleep(0.1 if which == rank else 0)  # the straggler is the test's subject
            outputs[0].feed(np.full(4 if which else 90_000, (1 + rank) * 100**which, "f"))

        return make

    for which, blob in enumerate("ab"):
        net.Python(slow(which))([], [blob])
    for blob in "ab":
        net.Allreduce([world, blob], [blob])
    workspace.CreateNet(net)
    for _ in range(4):
        workspace.RunNet(net)
        assert (workspace.FetchBlob("a") == 3).all() and (workspace.FetchBlob("b") == 300).all()
    print("graph is right", flush=True)


def messages(shard):
    """Messages of two threads to two threads under one tag arrive whole; one that does not fit is refused."""
    world, rank = shard.world(), shard.rank
    arrays = [np.full(90_000, 1, "f"), np.full((2, 3), 2, "i8")]
    net = core.Net("messages")
    net.Proto().type = "dag"
    for i, array in enumerate(arrays):
        shard.feed(f"x{i}", array if rank == 0 else np.zeros(1))
        if rank == 0:
            net.SendTensor([world, f"x{i}"], [], dst=1, tag=3)
        else:
            net.ReceiveTensor([world, f"x{i}"], [f"x{i}", f"from{i}", f"tag{i}"])
    workspace.CreateNet(net)
    for _ in range(30):
        workspace.RunNet(net)
        have = sorted((workspace.FetchBlob(f"x{i}") for i in range(2)), key=lambda a: -a.size)
        for a, b in zip(have, arrays):
            assert a.dtype == b.dtype and np.array_equal(a, b), (a, b)
    shard.feed("r", np.zeros(4, "f") if rank else np.zeros(4, "i4"))
    if rank == 0:
        shard.run("SendTensor", [world, "r"], [], dst=1, raw_buffer=True)
    else:
        try:
            shard.run("ReceiveTensor", [world, "r"], ["r", "from", "tag"], src=0, raw_buffer=True)
        except RuntimeError as e:
            assert "it is float32[4], and rank 0 has sent int32[4]" in str(e), e
            print("refused", flush=True)
    print("messages are right", flush=True)


def ending(shard):
    """Two syncs of all; then a rank ends, dies, stops or forks as the options say, before or after its last collective."""
    world, rank, options = shard.world(), shard.rank, shard.options
    what, mine = options["what"], options.get("who") == str(rank)
    shard.feed("x", np.full(100, 1 + rank, "f"))
    for _ in range(2):
        shard.run("Allreduce", [world, "x"], ["x"])
    print(f"rank {rank} has begun, process {os.getpid()}", flush=True)
    if mine and what == "fork":
        child = os.fork()
        if not child:
            try:
                shard.run("Allreduce", [world, "x"], ["x"])
            except RuntimeError as e:
                print("the child says", str(e).replace("\n", " "), flush=True)
            sys.exit(0)  # which runs what is registered for the end
        assert os.waitpid(child, 0)[1] == 0
    if mine and what.startswith("exit"):
        sys.exit(int(what[4:]))
    if mine and what == "_exit":
        os._exit(0)
    if mine and what == "late":
        time.sleep(float(options["seconds"]))  # the time is the test's subject
    if mine and what == "skip":
        print("rank leaves one out", flush=True)
        return
    shard.run("Allreduce", [world, "x"], ["x"])
    if mine and what.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, what))
    if mine and what == "_exit late":
        os._exit(0)
    if mine and what == "works on":
        time.sleep(float(options["seconds"]))  # the time is the test's subject
    print("rank is done", flush=True)


if __name__ == "__main__":
    scenario, rank, size, store, *options = sys.argv[1:]
    try:
        {
            "sync": sync,
            "operators": operators,
            "fault": fault,
            "differences": differences,
            "graph": graph,
            "ending": ending,
            "messages": messages,
        }[scenario](Shard(rank, size, store, dict(o.split("=", 1) for o in options)))
    except Exception:
        print(f"error at {time.time():.2f}", flush=True)
        raise
