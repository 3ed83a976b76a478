"""Run Caffe2's own Python files, untouched, on our engine: `genuine_frontend.py FOLDER`, the caffe2 folder of its wheel.

What newer NumPy and Python dropped is put back for them; `caffe2.proto` and `_import_c_extension` are ours.
"""

import sys

import numpy as np

from caffe2lite.conformance import genuine
from caffe2lite.port import legacy

GENUINE = sys.argv[1]
legacy.put_back()
genuine.install(GENUINE)

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, data_parallel_model, model_helper, optimizer, workspace

assert all(m.__file__.startswith(GENUINE) for m in (core, workspace, data_parallel_model))


def forward(model, scale):
    h = brew.relu(model, brew.fc(model, "data", "fc1", 8, 16), "h")
    _, loss = model.net.SoftmaxWithLoss([brew.fc(model, h, "fc2", 16, 5), "label"], ["softmax", "loss"])
    return [model.net.Scale(loss, scale=scale)]


model = model_helper.ModelHelper(name="genuine")
data_parallel_model.Parallelize(
    model,
    input_builder_fun=lambda m: None,
    forward_pass_builder_fun=forward,
    optimizer_builder_fun=lambda m: optimizer.build_sgd(m, 0.1, momentum=0.9),
    devices=[0, 1],
    cpu_device=True,
    optimize_gradient_memory=False,
)
workspace.RunNetOnce(model.param_init_net)
rng = np.random.RandomState(0)
for d in range(2):
    workspace.FeedBlob(f"cpu_{d}/data", rng.rand(16, 8).astype("f"), core.DeviceOption(caffe2_pb2.CPU))
    workspace.FeedBlob(f"cpu_{d}/label", rng.randint(0, 5, 16).astype("i"))
workspace.CreateNet(model.net)
losses = []
for _ in range(30):
    workspace.RunNet(model.net.Proto().name)
    losses.append(float(workspace.FetchBlob("cpu_0/loss")))
assert losses[-1] < losses[0], losses
for name in ("fc1_w", "fc1_b", "fc2_w", "fc2_b"):
    workspace.FeedBlob(f"cpu_0/{name}", rng.rand(*workspace.FetchBlob(f"cpu_0/{name}").shape).astype("f"))
data_parallel_model.FinalizeAfterCheckpoint(model, cpu_mode=True)
for name in ("fc1_w", "fc1_b", "fc2_w", "fc2_b"):
    np.testing.assert_array_equal(workspace.FetchBlob(f"cpu_1/{name}"), workspace.FetchBlob(f"cpu_0/{name}"))
print("genuine files train and synchronize on caffe2lite")
