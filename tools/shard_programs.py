"""Random programs of 2 to 4 ranks: each ends with right sums on all ranks, or with an error on every rank in time.

    python tools/shard_programs.py [--programs 2000] [--seed 0] [--show]

Nets of several types with collectives of all kinds, over shared or own common worlds, run in random orders by the main
thread or by several; operands whose shape or type changes; branches of graphs that take their time; and, in half of the
programs, a twist on one rank: another order, shape, type, root or kind, a run that is left out or fails.  Values are small
integers, so that sums are exact; what is right is computed here from the values of all ranks.

A program that is neither right nor an error on every rank is printed with its number; `--only NUMBER` runs it again.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import random
import selectors
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

DEADLINE = 2.0  # seconds
SLACK = 4.0  # of a busy machine, and of the roll call after a deadline
WORLDS = ("w0", "w1", "w2")
KINDS = (
    "Allreduce",
    "Allreduce",
    "Allreduce",
    "Broadcast",
    "Broadcast",
    "Reduce",
    "Allgather",
    "ReduceScatter",
    "Barrier",
)
DTYPES = ("float32", "float32", "float64", "int32", "int64", "float16", "uint8")
TWISTS = ("order", "shape", "dtype", "root", "kind", "skip", "fail", "one more", "shuffle")


# ---- programs: everything follows from the seed, the same on all ranks ------------------------------------------


class Step:
    """A collective of a net."""

    def __init__(self, rng, number, earlier, size):
        self.kind, self.world = rng.choice(KINDS), rng.choice(WORLDS)
        chained = [s for s in earlier if s.kind in ("Allreduce", "Broadcast")]
        self.blob = rng.choice(chained).blob if chained and rng.random() < 0.2 else f"b{number}"
        self.root = rng.randrange(size)
        self.fresh = all(s.blob != self.blob for s in earlier)
        self.output = f"y{number}" if self.kind in ("Reduce", "Allgather") else self.blob
        count = rng.choice((0, 1, 3, 60, 250, 257, 700, 5000, 40_000))
        self.shape = (size * max(count // size, 1),) if self.kind == "ReduceScatter" else (count,)
        self.dtype = rng.choice(DTYPES)
        self.delay = [rng.choice((0, 0, 0, 0.002, 0.02)) for _ in range(size)]  # of the operator that makes the blob


class Net:
    def __init__(self, rng, name, size):
        self.name = name
        self.type = rng.choice(("simple", "simple", "dag", "async_scheduling"))
        own = rng.choice(WORLDS) if rng.random() < 0.5 else None
        self.steps = []
        for number in range(rng.randint(1, 5)):
            self.steps.append(Step(rng, number, self.steps, size))
        for step in self.steps:
            step.world = own or step.world
            if not step.fresh:  # operands of a chain are those of its first
                first = next(s for s in self.steps if s.blob == step.blob)
                step.shape, step.dtype = first.shape, first.dtype
                if step.kind == "ReduceScatter":
                    step.kind, step.output = "Allreduce", step.blob


class Program:
    def __init__(self, seed, size):
        rng = random.Random(f"{seed} {size}")
        self.seed, self.size = seed, size
        self.nets = [Net(rng, f"p{seed}n{n}", size) for n in range(rng.randint(1, 3))]
        runs = [(rng.randrange(len(self.nets)),) for _ in range(rng.randint(2, 5))]
        if len(self.nets) > 1 and rng.random() < 0.3:  # two at the same time
            runs[rng.randrange(len(runs))] = tuple(rng.sample(range(len(self.nets)), 2))
        self.changes = {  # at the same time on all ranks
            (k, b): (rng.choice((2, 5, 9000)) * size, rng.choice(DTYPES))
            for k in range(len(runs))
            for b in range(5)
            if rng.random() < 0.1
        }
        self.twist = rng.choice(TWISTS) if rng.random() < 0.5 else ""
        self.who, self.when = rng.randrange(size), rng.randrange(len(runs))
        self.other = rng.randrange(len(runs))
        self.scripts = [list(enumerate(runs)) for _ in range(size)]
        mine = self.scripts[self.who]
        if self.twist == "order":
            mine[self.when], mine[self.other] = mine[self.other], mine[self.when]
        if self.twist == "skip":
            del mine[self.when]
        if self.twist == "one more":
            mine.insert(self.when, mine[self.when])

    def operand(self, rank, k, step):
        """(shape, dtype) of a step's blob in position k of the script."""
        change = self.changes.get((k, int(step.blob[1:])))
        shape, dtype = ((change[0],), change[1]) if change else (step.shape, step.dtype)
        if rank == self.who and k == self.when and step.blob == "b0":
            if self.twist == "shape":
                shape = (shape[0] + self.size,)
            if self.twist == "dtype":
                dtype = "int16" if dtype != "int16" else "int8"
        return shape, dtype

    def value(self, rank, k, net, step):
        shape, dtype = self.operand(rank, k, step)
        return (
            np.random.RandomState([self.seed, rank, k, len(net.name), int(step.blob[1:])])
            .randint(0, 9, shape)
            .astype(dtype)
        )

    def root(self, rank, net, step):
        twisted = self.twist == "root" and rank == self.who and net is self.nets[0] and step is net.steps[0]
        return (step.root + twisted) % self.size

    def kind(self, rank, net, step):
        if self.twist == "kind" and rank == self.who and net is self.nets[0] and step is net.steps[0]:
            return {"Allreduce": "Broadcast", "Broadcast": "Allreduce"}.get(step.kind, step.kind)
        return step.kind

    def fails(self, rank, k):
        return self.twist == "fail" and rank == self.who and k == self.when

    def truth(self, rank, places, net):
        """Blobs after a run, which is in place `places[r]` of rank r's script; None where ranks do not do the same."""
        blobs = [{s.blob: self.value(r, places[r], net, s) for s in net.steps} for r in range(self.size)]
        for step in net.steps:
            kinds = {(self.kind(r, net, step), self.root(r, net, step)) for r in range(self.size)}
            alike = {(blobs[r][step.blob].shape, blobs[r][step.blob].dtype) for r in range(self.size)}
            rooted = step.kind in ("Broadcast", "Reduce")
            if len({k for k, _ in kinds}) > 1 or (rooted and len(kinds) > 1):
                return None
            if step.kind == "Barrier":
                continue
            if len(alike) > 1:
                return None
            all_of = [b[step.blob] for b in blobs]
            total = sum(a.astype("float64") for a in all_of).astype(all_of[0].dtype)
            for r in range(self.size):
                blobs[r][step.output] = {
                    "Allreduce": total,
                    "Broadcast": all_of[step.root],
                    "Reduce": total if r == step.root else all_of[r],
                    "Allgather": np.concatenate(all_of),
                    "ReduceScatter": np.array_split(total, self.size)[r],
                }[step.kind]
        return blobs[rank]


# ---- a rank ------------------------------------------------------------------------------------------------------


class Failed(Exception):
    """What an operator of a program fails with on purpose."""


class Rank:
    def __init__(self, rank, size, store):
        from caffe2.python import core, workspace

        self.core, self.workspace = core, workspace
        self.rank, self.size = rank, size
        self._do("FileStoreHandlerCreate", [], ["store"], path=store)
        for world in ("start", *WORLDS):  # interpreters may take their time to start
            seconds = 60 if world == "start" else DEADLINE
            args = {"size": size, "rank": rank, "timeout_ms": int(1000 * seconds)}
            self._do("CreateCommonWorld", ["store"], [world], **args)

    def _do(self, kind, inputs, outputs, **args):
        self.workspace.RunOperatorOnce(self.core.CreateOperator(kind, inputs, outputs, **args))

    def run(self, program):
        """(error or None, wrong blobs) of a program on this rank."""
        self.place = {}
        self.wrong = []
        nets = {}
        for n, net in enumerate(program.nets):
            nets[n] = self._make(program, net)
        counts = collections.Counter()
        try:
            for k, together in program.scripts[self.rank]:
                threads, errors = [], []
                for n in together:
                    counts[n] += 1
                    thread = threading.Thread(
                        target=self._run_net, args=(program, n, nets[n], k, counts[n] - 1, errors), daemon=True
                    )
                    threads.append(thread)
                if len(threads) == 1:
                    threads[0].run()
                else:
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
                if errors:
                    raise errors[0]
            self._do("Barrier", [WORLDS[0]], [])
        except Exception as e:
            return f"{type(e).__name__}: {e}"
        finally:
            for net in nets.values():
                self.workspace.C.delete_net(net)
        return None

    def _make(self, program, net):
        made = self.core.Net(net.name)
        made.Proto().type = net.type
        made.Proto().num_workers = 4
        name = made.Proto().name
        for step in net.steps:
            blob = f"{name}/{step.blob}"
            if step.fresh:
                self.workspace.FeedBlob(blob, np.zeros(1, "f"))

                def produce(inputs, outputs, step=step):
                    k = self.place[net.name]
                    time.sleep(step.delay[self.rank] if net.type != "simple" else 0)
                    if program.fails(self.rank, k) and step is net.steps[-1]:
                        raise Failed("on purpose")
                    outputs[0].feed(program.value(self.rank, k, net, step))

                made.Python(produce)([], [blob])
        steps = list(net.steps)
        if program.twist == "shuffle" and self.rank == program.who and net is program.nets[0]:
            random.Random(program.seed).shuffle(steps)
        for step in steps:
            kind = program.kind(self.rank, net, step)
            inputs = [step.world] + ([] if kind == "Barrier" else [f"{name}/{step.blob}"])
            outputs = [] if kind == "Barrier" else [f"{name}/{step.output}"]
            args = {"root": program.root(self.rank, net, step)} if kind in ("Broadcast", "Reduce") else {}
            made.Proto().op.extend([self.core.CreateOperator(kind, inputs, outputs, **args)])
        self.workspace.CreateNet(made)
        return name

    def _run_net(self, program, n, name, k, count, errors):
        net = program.nets[n]
        self.place[net.name] = k
        try:
            self.workspace.RunNet(name)
        except Exception as e:
            errors.append(e)
            return
        places = []  # where the other ranks are in their scripts when they run this net as often
        for script in program.scripts:
            mine = [place for place, together in script if n in together]
            if count >= len(mine):
                self.wrong.append(f"run {count} of {name}, which another rank has not")
                return
            places.append(mine[count])
        right = program.truth(self.rank, places, net)
        if right is None:
            self.wrong.append(f"run {count} of {name} went well, though the ranks differ in it")
            return
        for step in net.steps:
            if step.kind == "Barrier":
                continue
            have = self.workspace.FetchBlob(f"{name}/{step.output}")
            want = right[step.output]
            if step.kind == "ReduceScatter":
                have = have[: want.size]
            if have.dtype != want.dtype or not np.array_equal(have, want):
                self.wrong.append(f"{step.kind} of {name}/{step.blob}, place {k}: {have[:3]} and not {want[:3]}")


def serve(rank, size, store):
    """Run the programs whose numbers come in; a line about each goes out."""
    from caffe2lite.distributed import world

    mine = Rank(rank, size, store)
    print("ready", flush=True)
    for line in sys.stdin:
        begin = time.monotonic()
        error = mine.run(Program(int(line), size))
        print(json.dumps([error, mine.wrong, time.monotonic() - begin, bool(world.current().broken)]), flush=True)


# ---- all ranks ---------------------------------------------------------------------------------------------------


class Shards:
    """As many processes as there are ranks, for as long as they can go on."""

    def __init__(self, size):
        self.size = size
        self.store = tempfile.TemporaryDirectory()
        self.children = [
            subprocess.Popen(
                [sys.executable, __file__, "--rank", str(rank), str(size), self.store.name],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )
            for rank in range(size)
        ]  # fmt: skip
        if any(line != "ready\n" for line in self._lines(60)):
            raise RuntimeError("the shards did not start")

    def _lines(self, limit):
        """A line of each, empty where it has ended, None where it says nothing in time."""
        end = time.monotonic() + limit
        lines = [None] * self.size
        with selectors.DefaultSelector() as wait:
            for rank, child in enumerate(self.children):
                wait.register(child.stdout, selectors.EVENT_READ, rank)
            while wait.get_map() and time.monotonic() < end:
                for key, _ in wait.select(max(0, end - time.monotonic())):
                    lines[key.data] = key.fileobj.readline()
                    wait.unregister(key.fileobj)
        return lines

    def run(self, seed):
        for child in self.children:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(f"{seed}\n")
                child.stdin.flush()
        return [line and json.loads(line) for line in self._lines(DEADLINE * 3 + SLACK + 20)]

    def end(self):
        for child in self.children:
            child.kill()
            child.communicate()
        self.store.cleanup()


def judge(program, outcomes):
    """What is wrong with what the ranks say, empty where nothing is."""
    for rank, outcome in enumerate(outcomes):
        if not outcome:
            return f"rank {rank} {'hangs' if outcome is None else 'has died'}"
        error, wrong, _, _ = outcome
        if wrong:
            return f"rank {rank} is silently wrong: {wrong[0]}"
        if error and not program.twist:
            return f"rank {rank} has an error without a reason: {error}"
    errors = [bool(o[0]) for o in outcomes]
    if any(errors) and not all(errors):
        return f"rank {errors.index(False)} has no error, others have: {next(o[0] for o in outcomes if o[0])}"
    slowest = max(o[2] for o in outcomes)
    # One deadline after the last that all ranks came to; a rank that is late may come to the end of it.
    if any(errors) and slowest > 2 * DEADLINE + SLACK:
        return f"the error came after {slowest:.1f} s"
    return ""


def run(seeds, sizes=(2, 3, 4), tell=print, show=False):
    """Run programs; (how many had errors on all ranks, by their twist; how often shards were started; faults)."""
    faults, failed, starts, done = [], collections.Counter(), 0, 0
    for number, size in enumerate(sizes):
        shards = None
        for seed in seeds[number :: len(sizes)]:
            program = Program(seed, size)
            if shards is None:
                shards, starts = Shards(size), starts + 1
            outcomes = shards.run(seed)
            done += 1
            if done % 200 == 0:
                print(f"{done} of {len(seeds)} programs, {starts} starts, {len(faults)} faults", file=sys.stderr)
            fault = judge(program, outcomes)
            if fault:
                faults.append((seed, size, program.twist, fault))
                tell(f"program {seed}, {size} ranks, twist {program.twist or 'none'}: {fault}")
            elif show:
                tell(seed, size, program.twist, [o[0] and o[0].splitlines()[0][:150] for o in outcomes])
            errors = [o[0] for o in outcomes if o and o[0]]
            failed[program.twist] += bool(errors)
            if fault or any(o[3] for o in outcomes):  # no collective is possible any more
                shards.end()
                shards = None
        if shards:
            shards.end()
    return failed, starts, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this program, with all numbers of ranks")
    parser.add_argument("--show", action="store_true", help="what each program ended with")
    options = parser.parse_args()
    begin = time.monotonic()
    if options.only is not None:
        for size in (2, 3, 4):
            run([options.only], (size,), show=True)
        return 0
    seeds = range(options.seed * 1_000_000, options.seed * 1_000_000 + options.programs)
    failed, starts, faults = run(seeds, show=options.show)
    twists = ", ".join(f"{twist} {count}" for twist, count in sorted(failed.items()) if twist)
    print(
        f"{options.programs} programs, seed {options.seed}: {len(faults)} faults; an error on every rank in "
        f"{sum(failed.values())} ({twists}); {starts} starts, {time.monotonic() - begin:.0f} s"
    )
    return bool(faults)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--rank":
        serve(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        sys.exit(main())
