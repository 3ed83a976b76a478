"""Models of brew, ModelHelper and CNNModelHelper, with gradients, memonger, cloning."""

from program_families.base import DEVICES, SCOPES, Code, family, maybe, on, under

INITIALIZERS = [
    Code("('ConstantFill', {'value': 0.25})"),
    Code("('XavierFill', {})"),
    Code("('GaussianFill', {'std': 0.1})"),
]


class Image:
    """A blob while a program is drawn: its name in the program, and its shape."""

    def __init__(self, name, shape):
        self.name, self.shape = name, shape


def brew_layer(rng, blob, i, model="m"):
    """One call of brew and what it makes: (step, Image)."""
    n, *dims = blob.shape
    out = f"h{i}"
    name = repr(rng.choice([f"l{i}", f"l{i}", f"conv{i}/x", "same", f"l {i}"]))

    def call(helper, arguments, shape, inputs=blob.name):
        return f"{out} = brew.{helper}({model}, {inputs}, {name}{arguments})", Image(out, shape)

    common = ["relu", "tanh", "dropout", "softmax", "sum", "concat", "prelu", "layer_norm", "transpose", "operator"]
    if len(dims) == 3:
        c, h, w = dims
        kind = rng.choice(["conv", "conv", "group", "pool", "average", "bn", "gn", "lrn", "instance", "fc", "conv_nd",
                           "up", "moments", *common])  # fmt: skip
    else:
        (c,) = dims
        kind = rng.choice(["fc", "fc", "packed", "decomp", "linear", "matmul", *common])
    init = maybe(rng, 0.3, weight_init=INITIALIZERS, bias_init=INITIALIZERS)
    if kind == "fc":
        o, size = rng.choice([1, 3, 4]), c if len(dims) == 1 else c * h * w
        return call(
            "fc",
            f", {size}, {o}{init}" + maybe(rng, 0.2, axis=[1], axis_w=[1], engine=["X"], freeze_bias=[True]),
            (n, o),
        )
    if kind == "packed":
        return call("packed_fc", f", {c}, 3", (n, 3))
    if kind == "decomp":
        return call("fc_decomp", f", {c}, 3" + maybe(rng, 0.7, rank_approx=[2, 4]), (n, 3))
    if kind == "linear":
        return call("elementwise_linear", f", {c}{init}" + maybe(rng, 0.2, scale_init_value=[0.5]), blob.shape)
    if kind == "matmul":
        return call("mat_mul", maybe(rng, 0.5, trans_b=[1]), (n, n), f"[{blob.name}, {blob.name}]")
    if kind in ("conv", "conv_nd"):
        o, k = rng.choice([2, 4]), rng.choice([1, 3, [3, 1], [1, 3], (3, 3)])
        if kind == "conv_nd" and isinstance(k, int):
            k = [k, k]
        more = maybe(rng, 0.3, no_bias=[0, 1], order=["NCHW", "NHWC"], use_cudnn=[True, False], use_nnpack=[True],
                     use_gpu_engine=[True], float16_compute=[True], cudnn_exhaustive_search=[True],
                     ws_nbytes_limit=[1024])  # fmt: skip
        pads = rng.choice(
            [", pad=1", ", stride=2, pad=1", "", ", pad_t=1, pad_b=1, pad_l=1, pad_r=1", ", dilation=2, pad=2"]
        )
        kh = k if isinstance(k, int) else max(k)
        stride = 2 if "stride" in pads else 1
        pad, d = (2, 2) if "dilation" in pads else (1 if "pad" in pads else 0, 1)
        size = [max(1, (s + 2 * pad - (d * (kh - 1) + 1)) // stride + 1) for s in (h, w)]
        return call(kind, f", {c}, {o}, {k}{init}{pads}{more}", (n, o, *size))
    if kind == "group":
        return call(
            rng.choice(["group_conv", "group_conv_deprecated"]),
            f", {c}, {c * 2}, 3, pad=1, group={c}",
            (n, c * 2, h, w),
        )
    if kind == "up":
        return call(
            "conv_transpose",
            f", {c}, 2, 2, stride=2{init}" + maybe(rng, 0.2, no_bias=[True], adj=[1]),
            (n, 2, 2 * h, 2 * w),
        )
    if kind == "pool":
        helper = rng.choice(["max_pool", "average_pool"])
        return call(
            helper,
            ", kernel=2, stride=2" + maybe(rng, 0.2, legacy_pad=[2], use_cudnn=[True], order=["NCHW"]),
            (n, c, h // 2, w // 2),
        )
    if kind == "average":
        return call("average_pool", ", global_pooling=True", (n, c, 1, 1))
    if kind == "bn":
        return call("spatial_bn", f", {c}" + maybe(rng, 0.4, epsilon=[1e-3], momentum=[0.5], is_test=[True, False], init_scale=[0.5],
                    init_bias=[0.1], order=["NCHW"], ScaleInitializer=[None]), blob.shape)  # fmt: skip
    if kind == "gn":
        return call(
            "spatial_gn",
            f", {c}, group={rng.choice([1, c])}" + maybe(rng, 0.3, epsilon=[1e-2], init_scale=[2.0]),
            blob.shape,
        )
    if kind == "lrn":
        return call(
            "lrn",
            ", size=3, alpha=0.1, beta=0.5" + maybe(rng, 0.3, bias=[2.0], order=["NCHW"], use_cudnn=[True]),
            blob.shape,
        )
    if kind == "instance":
        return call("instance_norm", f", {c}" + maybe(rng, 0.3, epsilon=[1e-2], order=["NCHW"]), blob.shape)
    if kind == "moments":
        return call("moments_with_running_stats", f", {c}" + maybe(rng, 0.5, momentum=[0.5]), blob.shape)
    if kind == "dropout":
        return call(
            "dropout", maybe(rng, 0.5, ratio=[0.0, 0.5]) + f", is_test={rng.choice([True, True, False, 1])}", blob.shape
        )
    if kind in ("relu", "tanh", "softmax"):
        return call(kind, maybe(rng, 0.2, use_cudnn=[True, False], order=["NCHW"]), blob.shape)
    if kind == "prelu":
        return call("prelu", maybe(rng, 0.7, num_channels=[1, c], slope_init=INITIALIZERS), blob.shape)
    if kind == "layer_norm":
        size = c if len(dims) == 1 else c * h * w
        return call(
            "layer_norm",
            f", dim_in={size}" + maybe(rng, 0.4, axis=[1], epsilon=[1e-3], initial_scale=[0.5], initial_bias=[0.5]),
            blob.shape,
        )
    if kind == "sum":
        return call("sum", "", blob.shape, f"[{blob.name}, {blob.name}]")
    if kind == "concat":
        return call(
            "concat",
            maybe(rng, 0.4, axis=[1, -1], order=["NCHW"]),
            (n, 2 * c, *dims[1:]),
            f"[{blob.name}, {blob.name}]",
        )
    if kind == "transpose":
        axes = [0, *range(1, len(dims) + 1)]
        return call("transpose", f", axes={axes}" + maybe(rng, 0.3, use_cudnn=[True]), blob.shape)
    return (
        call("operator", "", blob.shape)
        if rng.random() < 0.1
        else (
            f"{out} = {model}.{rng.choice(['Sigmoid', 'Abs', 'Copy', 'Exp', 'Nothing'])}({blob.name}, {name})",
            Image(out, blob.shape),
        )
    )


def arg_scope(rng, step):
    helpers = rng.choice(["[brew.conv, brew.fc]", "brew.conv", "['conv', 'max_pool']", "[brew.fc]", "brew.spatial_bn"])
    options = maybe(rng, 0.5, order=["NCHW", "NHWC"], use_cudnn=[False], WeightInitializer=[None], is_test=[True],
                    weight_init=[INITIALIZERS[0]], stride=[1])  # fmt: skip
    return f"with brew.arg_scope({helpers}{options}):\n    " + step


def brew_model(rng, steps, model="m", image=None, layers=None, scoped=True):
    """Add layers; return the last blob."""
    blob = image
    for i in range(layers or rng.randint(1, 6)):
        step, blob = brew_layer(rng, blob, i, model)
        if rng.random() < 0.15:
            step = arg_scope(rng, step)
        if scoped and rng.random() < 0.2:
            step = under(rng.choice(SCOPES), step)
        if rng.random() < 0.08:
            step = on(rng.choice(DEVICES), step)
        steps.append(step)
    return blob


def image_of(rng):
    return rng.choice([(2, 2, 6, 6), (2, 3, 5, 4), (2, 4), (3, 3)])


def start(rng, name="m"):
    arguments = maybe(rng, 0.4, name=["train", "m", "a/b"], arg_scope=[{"order": "NCHW"}, {"order": "NHWC", "use_cudnn": False}],
                      init_params=[True, False], allow_not_known_ops=[True], skip_sparse_optim=[True])  # fmt: skip
    return ["from caffe2.python import brew, model_helper", f"{name} = model_helper.ModelHelper({arguments[2:]})"]


def train(rng, blob, model="m"):
    """Steps that add a loss and gradients."""
    loss = f"loss = {model}.AveragedLoss({blob.name}, 'loss')"
    if rng.random() < 0.3:
        loss = f"xent = {model}.SquaredL2Distance([{blob.name}, {blob.name}], 'xent')\nloss = {model}.AveragedLoss(xent, 'loss')"
    losses = rng.choice(["[loss]", "[loss]", "{loss: 1.0}", "[str(loss)]", "['loss']"])
    if losses == "{loss: 1.0}":
        losses = f"{{loss: {model}.net.ConstantFill([loss], 'seed', value=2.0)}}"
    return [under(rng.choice(["", "", *SCOPES]), loss),
            under(rng.choice(["", "", *SCOPES]), f"grads = {model}.AddGradientOperators({losses})"),
            "show(grads)"]  # fmt: skip


FINISH = [
    "init(m.param_init_net)",
    "workspace.CreateNet(m.net)",
    "workspace.RunNet(m.net)",
    "workspace.RunNet(m.net.Name(), 2)",
]


@family
def brew_nets(rng):
    steps = start(rng)
    shape = image_of(rng)
    steps += [f"feed('data', {shape})", "x = core.BlobReference('data')"]
    if rng.random() < 0.3:
        steps.append("x = m.AddExternalInput('data')" if rng.random() < 0.5 else "x = m.net.AddExternalInput('data')")
        blob = brew_model(rng, steps, image=Image("x", shape))
    else:
        blob = brew_model(rng, steps, image=Image("x", shape))
    if rng.random() < 0.6:
        steps += train(rng, blob)
    steps.append(
        "show([str(p) for p in m.params], [str(p) for p in m.GetParams()], sorted(map(str, m.weights)), sorted(map(str, m.biases)), m.param_to_grad)"
    )
    steps.append(
        rng.choice(
            [
                "show(m.GetAllParams(), m.GetComputedParams())",
                "show(m.GetOptimizationParamInfo())",
                "show(m.net.external_inputs, m.net.external_outputs)",
                "show(m.GetParams('s'), m.GetParams('a/b'))",
                "show(m.Validate())",
            ]
        )
    )
    return [*steps, *FINISH]


@family
def two_models(rng):
    steps = start(rng) + start(rng, "k")[1:]
    shape = image_of(rng)
    steps += [f"feed('data', {shape})", "x = core.BlobReference('data')"]
    for model in rng.sample(["m", "k"], 2):
        scope = rng.choice(["", *SCOPES])
        drawn = []
        blob = brew_model(rng, drawn, model, Image("x", shape), rng.randint(1, 3), scoped=False)
        steps += [under(scope, step) for step in drawn]
        if rng.random() < 0.5:
            steps += train(rng, blob, model)
    steps += [
        rng.choice(["", "workspace.SwitchWorkspace('other', True)\nfeed('data', %s)" % (shape,)]),
        "init(m.param_init_net, k.param_init_net)",
        "for n in (m.net, k.net):\n    workspace.CreateNet(n)",
        "for n in (m.net, k.net, m.net):\n    workspace.RunNet(n)",
        "show(workspace.CurrentWorkspace(), workspace.Workspaces())",
    ]
    return [s for s in steps if s]


@family
def cnn_models(rng):
    arguments = maybe(rng, 0.4, order=["NCHW", "NHWC"], name=["cnn"], use_cudnn=[True, False], cudnn_exhaustive_search=[True],
                      ws_nbytes_limit=[100], init_params=[True, False])  # fmt: skip
    steps = [
        "from caffe2.python import cnn",
        f"m = cnn.CNNModelHelper({arguments[2:]})",
        "feed('data', (2, 4, 6, 6))",
        "x = core.BlobReference('data')",
    ]
    blob, c, s = "x", 4, 6
    for i in range(rng.randint(1, 5)):
        kind = rng.choice(["Conv", "GroupConv", "MaxPool", "AveragePool", "SpatialBN", "LRN", "Relu", "Dropout", "Concat", "Sum",
                           "PRelu", "InstanceNorm", "DepthConcat", "Softmax", "ConvTranspose", "Transpose", "PadImage"])  # fmt: skip
        arguments = {"Conv": f"{c}, 3, 3, pad=1" + maybe(rng, 0.3, weight_init=INITIALIZERS, no_bias=[True]),
                     "GroupConv": f"{c}, {c}, 3, pad=1, group={c}", "ConvTranspose": f"{c}, 2, 2, stride=2",
                     "MaxPool": "kernel=2, stride=2", "AveragePool": "kernel=2, stride=1", "SpatialBN": f"{c}" + maybe(rng, 0.5, is_test=[True, False], epsilon=[1e-3], momentum=[0.5]),
                     "LRN": "size=3, alpha=0.1, beta=0.5, bias=1.0", "Dropout": "ratio=0.5, is_test=True", "PRelu": f"{c}",
                     "InstanceNorm": f"{c}", "Transpose": "axes=[0, 1, 2, 3]"}.get(kind, "")  # fmt: skip
        if kind == "Conv":
            c = 3
        if kind == "ConvTranspose":
            c, s = 2, s * 2
        ins = f"[{blob}, {blob}]" if kind in ("Concat", "Sum", "DepthConcat") else blob
        c = c * 2 if kind in ("Concat", "DepthConcat") else c
        steps.append(
            under(rng.choice(["", "", "s"]), f"h{i} = m.{kind}({ins}, 'l{i}'{', ' if arguments else ''}{arguments})")
        )
        blob = f"h{i}"
    steps += [
        rng.choice(
            [
                "m.AddWeightDecay(0.1)",
                "m.Iter('iter')",
                "m.Accuracy([%s, %s], 'acc')" % (blob, blob),
                "show(m.XavierInit, m.ConstantInit(2.0))",
            ]
        )
    ]
    steps += train(rng, Image(blob, ()))
    return [*steps, "show(m.params, m.weights, m.biases)", *FINISH]


@family
def memonger_variants(rng):
    steps = start(rng)[:1] + [
        "from caffe2.python import memonger",
        "m = model_helper.ModelHelper('m')",
        "x = core.BlobReference('in')",
    ]
    scope = rng.choice(["", "", "t", "gpu_0", "a/b"])
    lines, blobs = [], ["x"]
    width = rng.choice([3, 4])
    for i in range(rng.randint(2, 7)):
        blob = rng.choice(blobs[-3:])
        if rng.random() < 0.5:
            lines.append(f"h{i} = brew.fc(m, {blob}, 'l{i}', {width}, {width})")
        elif rng.random() < 0.3 and len(blobs) > 1:
            lines.append(f"h{i} = m.net.{rng.choice(['Sum', 'Add', 'Mul'])}([{blob}, {rng.choice(blobs[1:])}], 's{i}')")
        else:
            kind = rng.choice(["Sigmoid", "Tanh", "Relu", "Sqr"])
            out = "m.net." + kind + f"({blob}, {rng.choice([repr(f'a{i}'), blob if blob != 'x' else repr(f'a{i}')])})"
            lines.append(f"h{i} = {out}")
        blobs.append(f"h{i}")
    lines.append(f"loss = m.net.AveragedLoss(m.net.ReduceBackMean({blobs[-1]}, 'mean'), 'loss')")
    steps += [under(scope, line) for line in lines]
    variant = rng.choice(["grad", "grad", "grad", "dag", "interference", "release", "fast", "memory", "static"])
    if variant in ("grad", "static", "release", "memory"):
        steps.append(under(scope, "g = m.AddGradientOperators([loss])"))
        if rng.random() < 0.3:
            steps.append(under(scope, f"m.net.LpNorm(g[str({rng.choice(blobs[1:])})], 'some_grad_norm')"))
    if variant == "grad":
        options = maybe(rng, 0.4, share_activations=[True, False], dont_share_blobs=[Code("set([b'loss_autogen_grad', b'l1_w_grad'])"), Code("set(['l1_grad'])")],
                        blob_shapes=[Code("shapes")])  # fmt: skip
        heads = rng.choice(["[str(loss)]", "[loss]", "[str(loss)]", "[g[str(loss)]]"])
        steps += [
            f"feed('in', (2, {width}))", "init(m.param_init_net)",
            "shapes, types = workspace.InferShapesAndTypes([m.param_init_net, m.net], {'in': [2, %d]})" % width,
            "shapes = {k.encode(): v for k, v in shapes.items()}",
            f"o = memonger.share_grad_blobs(m.net, {heads}, set(map(str, m.param_to_grad.values())), {scope!r}{options})",
        ]  # fmt: skip
    elif variant == "dag":
        steps += [
            f"m.net.AddExternalOutput({blobs[-1]})",
            f"o = memonger.optimize_inference_for_dag(m.net, ['in'], {scope!r})",
        ]
    elif variant in ("interference", "static"):
        algo = rng.choice(["GREEDY", "DYNAMIC_PROGRAMMING"])
        order = rng.choice(["topological_sort_traversal", "topological_sort_traversal_longest_path"])
        steps += [f"r = memonger.optimize_interference(m.net.Proto(), [str(loss), 'in'] + [str(p) for p in m.params], memonger.{order}, algo=memonger.AssignmentAlgorithm.{algo})",
                  "o = r.net", "show(r.blob_assignments)", "show(memonger.compute_statistics(r.assignments))"]  # fmt: skip
    elif variant == "release":
        steps += [
            f"o = memonger.release_blobs_when_used(m.net.Proto(), set([str(loss)]){rng.choice(['', ', lambda b: not b.endswith(chr(119))'])})"
        ]
    elif variant == "fast":
        steps += ["o = memonger.optimize_inference_fast(m.net.Proto(), ['in', str(loss)] + [str(p) for p in m.params])"]
    else:
        steps += ["shapes, types = workspace.InferShapesAndTypes([m.param_init_net, m.net], {'in': [2, %d]})" % width,
                  "show(memonger.estimate_memory_usage([type(n.Proto()).FromString(n.Proto().SerializeToString()) for n in (m.param_init_net, m.net)], shapes, types, core.DeviceOption(caffe2_pb2.CPU)))",
                  "o = m.net.Proto()"]  # fmt: skip
    steps += ["show(o)", f"feed('in', (2, {width}))", "init(m.param_init_net)", "workspace.RunNetOnce(o)"]
    return steps


@family
def cloning(rng):
    steps = start(rng)
    shape = image_of(rng)
    steps += [f"feed('data', {shape})", "x = core.BlobReference('data')"]
    blob = brew_model(rng, steps, image=Image("x", shape), layers=rng.randint(2, 4))
    if rng.random() < 0.5:
        steps += train(rng, blob)
    for i in range(rng.randint(1, 3)):
        steps.append(rng.choice([
            f"c{i} = m.net.Clone('c{i}', {{'data': 'other', 'l0': 'renamed'}})",
            f"c{i} = m.net.Clone('c{i}', keep_schema=False)",
            f"c{i} = m.net.Clone('m', op_id_mask=[0])",
            f"c{i} = m.net.Clone('c{i}', remap_funcs={{'FC': lambda o, r: None}})",
            f"c{i} = m.net.ClonePartial('p{i}', ['data'], [h0])",
            f"c{i}, names{i} = m.net.ClonePartial('p{i}', {{'data': 'd'}}, [{blob.name}], remap_funcs=None)\nshow(names{i})",
            f"c{i} = core.get_output_producers(m.net.Proto().op)\nshow(sorted(c{i}))",
            f"c{i} = core.clone_and_bind_net(m.net, 'bound{i}', 'pre{i}/', {{'data': 'd2'}})\nshow(c{i})",
            "m.net.RenameBlobs = None if not hasattr(core.Net, 'RenameBlobs') else core.Net.RenameBlobs\nshow(core.remap_input if hasattr(core, 'remap_input') else 0)",
            "show(core.get_ssa(m.net))",
            "show(core.get_undefined_blobs(core.get_ssa(m.net)[0]))",
            f"show(core.get_op_ids_in_path(core.get_ssa(m.net)[0], core.get_ssa(m.net)[1], ['data'], [str({blob.name})]))",
            "show(core.recurrent_network_op_remap.__name__)",
            f"n{i} = core.Net('joined')\nn{i}.AppendNet(m.net)\nn{i}.AppendNet(m.param_init_net)",
            f"n{i} = core.Net(m.net.Proto())\nshow(n{i}.Name(), n{i}.NextName(), n{i}.NextBlob('x'), n{i}.NextScopedBlob('y'))",
            f"x{i} = model_helper.ExtractPredictorNet(m.net.Proto(), ['data'], [{blob.name}])\nshow(*x{i})",
            f"x{i} = model_helper.ExtractPredictorNet(m.net.Proto(), ['data'], [str({blob.name})], renames={{'l0': 'q'}}, disabled_inputs=['l9'])\nshow(*x{i})",
            f"x{i} = model_helper.ExtractPredictorNet(m.net.Proto(), ['data'], [str({blob.name})], device=core.DeviceOption(caffe2_pb2.CUDA, 1))\nshow(*x{i})",
            "core.InjectCrossDeviceCopies(m.net)\nshow(m.net)",
            "show(core.InjectDeviceCopiesAmongNets([m.param_init_net, m.net]))",
            "show(m.net.UsedBlobNames() if hasattr(m.net, 'UsedBlobNames') else 0, m.net.BlobIsDefined('l0'), m.net.UsesBlob('data'), m.net.GetBlobRef('data'))",
            "m.net.RunAllOnGPU(1)\nshow(m.net)",
            "m.net.RunAllOnMKL()\nshow(m.net)",
            "m.net.set_rand_seed(7, False)\nshow(m.net)",
            "m.net.set_rand_seed(7, True, True)\nshow(m.net)",
            f"m.net.AddExternalOutput('data', {blob.name})",
            "m.net.DeduplicateGradientSlices({})",
            "m.net.extend_ops(m.param_init_net.Proto().op)",
            "show(m.net.op_info if hasattr(m.net, 'op_info') else 0, len(m.net.Proto().op), m.net.TryRemoveExternalInput if 0 else 1)",
        ]))  # fmt: skip
    return [*steps, *FINISH]
