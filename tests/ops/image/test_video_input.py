"""VideoInput against PyAV."""

import io

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace

av = pytest.importorskip("av", reason="videos are decoded by PyAV, the extra caffe2lite[video]")


def video(frames):
    """An encoded video, without losses."""
    content = io.BytesIO()
    with av.open(content, "w", format="matroska") as container:
        stream = container.add_stream("ffv1", rate=10)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "bgr0"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(format="bgr0")))
        container.mux(stream.encode())
    return content.getvalue()


@pytest.fixture
def reader(tmp_path):
    def make(*records):
        db = workspace.C.create_db("minidb", str(tmp_path / "db"), workspace.C.Mode.new)
        transaction = db.new_transaction()
        for k, (content, labels) in enumerate(records):
            protos = caffe2_pb2.TensorProtos()
            protos.protos.add(data_type=caffe2_pb2.TensorProto.STRING).string_data.append(content)
            protos.protos.add(data_type=caffe2_pb2.TensorProto.INT32).int32_data.extend(labels)
            transaction.put(f"{k}", protos.SerializeToString())
        transaction.commit()
        del transaction
        db.close()
        op = core.CreateOperator("CreateDB", [], ["reader"], db=str(tmp_path / "db"), db_type="minidb")
        workspace.RunOperatorOnce(op)

    return make


def run(**args):
    workspace.RunOperatorOnce(core.CreateOperator("VideoInput", ["reader"], ["data", "label"], **args))
    return workspace.FetchBlob("data"), workspace.FetchBlob("label")


FRAMES = np.random.default_rng(0).integers(0, 256, (9, 12, 16, 3), dtype=np.uint8)


def test_clips_of_a_test_are_evenly_spread_and_cropped_in_the_middle(reader):
    reader((video(FRAMES), [4]))
    data, label = run(
        batch_size=1,
        clip_per_video=2,
        length_rgb=3,
        sampling_rate_rgb=2,
        video_res_type=2,
        crop_size=8,
        is_test=1,
        mean_rgb=[1.0, 2.0, 3.0],
        inv_std_rgb=[0.5, 0.25, 2.0],
    )
    clips = np.stack([FRAMES[[0, 2, 4]], FRAMES[[4, 6, 8]]])[:, :, 2:10, 4:12].astype("f")
    expected = (clips - np.array([1, 2, 3], "f")) * np.array([0.5, 0.25, 2], "f")
    np.testing.assert_allclose(data, expected.transpose(0, 4, 1, 2, 3), rtol=1e-6)
    np.testing.assert_array_equal(label, np.array([4, 4], "int32"))


def test_training_scales_and_labels_of_several_classes(reader):
    reader((video(FRAMES), [0, 2]), (video(FRAMES[:2]), [1]))
    data, label = run(batch_size=2, length_rgb=4, scale_h=6, scale_w=8, crop_size=5, do_multi_label=1, num_of_class=3)
    assert data.shape == (2, 3, 4, 5, 5)
    np.testing.assert_array_equal(label, np.array([[1, 0, 1], [0, 1, 0]], "int32"))


def test_what_is_no_video_is_told_and_the_reader_goes_on(reader):
    reader((b"no video", [0]), (video(FRAMES)[:40], [0]), (video(FRAMES), [5]))
    args = {"batch_size": 1, "length_rgb": 2, "video_res_type": 2}
    for key in "01":
        with pytest.raises(RuntimeError, match=f"record b'{key}' holds no video that can be decoded"):
            run(**args)
    assert run(**args)[1] == 5


@pytest.mark.parametrize(
    ("words", "args"),
    [
        ("get_optical_flow=1", {"get_optical_flow": 1}),
        (r"must be positive, found \(1, 0, 1, 1\)", {"length_rgb": 0}),
        ("must be positive, got 0 and 8", {"scale_w": 8, "video_res_type": 0}),
        ("crop_size is 99", {"crop_size": 99}),
        ("a label of record b'0' is 2; it must be from 0 to 1", {"do_multi_label": 1, "num_of_class": 2}),
    ],
)
def test_arguments_and_labels_out_of_range(reader, words, args):
    reader((video(FRAMES), [2]))
    with pytest.raises(RuntimeError, match=words):
        run(**{"batch_size": 1, "length_rgb": 2, "video_res_type": 2, **args})
