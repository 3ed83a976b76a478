"""Published models: a folder for each under ~/.caffe2/models (or $CAFFE2_MODELS), fetched when it is not there.

A model is the files predict_net.pb, init_net.pb and value_info.json ({input: [ONNX type, shape]}).  Caffe2's own server
may be gone: files from elsewhere, put into that folder by hand, are found.

    python -m caffe2.python.models.download [-i] [-f] NAME ...

puts the nets of a model into a folder of that name, in the present folder or, with -i, beside this file, where
`from caffe2.python.models import NAME` finds them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import urllib.request

from caffe2lite.proto import caffe2_pb2

DOWNLOAD_BASE_URL = "https://s3.amazonaws.com/download.caffe2.ai/models/"
DOWNLOAD_COLUMNS = 70
_NETS = ("predict_net.pb", "init_net.pb")
_FILES = (*_NETS, "value_info.json")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*(/[A-Za-z0-9][A-Za-z0-9_.\-]*)*")


def validModelName(name):
    """Return whether a name is one of letters, digits, '_', '.', '-' and '/', without '..'."""
    return bool(_NAME.fullmatch(name)) and ".." not in name and name != "__init__"


def getURLFromName(name, filename):
    """Return where a file of a model is published."""
    return f"{DOWNLOAD_BASE_URL}{name}/{filename}"


def progressBar(percentage):
    """Draw how much of a file has come."""
    done = int(DOWNLOAD_COLUMNS * percentage / 100)
    print(f"\r\t[{'=' * done}{' ' * (DOWNLOAD_COLUMNS - done)}] {percentage}%", end="", flush=True)


def downloadFromURLToFile(url, filename, show_progress=True):
    """Fetch a file; it is complete or not there. ConnectionError says what went wrong."""
    folder = os.path.dirname(os.path.abspath(filename))
    beside, path = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with os.fdopen(beside, "wb") as out, urllib.request.urlopen(url, timeout=30) as response:
            size = int(response.headers.get("Content-Length") or 0)
            while piece := response.read(1 << 16):
                out.write(piece)
                if show_progress and size:
                    progressBar(min(100, out.tell() * 100 // size))
        os.replace(path, filename)
    except OSError as e:
        raise ConnectionError(f"could not download {url}: {getattr(e, 'reason', e)}") from None
    finally:
        if os.path.exists(path):
            os.unlink(path)


def deleteDirectory(top_dir):
    """Delete a folder with what is in it."""
    shutil.rmtree(top_dir)


def downloadModel(model, args):
    """Fetch the nets of a model into a folder of its name; with `args.install` it is a module of caffe2.python.models.

    What is there is replaced if `args.force` or whoever is asked says so; else SystemExit tells that nothing was done.
    """
    here = os.path.dirname(os.path.realpath(__file__))
    folder = os.path.join(here, model) if args.install else model
    if os.path.lexists(folder):
        if not args.force and not _agreed(f"{folder} exists already; replace it? [y/N] "):
            raise SystemExit(f"{model} was not downloaded: {folder} exists already (--force replaces it)")
        if os.path.isdir(folder):
            deleteDirectory(folder)
        else:
            os.unlink(folder)
    os.makedirs(folder)
    try:
        for name in _NETS:
            downloadFromURLToFile(getURLFromName(model, name), os.path.join(folder, name), sys.stdout.isatty())
    except ConnectionError as e:
        deleteDirectory(folder)
        raise SystemExit(f"{model} was not downloaded: {e}") from None
    if args.install:
        os.symlink(os.path.join(here, "__sym_init__.py"), os.path.join(folder, "__init__.py"))


def _agreed(question):
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


class ModelDownloader:
    """Models by name."""

    def __init__(self, model_env_name="CAFFE2_MODELS"):
        self.model_env_name = model_env_name

    def _model_dir(self, model):
        models = os.environ.get(self.model_env_name) or os.path.join(os.path.expanduser("~"), ".caffe2", "models")
        return os.path.join(models, model)

    def _download(self, model):
        if not validModelName(model):
            raise ValueError(f"{model!r} is no name of a model")
        folder = self._model_dir(model)
        os.makedirs(folder, exist_ok=True)
        try:
            for name in _FILES:
                if not os.path.exists(os.path.join(folder, name)):
                    downloadFromURLToFile(getURLFromName(model, name), os.path.join(folder, name), sys.stdout.isatty())
        except ConnectionError as e:
            raise ConnectionError(f"{e}\nIf you have the files {', '.join(_FILES)}, put them into {folder}") from None

    def get_c2_model_dbg(self, model_name):
        """Return (init net, predict net, value info, what was read from where) of a model, fetched where it is not here."""
        folder = self._model_dir(model_name)
        if not all(os.path.exists(os.path.join(folder, name)) for name in _FILES):
            self._download(model_name)
        predict_net, init_net = caffe2_pb2.NetDef(), caffe2_pb2.NetDef()
        for net, name in ((predict_net, _FILES[0]), (init_net, _FILES[1])):
            with open(os.path.join(folder, name), "rb") as f:
                net.ParseFromString(f.read())
        with open(os.path.join(folder, _FILES[2])) as f:
            value_info = json.load(f)
        for net, suffix in ((predict_net, "predict"), (init_net, "init")):
            net.name = net.name or f"{model_name}_{suffix}"
        return init_net, predict_net, value_info, f"read from {folder}"

    def get_c2_model(self, model_name):
        """Return (init net, predict net, value info) of a model."""
        return self.get_c2_model_dbg(model_name)[:3]


def main():
    """Download the models that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m caffe2.python.models.download", description="Download or install pretrained models."
    )
    parser.add_argument("model", nargs="+", help="the model's name, such as squeezenet")
    parser.add_argument(
        "-i", "--install", action="store_true", help="make it a module: from caffe2.python.models import NAME"
    )
    parser.add_argument("-f", "--force", action="store_true", help="replace what is there, without a question")
    args = parser.parse_args()
    for model in args.model:
        if not validModelName(model):
            raise SystemExit(f"{model!r} is not a valid model name")
        downloadModel(model, args)


if __name__ == "__main__":
    main()
