"""ImageInput against Pillow and NumPy."""

import io

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2, caffe_pb2
from caffe2.python import core, workspace

Image = pytest.importorskip("PIL.Image", reason="images are decoded by Pillow")
RNG = np.random.default_rng(0)


def png(pixels):
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def record(image, label, more=(), box=None):
    protos = caffe2_pb2.TensorProtos()
    first = protos.protos.add(data_type=caffe2_pb2.TensorProto.STRING)
    first.string_data.append(image)
    for values in (label, *more, *([box] if box else [])):
        tensor = protos.protos.add()
        values = np.atleast_1d(values)
        if values.dtype.kind == "f":
            tensor.data_type = caffe2_pb2.TensorProto.FLOAT
            tensor.float_data.extend(values.tolist())
        else:
            tensor.data_type = caffe2_pb2.TensorProto.INT32
            tensor.int32_data.extend(values.tolist())
    return protos.SerializeToString()


def database(path, records):
    db = workspace.C.create_db("minidb", str(path), workspace.C.Mode.new)
    transaction = db.new_transaction()
    for k, content in enumerate(records):
        transaction.put(f"{k:03}", content)
    transaction.commit()
    del transaction
    db.close()
    workspace.RunOperatorOnce(core.CreateOperator("CreateDB", [], ["reader"], db=str(path), db_type="minidb"))


def run(outputs=("data", "label"), **args):
    workspace.RunOperatorOnce(core.CreateOperator("ImageInput", ["reader"], list(outputs), **args))
    return [workspace.FetchBlob(o) for o in outputs]


def test_a_test_batch_is_boxed_cropped_in_the_middle_and_normalized(tmp_path):
    images = RNG.integers(0, 256, (2, 20, 30, 3), dtype=np.uint8)
    boxed = record(png(images[1]), 4, box=(2, 3, 12, 16))
    database(tmp_path / "db", [record(png(images[0]), 3), boxed])
    mean, std = [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]
    data, label = run(batch_size=2, crop=10, minsize=10, is_test=1, mean_per_channel=mean, std_per_channel=std)
    parts = np.stack([images[0][5:15, 10:20], images[1][2:14, 3:19][1:11, 3:13]])[..., ::-1].astype("f")
    np.testing.assert_allclose(data, (parts - np.array(mean, "f")) / np.array(std, "f"), rtol=1e-6)
    np.testing.assert_array_equal(label, np.array([3, 4], "int32"))


@pytest.mark.parametrize("shape", [(20, 30), (30, 20), (9, 12)])
def test_scaling_is_that_of_pillow(tmp_path, shape):
    image = RNG.integers(0, 256, (*shape, 3), dtype=np.uint8)
    database(tmp_path / "db", [record(png(image), 0)])
    data, _ = run(batch_size=1, scale=10, crop=10, warp=1, is_test=1)
    way = Image.Resampling.BOX if max(shape) > 12 else Image.Resampling.BILINEAR
    if shape == (9, 12):
        way = Image.Resampling.BOX  # one side shrinks
    expected = np.asarray(Image.fromarray(np.ascontiguousarray(image[:, :, ::-1])).resize((10, 10), way))
    np.testing.assert_array_equal(data[0], expected.astype("f"))


def test_training_draws_crops_and_repeats_with_a_seed(tmp_path):
    ramp = np.broadcast_to(np.arange(40, dtype=np.uint8)[None, :, None], (40, 40, 3))
    database(tmp_path / "db", [record(png(ramp.copy()), 0)])
    option = core.DeviceOption(caffe2_pb2.CPU, random_seed=5)
    args = {"batch_size": 8, "crop": 8, "mirror": 1, "device_option": option}
    first, _ = run(**args)
    steps = np.diff(first[:, 0, :, 0], axis=1)
    assert set(steps.reshape(-1)) == {-1, 1}  # whole rows, some of them mirrored
    assert len({row[0] for row in first[:, 0, :, 0]}) > 2
    np.testing.assert_array_equal(first, run(**args)[0])
    jittered, _ = run(scale_jitter_type=1, color_jitter=1, color_lighting=1, **args)
    assert jittered.shape == (8, 8, 8, 3)
    assert np.isfinite(jittered).all()


def test_kinds_of_labels_and_further_outputs(tmp_path):
    image = png(np.zeros((4, 4), np.uint8))
    args = {"batch_size": 1, "crop": 4, "color": 0, "is_test": 1}
    database(tmp_path / "a", [record(image, [1, 3])])
    np.testing.assert_array_equal(run(label_type=1, num_labels=4, **args)[1], np.array([[0, 1, 0, 1]], "int32"))
    np.testing.assert_array_equal(run(label_type=2, num_labels=2, **args)[1], np.array([[1, 3]], "int32"))
    database(tmp_path / "b", [record(image, [1, 3], [[0.5, 0.25], [7.0], [8, 9]])])
    made = run(("data", "label", "x", "y"), label_type=3, num_labels=4, output_sizes=[1, 2], **args)
    np.testing.assert_array_equal(made[1], np.array([[0, 0.5, 0, 0.25]], "f"))
    np.testing.assert_array_equal(made[2], np.array([7], "f"))
    np.testing.assert_array_equal(made[3], np.array([[8, 9]], "int32"))


def test_what_is_no_image_is_told_and_the_reader_goes_on(tmp_path):
    good = png(np.full((4, 4, 3), 9, np.uint8))
    records = [
        record(b"not an image", 0),
        record(good[: len(good) // 2], 0),
        b"\xff\xff",
        record(good, [1, 2]),
        record(good, 6),
    ]
    database(tmp_path / "db", records)
    for message in (
        "'000' holds no image",
        "'001' holds no image",
        "'002' holds no TensorProtos",
        "'003' has 2 labels",
    ):
        with pytest.raises(RuntimeError, match=message):
            run(batch_size=1, crop=4)
    data, label = run(batch_size=1, crop=4)
    assert data.shape == (1, 4, 4, 3)
    assert (data == 9).all()
    assert label == 6
    with pytest.raises(RuntimeError, match="is 4 x 4 and cannot be cropped to 5: give scale or minsize"):
        for _ in range(len(records)):  # around to the good one
            try:
                run(batch_size=1, crop=5)
            except RuntimeError as e:
                if "cropped" in str(e):
                    raise


@pytest.mark.parametrize("encoded", [True, False])
def test_records_of_caffe(tmp_path, encoded):
    image = RNG.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    datum = caffe_pb2.Datum(channels=3, height=6, width=8, label=3, encoded=encoded)
    datum.data = png(image) if encoded else image[:, :, ::-1].transpose(2, 0, 1).tobytes()
    short = caffe_pb2.Datum(channels=3, height=99999, width=99999, data=b"x")
    database(tmp_path / "db", [datum.SerializeToString(), short.SerializeToString()])
    args = {"batch_size": 1, "crop": 6, "is_test": 1, "use_caffe_datum": 1}
    data, label = run(output_type="float16", use_gpu_transform=1, **args)
    assert data.dtype == np.float16
    np.testing.assert_array_equal(data[0], image[:, 1:7, ::-1].transpose(2, 0, 1))
    assert label == 3
    with pytest.raises(RuntimeError, match="1 bytes"):
        run(**args)


@pytest.mark.parametrize(
    ("words", "args"),
    [
        ("float or float16, not 'int8'", {"output_type": "int8"}),
        ("must be positive, got 0 and 4", {"batch_size": 0}),
        ("crop 4 is larger than what scale or minsize leave of an image, 3", {"scale": 3}),
        ("mean_per_channel must have 3 values, got 2", {"mean_per_channel": [1.0, 2.0]}),
        ("output_sizes has 1 entries, and there are 0 further outputs", {"output_sizes": [1]}),
        ("a label of record b'000' is 6; it must be from 0 to 2", {"label_type": 1, "num_labels": 3}),
        ("has 1 labels; num_labels is 3", {"label_type": 2, "num_labels": 3}),
    ],
)
def test_arguments_and_labels_out_of_range(tmp_path, words, args):
    database(tmp_path / "db", [record(png(np.full((4, 4, 3), 9, np.uint8)), 6)])
    with pytest.raises(RuntimeError, match=words):
        run(**{"batch_size": 1, "crop": 4, **args})
