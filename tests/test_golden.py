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


def test_exceptions_are_still_exceptions():
    """A case in the list that passes has to leave the list."""
    for name in golden_cases.exceptions():
        kind, _ = name.split("/")
        assert registry.get(kind), f"{name}: no such operator"


@pytest.fixture
def gpu():
    emulated.use(1)
    yield
    emulated.use(0)
