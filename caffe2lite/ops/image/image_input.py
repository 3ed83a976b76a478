"""ImageInput: batches of images and labels out of a database, decoded by Pillow (the extra `image`).

Images are blue, green, red as in Caffe2, which decodes with OpenCV.  Larger images are shrunk by the mean of the pixels
that become one, smaller ones are enlarged linearly.
"""

from __future__ import annotations

import concurrent.futures
import io
import math
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from caffe2lite import extras
from caffe2lite.ops.data.databases import Reader, array_of
from caffe2lite.ops.kit.gradient import NO_GRADIENT
from caffe2lite.ops.kit.objects import needed
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.rows import check_range
from caffe2lite.proto import caffe2_pb2, caffe_pb2

SINGLE, MULTI_SPARSE, DENSE, MULTI_WEIGHTED = range(4)  # kinds of labels

# How colours of natural images vary, red, green, blue (Krizhevsky et al., 2012)
_COLOUR_SPREAD = np.array([0.2175, 0.0188, 0.0045])
_COLOUR_AXES = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])


def pillow() -> Any:
    """Return the module PIL.Image; an error says how to get it."""
    try:
        from PIL import Image
    except ImportError:
        raise RuntimeError(f"ImageInput decodes with Pillow: {extras.install('image')}") from None
    return Image


def decode(content: bytes, color: bool, key: Any) -> np.ndarray:
    """Return pixels [height, width, channels] of an encoded image; ValueError where it is none."""
    try:
        with pillow().open(io.BytesIO(content)) as image:
            pixels = np.asarray(image.convert("RGB" if color else "L"))
    except (OSError, SyntaxError, ValueError) as e:
        raise ValueError(f"the record {key!r} holds no image that can be decoded: {e}") from None
    return pixels[:, :, ::-1] if color else pixels[:, :, None]


def resize(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the image in another size."""
    if pixels.shape[:2] == (height, width):
        return pixels
    Image = pillow()
    way = Image.Resampling.BOX if height < pixels.shape[0] or width < pixels.shape[1] else Image.Resampling.BILINEAR
    flat = np.ascontiguousarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
    return np.asarray(Image.fromarray(flat).resize((width, height), way)).reshape(height, width, pixels.shape[2])


class _Options(NamedTuple):
    """What is done with an image."""

    color: bool
    scale: int
    minsize: int
    warp: bool
    crop: int
    mirror: bool
    is_test: bool
    random_scale: tuple[int, ...]
    inception: bool
    jitter: tuple[float, ...]  # saturation, brightness, contrast
    lighting: float
    mean: np.ndarray
    std: np.ndarray


class _Sample(NamedTuple):
    """A record, taken apart."""

    key: bytes
    image: Any  # encoded (bytes) or pixels
    box: tuple[int, ...]
    rest: list[Any]  # label, weights of labels, further tensors


def transform(sample: _Sample, options: _Options, seed: int) -> np.ndarray:
    """Return the image as the net gets it, float32 [crop, crop, channels]."""
    rng = np.random.default_rng(seed)
    pixels = sample.image if isinstance(sample.image, np.ndarray) else decode(sample.image, options.color, sample.key)
    if pixels.ndim != 3 or pixels.shape[2] != (3 if options.color else 1):
        raise ValueError(f"the record {sample.key!r} holds an image of shape {list(pixels.shape)}")
    top, left, height, width = sample.box
    if (
        min(sample.box) >= 0
        and height
        and width
        and top + height <= pixels.shape[0]
        and left + width <= pixels.shape[1]
    ):
        pixels = pixels[top : top + height, left : left + width]
    crop = options.crop
    if options.inception and not options.is_test:
        pixels = resize(_inception(pixels, rng), crop, crop)
    else:
        pixels = _scaled(pixels, options, rng)
        room = pixels.shape[0] - crop, pixels.shape[1] - crop
        if min(room) < 0:
            raise ValueError(
                f"the image of record {sample.key!r} is {pixels.shape[0]} x {pixels.shape[1]} and cannot be cropped to "
                f"{crop}: give scale or minsize"
            )
        y, x = (r // 2 for r in room) if options.is_test else (int(rng.integers(r + 1)) for r in room)
        pixels = pixels[y : y + crop, x : x + crop]
    if options.mirror and not options.is_test and rng.integers(2):
        pixels = pixels[:, ::-1]
    made = pixels.astype(np.float32)
    if options.color and not options.is_test:
        made = _jitter(made, options, rng)
    return (made - options.mean) / options.std


def _scaled(pixels: np.ndarray, options: _Options, rng: Any) -> np.ndarray:
    """Return the image scaled, so that the shorter side (with `warp` both) is as long as asked, or at least `minsize`."""
    scale = options.scale
    if options.random_scale and not options.is_test:
        scale = int(rng.integers(options.random_scale[0], options.random_scale[1] + 1))
    shortest = min(pixels.shape[:2])
    if scale <= 0:
        if shortest >= options.minsize:
            return pixels
        scale = options.minsize
    if options.warp:
        return resize(pixels, scale, scale)
    sides = [scale if n == shortest else max(scale, round(n * scale / shortest)) for n in pixels.shape[:2]]
    return resize(pixels, *sides)


def _inception(pixels: np.ndarray, rng: Any) -> np.ndarray:
    """Return a random part of 8 to 100 percent of the image, 3 : 4 to 4 : 3 (Szegedy et al., 2015)."""
    height, width = pixels.shape[:2]
    for _ in range(10):
        area = rng.uniform(0.08, 1) * height * width
        ratio = rng.uniform(3 / 4, 4 / 3)
        h, w = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if 0 < h <= height and 0 < w <= width:
            y, x = int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1))
            return pixels[y : y + h, x : x + w]
    side = min(height, width)
    return pixels[(height - side) // 2 :, (width - side) // 2 :][:side, :side]


def _jitter(pixels: np.ndarray, options: _Options, rng: Any) -> np.ndarray:
    """Return the pixels with saturation, brightness and contrast at random, in random order; then the colour of the light."""
    weights = np.array([0.114, 0.587, 0.299], np.float32)  # blue, green, red
    for kind in rng.permutation(3) if any(options.jitter) else ():
        alpha = np.float32(1 + rng.uniform(-1, 1) * options.jitter[kind])
        grey = (pixels @ weights)[:, :, None]
        other = (grey, 0, grey.mean())[kind]
        pixels = pixels * alpha + other * (1 - alpha)
    if options.lighting:
        light = _COLOUR_AXES @ (_COLOUR_SPREAD * rng.normal(0, options.lighting, 3))
        pixels = pixels + light[::-1].astype(np.float32) * 255
    return pixels.astype(np.float32)


def _read_datum(record: tuple[bytes, bytes], box: tuple[int, ...]) -> _Sample:
    """Return the sample in a record of Caffe: encoded, or the pixels channel by channel."""
    key, content = record
    try:
        datum = caffe_pb2.Datum.FromString(content)
    except DecodeError:
        raise ValueError(f"the record {key!r} holds no Datum") from None
    label = caffe2_pb2.TensorProto(data_type=caffe2_pb2.TensorProto.INT32, int32_data=[datum.label])
    if datum.encoded:
        return _Sample(key, datum.data, box, [label])
    shape = datum.channels, datum.height, datum.width
    if len(datum.data) != math.prod(shape):
        raise ValueError(f"the record {key!r} holds {len(datum.data)} bytes for an image of shape {list(shape)}")
    return _Sample(key, np.frombuffer(datum.data, np.uint8).reshape(shape).transpose(1, 2, 0), box, [label])


def _read(record: tuple[bytes, bytes], box: tuple[int, ...], extra: int) -> _Sample:
    """Return the sample in TensorProtos: an image, a label, `extra` tensors, perhaps a box (top, left, height, width)."""
    key, content = record
    try:
        protos = list(caffe2_pb2.TensorProtos.FromString(content).protos)
    except DecodeError:
        raise ValueError(f"the record {key!r} holds no TensorProtos") from None
    if len(protos) not in (2 + extra, 3 + extra):
        raise ValueError(
            f"the record {key!r} holds {len(protos)} tensors; an image, a label and {extra} more are expected"
        )
    if len(protos) == 3 + extra:
        found = tuple(protos.pop().int32_data)
        if len(found) != 4:
            raise ValueError(f"the record {key!r} has a bounding box of {len(found)} numbers; 4 are expected")
        box = found
    first = protos[0]
    if first.data_type == caffe2_pb2.TensorProto.STRING:
        if len(first.string_data) != 1:
            raise ValueError(f"the record {key!r} holds {len(first.string_data)} encoded images; 1 is expected")
        image: Any = first.string_data[0]
    elif first.data_type == caffe2_pb2.TensorProto.BYTE:
        image = array_of(first, key).astype(np.uint8)
    else:
        raise ValueError(
            f"the first tensor of record {key!r} must be an image, a string (encoded) or bytes (pixels); "
            f"found data_type {first.data_type}"
        )
    return _Sample(key, image, box, protos[1:])


_KINDS = {caffe2_pb2.TensorProto.FLOAT: "float_data", caffe2_pb2.TensorProto.INT32: "int32_data"}


def _numbers(tensor: Any, sample: _Sample) -> np.ndarray:
    field = _KINDS.get(tensor.data_type)
    if field is None:
        raise ValueError(
            f"labels and further tensors of record {sample.key!r} must be floats or int32, found data_type {tensor.data_type}"
        )
    return np.array(getattr(tensor, field), np.float32 if field == "float_data" else np.int32)


def _labels(samples: list[_Sample], label_type: int, num_labels: int) -> np.ndarray:
    rows = []
    for s in samples:
        values = _numbers(s.rest[0], s)
        if label_type == SINGLE:
            if values.size != 1:
                raise ValueError(f"the record {s.key!r} has {values.size} labels, label_type 0 takes one")
            rows.append(values[0])
            continue
        if label_type == DENSE:
            if values.size != num_labels:
                raise ValueError(f"the record {s.key!r} has {values.size} labels; num_labels is {num_labels}")
            rows.append(values)
            continue
        weighted = label_type == MULTI_WEIGHTED
        row = np.zeros(num_labels, np.float32 if weighted else np.int32)
        check_range(values, num_labels, f"a label of record {s.key!r}")
        row[values.astype(np.int64)] = _numbers(s.rest[1], s) if weighted else 1
        rows.append(row)
    return np.stack(rows)


def _three(one: float, each: list[float], color: bool, what: str) -> np.ndarray:
    count = 3 if color else 1
    if each and len(each) != count:
        raise ValueError(f"{what}_per_channel must have {count} values, got {len(each)}")
    return np.array(each or [one] * count, np.float32)


@operator("data label more*", stateful=True, num_inputs=(0, 1), num_outputs=(2, MANY), gradient=NO_GRADIENT)
def ImageInput(
    ctx,
    reader=None,
    *,
    db: str = "",
    db_type: str = "lmdb",
    batch_size: int = 0,
    color: bool = True,
    scale: int = -1,
    minsize: int = -1,
    warp: bool = False,
    crop: int = 0,
    mirror: bool = False,
    is_test: bool = False,
    mean: float = 0.0,
    std: float = 1.0,
    mean_per_channel: list[float] = (),
    std_per_channel: list[float] = (),
    label_type: int = SINGLE,
    num_labels: int = 0,
    output_sizes: list[int] = (),
    random_scale: list[int] = (),
    scale_jitter_type: int = 0,
    color_jitter: bool = False,
    img_saturation: float = 0.4,
    img_brightness: float = 0.4,
    img_contrast: float = 0.4,
    color_lighting: bool = False,
    color_lighting_std: float = 0.1,
    bounding_ymin: int = -1,
    bounding_xmin: int = -1,
    bounding_height: int = -1,
    bounding_width: int = -1,
    use_gpu_transform: bool = False,
    use_caffe_datum: bool = False,
    decode_threads: int = 4,
    output_type: str = "float",
):
    """The next `batch_size` records, decoded, transformed and stacked.

    reader, without which `db` is opened -> data [N, crop, crop, channels] float32 or float16 (with use_gpu_transform
    NCHW), label [N] or [N, num_labels] int32 or float32, further tensors [N, ...]. ValueError where an argument is out
    of range, or a record holds no image, other labels or other tensors; TypeError where the input is no reader;
    RuntimeError where Pillow is not installed.
    """
    if output_type not in ("float", "float16"):
        raise ValueError(f"output_type is float or float16, not {output_type!r}")
    if batch_size < 1 or crop < 1:
        raise ValueError(f"batch_size and crop must be positive, got {batch_size} and {crop}")
    if 0 < max(scale, minsize) < crop:
        raise ValueError(f"crop {crop} is larger than what scale or minsize leave of an image, {max(scale, minsize)}")
    if reader is None:
        reader = _own_reader(ctx, db, db_type)
    needed(Reader, reader)
    options = _Options(
        color,
        scale,
        minsize,
        warp,
        crop,
        mirror,
        is_test,
        tuple(random_scale),
        scale_jitter_type == 1,
        (img_saturation, img_brightness, img_contrast) if color_jitter else (0, 0, 0),
        color_lighting_std if color_lighting else 0,
        _three(mean, list(mean_per_channel), color, "mean"),
        _three(std, list(std_per_channel), color, "std"),
    )
    weights = int(label_type == MULTI_WEIGHTED)
    more = len(ctx.outputs) - 2
    if len(output_sizes) not in (0, more):
        raise ValueError(f"output_sizes has {len(output_sizes)} entries, and there are {more} further outputs")
    box = (bounding_ymin, bounding_xmin, bounding_height, bounding_width)
    records = [reader.next_record() for _ in range(batch_size)]
    samples = [_read_datum(r, box) if use_caffe_datum else _read(r, box, weights + more) for r in records]
    seeds = [int(s) for s in ctx.xp.asarray(ctx.rng.integers(0, 2**31, batch_size)).tolist()]
    with concurrent.futures.ThreadPoolExecutor(max(1, decode_threads)) as pool:
        images = np.stack(list(pool.map(lambda s, seed: transform(s, options, seed), samples, seeds)))
    if use_gpu_transform:
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    if output_type == "float16":
        images = images.astype(np.float16)
    results = [images, _labels(samples, label_type, num_labels)]
    for k in range(more):
        rows = [_numbers(s.rest[1 + weights + k], s) for s in samples]
        wanted = output_sizes[k] if output_sizes else 1
        odd = next((r.size for r in rows if r.size != wanted), None)
        if odd is not None:
            raise ValueError(f"output {2 + k} has {wanted} values a record by output_sizes; one record has {odd}")
        results.append(np.stack(rows) if wanted > 1 else np.concatenate(rows))
    return tuple(ctx.xp.asarray(r) for r in results)


def _own_reader(ctx: Any, db: str, db_type: str) -> Any:
    from caffe2lite.ops.data.databases import DBReader

    if not hasattr(ctx.state, "reader"):
        if not db:
            raise ValueError("a reader as input, or the argument db, is needed")
        ctx.state.reader = DBReader(db_type, db)
    return ctx.state.reader
