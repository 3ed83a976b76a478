"""Try whole repositories of Caffe2 scripts: run each script with no edits, and say how far it came.

    python tools/try_repositories.py FOLDER            # of clones, one a folder
    python tools/try_repositories.py FOLDER --only Detectron --output table.md

A clone is copied first, so that what scripts write goes nowhere.  Data and downloads are not there: a script that asks for
them has started.  `RECIPES` has arguments and small data for those that can do without the real ones.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

RAN, RUNS, ASKS, DATA, PACKAGE, SENTENCE, FAILED = (
    "ran",
    "still ran",
    "arguments",
    "data",
    "package",
    "sentence",
    "failed",
)
STARTED = (RAN, ASKS, DATA)
MEANING = {
    RAN: "came to its end",
    RUNS: "was stopped while it worked",
    ASKS: "said which arguments it wants, or failed for want of them",
    DATA: "asked for data, a model or a download that is not there",
    PACKAGE: "asked for a package that is not installed",
    SENTENCE: "stopped at a sentence that says what to do",
    FAILED: "failed",
}

_REST = (ASKS, DATA, PACKAGE, SENTENCE, RUNS, FAILED)
_MISSING = re.compile(
    r"No such file|not found|does not exist|cannot open|could not open|Failed to open|URLError|Connection refused|"
    r"Max retries|ConnectionError|ProxyError|is not a file|no such|environment variable",
    re.I,
)


class Result(NamedTuple):
    """How far a script came; `why` is the last line that it wrote about it."""

    repository: str
    script: str
    outcome: str
    why: str
    seconds: float


_NOTHING = re.compile(r"NoneType|argument required|not None")  # an argument that was not given goes on as None


def _reasons(results: list[Result]) -> Iterator[str]:
    """Yield what the columns mean, and why scripts failed."""
    yield "; ".join(f"*{word}*: it {meaning}" for word, meaning in MEANING.items()) + "."
    failed = [r for r in results if r.outcome in (FAILED, SENTENCE)]
    yield from ["", "What failed:", ""] if failed else []
    yield from (f"- `{r.repository}/{r.script}`: {r.why[:200]}" for r in failed)


class Recipe(NamedTuple):
    """How a script is started: its arguments, {file, seen from it: content}, and what has to run before."""

    arguments: list[str] = []
    files: dict[str, Any] = {}
    first: list[list[str]] = []


def scripts(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield what a person would start: notebooks, and files with a guarded main part or a shebang."""
    for path in sorted(root.rglob("*")):
        inner = path.relative_to(root).parts
        if any(part.startswith(".") for part in inner) or not path.is_file():
            continue
        if path.suffix == ".ipynb" or (path.suffix == ".py" and not _is_part(path, inner)):
            yield path


def _is_part(path: pathlib.Path, inner: tuple[str, ...]) -> bool:
    """Return whether a file is imported, a test or a set-up, and not started."""
    text = path.read_text("latin-1")
    if path.name in ("__init__.py", "setup.py", "conftest.py") or "caffe2" in inner[:-1]:
        return True
    if path.name.startswith("test_") and "unittest" in text or path.name.endswith("_test.py") or "tests" in inner[:-1]:
        return True
    if re.search(r"^\s*(import|from)\s+torch\b", text, re.M):
        return True
    if re.search(r"^if\s+__name__\s*==", text, re.M):
        return False
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return not re.search(r"^print\b|^for\b|^while\b", text, re.M)
    if (path.parent / "__init__.py").exists():
        return True
    acts = [s for s in body if isinstance(s, (ast.For, ast.While, ast.With)) or _acts(s)]
    return not acts


def _acts(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    called = getattr(statement.value.func, "id", getattr(statement.value.func, "attr", ""))
    return called not in ("append", "insert", "basicConfig", "use", "register", "filterwarnings", "set_printoptions")


def attempt(root: pathlib.Path, script: pathlib.Path, limit: float) -> Result:
    """Run one script in a copy of its repository."""
    recipe = RECIPES.get(f"{root.name}/{script.relative_to(root)}", Recipe())
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch) / root.name
        shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        place = copy / script.relative_to(root)
        for name, content in recipe.files.items():
            target = place.parent / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content() if callable(content) else content.encode())
        environment = {**os.environ, "HOME": scratch, "MPLBACKEND": "Agg", "XDG_CACHE_HOME": _CACHE}
        environment |= {f"{kind}_proxy": "http://127.0.0.1:9" for kind in ("http", "https", "ftp")}
        command = [sys.executable, "-m", "caffe2lite", "run", "--gpus", "8"]
        for first in recipe.first:
            subprocess.run(
                [*command, *first], cwd=place.parent, env=environment, capture_output=True, stdin=subprocess.DEVNULL
            )
        command += [place.name, *recipe.arguments]
        begin = time.perf_counter()
        try:
            done = subprocess.run(
                command,
                cwd=place.parent,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit,
                stdin=subprocess.DEVNULL,
            )
            outcome, why = judged(done.returncode, done.stdout, done.stderr, root)
        except subprocess.TimeoutExpired:
            outcome, why = RUNS, f"after {limit:.0f} s"
        why = why.replace(scratch, "…")
    return Result(root.name, str(script.relative_to(root)), outcome, why, time.perf_counter() - begin)


_CACHE = os.path.join(tempfile.gettempdir(), "try_repositories")


def judged(status: int, out: str, err: str, root: pathlib.Path) -> tuple[str, str]:
    """Return (outcome, why) of a process."""
    said = [line.strip() for line in err.splitlines() if line.strip()]
    last = next(
        (s for s in reversed(said) if not s.startswith(("while running", "added here", "caffe2lite: hint"))), ""
    )
    error = next((s for s in reversed(said) if re.match(r"[\w.]*(Error|Exception|Unreadable|Failure)\b", s)), last)
    if status == 0:
        return RAN, ""
    if "usage:" in err.lower() or ("usage:" in out.lower() and "Traceback" not in err):
        return ASKS, error if "rror" in error else ""
    if "IndexError" in error and "sys.argv" in "".join(said[-4:]):
        return ASKS, error
    missing = re.search(r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)", err)
    if '"dot" not found' in error:
        return PACKAGE, "graphviz"
    if missing:
        top = missing[1].split(".")[0]
        own = any(root.rglob(f"{top}.py")) or any(p.is_dir() for p in root.rglob(top))
        return (FAILED, error) if own or top == "caffe2" else (PACKAGE, top)
    if _NOTHING.search(error):
        return ASKS, error
    if "Traceback" not in err and status == 2:
        return SENTENCE, last
    if _MISSING.search(error):
        return DATA, error
    return FAILED, error or f"status {status}"


def _table(results: list[Result]) -> Iterator[str]:
    yield "| repository | scripts | started | ran | arguments | data | package | sentence | still ran | failed |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name in dict.fromkeys(r.repository for r in results):
        mine = [r.outcome for r in results if r.repository == name]
        started, ran = sum(o in STARTED for o in mine), sum(o == RAN for o in mine)
        rest = " | ".join(str(mine.count(o)) for o in _REST)
        yield f"| {name} | {len(mine)} | {started} | {ran} | {rest} |"
    every = [r.outcome for r in results]
    rest = " | ".join(str(every.count(o)) for o in _REST)
    yield (f"| all | {len(every)} | {sum(o in STARTED for o in every)} | {sum(o == RAN for o in every)} | {rest} |")


# ---- small data --------------------------------------------------------------------------------------------------


def _picture() -> bytes:
    """A picture of 96 x 128 pixels, as PNG."""
    rows = b"".join(
        b"\0" + bytes((x * 7 + y * 3 + c * 50) % 256 for x in range(128) for c in range(3)) for y in range(96)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 128, 96, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _coco() -> bytes:
    """Two pictures with a box each, as COCO's annotations, in three of its 80 classes."""
    images = [{"id": i, "file_name": f"{i}.png", "height": 96, "width": 128} for i in (1, 2)]
    boxes = [
        {"id": i, "image_id": i, "category_id": i, "bbox": [10, 10, 50, 40], "area": 2000, "iscrowd": 0,
         "segmentation": [[10, 10, 60, 10, 60, 50, 10, 50]]}
        for i in (1, 2)
    ]  # fmt: skip
    classes = [{"id": i, "name": f"class {i}", "supercategory": "any"} for i in range(1, 81)]
    return json.dumps({"images": images, "annotations": boxes, "categories": classes}).encode()


_SMALL = """MODEL:
  TYPE: generalized_rcnn
  CONV_BODY: FPN.add_fpn_ResNet50_conv5_body
  NUM_CLASSES: 81
  FASTER_RCNN: True
NUM_GPUS: 2
SOLVER:
  BASE_LR: 0.0001
  MAX_ITER: 2
  STEPS: [0]
FPN:
  FPN_ON: True
  MULTILEVEL_ROIS: True
  MULTILEVEL_RPN: True
FAST_RCNN:
  ROI_BOX_HEAD: fast_rcnn_heads.add_roi_2mlp_head
  ROI_XFORM_METHOD: RoIAlign
TRAIN:
  DATASETS: ('coco_2014_train',)
  SCALES: (64,)
  MAX_SIZE: 96
  BATCH_SIZE_PER_IM: 16
  RPN_PRE_NMS_TOP_N: 50
  USE_FLIPPED: False
  WEIGHTS: ''
TEST:
  DATASETS: ('coco_2014_minival',)
  SCALE: 64
  MAX_SIZE: 96
  RPN_PRE_NMS_TOP_N: 50
  RPN_POST_NMS_TOP_N: 20
OUTPUT_DIR: out
"""
_DATA = "../detectron/datasets/data/coco"
_FILES = {
    "small.yaml": _SMALL,
    "1.png": _picture,
    f"{_DATA}/annotations/instances_train2014.json": _coco,
    **{f"{_DATA}/coco_train2014/{i}.png": _picture for i in (1, 2)},
}
_TRAIN = ["--skip-test", "--cfg", "small.yaml"]
_MODEL = "out/train/coco_2014_train/generalized_rcnn/model_final.pkl"
_PROTO = [
    "--cfg",
    "small.yaml",
    "--out_dir",
    "proto",
    "--device",
    "cpu",
    "TRAIN.WEIGHTS",
    _MODEL,
    "TEST.WEIGHTS",
    _MODEL,
]

RECIPES: dict[str, Recipe] = {
    "Detectron/tools/train_net.py": Recipe(_TRAIN, _FILES),
    "Detectron/tools/infer_simple.py": Recipe(
        ["--cfg", "small.yaml", "--wts", _MODEL, "--output-dir", "out", "1.png"], _FILES, [["train_net.py", *_TRAIN]]
    ),
    "Detectron/tools/convert_pkl_to_pb.py": Recipe(_PROTO, _FILES, [["train_net.py", *_TRAIN]]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", action="append", help="a repository, or a part of a script's path")
    parser.add_argument("--limit", type=float, default=60, help="seconds for each script")
    parser.add_argument("--output", type=pathlib.Path, help="write the table there; the results beside it, as JSON")
    options = parser.parse_args()
    results = []
    for root in sorted(p for p in options.folder.iterdir() if p.is_dir()):
        for script in scripts(root):
            name = f"{root.name}/{script.relative_to(root)}"
            if options.only and not any(part in name for part in options.only):
                continue
            results.append(attempt(root, script, options.limit))
            print(f"{results[-1].outcome:10} {results[-1].seconds:5.1f} s  {name}  {results[-1].why[:150]}", flush=True)
    text = "\n".join((*_table(results), "", *_reasons(results)))
    print(text)
    if options.output:
        options.output.write_text(text + "\n")
        options.output.with_suffix(".json").write_text(json.dumps([r._asdict() for r in results], indent=1))


if __name__ == "__main__":
    main()
