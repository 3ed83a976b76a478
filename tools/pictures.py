"""Pictures of drawn nets for the docs, as a browser shows them.

python tools/pictures.py            # docs/images/draw*.png; needs Chromium
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

from caffe2.python import data_parallel_model, model_helper, optimizer, workspace
from caffe2.python.models import resnet

from caffe2lite import draw
from caffe2lite.devices import emulated
from caffe2lite.ops.kit.infer import Spec

IMAGES = pathlib.Path(__file__).resolve().parent.parent / "docs" / "images"
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--virtual-time-budget=3000"),
]


def forward(model, scale):
    """A ResNet of 20 layers, for images of 32 x 32."""
    resnet.create_resnet_32x32(model, "data", 3, num_groups=3, num_labels=10)
    _, loss = model.net.SoftmaxWithLoss(["last_out", "label"], ["probabilities", "loss"])
    return [model.net.Scale(loss, scale=scale)]


def nets():
    """A training net on four GPUs, and the net that synchronizes them after a checkpoint."""
    emulated.use(4)
    model = model_helper.ModelHelper("resnet20", arg_scope={"order": "NCHW", "use_cudnn": False})
    data_parallel_model.Parallelize_GPU(
        model,
        input_builder_fun=lambda m: None,
        forward_pass_builder_fun=forward,
        optimizer_builder_fun=lambda m: optimizer.build_sgd(m, 0.1, momentum=0.9),
        devices=range(4),
    )
    workspace.RunNetOnce(model.param_init_net)
    data_parallel_model.FinalizeAfterCheckpoint(model)
    shapes = {}
    for blob in workspace.Blobs():
        value = workspace.FetchBlob(blob)
        if hasattr(value, "dtype"):
            shapes[blob] = Spec(value.shape, value.dtype.name)
    shapes |= {f"gpu_{i}/{name}": spec for i in range(4) for name, spec in DATA.items()}
    return model.net.Proto(), model._checkpoint_net.Proto(), shapes


DATA = {"data": Spec((32, 3, 32, 32), "float32"), "label": Spec((32,), "int32")}


def shoot(browser, page, name, part="", dark=False):
    """What the browser shows of a page; `part` is its address's fragment."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "net.html"
        path.write_text(page, encoding="utf-8")
        size = ["--window-size=1500,900", f"--user-data-dir={folder}/profile", f"--screenshot={IMAGES / name}"]
        more = ["--force-dark-mode"] if dark else []
        subprocess.run([browser, *FLAGS, *size, *more, path.as_uri() + part], check=True, capture_output=True)


def main():
    """Write the pictures."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("Chromium is not installed")
    IMAGES.mkdir(parents=True, exist_ok=True)
    train, sync, shapes = nets()
    page = draw.to_html([train], "resnet20.pb", shapes)
    chosen = next(i for i, op in enumerate(train.op) if "gpu_0/comp_7_conv_2_w_grad" in op.output)
    shoot(browser, page, "draw.png", f"#n{chosen}")
    shoot(browser, page, "draw-all.png", "#whole", dark=True)
    shoot(browser, draw.to_html([sync], "checkpoint_sync_net.pb", shapes), "draw-sync.png")


if __name__ == "__main__":
    main()
