"""Every recorded case of the genuine engine: same results, same refusals, same gradient operators."""

import golden_cases
import pytest

from caffe2lite.devices import emulated
from caffe2lite.ops import registry


def _report(kind, wrong):
    assert not wrong, f"{len(wrong)} cases of {kind} differ:\n" + "\n".join(f"  {n}: {w}" for n, w in wrong[:5])


@pytest.mark.parametrize("kind", golden_cases.types("operators"))
def test_operator(kind):
    wrong = [(n, w) for n, files in golden_cases.cases("operators", kind) if (w := golden_cases.replay(files))]
    _report(kind, wrong)


@pytest.mark.parametrize("kind", golden_cases.types("gradients"))
def test_gradient_maker(kind):
    wrong = [(n, w) for n, files in golden_cases.cases("gradients", kind) if (w := golden_cases.replay_gradient(files))]
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


# Types that hold strings, objects or host data by their nature, or that Caffe2 has for the CPU only.
@pytest.mark.parametrize(
    "kind", ["Conv", "ConvGradient", "FC", "FCGradient", "Relu", "MaxPool", "SpatialBN", "Softmax"]
)
def test_operator_on_an_emulated_gpu(kind, gpu):
    wrong = [
        (n, w) for n, files in golden_cases.cases("operators", kind) if (w := golden_cases.replay(files, gpu=True))
    ]
    _report(kind, wrong)
