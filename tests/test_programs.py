"""Whole programs, replayed: what genuine Caffe2 made of them stands in tests/golden/programs.gz (tools/programs.py wrote it)."""

import concurrent.futures
import json
import pathlib
import subprocess
import sys

import program_results
import pytest

HERE = pathlib.Path(__file__).parent
RECORDED = program_results.read(HERE / "golden" / "programs.gz")
WORKERS = 2


def run(share):
    given = "".join(json.dumps(steps) + "\n" for _, steps, _ in share)
    done = subprocess.run(
        [sys.executable, HERE / "programs_worker.py"], input=given, text=True, stdout=subprocess.PIPE, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def results():
    """What came of each program here."""
    shares = [RECORDED[i::WORKERS] for i in range(WORKERS)]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        by_share = list(pool.map(run, shares))
    return [by_share[i % WORKERS][i // WORKERS] for i in range(len(RECORDED))]


@pytest.mark.parametrize("family", sorted({family for family, *_ in RECORDED}))
def test_programs_do_what_they_did_in_caffe2(results, family):
    compared = 0
    for (name, steps, there), here in zip(RECORDED, results):
        if name == family:
            compared += 1
            found = program_results.difference(there, program_results.outcome(here))
            assert found is None, "\n".join([found, *steps])
    assert compared >= 5
