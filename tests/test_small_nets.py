"""Small nets of all families, trained: losses and parameters as genuine Caffe2 has them, on the CPU and on a GPU."""

import numpy as np
import pytest
import small_nets
from caffe2.python import core
from golden_cases import GOLDEN

from caffe2lite.devices import emulated
from caffe2lite.proto import caffe2_pb2


@pytest.fixture(scope="module")
def recorded():
    with np.load(GOLDEN / "small_nets.npz") as file:
        return {name: file[name] for name in file.files}


@pytest.fixture
def gpu():
    emulated.use(1)
    yield
    emulated.use(0)


def compare(name, trained, recorded):
    expected = {key.partition("|")[2]: value for key, value in recorded.items() if key.partition("|")[0] == name}
    assert set(trained) == set(expected)
    for blob, value in expected.items():
        assert trained[blob].dtype == value.dtype
        np.testing.assert_allclose(trained[blob], value, rtol=2e-4, atol=2e-5, err_msg=f"{name}: {blob}")


@pytest.mark.parametrize("name", small_nets.NETS)
def test_a_net_trains_as_genuine_does(name, recorded):
    compare(name, small_nets.train(name), recorded)


@pytest.mark.parametrize("name", [n for n in small_nets.NETS if n != "field"])  # Caffe2 has that for the CPU only
def test_a_net_trains_on_an_emulated_gpu(name, recorded, gpu):
    compare(name, small_nets.train(name, core.DeviceOption(caffe2_pb2.CUDA, 0)), recorded)
