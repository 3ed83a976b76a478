"""VideoInput: batches of clips and labels out of a database, decoded by PyAV (the extra `video`).

Frames are red, green, blue; clips are [channels, frames, height, width].
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from caffe2lite.extras import install
from caffe2lite.ops.data.databases import Reader
from caffe2lite.ops.image.image_input import resize
from caffe2lite.ops.kit.gradient import NO_GRADIENT
from caffe2lite.ops.kit.objects import needed
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.rows import check_range
from caffe2lite.paths import open_file
from caffe2lite.proto import caffe2_pb2

_SCALED, _SHORT_EDGE, _ORIGINAL = range(3)  # video_res_type


def frames(content: bytes | str, key: Any) -> np.ndarray:
    """Return all frames of an encoded video (its bytes, or the name of its file), [frames, height, width, 3]."""
    try:
        import av
    except ImportError:
        raise RuntimeError(f"VideoInput decodes with PyAV: {install('video')}") from None
    try:
        # A file is opened here: PyAV would take addresses in the net, and lists of other files, for names.
        with io.BytesIO(content) if isinstance(content, bytes) else open_file(content) as file, av.open(file) as video:
            made = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
    except (av.error.FFmpegError, OSError, ValueError, IndexError) as e:
        raise ValueError(f"the record {key!r} holds no video that can be decoded: {e}") from None
    if not made:
        raise ValueError(f"the record {key!r} holds a video without frames")
    return np.stack(made)


def _starts(count: int, needed: int, clips: int, uniform: bool, rng: Any) -> list[int]:
    """Return where clips of `needed` frames begin: evenly spread, or anywhere."""
    last = max(count - needed, 0)
    if uniform:
        return [last * k // max(clips - 1, 1) if clips > 1 else last // 2 for k in range(clips)]
    return [int(rng.integers(last + 1)) for _ in range(clips)]


def _record(record: tuple[bytes, bytes], local: bool) -> tuple[bytes, Any, list[int]]:
    """Return (key, video, labels) of a record of TensorProtos."""
    key, content = record
    try:
        protos = caffe2_pb2.TensorProtos.FromString(content).protos
    except Exception:
        raise ValueError(f"the record {key!r} holds no TensorProtos") from None
    if len(protos) < 2 or len(protos[0].string_data) != 1 or not protos[1].int32_data:
        raise ValueError(f"the record {key!r} must hold a video (one string) and labels (int32)")
    video = protos[0].string_data[0]
    return key, video.decode() if local else video, list(protos[1].int32_data)


@operator("data label", stateful=True, num_inputs=(1, 1), gradient=NO_GRADIENT)
def VideoInput(
    ctx,
    reader,
    *,
    batch_size: int = 0,
    clip_per_video: int = 1,
    length_rgb: int = 0,
    sampling_rate_rgb: int = 1,
    decode_type: int = 0,
    video_res_type: int = 0,
    scale_h: int = 0,
    scale_w: int = 0,
    short_edge: int = 0,
    crop_size: int = 0,
    random_crop: bool = True,
    random_mirror: bool = True,
    is_test: bool = False,
    mean_rgb: list[float] = (),
    inv_std_rgb: list[float] = (),
    use_local_file: bool = False,
    do_multi_label: bool = False,
    num_of_class: int = 0,
    get_optical_flow: bool = False,
):
    """The next `batch_size` videos, decoded and cut into clips, and their labels.

    reader -> data [batch_size * clip_per_video, 3, length_rgb, height, width] float32, label [clips] or [clips,
    num_of_class] int32. decode_type 0 begins clips anywhere (in a test evenly spread), 1 evenly spread; video_res_type
    0 scales frames to scale_h x scale_w, 1 so that the shorter side is short_edge, 2 not at all.  Then they are cropped
    to crop_size. ValueError where an argument is out of range, or a record holds no video or other labels; TypeError
    where the input is no reader; RuntimeError where PyAV is not installed.
    """
    if get_optical_flow:
        raise ValueError("get_optical_flow=1: optical flow is not computed here; set it to 0 and use the frames")
    if batch_size < 1 or length_rgb < 1 or clip_per_video < 1 or sampling_rate_rgb < 1:
        found = batch_size, length_rgb, clip_per_video, sampling_rate_rgb
        raise ValueError(
            f"batch_size, length_rgb, clip_per_video and sampling_rate_rgb must be positive, found {found}"
        )
    needed(Reader, reader)
    seed = int(ctx.rng.integers(2**31))
    rng = np.random.default_rng(seed)
    clips, labels = [], []
    for _ in range(batch_size):
        key, video, label = _record(reader.next_record(), use_local_file)
        shots = frames(video, key)
        span = (length_rgb - 1) * sampling_rate_rgb + 1
        for start in _starts(len(shots), span, clip_per_video, is_test or decode_type == 1, rng):
            places = [(start + k * sampling_rate_rgb) % len(shots) for k in range(length_rgb)]  # short videos go around
            clip = _sized(shots[places], video_res_type, scale_h, scale_w, short_edge)
            clip = _cropped(clip, crop_size, is_test or not random_crop, rng, key)
            if random_mirror and not is_test and rng.integers(2):
                clip = clip[:, :, ::-1]
            made = (clip.astype(np.float32) - np.array(list(mean_rgb) or [0], np.float32)) * np.array(
                list(inv_std_rgb) or [1], np.float32
            )
            clips.append(made.transpose(3, 0, 1, 2))
            labels.append(_label(label, do_multi_label, num_of_class, key))
    return ctx.xp.asarray(np.stack(clips)), ctx.xp.asarray(np.stack(labels))


def _sized(clip: np.ndarray, kind: int, height: int, width: int, short_edge: int) -> np.ndarray:
    if kind == _ORIGINAL:
        return clip
    if kind == _SHORT_EDGE:
        shortest = min(clip.shape[1:3])
        height, width = (max(short_edge, round(n * short_edge / shortest)) for n in clip.shape[1:3])
    if height < 1 or width < 1:
        raise ValueError(f"scale_h and scale_w (or short_edge) must be positive, got {height} and {width}")
    return np.stack([resize(frame, height, width) for frame in clip])


def _cropped(clip: np.ndarray, size: int, middle: bool, rng: Any, key: Any) -> np.ndarray:
    if size < 1:
        return clip
    room = clip.shape[1] - size, clip.shape[2] - size
    if min(room) < 0:
        raise ValueError(f"frames of record {key!r} are {clip.shape[1]} x {clip.shape[2]}, crop_size is {size}")
    y, x = (r // 2 for r in room) if middle else (int(rng.integers(r + 1)) for r in room)
    return clip[:, y : y + size, x : x + size]


def _label(label: list[int], several: bool, classes: int, key: Any) -> Any:
    if not several:
        return np.int32(label[0])
    check_range(np.array(label), classes, f"a label of record {key!r}")
    row = np.zeros(classes, np.int32)
    row[label] = 1
    return row
