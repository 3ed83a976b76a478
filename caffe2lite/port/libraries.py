"""What other libraries no longer have: told by `port`, and put back by `run` where a stand-in means the same.

`BREAKS` is the one table; a row with a cure needs no hand while `caffe2lite run` is at work.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from caffe2lite.port import text


class Break(NamedTuple):
    """What a library dropped or changed: since when, what to write instead, and what takes its place while a script runs."""

    since: str
    instead: str
    cure: Callable[[types.ModuleType], Any] | None = None


# ---- stand-ins ---------------------------------------------------------------------------------------------------


def _with_loader(name: str) -> Callable[[Any], Any]:
    """A function of PyYAML that takes a loader by itself."""

    def of(yaml: Any) -> Any:
        load, loader = getattr(yaml, name), _loader(yaml)
        return lambda stream, *args, **kwargs: load(stream, *args or (kwargs.get("Loader") or loader,))

    return of


_OF_NUMPY = ("_reconstruct", "ndarray", "dtype", "scalar")


def _loader(yaml: Any) -> Any:
    """A loader that makes objects as the old default did, but only arrays and those of the project's own classes."""

    plain = yaml.constructor.FullConstructor

    def allowed(name: str) -> bool:
        module, _, last = name.rpartition(".")
        own = text.MARK in vars(sys.modules.get(module, types))
        return own or (module.split(".")[0] == "numpy" and last in _OF_NUMPY)

    class Loader(yaml.UnsafeLoader):
        def find_python_name(self, name: str, mark: Any, **more: Any) -> Any:
            return plain.find_python_name(self, name, mark, unsafe=allowed(name))

        def find_python_module(self, name: str, mark: Any, **more: Any) -> Any:
            return plain.find_python_module(self, name, mark)

        def make_python_instance(
            self, suffix: str, node: Any, args: Any = None, kwds: Any = None, newobj: bool = False, **more: Any
        ) -> Any:
            if not allowed(suffix):
                raise yaml.constructor.ConstructorError(
                    None, None, f"{suffix} is no class of the project: name a Loader", node.start_mark
                )
            return plain.make_python_instance(self, suffix, node, args, kwds, newobj, unsafe=True)

    return Loader


def _same(name: str) -> Callable[[Any], Any]:
    """A name that another one of the same module has taken the place of."""

    def of(module: Any) -> Any:
        value = module
        for part in name.split("."):
            value = getattr(value, part)
        return value

    return of


def _elsewhere(name: str) -> Callable[[Any], Any]:
    """A name that is in another module now."""

    def of(module: Any) -> Any:
        place, _, last = name.rpartition(".")
        return getattr(importlib.import_module(place), last)

    return of


def _image() -> Any:
    return importlib.import_module("PIL.Image")


def _to_image(array: Any, **ranges: Any) -> Any:
    """An image of an array; what is not of bytes is scaled so that its least and most are 0 and 255."""
    values = np.asarray(array)
    if values.ndim == 3 and values.shape[0] in (3, 4) and values.shape[2] not in (3, 4):
        values = values.transpose(1, 2, 0)
    if values.dtype != np.uint8:
        low = ranges.get("cmin")
        high = ranges.get("cmax")
        low = values.min() if low is None else low
        high = values.max() if high is None else high
        scale = 255.0 / (high - low if high != low else 1)
        values = ((values - low) * scale).clip(0, 255).round().astype(np.uint8)
    return _image().fromarray(values)


def _imread(name: Any, flatten: bool = False, mode: str | None = None) -> Any:
    image = _image().open(name)
    if mode:
        image = image.convert(mode)
    elif image.mode in ("P", "1", "CMYK"):
        image = image.convert("RGB" if image.mode != "1" else "L")
    return np.asarray(image.convert("F") if flatten else image)


def _imsave(name: Any, arr: Any, format: str | None = None) -> None:
    _to_image(arr).save(name, format=format)


def _imresize(arr: Any, size: Any, interp: str = "bilinear", mode: str | None = None) -> Any:
    image = _to_image(arr)
    if isinstance(size, (int, np.integer)):
        shape = tuple(int(n * size / 100) for n in image.size)
    elif isinstance(size, (float, np.floating)):
        shape = tuple(int(n * size) for n in image.size)
    else:
        shape = (int(size[1]), int(size[0]))
    kinds = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "cubic": 3}
    return np.asarray(image.resize(shape, kinds[interp]))


def _imrotate(arr: Any, angle: float, interp: str = "bilinear") -> Any:
    return np.asarray(_to_image(arr).rotate(angle, {"nearest": 0, "bilinear": 2, "bicubic": 3, "cubic": 3}[interp]))


def _function(made: Any) -> Callable[[Any], Any]:
    return lambda module: made


def _fromstring(numpy: Any) -> Any:
    original = numpy.fromstring

    def fromstring(string: Any, dtype: Any = float, count: int = -1, *, sep: str = "", **more: Any) -> Any:
        if sep:
            return original(string, dtype=dtype, count=count, sep=sep, **more)
        data = string.encode("utf-8", "surrogateescape") if isinstance(string, str) else string
        return np.frombuffer(data, dtype, count).copy()

    return fromstring


def _set_printoptions(numpy: Any) -> Any:
    original = numpy.set_printoptions

    def set_printoptions(precision: Any = None, threshold: Any = None, **more: Any) -> None:
        if isinstance(threshold, float):
            threshold = sys.maxsize if not np.isfinite(threshold) else int(threshold)
        original(precision=precision, threshold=threshold, **more)

    return set_printoptions


def _histogram(numpy: Any) -> Any:
    original = numpy.histogram

    def histogram(
        a: Any, bins: Any = 10, range: Any = None, normed: Any = None, weights: Any = None, density: Any = None
    ) -> Any:
        return original(a, bins, range, density=density if normed is None else normed, weights=weights)

    return histogram


def _use(matplotlib: Any) -> Any:
    original = matplotlib.use
    return lambda backend, warn=False, force=True: original(backend, force=force)


def _textsize(module: Any) -> Any:
    def textsize(self: Any, text: str, font: Any = None, **more: Any) -> tuple[int, int]:
        box = self.textbbox((0, 0), text, font=font)
        return int(box[2]), int(box[3])

    return textsize


def _getsize(module: Any) -> Any:
    def getsize(self: Any, text: str, **more: Any) -> tuple[int, int]:
        return tuple(self.getbbox(text)[2:])

    return getsize


def _dataset_value(h5py: Any) -> Any:
    return property(lambda dataset: dataset[()])


def _h5py_file(h5py: Any) -> Any:
    class File(h5py.File):
        """A file that is opened as h5py did before 3.0: to be read and written, and made where it is not there."""

        def __init__(self, name: Any, mode: Any = None, **more: Any) -> None:
            if mode is None:
                try:
                    super().__init__(name, "r+", **more)
                    return
                except OSError:
                    mode = "a"
            try:
                super().__init__(name, mode, **more)
            except OSError:
                super().__init__(name, "r", **more)

    return File


def _tostring_rgb(module: Any) -> Any:
    def tostring_rgb(self: Any) -> bytes:
        return np.asarray(self.buffer_rgba())[..., :3].tobytes()

    return tostring_rgb


def _get_cmap(module: Any) -> Any:
    def get_cmap(name: Any = None, lut: int | None = None) -> Any:
        import matplotlib

        found = matplotlib.colormaps[name] if isinstance(name, str) else name or matplotlib.colormaps["viridis"]
        return found if lut is None else found.resampled(lut)

    return get_cmap


def _nothing(module: Any) -> Any:
    return lambda *args, **kwargs: None


def _legacy_cv(cv2: Any) -> Any:
    """`cv2.cv`, whose names began with CV_."""

    class Names(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            for short in (name.removeprefix("CV_"), name.removeprefix("CV_LOAD_IMAGE_"), name):
                if hasattr(cv2, short):
                    return getattr(cv2, short)
            raise AttributeError(f"cv2.cv has no {name} here, and cv2 neither")

    return Names("cv2.cv")


# ---- the table ---------------------------------------------------------------------------------------------------

_IMAGES = "imageio or PIL.Image"
BREAKS: dict[str, Break] = {
    # a call of it that works no more; `CALLS` says which
    "yaml.load": Break("PyYAML 6", "yaml.safe_load(f), or yaml.load(f, Loader=yaml.FullLoader)", _with_loader("load")),
    "yaml.load_all": Break("PyYAML 6", "yaml.safe_load_all(f)", _with_loader("load_all")),
    "numpy.fromstring": Break("NumPy 2.3", "np.frombuffer(data, dtype)", _fromstring),
    "numpy.set_printoptions": Break("NumPy 1.14", "threshold=sys.maxsize", _set_printoptions),
    "numpy.histogram": Break("NumPy 1.24", "density=", _histogram),
    "matplotlib.use": Break("matplotlib 3.3", "matplotlib.use(backend, force=…)", _use),
    "h5py.File": Break("h5py 3", "h5py.File(name, 'a'), or 'r'", _h5py_file),
    # names
    "scipy.misc.imread": Break("SciPy 1.2", f"{_IMAGES}: np.asarray(Image.open(name))", _function(_imread)),
    "scipy.misc.imsave": Break("SciPy 1.2", f"{_IMAGES}: Image.fromarray(a).save(name)", _function(_imsave)),
    "scipy.misc.imresize": Break("SciPy 1.3", "PIL.Image's resize, or skimage.transform.resize", _function(_imresize)),
    "scipy.misc.imrotate": Break("SciPy 1.3", "PIL.Image's rotate", _function(_imrotate)),
    "scipy.misc.toimage": Break("SciPy 1.3", "PIL.Image.fromarray", _function(_to_image)),
    "scipy.misc.fromimage": Break("SciPy 1.3", "np.asarray(image)", _function(np.asarray)),
    "scipy.misc.imshow": Break("SciPy 1.3", "matplotlib.pyplot.imshow"),
    "scipy.misc.imfilter": Break("SciPy 1.3", "PIL.ImageFilter"),
    "scipy.misc.bytescale": Break("SciPy 1.3", "skimage.util.img_as_ubyte"),
    "scipy.misc.lena": Break("SciPy 0.17", "scipy.datasets.face"),
    "scipy.misc.face": Break("SciPy 1.12", "scipy.datasets.face"),
    "scipy.misc.ascent": Break("SciPy 1.12", "scipy.datasets.ascent"),
    "scipy.misc.logsumexp": Break("SciPy 1.3", "scipy.special.logsumexp", _elsewhere("scipy.special.logsumexp")),
    "scipy.misc.comb": Break("SciPy 1.3", "scipy.special.comb", _elsewhere("scipy.special.comb")),
    "scipy.misc.factorial": Break("SciPy 1.3", "scipy.special.factorial", _elsewhere("scipy.special.factorial")),
    "scipy.ndimage.imread": Break("SciPy 1.2", _IMAGES, _function(_imread)),
    "scipy.signal.gaussian": Break("SciPy 1.13", "scipy.signal.windows.gaussian", _same("windows.gaussian")),
    "scipy.signal.hann": Break("SciPy 1.13", "scipy.signal.windows.hann", _same("windows.hann")),
    "scipy.signal.hamming": Break("SciPy 1.13", "scipy.signal.windows.hamming", _same("windows.hamming")),
    "scipy.integrate.simps": Break("SciPy 1.14", "scipy.integrate.simpson", _same("simpson")),
    "scipy.integrate.trapz": Break("SciPy 1.14", "scipy.integrate.trapezoid", _same("trapezoid")),
    "scipy.integrate.cumtrapz": Break("SciPy 1.14", "scipy.integrate.cumulative_trapezoid", _same("cumulative_trapezoid")),
    "scipy.interpolate.interp2d": Break("SciPy 1.14", "scipy.interpolate.RectBivariateSpline"),
    **{
        f"scipy.{name}": Break("SciPy 1.12", f"np.{name}", _function(getattr(np, name)))
        for name in ("array", "zeros", "ones", "arange", "linspace", "exp", "log", "sqrt", "pi", "mean", "sin", "cos", "dot", "argmax")
    },
    "PIL.Image.ANTIALIAS": Break("Pillow 10", "Image.LANCZOS", _same("LANCZOS")),
    "PIL.Image.LINEAR": Break("Pillow 10", "Image.BILINEAR", _same("BILINEAR")),
    "PIL.Image.CUBIC": Break("Pillow 10", "Image.BICUBIC", _same("BICUBIC")),
    "PIL.ImageDraw.ImageDraw.textsize": Break("Pillow 10", "draw.textbbox((0, 0), text)", _textsize),
    "PIL.ImageFont.FreeTypeFont.getsize": Break("Pillow 10", "font.getbbox(text)[2:]", _getsize),
    "PIL.ImageFont.ImageFont.getsize": Break("Pillow 10", "font.getbbox(text)[2:]", _getsize),
    "h5py.Dataset.value": Break("h5py 3", "dataset[()]", _dataset_value),
    "cv2.cv": Break("OpenCV 3", "cv2's own names, without CV_", _legacy_cv),
    "cv2.CV_AA": Break("OpenCV 3", "cv2.LINE_AA", _same("LINE_AA")),
    "cv2.CV_LOAD_IMAGE_COLOR": Break("OpenCV 3", "cv2.IMREAD_COLOR", _same("IMREAD_COLOR")),
    "cv2.CV_LOAD_IMAGE_GRAYSCALE": Break("OpenCV 3", "cv2.IMREAD_GRAYSCALE", _same("IMREAD_GRAYSCALE")),
    "cv2.CV_LOAD_IMAGE_UNCHANGED": Break("OpenCV 3", "cv2.IMREAD_UNCHANGED", _same("IMREAD_UNCHANGED")),
    "cv2.SIFT": Break("OpenCV 3", "cv2.SIFT_create", _same("SIFT_create")),
    "cv2.createOptFlow_DualTVL1": Break("OpenCV 4", "cv2.optflow.DualTVL1OpticalFlow_create (opencv-contrib-python)"),
    "matplotlib.cm.get_cmap": Break("matplotlib 3.9", "matplotlib.colormaps[name]", _get_cmap),
    "matplotlib.pyplot.hold": Break("matplotlib 3.0", "nothing: plots are always added", _nothing),
    "matplotlib.axes.Axes.hold": Break("matplotlib 3.0", "nothing: plots are always added", _nothing),
    "matplotlib.mlab.normpdf": Break("matplotlib 3.1", "scipy.stats.norm.pdf"),
    "matplotlib.finance": Break("matplotlib 2.2", "the package mplfinance"),
    "matplotlib.backends.backend_agg.FigureCanvasAgg.tostring_rgb": Break("matplotlib 3.10", "canvas.buffer_rgba()", _tostring_rgb),
    "sklearn.cross_validation": Break("scikit-learn 0.20", "sklearn.model_selection"),
    "sklearn.grid_search": Break("scikit-learn 0.20", "sklearn.model_selection"),
    "sklearn.externals.joblib": Break("scikit-learn 0.23", "the package joblib"),
    "sklearn.externals.six": Break("scikit-learn 0.23", "the package six"),
    "sklearn.utils.linear_assignment_": Break("scikit-learn 0.23", "scipy.optimize.linear_sum_assignment"),
    "skimage.measure.compare_ssim": Break("scikit-image 0.18", "skimage.metrics.structural_similarity"),
    "skimage.measure.compare_psnr": Break("scikit-image 0.18", "skimage.metrics.peak_signal_noise_ratio"),
    "skimage.draw.circle": Break("scikit-image 0.19", "skimage.draw.disk"),
    "skimage.filter": Break("scikit-image 0.11", "skimage.filters"),
    "pandas.Panel": Break("pandas 1.0", "a MultiIndex, or xarray"),
    "pandas.rolling_mean": Break("pandas 0.23", "values.rolling(n).mean()"),
    "google.protobuf.message_factory.MessageFactory.GetPrototype": Break("protobuf 5", "message_factory.GetMessageClass"),
    "google.protobuf.service": Break("protobuf 7", "gRPC"),
    "IPython.html": Break("IPython 7", "the packages notebook and ipywidgets"),
    "IPython.kernel": Break("IPython 7", "the packages ipykernel and jupyter_client"),
}  # fmt: skip

# Modules that the names above were in, where the library has them no more.
_LOST = ("scipy.misc",)

# For names whose calls break only in a certain way: whether a call does, by (number of arguments, names of keywords).
CALLS: dict[str, Callable[[int, set[str]], bool]] = {
    "yaml.load": lambda count, names: count < 2 and "Loader" not in names,
    "yaml.load_all": lambda count, names: count < 2 and "Loader" not in names,
    "numpy.fromstring": lambda count, names: count < 4 and "sep" not in names,
    "numpy.set_printoptions": lambda count, names: False,
    "numpy.histogram": lambda count, names: "normed" in names,
    "matplotlib.use": lambda count, names: "warn" in names,
    "h5py.File": lambda count, names: count < 2 and "mode" not in names,
}

# Attributes of objects, told where a script imports the library.
ATTRIBUTES: dict[str, tuple[str, str, str]] = {
    "textsize": ("PIL", "Pillow 10", "draw.textbbox((0, 0), text)"),
    "tostring_rgb": ("matplotlib", "matplotlib 3.10", "canvas.buffer_rgba()"),
    "as_matrix": ("pandas", "pandas 1.0", "to_numpy()"),
    "ix": ("pandas", "pandas 1.0", "loc or iloc"),
    "get_value": ("pandas", "pandas 1.0", "at[…]"),
    "set_value": ("pandas", "pandas 1.0", "at[…] = …"),
}
# Keyword arguments of methods, told where a script imports the library.
KEYWORDS: dict[tuple[str, str], tuple[str, str, str]] = {
    ("hist", "normed"): ("matplotlib", "matplotlib 3.1", "density="),
    ("gca", "projection"): ("matplotlib", "matplotlib 3.6", "fig.add_subplot(projection=…)"),
    ("subplot", "axisbg"): ("matplotlib", "matplotlib 2.2", "facecolor="),
    ("add_subplot", "axisbg"): ("matplotlib", "matplotlib 2.2", "facecolor="),
}  # fmt: skip


# ---- cures -------------------------------------------------------------------------------------------------------


class Cures(importlib.abc.MetaPathFinder):
    """The first finder: where a library of the table is imported, its cures are put into it."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []
        self._busy: set[str] = set()
        self._modules: dict[str, list[tuple[list[str], str, Break]]] = {}
        for name, row in BREAKS.items():
            if row.cure is not None:
                place, inner, last = _split(name)
                self._modules.setdefault(place, []).append((inner, last, row))
        for name in self._modules.keys() & sys.modules.keys():
            self.put(sys.modules[name])

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Find what others find, and mend it as soon as it is loaded."""
        if fullname not in self._modules or fullname in self._busy:
            return None
        self._busy.add(fullname)
        try:
            spec = next(
                (s for f in sys.meta_path if f is not self and (s := f.find_spec(fullname, path, target))), None
            )
        finally:
            self._busy.discard(fullname)
        if spec is None and fullname in _LOST:
            return importlib.machinery.ModuleSpec(fullname, _Made(self))
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Mended(spec.loader, self)
        return spec

    def put(self, module: types.ModuleType) -> None:
        """Put the cures into a module."""
        for inner, last, row in self._modules[module.__name__]:
            owner: Any = module
            for part in inner:
                owner = getattr(owner, part, None)
            if owner is None or row.cure is None:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some libraries warn of names that they still have
                there = vars(owner).get(last, _MISSING)
                if there is not _MISSING and f"{module.__name__}.{last}" not in CALLS:
                    continue
                if there is _MISSING and not inner and getattr(owner, last, None) is not None:
                    continue
                try:
                    setattr(owner, last, row.cure(module))
                except (AttributeError, TypeError, ImportError):
                    continue  # not in this version, or not to be changed
            self.undo.append(lambda owner=owner, last=last, there=there: _put_back(owner, last, there))


_MISSING = object()


def _put_back(owner: Any, name: str, value: Any) -> None:
    delattr(owner, name) if value is _MISSING else setattr(owner, name, value)


def _split(name: str) -> tuple[str, list[str], str]:
    """Return (module, classes in it, last name): classes begin with a capital letter, modules do not but for PIL's."""
    parts = name.split(".")
    cut = len(parts) - 1
    while cut > 1 and parts[cut - 1][0].isupper() and parts[0] != "PIL" or (parts[0] == "PIL" and cut > 2):
        cut -= 1
    return ".".join(parts[:cut]), parts[cut:-1], parts[-1]


class _Mended(importlib.abc.Loader):
    """Loads as another loader does, and mends what it has loaded."""

    def __init__(self, loader: Any, cures: Cures) -> None:
        self._loader, self._cures = loader, cures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._loader.exec_module(module)
        module.__loader__ = module.__spec__.loader = self._loader
        self._cures.put(module)


class _Made(importlib.abc.Loader):
    """An empty module, for the cures alone."""

    def __init__(self, cures: Cures) -> None:
        self._cures = cures

    def create_module(self, spec: Any) -> None:
        """The import system makes it."""

    def exec_module(self, module: Any) -> None:
        self._cures.put(module)
