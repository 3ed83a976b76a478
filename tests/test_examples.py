"""The programs that came with Caffe2, and the project's own examples, run as a user runs them."""

import io
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import utils

TEXT = "the cat sat on the mat and the dog ate the hat. " * 40


def run(arguments, folder, gpus=0):
    env = {**os.environ, "CAFFE2LITE_EMULATED_GPUS": str(gpus), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=folder, env=env, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("gpus", [0, 1])
def test_char_rnn_learns_a_text(tmp_path, gpus):
    (tmp_path / "text.txt").write_text(TEXT)
    out = run(
        [
            "-m",
            "caffe2.python.examples.char_rnn",
            "--train_data",
            "text.txt",
            "--hidden_size",
            32,
            "--batch_size",
            4,
            "--iters",
            200,
            "--iters_to_report",
            200,
            *(["--gpu"] if gpus else []),
        ],
        tmp_path,
        gpus,
    )
    assert float(out.split("loss ")[-1]) < 1.0  # a guess among the 16 letters would be 2.8


def test_lmdb_create_example(tmp_path):
    out = run(["-m", "caffe2.python.examples.lmdb_create_example", "--output_file", "images.lmdb"], tmp_path)
    assert "128 images" in out


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A database of 16 PNG files: dark ones with label 0, bright ones with label 1."""
    lmdb = pytest.importorskip("lmdb", reason="the extra lmdb is not installed")
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    path = tmp_path_factory.mktemp("images") / "train.lmdb"
    random = np.random.RandomState(0)
    with lmdb.open(str(path), map_size=1 << 26) as env, env.begin(write=True) as transaction:
        for i in range(16):
            pixels = random.randint(0, 60, (40, 40, 3)) + 190 * (i % 2)
            file = io.BytesIO()
            image.fromarray(pixels.astype(np.uint8)).save(file, format="PNG")
            record = caffe2_pb2.TensorProtos()
            record.protos.add(data_type=caffe2_pb2.TensorProto.STRING, string_data=[file.getvalue()], dims=[1])
            record.protos.append(utils.NumpyArrayToCaffe2Tensor(np.array(i % 2, np.int32)))
            transaction.put(f"{i:04d}".encode(), record.SerializeToString())
    return path


def test_imagenet_trainer_trains_saves_and_goes_on(images, tmp_path):
    command = ["-m", "caffe2.python.examples.resnet50_trainer", "--train_data", images, "--num_layers", 18,
               "--num_gpus", 2, "--batch_size", 8, "--epoch_size", 16, "--image_size", 32, "--num_labels", 2,
               "--base_learning_rate", 0.01, "--save_model_name", "model"]  # fmt: skip
    run([*command, "--num_epochs", 1, "--test_data", images, "--test_epoch_size", 8], tmp_path, gpus=2)
    assert (tmp_path / "model_1.mdl").exists()
    out = run([*command, "--num_epochs", 2, "--load_model_path", "model_1.mdl"], tmp_path, gpus=2)
    assert "Loaded model at epoch 1" in out and (tmp_path / "model_2.mdl").exists()
    (log,) = [p for p in pathlib.Path(tmp_path).glob("resnext_gpu2*.log") if "test" not in p.name][:1]
    assert "learning_rate" in log.read_text()


EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(
    "name, arguments, says",
    [
        ("seq2seq_reverse.py", ["--steps", 300], r"(1[5-9]|20) of 20 new words"),
        ("click_model.py", ["--steps", 400], r"[89]\d\.\d% of 2,000"),
        ("reader_pipeline.py", [], "1000 records, each once"),
        ("caffe_model.py", [], "10 classes, which sum up to 1.0000"),
    ],
)
def test_an_example_of_ours(tmp_path, name, arguments, says):
    assert re.search(says, run([EXAMPLES / name, *arguments], tmp_path))


def test_the_onnx_example(tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed here")
    out = run([EXAMPLES / "onnx_roundtrip.py"], tmp_path)
    assert all(float(d) < 1e-5 for d in re.findall(r"\d\.\de[+-]\d\d", out))
