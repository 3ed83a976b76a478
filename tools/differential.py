"""Compare operators with genuine Caffe2 on recorded cases that are changed at random.

    python tools/differential.py --genuine PYTHON [--gradients] [--seed 1] [--trials 12] [--keep FOLDER]
                                 [--answers FOLDER] [TYPE ...]

The recorded cases of tests/golden are changed a little: types, shapes and values of operands, arguments, numbers of
operands.  PYTHON, an interpreter that imports genuine Caffe2, runs each in a process of its own, since some end it.
With --gradients it is gradient makers that are compared: OperatorDefs with changed arguments, with names in place,
with more and fewer operands, with gradients that are missing or sparse.
What differs is printed: results, and refusals of one side only.  Three kinds are counted apart, each case proven by
runs of genuine Caffe2: "memory", results from memory that the operator does not own (it ends, or gives others, in guarded
memory: guarded.c, which needs a C compiler); "unread", an operand that does not fit and whose last value, or more, Caffe2
does not read; and "nothing", where it leaves its outputs without a value.  Others that differential_known.txt has a reason
for are counted by it.  --keep writes the cases on which both agree as zips for tests/golden/changed.
"""

import argparse
import fnmatch
import itertools
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import fuzz_operators as fuzz  # noqa: E402
import golden_cases  # noqa: E402
import numpy as np  # noqa: E402

from caffe2lite.engine import serialize  # noqa: E402
from caffe2lite.engine.blob import Blob  # noqa: E402
from caffe2lite.engine.errors import EngineError  # noqa: E402
from caffe2lite.ops.kit import registry  # noqa: E402
from caffe2lite.proto import caffe2_pb2  # noqa: E402

KNOWN = ROOT / "tools" / "differential_known.txt"
LEFT_OUT = fuzz.MEANT | {"FreeBlobs"}
# Mild values: with the wild ones of the fuzz test nearly all cases are refused.
fuzz.NUMBERS = (-2, -1, 0, 1, 2, 3, 4, 5)
fuzz.FLOATS = (-1.0, 0.0, 0.25, 0.5, 1.5, 2.0)

# Run by genuine Caffe2's interpreter (Python 3.9): what one case gives, with meta.json.
OPERATOR = r"""
import json, os, pickle, resource, signal, sys, zipfile
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace

def run(files):
    op = caffe2_pb2.OperatorDef()
    op.ParseFromString(files["op.pb"])
    for i, name in enumerate(op.input):
        content = files.get("in_%d.blob" % i)
        if content is not None and not workspace.HasBlob(name):
            workspace.DeserializeBlob(name, content)
    made, error = {}, None
    try:
        workspace.RunOperatorMultiple(op, json.loads(files["meta.json"])["runs"])
        for i, name in enumerate(op.output):
            try:
                made["out_%d.blob" % i] = workspace.SerializeBlob(name)
            except RuntimeError:
                pass  # a blob that cannot be written: not compared
    except Exception as e:
        made, error = {}, str(e)[:200] or "error"
    made["meta.json"] = json.dumps({**json.loads(files["meta.json"]), "engine_error": error}).encode()
    return made
"""


MAKER = r"""
import json, os, pickle, resource, signal, sys, zipfile
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace

def wrapped(gradient):
    made = workspace.C.GradientWrapper()
    if isinstance(gradient, list):
        made.indices, made.values = gradient
    elif gradient is not None:
        made.dense = gradient
    return made

def run(files):
    made, error = {}, None
    try:
        given = [wrapped(g) for g in json.loads(files["g_output.json"])]
        defs, inputs = workspace.C.get_gradient_defs(files["op.pb"], given)
        for i, content in enumerate(defs):
            made["grads/%d.pb" % i] = content
        told = [[g.indices, g.values] if g.is_sparse() else g.dense if g.is_dense() else None for g in inputs]
        made["g_input.json"] = json.dumps(told).encode()
    except Exception as e:
        made, error = {}, str(e)[:200] or "error"
    made["meta.json"] = json.dumps({"engine_error": error}).encode()
    return made
"""


# And the rest of that program: cases of a zip in, the same with what they give out.
LOOP = r"""
import ctypes
guard = os.environ.get("GUARDED")  # what memory is filled with, and whether a page guards it in front
for source, target in zip(sys.argv[1::2], sys.argv[2::2]):
    cases = {}
    with zipfile.ZipFile(source) as z:
        for name in z.namelist():
            case, file = name.split("/")
            cases.setdefault(case, {})[file] = z.read(name)
    with zipfile.ZipFile(target, "w") as z:
        for case, files in sorted(cases.items()):
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                signal.alarm(10)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
                if guard:
                    ctypes.CDLL(None).guard_memory(*map(int, guard.split()))
                made = pickle.dumps(run(files))
                if guard:
                    ctypes.CDLL(None).guard_check()
                with os.fdopen(writer, "wb") as f:
                    f.write(made)
                os._exit(0)
            os.close(writer)
            with os.fdopen(reader, "rb") as f:
                content = f.read()
            if os.waitpid(child, 0)[1] == 0 and content:
                for name, value in {**files, **pickle.loads(content)}.items():
                    z.writestr(case + "/" + name, value)
"""


def changed_maker(rng, record, recorded):
    """{file: bytes} of one changed case of a gradient maker."""
    files = recorded[rng.integers(len(recorded))]
    op = caffe2_pb2.OperatorDef.FromString(files["op.pb"])
    gradients = json.loads(files["g_output.json"])
    for _ in range(int(rng.integers(1, 4))):
        kind = rng.integers(6)
        if kind == 0:
            fuzz.change_argument(rng, op, record)
        elif kind == 1:
            change_any_argument(rng, op)
        elif kind == 2 and gradients:
            at = int(rng.integers(len(gradients)))
            name = op.output[at] if at < len(op.output) else "more"
            gradients[at] = (None, f"{name}_grad", [f"{name}_i", f"{name}_v"])[rng.integers(3)]
        elif kind == 3 and op.input and op.output:
            op.output[int(rng.integers(len(op.output)))] = op.input[int(rng.integers(len(op.input)))]
        elif kind == 4 and op.input:
            if rng.random() < 0.5:
                del op.input[-1]
            else:
                op.input.append("more")
        elif kind == 5 and op.output:
            if rng.random() < 0.5:
                del op.output[-1]
                gradients = gradients[: len(op.output)]
            else:
                op.output.append("another")
                gradients.append((None, "another_grad")[rng.integers(2)])
    if rng.random() < 0.2:
        op.device_option.device_type = 1
    if rng.random() < 0.2:
        op.engine = "CUDNN"
    return {"op.pb": op.SerializeToString(), "g_output.json": json.dumps(gradients).encode()}


def change_any_argument(rng, op):
    """An argument that the operator does not know, or one of a field that is not its own."""
    names = [a.name for a in op.arg] + ["note", "axis", "order", "broadcast", "exponent"]
    name = names[rng.integers(len(names))]
    kept = [a for a in op.arg if a.name != name]
    del op.arg[:]
    op.arg.extend(kept)
    arg = op.arg.add(name=name)
    kind = rng.integers(6)
    if kind == 0:
        arg.i = int(rng.integers(-1, 3))
    elif kind == 1:
        arg.f = float(rng.choice(fuzz.FLOATS))
    elif kind == 2:
        arg.s = b"NHWC"
    elif kind == 3:
        arg.ints.extend([0, 2, 1])
    elif kind == 4:
        arg.floats.extend([0.5, 1.5])  # kind 5: a name alone


def changed(rng, record, recorded):
    """{file: bytes} of one changed case, or None."""
    workspace, op = golden_cases.load(recorded[rng.integers(len(recorded))])
    for _ in range(int(rng.integers(1, 3))):
        kind = rng.random()
        if kind < 0.6 and op.input:
            name = op.input[rng.integers(len(op.input))]
            if workspace.get_blob(name) is not None:
                fuzz.change_operand(rng, workspace, name)
        elif kind < 0.96:
            fuzz.change_argument(rng, op, record)
        else:
            fuzz.change_count(rng, op, workspace)
    meta = {"runs": 2 if rng.random() < 0.1 else 1}  # some operators keep what they have seen
    files = {"op.pb": op.SerializeToString(), "meta.json": json.dumps(meta).encode()}
    for i, name in enumerate(op.input):
        blob = workspace.get_blob(name)
        if blob is not None and blob.value is not None:
            files[f"in_{i}.blob"] = serialize.blob_bytes(name, blob)
    return files


def generate(part, kind, seed, trials, path):
    """A zip of changed cases of one type; whether there is one."""
    record = registry.get(kind)
    if record is None:  # test_golden.py says which these are
        return False
    foreign = record.module.rpartition(".")[2] in fuzz.FOREIGN
    if part == "operators" and (record.stateful or kind in LEFT_OUT or foreign):
        return False
    recorded = [files for _, files in itertools.islice(golden_cases.cases(part, kind), 30)]
    rng = np.random.default_rng([seed, *kind.encode()])
    change = changed if part == "operators" else changed_maker
    made = []
    for _ in range(trials if recorded else 0):
        try:
            made.append(change(rng, record, recorded))
        except (RuntimeError, ValueError, TypeError):
            continue  # the change itself does not work, such as a blob that cannot be written
    if made:
        write(path, {f"case_{seed}{i:03d}": files for i, files in enumerate(made)})
    return bool(made)


def write(path, cases):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for case, files in cases.items():
            for name, content in files.items():
                z.writestr(zipfile.ZipInfo(f"{case}/{name}"), content, zipfile.ZIP_DEFLATED)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--genuine", required=True, help="an interpreter that imports genuine Caffe2")
    parser.add_argument("--gradients", action="store_true", help="compare gradient makers instead")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=12, help="changed cases a type")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the cases on which both agree")
    parser.add_argument(
        "--answers", type=pathlib.Path, help="folder for genuine's answers: what is there is not asked again"
    )
    parser.add_argument("types", nargs="*")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # lengths of billions are refused, not granted
    same = 0
    part = "gradients" if args.gradients else "operators"
    recorder, replay = (MAKER, golden_cases.replay_gradient) if args.gradients else (OPERATOR, golden_cases.replay)
    with tempfile.TemporaryDirectory() as folder:
        given, answered = pathlib.Path(folder, "given"), args.answers or pathlib.Path(folder, "answered")
        given.mkdir()
        answered.mkdir(parents=True, exist_ok=True)
        kinds = args.types or golden_cases.types(part)
        asked = [k for k in kinds if not (answered / f"{k}.zip").exists()]
        asked = [k for k in asked if generate(part, k, args.seed, args.trials, given / f"{k}.zip")]
        ask(args.genuine, recorder, [(given / f"{k}.zip", answered / f"{k}.zip") for k in asked])
        differing = {}
        for kind in kinds:
            if not (answered / f"{kind}.zip").exists():
                continue
            agreed = {}
            for case, files in golden_cases.cases_of(answered / f"{kind}.zip"):
                try:
                    wrong = replay(files)
                except EngineError as e:  # what genuine wrote cannot be, such as a negative dimension
                    wrong = str(e)
                if wrong and json.loads(files["meta.json"]).get("runs", 1) > 1:
                    wrong += "\n  in the second run"
                if wrong:
                    differing[kind, case] = wrong, files
                else:
                    same += 1
                    agreed[case] = files
            if args.keep and agreed:
                args.keep.mkdir(parents=True, exist_ok=True)
                write(args.keep / f"{kind}.zip", agreed)
        known = Counter() if args.gradients else excuse(args.genuine, differing, pathlib.Path(folder))
    for (kind, case), (wrong, _) in list(differing.items()):
        why = reason_of(kind, wrong)
        if why:
            known[why] += 1
        else:
            print(f"{kind} {case}: {wrong}")
            known["different"] += 1
    for why, n in known.most_common():
        if len(why.split()) > 1:
            print(f"{n:5} {why}")
    print(json.dumps({"same": same, "known": known.total() - known["different"], "different": known["different"],
                      **{why: known[why] for why in ("memory", "unread", "nothing")}}))  # fmt: skip


def reason_of(kind, wrong):
    """The reason that differential_known.txt has for a difference."""
    for line in KNOWN.read_text().splitlines():
        if line and not line.startswith("#"):
            types, pattern, why = line.split(" | ")
            if any(fnmatch.fnmatchcase(kind, t) for t in types.split()) and re.search(pattern, wrong):
                return why
    return None


def excuse(genuine, differing, folder):
    """Take cases out of `differing` that say nothing; how many of each kind."""
    found = Counter()
    for name, excused in (("nothing", unanswered(differing)), ("memory", unsettled(genuine, differing, folder)),
                          ("unread", unread(genuine, differing, folder))):  # fmt: skip
        for case in excused & differing.keys():
            del differing[case]
            found[name] += 1
    return found


def ask(genuine, recorder, pairs, **environment):
    """Let genuine Caffe2 run the cases of zips: [(zip of cases, where the answers go)]."""
    if pairs:
        paths = [str(path.absolute()) for pair in pairs for path in pair]
        subprocess.run([genuine, "-c", recorder + LOOP, *paths], check=True, stderr=subprocess.DEVNULL,
                       cwd=tempfile.gettempdir(), env={**os.environ, **environment})  # fmt: skip


def answers_again(genuine, cases, folder, **environment):
    """{name: {file: content}} of what genuine Caffe2 gives out for cases {name: files}."""
    source, target = folder / "again.zip", folder / "answers.zip"
    write(source, {name: {k: v for k, v in files.items() if not k.startswith("out_")} for name, files in cases.items()})
    ask(genuine, OPERATOR, [(source, target)], **environment)
    return {name: outputs(files) for name, files in golden_cases.cases_of(target)}


def outputs(files):
    return {name: content for name, content in files.items() if name.startswith("out_")}


def answered(files):
    return not json.loads(files["meta.json"])["engine_error"]


def unanswered(differing):
    """Which cases genuine Caffe2 takes, and leaves all outputs without a value."""
    return {case for case, (_, files) in differing.items() if answered(files) and not outputs(files)}


def unsettled(genuine, differing, folder):
    """Which of the differing cases genuine Caffe2 answers from memory that is not the operator's.

    It is asked twice in guarded memory, which is filled in two ways, and guarded behind and in front: such answers then
    differ, or the process ends.
    """
    cases = {f"{kind}+{case}": files for (kind, case), (_, files) in differing.items()}
    if not cases:
        return set()
    library = folder / "guarded.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, ROOT / "tools" / "guarded.c"], check=True)
    first, second = (
        answers_again(genuine, cases, folder, LD_PRELOAD=str(library), GUARDED=g) for g in ("85 0", "170 1")
    )
    return {
        tuple(name.split("+"))
        for name, files in cases.items()
        if first.get(name) is None or not first[name] == second.get(name) == outputs(files)
    }


def unread(genuine, differing, folder):
    """Which cases are refused here for an operand that genuine Caffe2 does not read to its end.

    The message tells the operand's shape; it has no values, or genuine answers the same with another last value.
    """
    found, variants = set(), {}
    for case, (wrong, files) in differing.items():
        if not re.match(r"\w+(Error|Exception): ", wrong) or not answered(files):
            continue
        for name in files:
            if name.startswith("in_"):
                blob = Blob(name)
                serialize.read(blob, files[name])
                value = blob.value
                if not isinstance(value, np.ndarray) or str(list(value.shape)) not in wrong:
                    continue
                if not value.size:
                    found.add(case)
                    continue
                value.reshape(-1)[-1] = another(value.reshape(-1)[-1])
                content = serialize.blob_bytes(caffe2_pb2.BlobProto.FromString(files[name]).name, blob)
                variants["+".join((*case, name))] = {**files, name: content}
    if variants:
        for name, made in answers_again(genuine, variants, folder).items():
            case = tuple(name.split("+")[:2])
            if made and made == outputs(differing[case][1]):
                found.add(case)
    return found


def another(value):
    """Another value of that type."""
    if isinstance(value, bytes):
        return value + b"?"
    return (
        not value if isinstance(value, np.bool_) else value ^ 1 if isinstance(value, np.integer) else 0 if value else 1
    )


if __name__ == "__main__":
    main()
