"""Optimizers, recurrent nets, data parallel models, layers, control flow, tasks, schemas, predictors."""

from program_families.base import SCOPES, family, maybe, under

OPTIMIZERS = {
    "sgd": dict(momentum=[0.9], nesterov=[True, False], policy=["fixed", "step", "inv", "exp"], gamma=[0.5], stepsize=[2],
                power=[0.5], weight_decay=[0.1], sparse_dedup_aggregator=["sum"], lars=[0.5], max_gradient_norm=[1.0],
                allow_lr_injection=[True]),
    "multi_precision_sgd": dict(momentum=[0.1], nesterov=[True], policy=["fixed"]),
    "ftrl": dict(alpha=[0.1], beta=[0.5], lambda1=[0.1], lambda2=[0.1]),
    "gftrl": dict(alpha=[0.1], beta=[0.5], lambda1=[0.1], lambda2=[0.1]),
    "adagrad": dict(epsilon=[1e-3], decay=[0.9], policy=["fixed"], lars=[0.5], rowWise=[True], engine=[""], output_effective_lr=[True],
                    output_effective_lr_and_update=[True], max_gradient_norm=[1.0], weight_decay=[0.1], use_dedicated_lr_iteration_counter=[True],
                    pruning_options=[None], swa_enabled=[False], counter_halflife=[-1], weight_scale=[None]),
    "wngrad": dict(epsilon=[1e-3], policy=["fixed"], moment_init=[50.0], max_gradient_norm=[1.0]),
    "storm": dict(momentum=[5.0], beta=[0.2], policy=["fixed"], sparse_dedup_aggregator=["mean"]),
    "adadelta": dict(epsilon=[1e-3], decay=[0.9], policy=["fixed"], engine=[""]),
    "adam": dict(beta1=[0.8], beta2=[0.9], epsilon=[1e-3], policy=["fixed", "step"], gamma=[0.5], stepsize=[1], use_lr_adaption=[True], lr_alpha=[0.1],
                 normalized_lr_adaption=[False], rowWise=[True], enableRAdam=[True], use_smart_decay=[True], max_gradient_norm=[1.0], lars=[0.5]),
    "decay_adagrad": dict(beta1=[0.5], weight_decay=[0.1], ema_options=[None], bias_correction_first=[False], epsilon=[1e-3]),
    "yellowfin": dict(alpha=[0.1], mu=[0.5], beta=[0.9], curv_win_width=[5], zero_debias=[False]),
    "rms_prop": dict(decay=[0.8], momentum=[0.5], policy=["fixed"], engine=[""], max_gradient_norm=[2.0]),
}  # fmt: skip


@family
def optimizers(rng):
    kind = rng.choice(sorted(OPTIMIZERS))
    sparse = rng.random() < 0.4
    scope = rng.choice(["", "", *SCOPES])
    steps = [
        "from caffe2.python import brew, model_helper, optimizer, regularizer",
        "m = model_helper.ModelHelper('m')",
        "feed('x', (4, 3))",
    ]
    body = "x = core.BlobReference('x')\nh = brew.fc(m, x, 'fc', 3, 2)\n"
    if sparse:
        steps += ["feed('table', (6, 3))", "workspace.FeedBlob('ids', np.array([1, 3, 1, 0], 'i8'))"]
        body = "w = m.AddParameter(m.param_init_net.XavierFill([], 'emb', shape=[6, 3]), None)\nh = m.net.Gather([w, core.BlobReference('ids')], 'rows')\nh = brew.fc(m, h, 'fc', 3, 2)\n"
    body += "loss = m.net.AveragedLoss(m.net.SquaredL2Distance([h, h], 'd') if 0 else m.net.ReduceBackMean(m.net.Sqr(h, 'q'), 'r'), 'loss')"
    steps.append(under(scope, body))
    steps.append(under(scope, "m.AddGradientOperators([loss])"))
    rate = ", engine=''" if kind in ("ftrl", "gftrl") else "" if kind == "yellowfin" else ", base_learning_rate=0.1"
    if rng.random() < 0.25:
        steps.append(rng.choice(["brew.add_weight_decay(m, 0.01)", "brew.iter(m, 'iter')",
                                 "optimizer.reset_optimizer_instance_count()",
                                 "m.net.AddExternalOutput('loss')"]))  # fmt: skip
    steps.append(
        under(rng.choice(["", scope]), f"o = optimizer.build_{kind}(m{rate}{maybe(rng, 0.3, **OPTIMIZERS[kind])})")
    )
    if rng.random() < 0.2:
        steps.append("optimizer.add_weight_decay(m, 0.05)")
    if rng.random() < 0.2:
        other = rng.choice(["sgd", "adam", "adagrad"])
        steps.append(f"optimizer.build_{other}(m, 0.2)")
    steps.append("show(o.get_auxiliary_parameters(), o.get_cpu_blob_name('a'), o.get_gpu_blob_name('a', 0, 'n'))")
    if rng.random() < 0.3:
        steps.append("o.scale_learning_rate(0.5)")
    steps += ["init(m.param_init_net)", "workspace.CreateNet(m.net)", "workspace.RunNet(m.net, 3)"]
    return steps


@family
def recurrent(rng):
    t, n, d, h = 3, 2, 4, 3
    scope = rng.choice(["", "", *SCOPES[:3]])
    steps = ["from caffe2.python import brew, model_helper, rnn_cell, attention, gru_cell, optimizer", "m = model_helper.ModelHelper('m')",
             f"feed('seq', ({t}, {n}, {d}))", f"workspace.FeedBlob('len', np.array({rng.choice([[3, 3], [2, 3], [1, 2]])}, 'i4'))",
             *(f"feed('{s}{i}', (1, {n}, {h}))" for s in "hc" for i in range(2)),
             "seq, length = core.BlobReference('seq'), core.BlobReference('len')\nst = [core.BlobReference(x) for x in ('h0', 'c0', 'h1', 'c1')]"]  # fmt: skip
    kind = rng.choice(
        [
            "LSTM",
            "LSTM",
            "MILSTM",
            "GRU",
            "BasicRNN",
            "LayerNormLSTM",
            "LayerNormMILSTM",
            "attention",
            "stacked",
            "cell",
        ]
    )
    more = maybe(rng, 0.4, forget_bias=[0.0, 1.0], memory_optimization=[True], forward_only=[True], drop_states=[True],
                 return_last_layer_only=[True, False], static_rnn_unroll_size=[None, 3], no_cudnn=[True])  # fmt: skip
    if kind.startswith("LayerNorm"):  # whose gates cannot be computed again
        more = more.replace(", memory_optimization=True", "")
    if kind in ("LSTM", "MILSTM", "LayerNormLSTM", "LayerNormMILSTM"):
        call = f"r = rnn_cell.{kind}(m, seq, length, st[:2], {d}, {h}, 'rnn'{more.replace(', no_cudnn=True', '')})"
    elif kind == "stacked":
        call = f"r = rnn_cell.LSTM(m, seq, length, st, {d}, [{h}, {h}], 'rnn'{more.replace(', no_cudnn=True', '')})"
    elif kind == "GRU":
        call = (
            f"r = gru_cell.GRU(m, seq, length, st[:1], {d}, {h}, 'rnn'"
            + maybe(rng, 0.4, drop_states=[True], forward_only=[True], linear_before_reset=[True])
            + ")"
        )
    elif kind == "BasicRNN":
        call = (
            f"r = rnn_cell.BasicRNN(m, seq, length, st[:1], {d}, {h}, 'rnn'"
            + ", forward_only=True"
            + maybe(rng, 0.6, activation=["tanh", "relu"])
            + ")"
        )
    elif kind == "attention":
        call = (f"cell = rnn_cell.LSTMWithAttentionCell(encoder_output_dim={h}, encoder_outputs=core.BlobReference('enc'), encoder_lengths=None, decoder_input_dim={d}, decoder_state_dim={h}, name='att', "
                f"attention_type=rnn_cell.AttentionType.{rng.choice(['Regular', 'Recurrent', 'Dot', 'SoftCoverage'])}, weighted_encoder_outputs=None, forget_bias=0.0, lstm_memory_optimization=False, attention_memory_optimization={rng.choice([True, False])})\n"
                "r = cell.apply_over_sequence(m, seq, length, [st[0], st[1], core.BlobReference('ctx')], outputs_with_grads=[0])")  # fmt: skip
        steps.append(f"feed('enc', ({t}, {n}, {h}))\nfeed('ctx', (1, {n}, {h}))")
    else:
        inner = rng.choice(
            [
                f"rnn_cell.LSTMCell({d}, {h}, 0.0, False, name='c')",
                f"rnn_cell.BasicRNNCell({d}, {h}, 0.0, False, 'tanh', name='c')",
                f"gru_cell.GRUCell({d}, {h}, 0.0, False, name='c')",
            ]
        )
        wrap = rng.choice(
            [
                "{}",
                "rnn_cell.DropoutCell({}, dropout_ratio=0.5, use_cudnn=False, mask=0) if 0 else {}",
                "rnn_cell.UnrolledCell({}, 3)",
                "rnn_cell.MultiRNNCell([{}], 'multi')",
                "rnn_cell.MultiRNNCell([{}], 'multi', residual_output_layers=[0])",
            ]
        )
        call = f"cell = {wrap.replace('{}', inner)}\nshow(cell.get_state_names(), cell.get_output_dim(), cell.get_output_state_index())\nr = cell.apply_over_sequence(m, seq, length, st[:len(cell.get_state_names())])"
    steps.append(under(scope, call))
    steps.append("show(r)")
    if rng.random() < 0.6:
        steps.append(
            under(
                scope,
                "loss = m.net.AveragedLoss(m.net.SumElements(r[0], 's'), 'loss')\ngr = m.AddGradientOperators([loss])",
            )
        )
        if rng.random() < 0.3:
            steps.append("optimizer.build_sgd(m, 0.1)")
        if rng.random() < 0.2:
            steps.append("show(rnn_cell.InitFromLSTMParams.__name__, [str(p) for p in m.params])")
    return [*steps, "init(m.param_init_net)", "workspace.CreateNet(m.net)", "workspace.RunNet(m.net, 2)"]


@family
def parallel_models(rng):
    devices = rng.choice([1, 2, 3])
    cpu = rng.random() < 0.75
    options = maybe(rng, 0.3, optimize_gradient_memory=[True, False], broadcast_computed_params=[False], net_type=["dag", "simple"],
                    use_nccl=[False], combine_spatial_bn=[True], barrier_net_timeout_sec=[5], num_threads_per_device=[2],
                    max_concurrent_distributed_ops=[4])  # fmt: skip
    layers = [
        rng.choice(
            [
                "h = brew.relu(m, h, h)",
                "h = brew.fc(m, h, 'fc2', 4, 4)",
                "h = brew.tanh(m, h, 't')",
                "h = m.Sigmoid(h, 'sig')",
            ]
        )
        for _ in range(rng.randint(0, 2))
    ]
    forward = "def forward(m, scale):\n    h = brew.fc(m, 'data', 'fc1', 3, 4)\n" + "".join(
        f"    {line}\n" for line in layers
    )
    if "combine_spatial_bn" in options:
        forward = "def forward(m, scale):\n    h = brew.conv(m, 'data', 'c', 2, 2, 1)\n    h = brew.spatial_bn(m, h, 'bn', 2, is_test=False)\n    h = brew.fc(m, h, 'fc1', 8, 4)\n"
    forward += (
        "    s, loss = m.SoftmaxWithLoss([h, 'label'], ['softmax', 'loss'])\n    return [m.Scale(loss, scale=scale)]"
    )
    shape = "(4, 2, 2, 2)" if "combine_spatial_bn" in options else "(4, 3)"
    optimizer = rng.choice(
        [
            "optimizer.build_sgd(m, 0.1, momentum=0.9)",
            "optimizer.build_adam(m, 0.1)",
            "optimizer.build_adagrad(m, 0.1)",
            "optimizer.build_sgd(m, 0.1, max_gradient_norm=1.0)",
        ]
    )
    if (
        "combine_spatial_bn" in options
    ):  # the gradient of what BN takes away is rounding, which others than SGD divide by itself
        optimizer = "optimizer.build_sgd(m, 0.1)"
    inputs = rng.choice(["lambda m: None", "lambda m: None", "lambda m: m.net.Copy('raw', 'data')"])
    post = rng.choice(
        [
            "",
            "",
            ", post_sync_builder_fun=lambda m: m.net.Copy('loss', 'loss_copy')",
            ", pre_grad_net_transformer_fun=lambda m: None",
            ", net_transformer_fun=lambda m, n, o, s, l: None",
        ]
    )
    steps = [
        "from caffe2.python import brew, model_helper, optimizer, data_parallel_model as dpm",
        f"m = model_helper.ModelHelper({rng.choice(['', 'name=' + repr('train')])})",
        forward,
    ]
    kind = rng.choice(["build", "build", "build", "param", "bmuf", "mixed"])
    base = f"m, input_builder_fun={inputs}, forward_pass_builder_fun=forward, devices={list(range(devices))}"
    if kind == "bmuf":
        steps.append(
            f"dpm.Parallelize_BMUF({base}, param_update_builder_fun=lambda m: {optimizer}, cpu_device={cpu}"
            + maybe(
                rng,
                0.5,
                block_learning_rate=[0.5],
                nesterov=[True],
                reset_momentum_sgd=[True],
                warmup_iterations=[2],
                add_blobs_to_sync=[None],
                num_threads_per_device=[2],
            )
            + ")"
        )
    elif kind == "param":
        steps.append(
            "def update(m):\n    it = brew.iter(m, 'iter')\n    lr = m.LearningRate(it, 'lr', base_lr=-0.1, policy='fixed')\n    one = m.param_init_net.ConstantFill([], 'ONE', shape=[1], value=1.0)\n    for p in m.GetParams():\n        g = m.param_to_grad[p]\n        m.WeightedSum([p, one, g, lr], p)"
        )
        steps.append(f"dpm.Parallelize({base}, param_update_builder_fun=update, cpu_device={cpu}{options}{post})")
    else:
        shared = ", shared_model=True" if rng.random() < 0.15 and not cpu else ""
        steps.append(
            f"dpm.Parallelize({base}, optimizer_builder_fun=lambda m: {optimizer}, cpu_device={cpu}{options}{post}{shared})"
        )
    if cpu:
        steps.append(
            f"for d in range({devices}):\n    feed('cpu_%d/data' % d, {shape})\n    feed('cpu_%d/raw' % d, {shape})\n    feed('cpu_%d/label' % d, (4,), 'i4', 0, 4)"
        )
        steps += ["init(m.param_init_net)", "workspace.CreateNet(m.net)", "workspace.RunNet(m.net, 2)",
                  rng.choice(["dpm.FinalizeAfterCheckpoint(m, cpu_mode=True)" if kind != "bmuf" else "show(1)", "show(dpm.GetCheckpointParams(m))", "dpm.RunInitNet(m) if 0 else None", "show(dpm.GetLearningRateBlobNames(m))", "dpm.Synchronize(m)", "dpm.OptimizeGradientMemory(m, {}, set(), False)", "show(dpm.GetDevicePrefix() if hasattr(dpm, 'GetDevicePrefix') else 0)"])]  # fmt: skip
    else:
        steps.append(
            rng.choice(
                [
                    "show(dpm.GetCheckpointParams(m))",
                    "show(m._device_grouped_blobs.keys())",
                    "show(dpm.ExtractPredictorNet.__name__ if hasattr(dpm, 'ExtractPredictorNet') else 0)",
                ]
            )
        )
    steps.append(
        "show(m._devices, m._losses_by_gpu, sorted(m._device_grouped_blobs), m._param_names if hasattr(m, '_param_names') else 0)"
    )
    return steps


@family
def control_flow(rng):
    steps = [
        "from caffe2.python import control, net_builder, task, session\nfrom caffe2.python.net_builder import ops, NetBuilder"
    ]
    body = ["a = ops.Const(%r)" % rng.choice([1, 2.5, True]), "b = ops.Const(3)", "c = ops.Const([1, 2, 3])"]
    for i in range(rng.randint(1, 4)):
        body.append(rng.choice([
            "with ops.If(ops.LT([b, ops.Const(%d)])):\n    ops.Copy([ops.Const(7)], [b])" % rng.choice([2, 5]),
            "with ops.If(ops.GT([b, ops.Const(2)])):\n    ops.Add([b, b], [b])\nwith ops.Else():\n    ops.Copy([ops.Const(-1)], [b])",
            "with ops.loop(%d) as l:\n    ops.Add([b, ops.Const(1)], [b])" % rng.choice([1, 3]),
            "with ops.loop() as l:\n    l.stop_if(ops.GE([b, ops.Const(9)]))\n    ops.Add([b, ops.Const(1)], [b])",
            "with ops.stop_guard() as g:\n    ops.stop_if(ops.Const(True))\n    ops.Add([b, b], [b])",
            "with ops.IfNet(ops.LT([b, ops.Const(5)])):\n    ops.Copy([ops.Const(5)], [b])\nwith ops.ElseNet():\n    ops.Copy([ops.Const(6)], [b])",
            "with ops.WhileNet():\n    with ops.Condition():\n        ops.Add([b, ops.Const(1)], [b])\n        ops.LT([b, ops.Const(7)])\n    ops.Add([b, ops.Const(2)], [b])",
            "d%d = ops.Add([b, b])" % i,
            "ops.net().Print(b, [])", "with ops.parallel():\n    ops.Copy([b], ['p1'])\n    ops.Copy([b], ['p2'])" if rng.random() < 0.3 else "e = ops.Const(1.5, dtype=None)",
            "ops.task_init().__enter__() if 0 else None", "ops.stop() if 0 else None",
        ]))  # fmt: skip
    kind = rng.choice(["builder", "builder", "control", "task"])
    if kind == "control":
        return [*steps, "n = [core.Net('n%d' % i) for i in range(3)]\nfor i, x in enumerate(n):\n    x.ConstantFill([], 'out%d' % i, shape=[1], value=float(i))",
                "cond = core.Net('cond')\nflag = cond.ConstantFill([], 'flag', shape=[1], value=bool(%d), dtype=core.DataType.BOOL)\ncond.AddExternalOutput(flag)" % rng.choice([0, 1]),
                "workspace.RunNetOnce(cond)" if rng.random() < 0.5 else "show(cond)",
                "s = control." + rng.choice(["Do('d', n[0], n[1])", "DoParallel('d', n[0], n[1])", "If('i', cond, n[0], n[1])", "If('i', flag, n[0])", "IfNot('i', cond, n[0], n[1])", "Switch('s', (cond, n[0]), (cond, n[1]))",
                                             "While('w', control.NotNet(cond), n[0])", "Until('u', cond, n[0])", "DoWhile('w', control.NotNet(cond), n[0])", "DoUntil('u', cond, n[0])", "For('f', n[0], 3)", "RunOnceIf('r', cond, n[0])", "RunOnceIfNot('r', cond, n[0])", "DoNet('x', n[0])" if 0 else "BoolNet(('b', True), ('c', False))", "SwitchNot('s', (cond, n[0]))"]),
                "show(s.Proto() if hasattr(s, 'Proto') else s)", "p = core.Plan('p')\np.AddStep(s)\nshow(p.Proto())\nworkspace.RunPlan(p)",
                "show(control.MergeConditionNets('m', [cond, cond], 'And'), control.CombineConditions('c', [cond], 'Or') if 0 else 0, control.NotNet(cond))"]  # fmt: skip
    program = (
        "with NetBuilder("
        + rng.choice(["", "name='nb'", "initial_scope='x'"])
        + ") as nb:\n    "
        + "\n".join(body).replace("\n", "\n    ")
    )
    if kind == "task":
        program = (
            "with task.TaskGroup() as tg:\n    with task.Task(name='t%s') as t:\n        " % rng.choice(["", "1"])
            + "\n".join(body).replace("\n", "\n        ")
            + "\n        t.add_output(b)"
        )
        return [
            *steps,
            program,
            "show(tg.to_task().get_step().Proto())",
            "s = session.LocalSession()\ns.run(tg)",
            "show(t.outputs()[0].fetch())",
            "show(t.get_step().Proto(), tg.workspace_type(), str(tg))",
        ]
    return [
        *steps,
        program,
        "p = core.Plan('p')\np.AddStep(core.to_execution_step(nb))\nshow(p.Proto())",
        "workspace.RunPlan(p)",
        "show(nb.get())",
    ]


@family
def schemas(rng):
    field = ["schema.Scalar(np.float32)", "schema.Scalar((np.int64, (3,)))", "schema.Scalar(np.int32, 'blob')", "schema.List(schema.Scalar(np.int64))", "schema.Map(schema.Scalar(np.int64), schema.Scalar(np.float32))",
             "schema.Struct(('x', schema.Scalar(np.float32)), ('y', schema.Scalar(str)))", "schema.Scalar()", "schema.ListWithEvicted(schema.Scalar(np.int64))", "schema.Tuple(schema.Scalar(), schema.Scalar(np.int32))", "schema.RawTuple(2)"]  # fmt: skip
    names = ["a", "b", "c", "a:q", "d"]
    draw = lambda: (
        "schema.Struct("
        + ", ".join(f"({n!r}, {rng.choice(field)})" for n in rng.sample(names, rng.randint(1, 4)))
        + ")"
    )
    steps = [f"r = {draw()}", f"q = {draw()}", "show(r, q)"]
    for _ in range(rng.randint(2, 6)):
        steps.append(rng.choice([
            "show(r + q)", "show(r - q)", "show(r['a'])", "show(r.a, r.get('zz', None))", "show(r.clone(keep_blobs=True), r == q, r == r.clone())",
            "n = core.Net('n')\nv = schema.NewRecord(n, r)\nshow(v)", "n = core.Net('n')\nv = schema.InitEmptyRecord(n, r)\nworkspace.RunNetOnce(n)\nshow(v)", "show(schema.from_blob_list(r, ['b%d' % i for i in range(len(r.field_names()))]))",
            "schema.FeedRecord(r, [np.zeros(2, 'f')] * len(r.field_names()))", "show(schema.FetchRecord(r))", "show(schema.is_schema_subset(r, q), schema.equal_schemas(r, q))", "show(schema.as_record(('x', schema.Scalar())), schema.as_record([schema.Scalar(), ('z', schema.Scalar())]))",
            "show(schema.attach_metadata_to_scalars(r, schema.Metadata(10, 5, None)))\nshow(r)", "show(schema.data_type_for_dtype(np.dtype(np.float32)), schema.dtype_for_core_type(core.DataType.INT32))", "r.a.set_value(np.array([1]))\nshow(r)", "n = core.Net('n')\nn.set_input_record(schema.NewRecord(n, r))\nn.set_output_record(n.input_record())\nc = n.Clone('c')\nshow(c.input_record())",
            "n = core.Net('n')\nwith core.NameScope('s'):\n    show(schema.NewRecord(n, r))", "show(r.keys(), r.fields.keys() if hasattr(r, 'fields') else 0, len(r), r.items_names() if 0 else 0)", "show(r.a.field_type(), r.a.metadata)", "show(schema.ConstRecord(core.Net('k'), r) if 0 else 0)", "show(str(r), repr(q))", "show(schema.Struct.from_column_list(['a:x', 'a:y', 'b'], [np.int32, np.float32, str]))", "show(r.all_scalars() and [f.field_names() for f in r.all_scalars()])",
            "show(schema.from_column_list(['m:lengths', 'm:values'], [np.int32, np.int64]))", "from caffe2.python import dataset\nds = dataset.Dataset(r, name='ds')\nshow(ds.get_blobs(), ds.content())\nn = core.Net('i')\nds.init_empty(n)\nshow(n)",
        ]))  # fmt: skip
    return steps


@family
def drawing(rng):
    steps = [
        "from caffe2.python import net_drawer, net_printer, brew, model_helper, visualize",
        "m = model_helper.ModelHelper('m')",
    ]
    blobs = ["'in'"]
    for i in range(rng.randint(1, 5)):
        b = rng.choice(blobs)
        steps.append(
            under(
                rng.choice(["", "s"]),
                rng.choice(
                    [
                        f"h{i} = brew.fc(m, {b}, 'l{i}', 2, 2)",
                        f"h{i} = m.net.Relu({b}, {b}, name='n{i}')",
                        f"h{i} = m.net.Sum([{b}, {rng.choice(blobs)}], 'x{i}', engine='E')",
                        f"h{i} = m.net.Scale({b}, 'y', scale=0.5)",
                    ]
                ),
            )
        )
        blobs.append(f"h{i}")
    steps.append(rng.choice([
        "g = net_drawer.GetPydotGraph(m.net, rankdir='TB')\nprint(g.to_string())", "g = net_drawer.GetPydotGraphMinimal(m.net.Proto().op, 'name')\nprint(g.to_string())", "g = net_drawer.GetPydotGraphMinimal(m.net, minimal_dependency=True)\nprint(g.to_string())",
        "net_drawer.GetGraphInJson(m.net.Proto().op, 'g.json')", "print(net_printer.to_string(m.net))", "print(net_printer.to_string(m.net.Proto()))",
        "p = core.Plan('plan')\np.AddStep(core.execution_step('a', [core.execution_step('b', m.param_init_net), core.execution_step('c', [m.net], num_iter=3)], concurrent_substeps=%s))\nprint(net_drawer.GetPlanGraph(p.Proto()).to_string())\nprint(net_printer.to_string(p))\nshow(sorted(net_drawer.GetOperatorMapForPlan(p.Proto())))" % rng.choice([True, False]),
        "g = net_drawer.GetPydotGraph(m.net, op_node_producer=net_drawer.GetOpNodeProducer(True, shape='box'))\nprint(g.to_string())", "print(net_printer.to_string(core.execution_step('a', m.net, should_stop_blob='stop')))", "print(str(m.net), repr(h0))", "print(m.net.Proto())",
    ]))  # fmt: skip
    return steps


@family
def exporting(rng):
    steps = [
        "from caffe2.python import brew, model_helper, optimizer\nfrom caffe2.python.predictor import mobile_exporter, predictor_exporter as pe, predictor_py_utils as pu",
        "m = model_helper.ModelHelper('m')",
        "feed('data', (2, 3))",
        "x = core.BlobReference('data')",
    ]
    steps.append(
        under(rng.choice(["", "s"]), "h = brew.fc(m, x, 'fc', 3, 4)\nh = brew.softmax(m, brew.relu(m, h, 'r'), 'out')")
    )
    steps.append("init(m.param_init_net)")
    steps.append(rng.choice([
        "i, p = mobile_exporter.Export(workspace, m.net, m.params)\nshow(i, p)\nq = workspace.Predictor(i.SerializeToString(), p.SerializeToString())\nshow(q.run({'data': values('z', (2, 3))}) if 0 else q.run([values('z', (2, 3))]))",
        "e = pe.PredictorExportMeta(predict_net=m.net.Proto(), parameters=[str(p) for p in m.params], inputs=['data'], outputs=[str(h)], shapes={'data': (1, 3), str(h): (1, 4)})\npe.save_to_db('minidb', 'model.db', e)\nworkspace.ResetWorkspace()\nn = pe.prepare_prediction_net('model.db', 'minidb')\nshow(n)\nfeed('data', (1, 3))\nworkspace.RunNet(n)",
        "e = pe.PredictorExportMeta(predict_net=m.net.Proto(), parameters=[str(p) for p in m.params], inputs=['data'], outputs=[str(h)], name='n', net_type='dag', num_workers=2, extra_init_net=None)\nd = pe.get_predictor_exporter_helper.__name__ if 0 else 1\npe.save_to_db('minidb', 'model.db', e, use_ideep=%s)\nshow(pe.load_from_db('model.db', 'minidb'))" % rng.choice([False, False, True]),
        "e = pe.PredictorExportMeta(predict_net=m.net.Proto(), parameters=['missing'], inputs=['data'], outputs=[str(h)])", "show(pu.create_predict_net(pe.PredictorExportMeta(predict_net=m.net.Proto(), parameters=[str(p) for p in m.params], inputs=['data'], outputs=[str(h)])))",
        "show(pu.create_predict_init_net(pe.PredictorExportMeta(predict_net=m.net.Proto(), parameters=[str(p) for p in m.params], inputs=['data'], outputs=[str(h)], shapes={'data': (1, 3), str(h): (1, 4)})))",
        "workspace.RunOperatorOnce(core.CreateOperator('Save', [str(p) for p in m.params], [], db='c.db', db_type='minidb'%s))\nold = workspace.Blobs()\nworkspace.ResetWorkspace(workspace.RootFolder())\nworkspace.RunOperatorOnce(core.CreateOperator('Load', [], old and [str(p) for p in m.params], db='c.db', db_type='minidb'))" % rng.choice(["", ", strip_prefix='s/'", ", chunk_size=2"]),
        "from caffe2.python import checkpoint, task\nc = checkpoint.CheckpointManager('ck', 'node', 'minidb')\nshow(c.init([str(p) for p in m.params]) if 0 else c._node_name if hasattr(c, '_node_name') else 0)", "show(workspace.SerializeBlob(str(m.params[0]))[:0], workspace.GetNameScope(), workspace.InferShapesAndTypes([m.param_init_net, m.net], {'data': [2, 3]}))",
    ]))  # fmt: skip
    return [*steps, "workspace.RunNetOnce(m.net)"]


@family
def workspaces(rng):
    """Blobs and nets by hand, errors in the middle."""
    steps = ["n = core.Net('n')"]
    for _ in range(rng.randint(3, 9)):
        b, o = rng.choice("abc"), rng.choice("abcd")
        steps.append(rng.choice([
            f"feed({b!r}, {rng.choice(['(2, 3)', '(4,)', '()', '(0, 2)'])}, {rng.choice(['f4', 'f4', 'i4', 'i8', 'f8', 'u1', '?'])!r})", f"n.{rng.choice(['Relu', 'Sigmoid', 'Copy', 'Sqr', 'Shape', 'Negative'])}({b!r}, {o!r})", f"n.{rng.choice(['Add', 'Sum', 'Mul', 'MatMul'])}([{b!r}, {o!r}], 'd')",
            "workspace.CreateNet(n)", "workspace.CreateNet(n, True)", "workspace.RunNet(n)", "workspace.RunNet('n', 2, True)", "workspace.RunNetOnce(n)", f"workspace.ResetBlob({b!r}) if hasattr(workspace, 'ResetBlob') else None", "show(sorted(workspace.Blobs()), workspace.HasBlob('a'))",
            f"workspace.RunOperatorOnce(core.CreateOperator({rng.choice(['Print', 'Summarize'])!r}, {b!r}, [], to_file=1))", f"workspace.FeedBlob({b!r}, np.array(['x', 'yz'], dtype=object))", f"workspace.FeedBlob({b!r}, {rng.choice(['3.5', 'b' + repr('raw'), repr('text'), '[1, 2]', 'None'])})", f"show(workspace.FetchBlob({b!r}))", f"show(workspace.FetchBlobs([{b!r}, {o!r}]))",
            f"workspace.SwitchWorkspace({rng.choice(['w', 'v', 'default'])!r}, {rng.choice([True, False])})", "workspace.ResetWorkspace(workspace.RootFolder())", f"workspace.CreateBlob({b!r})", f"with core.NameScope('s'):\n    n.Relu({b!r}, {o!r})\n    feed(core.ScopedName({b!r}), (2,))", f"show(workspace.InferShapesAndTypes([n], {{{b!r}: [2, 3]}}))", f"n.AddExternalInput({b!r})", f"n.AddExternalOutput({o!r})", "show(n.Proto(), n.external_inputs)",
            "workspace.RunOperatorOnce(core.CreateOperator('Bogus', 'a', 'b'))", f"workspace.RunOperatorsOnce([core.CreateOperator('Copy', {b!r}, {o!r}), core.CreateOperator('Relu', 'zz', 'b')])", f"n.Bogus({b!r})", f"n.Proto().type = {rng.choice(['dag', 'simple', 'async_scheduling', 'bogus'])!r}", "workspace.C.delete_net('n') if hasattr(workspace.C, 'delete_net') else None", f"n.ConstantFill([], {o!r}, shape=[2, 2], value={rng.choice(['1.5', '2', 'True', repr('s')])})", f"n.Python(lambda i, o: o[0].feed(i[0].data * 2))([{b!r}], [{o!r}])",
            f"n.Slice([{b!r}], {o!r}, starts=[0, 1], ends=[-1, 2])", f"n.FC([{b!r}, 'w', 'b'], {o!r})", "feed('w', (2, 3))", f"n.Split({b!r}, ['p', 'q'], axis=0)", f"show(core.ScopedBlobReference({b!r}), core.BlobReference({b!r}) + '_x', str(core.BlobReference({b!r})) < 'b')", "p = core.Plan('p')\np.AddStep(core.execution_step('s', n, num_iter=2))\nworkspace.RunPlan(p)",
        ]))  # fmt: skip
    return steps
