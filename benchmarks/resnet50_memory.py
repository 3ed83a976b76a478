"""Peak memory and time of one ResNet-50 training step on the CPU: run it on any `caffe2`, ours or the genuine one.

python benchmarks/resnet50_memory.py [batch]
"""

import resource
import sys
import time

import numpy as np
from caffe2.python import model_helper, optimizer, workspace
from caffe2.python.models import resnet

batch = int(sys.argv[1]) if len(sys.argv) > 1 else 8
model = model_helper.ModelHelper(name="memory", arg_scope={"order": "NCHW"})
_, loss = resnet.create_resnet50(model, "data", num_input_channels=3, num_labels=1000, label="label", no_bias=True)
model.AddGradientOperators([loss])
optimizer.build_sgd(model, 0.01, momentum=0.9)
workspace.RunNetOnce(model.param_init_net)
workspace.FeedBlob("data", np.random.RandomState(0).rand(batch, 3, 224, 224).astype("f"))
workspace.FeedBlob("label", np.zeros(batch, "i"))
workspace.CreateNet(model.net)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
seconds = []
for _ in range(3):
    start = time.perf_counter()
    workspace.RunNet(model.net.Proto().name)
    seconds.append(time.perf_counter() - start)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(f"peak {peak / 1024:.0f} MiB ({before / 1024:.0f} before the first step), best step {min(seconds):.2f} s")
