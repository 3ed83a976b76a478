"""CUDA kernels that pool regions: one thread for each value that comes out, in the place of many launches a region."""

from __future__ import annotations

from caffe2lite.ops.kit.cuda_kernels import Kernel

_PLACE = """
    int64 column = i % pooled_w, line = i / pooled_w % pooled_h, channel = i / pooled_w / pooled_h % channels;
    const T* box = rois + i / pooled_w / pooled_h / channels * columns;
    int64 image = columns == 5 ? (int64)*box++ : 0;
    int64 plane = (image * channels + channel) * height * width;
"""
_SIZES = "int64 columns, int64 channels, int64 height, int64 width, int64 pooled_h, int64 pooled_w, double scale"

ROI_POOL = Kernel(
    "roi_pool",
    f"T* y, int* argmaxes, const T* x, const T* rois, {_SIZES}",
    _PLACE
    + """
    int64 x1 = floor(box[0] * scale + 0.5), y1 = floor(box[1] * scale + 0.5);
    int64 w = max((int64)floor(box[2] * scale + 0.5) - x1 + 1, (int64)1);
    int64 h = max((int64)floor(box[3] * scale + 0.5) - y1 + 1, (int64)1);
    double across = (double)w / pooled_w, down = (double)h / pooled_h;
    int64 left = min(max((int64)floor(column * across) + x1, (int64)0), width);
    int64 right = min(max((int64)ceil((column + 1) * across) + x1, (int64)0), width);
    int64 top = min(max((int64)floor(line * down) + y1, (int64)0), height);
    int64 bottom = min(max((int64)ceil((line + 1) * down) + y1, (int64)0), height);
    int64 most = -1;
    for (int64 r = top; r < bottom; ++r)
      for (int64 c = left; c < right; ++c)
        if (most < 0 || x[plane + r * width + c] > x[plane + most]) most = r * width + c;
    y[i] = most < 0 ? (T)0 : x[plane + most];
    if (argmaxes) argmaxes[i] = (int)most;
    """,
)

ROI_POOL_GRADIENT = Kernel(
    "roi_pool_gradient",
    f"T* dx, const T* dy, const int* argmaxes, const T* rois, {_SIZES}",
    _PLACE
    + """
    if (argmaxes[i] >= 0) atomicAdd(dx + plane + argmaxes[i], dy[i]);
    """,
)

_SAMPLE = """
struct Sample { int64 low, high; double share, weight; };

/* The pixels on both sides of a place, and how much of the second there is in it. */
__device__ Sample sample(double at, int64 size) {
  Sample s;
  s.weight = at < -1.0 || at > size ? 0.0 : 1.0;
  at = at < 0 ? 0 : at;
  s.low = at < size - 1 ? (int64)at : size - 1;
  if (s.low >= size - 1) at = size - 1;
  s.high = s.low + 1 < size ? s.low + 1 : size - 1;
  s.share = at - s.low;
  return s;
}
"""
_ALIGN = (
    _PLACE
    + """
    double shift = aligned ? 0.5 : 0.0;
    double x1 = box[0] * scale - shift, y1 = box[1] * scale - shift;
    double w = box[2] * scale - shift - x1, h = box[3] * scale - shift - y1;
    if (!aligned) { w = w < 1 ? 1 : w; h = h < 1 ? 1 : h; }
    double across = w / pooled_w, down = h / pooled_h;
    int64 grid_w = samples > 0 ? samples : (int64)ceil(across), grid_h = samples > 0 ? samples : (int64)ceil(down);
    BEGIN
    for (int64 a = 0; a < grid_h; ++a) {
      Sample v = sample(y1 + (line + (a + 0.5) / grid_h) * down, height);
      for (int64 b = 0; b < grid_w; ++b) {
        Sample u = sample(x1 + (column + (b + 0.5) / grid_w) * across, width);
        double weight = u.weight * v.weight / grid_h / grid_w;
        EACH
      }
    }
    """
)

ROI_ALIGN = Kernel(
    "roi_align",
    f"T* y, const T* x, const T* rois, {_SIZES}, int64 samples, bool aligned",
    _ALIGN.replace("BEGIN", "const T* p = x + plane;\n    double total = 0;").replace(
        "EACH",
        """total += weight * ((1 - v.share) * ((1 - u.share) * p[v.low * width + u.low] + u.share * p[v.low * width + u.high])
          + v.share * ((1 - u.share) * p[v.high * width + u.low] + u.share * p[v.high * width + u.high]));""",
    )
    + "y[i] = (T)total;",
    before=_SAMPLE,
)

ROI_ALIGN_GRADIENT = Kernel(
    "roi_align_gradient",
    f"T* dx, const T* dy, const T* rois, {_SIZES}, int64 samples, bool aligned",
    _ALIGN.replace("BEGIN", "T* p = dx + plane;").replace(
        "EACH",
        """double g = weight * dy[i];
        atomicAdd(p + v.low * width + u.low, (T)(g * (1 - v.share) * (1 - u.share)));
        atomicAdd(p + v.low * width + u.high, (T)(g * (1 - v.share) * u.share));
        atomicAdd(p + v.high * width + u.low, (T)(g * v.share * (1 - u.share)));
        atomicAdd(p + v.high * width + u.high, (T)(g * v.share * u.share));""",
    ),
    before=_SAMPLE,
)
