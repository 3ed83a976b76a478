"""Every recorded case of the genuine engine: same results, same refusals, same gradient operators."""

import golden_cases
import pytest

from caffe2lite.devices import emulated
from caffe2lite.ops.kit import registry


def _report(kind, wrong):
    assert not wrong, f"{len(wrong)} cases of {kind} differ:\n" + "\n".join(f"  {n}: {w}" for n, w in wrong[:5])


PARTS = ("operators", "changed", "detectron/operators")  # changed: by tools/differential.py
OPERATORS = [(part, kind) for part in PARTS for kind in golden_cases.types(part)]
MAKERS = [(part, kind) for part in ("gradients", "detectron/gradients") for kind in golden_cases.types(part)]


@pytest.mark.parametrize(("part", "kind"), OPERATORS)
def test_operator(part, kind):
    wrong = [(n, w) for n, files in golden_cases.cases(part, kind) if (w := golden_cases.replay(files))]
    _report(kind, wrong)


@pytest.mark.parametrize(("part", "kind"), MAKERS)
def test_gradient_maker(part, kind):
    wrong = [(n, w) for n, files in golden_cases.cases(part, kind) if (w := golden_cases.replay_gradient(files))]
    _report(kind, wrong)


def listed(name):
    return (golden_cases.GOLDEN / name).read_text().split()


def test_every_type_of_genuine_is_here():
    assert [kind for kind in listed("operator_types.txt") if registry.get(kind) is None] == []


def test_every_engine_of_genuine_is_answered():
    for key in listed("engine_keys.txt"):
        kind, engine = key.split("_ENGINE_")
        assert registry.find(kind).kernel(registry.CPU, [engine])


@pytest.fixture
def gpu():
    emulated.use(1)
    yield
    emulated.use(0)


@pytest.mark.parametrize(("part", "kind"), [(p, k) for p, k in OPERATORS if k not in golden_cases.HOST_ONLY])
def test_operator_on_an_emulated_gpu(part, kind, gpu):
    cases = [(n, files) for n, files in golden_cases.cases(part, kind) if golden_cases.for_gpu(files)]
    _report(kind, [(n, w) for n, files in cases if (w := golden_cases.replay(files, gpu=True))])
