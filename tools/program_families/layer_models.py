"""LayerModelHelper's layers and nets, shared parameters, modifiers of nets, regularizers."""

from program_families.base import Code, family, maybe, under

INIT = [Code("('ConstantFill', {'value': 0.25})"), Code("('UniformFill', {'min': -0.1, 'max': 0.1})")]
OPTIMIZER = [
    Code("optimizer.SgdOptimizer(0.1)"), Code("optimizer.AdagradOptimizer(alpha=0.1)"), Code("m.NoOptim"),
    Code("optimizer.AdamOptimizer(0.1)"), Code("optimizer.FtrlOptimizer(alpha=0.1)"),
]  # fmt: skip
REGULARIZER = [
    "regularizer.L1Norm(0.1)", "regularizer.L2Norm(0.1)", "regularizer.LogBarrier(1.0)", "regularizer.MaxNorm(1.0)",
    "regularizer.ConstantNorm(1.0)", "regularizer.TrainedLambda1() if 0 else regularizer.L1NormTrimmed(0.1, 1)",
    "regularizer.BoundedGradientProjection(lb=-1.0, ub=1.0, epsilon=1e-4)", "regularizer.FPGNorm() if 0 else None",
    "regularizer.ElasticNet(0.1, 0.2)", "regularizer.ElasticNetL1NormTrimmed(0.1, 0.2, 1)",
]  # fmt: skip
DENSE = [
    "m.FC(h, {o}{fc})", "m.FC(h, {o}{fc})", "m.FCWithoutBias(h, {o}{weight})", "m.Relu(h, 1)", "m.Sigmoid(h, 'sig')",
    "m.Dropout(h, ratio=0.0)", "m.Dropout(h, dropout_for_eval=True, ratio=0.5)", "m.BatchNormalization(h{bn})",
    "m.LayerNormalization(h{ln})", "m.AddBias(h{bias})", "m.Concat(schema.Tuple(h, h), axis=1)",
    "m.Concat(schema.Struct(('p', h), ('q', h)))", "m.Add([h, h], 1)", "m.Functional(h, 1, lambda net, i, o: net.Tanh(i(), o()), name='fn')",
    "m.Split(h, 2)[0]", "m.ConstantWeight(schema.Tuple(h, h), weights=[0.5, 2.0])", "m.BlobWeightedSum(schema.Tuple(h, h){blob_sum})",
    "m.AdaptiveWeight(schema.Tuple(h, h))", "m.AdaptiveWeight(schema.Tuple(h, h), estimation_method='log_std', weights=[0.5, 1.0])",
    "m.HomotopyWeight(schema.Tuple(h, h))", "m.BatchSoftmax(h) if 0 else m.Softmax(h, 1)", "m.Tanh(h, schema.Scalar((np.float32, (3,))))",
    "m.FCWithBootstrap(h, 2, 2)[0] if 0 else m.Copy(h, 1)",
    "m.SemiRandomFeatures(h, {o}).full if 0 else m.Negative(h, 1)", "m.StopGradient(h, h)",
]  # fmt: skip
LOSSES = [
    "m.BatchLRLoss(schema.Struct(('label', label), ('logit', m.FC(h, 1))){lr})",
    "m.BatchLRLoss(schema.Struct(('label', label), ('logit', m.FC(h, 1)), ('weight', weight)))",
    "m.BatchMSELoss(schema.Struct(('label', label), ('prediction', m.FC(h, 1))))",
    "m.BatchMSELoss(schema.Struct(('label', label), ('prediction', m.FC(h, 1)), ('weight', weight)))",
    "m.BatchHuberLoss(schema.Struct(('label', label), ('prediction', m.FC(h, 1))))",
    "m.BatchSigmoidCrossEntropyLoss(schema.Struct(('label', targets), ('prediction', m.FC(h, 3))))",
    "m.BatchSoftmaxLoss(schema.Struct(('label', label), ('prediction', m.FC(h, 4))))[1]",
    "m.BatchSoftmaxLoss(schema.Struct(('label', label), ('prediction', m.FC(h, 4))), label_smooth_matrix=0.2)[1]",
    "m.MarginRankLoss(schema.Struct(('pos_prediction', m.FC(h, 1)), ('neg_prediction', m.FC(h, 2))), margin=0.5)",
    "m.BPRLoss(schema.Struct(('pos_prediction', m.FC(h, 1)), ('neg_prediction', m.FC(h, 2))))",
]  # fmt: skip
SPARSE = [
    "m.SparseLookup(ids, [3], {pool!r}{table})", "m.SparseLookup(ids, [3], {pool!r}{table})",
    "m.SparseLookup(m.PositionWeighted(ids), [3], 'PositionWeighted') if 0 else m.SparseLookup(ids, [3], 'Sum')",
    "m.SparseLookup(m.SparseFeatureHash(ids, seed=1, modulo=7), [3], 'Sum')",
]  # fmt: skip


def _dense(rng):
    o = rng.choice([1, 3])
    return rng.choice(DENSE).format(
        o=o,
        fc=maybe(rng, 0.3, weight_init=INIT, bias_init=INIT, weight_optim=OPTIMIZER, name=["my_fc"], max_fc_size=[2], axis=[1],
                 weight_reg=[Code("regularizer.L2Norm(0.1)")], transposed=[True], uniform_weight_init_scale_numerator=[2.0]),
        weight=maybe(rng, 0.3, weight_init=INIT, weight_optim=OPTIMIZER),
        bn=maybe(rng, 0.3, momentum=[0.5], order=["NHWC"], scale_init_value=[0.5], name=["bn"]),
        ln=maybe(rng, 0.3, epsilon=[1e-2], axis=[1], use_layer_norm_op=[True, False], scale_init_value=[0.5]),
        bias=maybe(rng, 0.5, bias_init=INIT, bias_optim=OPTIMIZER),
        blob_sum=maybe(rng, 0.5, init_weights=[[0.5, 1.5]], weight_optim=OPTIMIZER),
    )  # fmt: skip


@family
def layer_models(rng):
    steps = [
        "from caffe2.python import layer_model_helper, layer_model_instantiator as lmi, optimizer, regularizer\n"
        "from caffe2.python.layers.tags import Tags, TagContext",
        "features = schema.Struct(('dense', schema.Scalar((np.float32, (3,)))), ('ids', schema.Map(schema.Scalar(np.int64, metadata=schema.Metadata(9, None, None)), schema.Scalar(np.float32)) if %d else schema.List(schema.Scalar(np.int64, metadata=schema.Metadata(9, None, None)))))"
        % (rng.random() < 0.3),
        "extra = schema.Struct(('label', schema.Scalar((np.float32, (1,)))), ('weight', schema.Scalar((np.float32, (1,)))), ('targets', schema.Scalar((np.float32, (3,)))))",
        f"m = layer_model_helper.LayerModelHelper({rng.choice(['model', 'm/n', 'a b'])!r}, features, extra)",
        "f, e = m.input_feature_schema, m.trainer_extra_schema\nids, label, weight, targets = f.ids, e.label, e.weight, e.targets\nh = f.dense",
        "show(f, e)\nfeed(str(h()), (4, 3))\nfeed(str(label()), (4, 1), 'f4', 0, 1)\nfeed(str(weight()), (4, 1), 'f4', 0, 1)\nfeed(str(targets()), (4, 3), 'f4', 0, 1)\nworkspace.FeedBlob(str(ids.lengths()), np.array([2, 0, 1, 2], 'i4'))",
        "for b in ids.field_blobs()[1:]:\n    workspace.FeedBlob(str(b), np.array([1, 4, 8, 1, 0], 'f4' if str(b).endswith('values:values') else 'i8'))\nif len(ids.field_blobs()) > 2:\n    feed(str(ids.field_blobs()[2]), (5,))",
    ]  # fmt: skip
    if rng.random() < 0.35:
        pool = rng.choice(
            ["Sum", "Mean", "Sqrt", "LogMeanExp" if 0 else "Sum", "Max", "PositionWeighted", "WeightedSum"]
        )
        steps.append("h = " + rng.choice(SPARSE).format(
            pool=pool, table=maybe(rng, 0.3, weight_init=INIT, weight_optim=OPTIMIZER, name=["table"], regularizer=[Code("regularizer.L2Norm(0.1)")],
                                   use_external_weights=[False])))  # fmt: skip
    for _ in range(rng.randint(1, 4)):
        step = "h = " + _dense(rng)
        if rng.random() < 0.15:
            step = under(rng.choice(["s", "a/b"]), step)
        if rng.random() < 0.15:
            step = (
                f"with TagContext([{rng.choice(['Tags.EXCLUDE_FROM_PREDICTION', 'Tags.PREFER_GPU', 'Tags.TRAIN_ONLY', repr('mine')])}]):\n    "
                + step
            )
        steps.append(step)
    steps.append("show(h)")
    loss = rng.choice(LOSSES).format(
        lr=maybe(rng, 0.4, average_loss=[False], jsd_weight=[0.5], pos_label_target=[0.9], neg_label_target=[0.1],
                 homotopy_weighting=[True], log_D_trick=[True], unjoined_lr_loss=[True], uncertainty_penalty=[0.1]))  # fmt: skip
    steps += [
        f"loss = {loss}",
        "m.add_loss(loss)" if rng.random() < 0.8 else "m.add_loss(loss, 'mine')\nm.add_loss(loss, 'mine')",
    ]
    steps.append("m.output_schema = " + rng.choice(["schema.Struct(('p', h))", "h", "schema.Struct()"]))
    steps += rng.sample([
        "m.add_ad_hoc_plot_blob('loss') if 0 else m.add_ad_hoc_plot_blob(h())", "m.add_metric_field('metric', h)", "m.add_output_schema('more', h)",
        "show(m.add_global_constant('ONE_HALF', 0.5), sorted(m.global_constants))", "m.default_optimizer = optimizer.AdagradOptimizer(alpha=0.2)",
        "show([str(l.name) for l in m.layers], [sorted(l.tags) for l in m.layers])", "show(sorted(map(str, m.get_parameter_blobs())) if hasattr(m, 'get_parameter_blobs') else 0)",
        "show(m.get_metrics_schema(), m.loss, m.metrics_schema)", "m.create_init_net('early')", "show([str(p) for p in m.params], m.param_to_optim and len(m.param_to_optim))",
        "m.filter_metrics_schema({'metric'})", "show(m.sumCache if 0 else m.next_layer_name('fc'), m.loss)", "m.clear_output_schema()", "show(m.get_accessed_features())",
        "m.reset_optimizers() if hasattr(m, 'reset_optimizers') else None", "show(m.MaybeAddGlobalConstant.__name__ if hasattr(m, 'MaybeAddGlobalConstant') else 0)",
    ], rng.randint(0, 3))  # fmt: skip
    finish = rng.choice([
        "i, t = lmi.generate_training_nets(m)", "i, t = lmi.generate_training_nets(m, include_metrics=False)" if 0 else "i, t = lmi.generate_training_nets(m)",
        "i, t = lmi.generate_training_nets_forward_only(m)", "i, t = m.create_init_net('i'), lmi.generate_predict_net(m)", "i, t = m.create_init_net('i'), lmi.generate_eval_net(m)",
    ])  # fmt: skip
    steps += [
        finish,
        "show(t.input_record(), t.output_record())",
        "init(i)",
        "workspace.CreateNet(t)",
        "workspace.RunNet(t, 2)",
    ]
    return steps


@family
def shared_parameters(rng):
    steps = ["from caffe2.python import brew, model_helper, optimizer\nfrom caffe2.python.modeling.parameter_sharing import ParameterSharing, parameter_sharing_context\n"
             "from caffe2.python.modeling.initializers import Initializer, ReversePseudoFP16Initializer, PseudoFP16Initializer, ExternalInitializer, update_initializer",
             "m = model_helper.ModelHelper('m')", "feed('x', (2, 3))\nx = core.BlobReference('x')"]  # fmt: skip
    scopes = ["a", "b", "a/c", "b/c", "d"]
    for _ in range(rng.randint(1, 4)):
        pairs = {rng.choice(scopes): rng.choice(scopes) for _ in range(rng.randint(1, 2))}
        initializer = maybe(rng, 0.3, WeightInitializer=[Code("Initializer('ConstantFill', value=0.5)"), Code("PseudoFP16Initializer"), Code("ReversePseudoFP16Initializer")],
                            weight_init=[Code("('ConstantFill', {'value': 0.5})")], BiasInitializer=[Code("ExternalInitializer()"), Code("Initializer('ConstantFill', value=1.0)")])  # fmt: skip
        body = "\n".join(
            under(rng.choice(scopes), f"h = brew.fc(m, x, 'fc', 3, 3{initializer})") for _ in range(rng.randint(1, 3))
        )
        inner = f"with ParameterSharing({pairs!r}):\n    " + body.replace("\n", "\n    ")
        steps += [inner, "show([str(p) for p in m.params])"]
        if rng.random() < 0.4:
            steps.append(rng.choice([
                "p = m.create_param('mine', shape=[3], initializer=Initializer('ConstantFill', value=2.0))\nshow(p)",
                "p = m.create_param(core.ScopedBlobReference('y'), shape=[2], initializer=Initializer('GaussianFill'), tags=None)\nshow(m.get_param_info(p).name)" if 0 else "show([m.get_param_info(p).shape for p in m.params])",
                "show(parameter_sharing_context.get_parameter_name('a'))", "m.AddParameter('loose')", "show(update_initializer(None, None, ('XavierFill', {})).operator_name)",
                "with core.NameScope('a'):\n    show(str(parameter_sharing_context.get_parameter_name('w')))", "m.create_param('bad', shape=None, initializer=3)",
            ]))  # fmt: skip
    steps += ["loss = m.net.AveragedLoss(h, 'loss')", "show(m.AddGradientOperators([loss]))"]
    if rng.random() < 0.6:
        steps.append(f"optimizer.build_{rng.choice(['sgd', 'adam'])}(m, 0.1)")
    return [*steps, "init(m.param_init_net)", "workspace.RunNetOnce(m.net)"]


@family
def modifiers(rng):
    """Nets changed by modifiers, regularizers and clipped gradients."""
    steps = ["from caffe2.python import brew, model_helper, optimizer, regularizer\nfrom caffe2.python.modeling.gradient_clipping import GradientClipping\n"
             "from caffe2.python.modeling.compute_norm_for_blobs import ComputeNormForBlobs\nfrom caffe2.python.modeling.compute_histogram_for_blobs import ComputeHistogramForBlobs\n"
             "from caffe2.python.modeling.compute_statistics_for_blobs import ComputeStatisticsForBlobs\nfrom caffe2.python.modeling.get_entry_from_blobs import GetEntryFromBlobs",
             "m = model_helper.ModelHelper('m')", "feed('x', (2, 3))\nx = core.BlobReference('x')"]  # fmt: skip
    scope = rng.choice(["", "", "s", "a/b"])
    steps.append(
        under(
            scope,
            "h = brew.fc(m, brew.tanh(m, brew.fc(m, x, 'one', 3, 3), 't'), 'two', 3, 2)\nloss = m.net.AveragedLoss(m.net.Sqr(h, 'q'), 'loss')",
        )
    )
    steps.append(under(scope, "g = m.AddGradientOperators([loss])"))
    prefix = f"{scope}/" if scope else ""
    blobs = rng.choice(
        [[f"{prefix}one_w"], [f"{prefix}one_w", f"{prefix}two_b"], [f"{prefix}t"], ["nosuch"], [f"{prefix}one_w_grad"]]
    )
    common = maybe(rng, 0.4, metric_name=["mine"], row_index=[1]) if 0 else ""
    more = [
        f"GradientClipping(grad_clip_method='by_norm', clip_norm_type={rng.choice(['l1_norm', 'l2_norm'])!r}, clip_threshold=0.1"
        + maybe(rng, 0.3, use_parameter_norm=[True], compute_norm_ratio=[True], blobs_to_include=[blobs], blobs_to_exclude=[blobs], epsilon=[1e-3])
        + ")(m.net, grad_map=g)",
        f"GradientClipping(grad_clip_method='by_value', clip_max=0.1, clip_min=-0.1{maybe(rng, 0.3, blobs_to_include=[blobs])})(m.net, grad_map=g)",
        f"GradientClipping(grad_clip_method={rng.choice(['by_norm', 'by_value', 'nosuch'])!r}, clip_norm_type='l2_norm', clip_threshold=0.5)",
        f"ComputeNormForBlobs(blobs={blobs}, logging_frequency={rng.choice([0, 1, 2])}{maybe(rng, 0.4, p=[1, 2], compute_averaged_norm=[True], row_index=[0, 1])})(m.net)",
        f"ComputeHistogramForBlobs(blobs={blobs}, logging_frequency={rng.choice([0, 1])}, num_buckets={rng.choice([3, 5])}, lower_bound=-1.0, upper_bound=1.0{maybe(rng, 0.4, accumulate=[True])})(m.net)",
        f"ComputeStatisticsForBlobs(blobs={blobs}, logging_frequency={rng.choice([0, 1])})(m.net)",
        f"GetEntryFromBlobs(blobs={blobs}, logging_frequency={rng.choice([0, 1])}, i1=1{maybe(rng, 0.5, i2=[0, 1])})(m.net)",
        f"x1 = {rng.choice(REGULARIZER)}(m.net, m.param_init_net, m.params[0], g.get(m.params[0]), by=regularizer.RegularizationBy.{rng.choice(['ON_LOSS', 'AFTER_OPTIMIZER'])})\nshow(x1)",
        f"{common}optimizer.build_sgd(m, 0.1, max_gradient_norm=0.5)" if 0 else f"optimizer.build_{rng.choice(['sgd', 'adagrad'])}(m, 0.1)",
        "show(m.net.output_record() and m.net.output_record().field_names())", "optimizer.add_weight_decay(m, 0.1)",
        f"n = core.Net('other')\nc = GradientClipping(grad_clip_method='by_norm', clip_norm_type='l2_norm', clip_threshold=0.1)\nc(n, m.param_init_net, g, {rng.choice(['m.params', 'None'])})\nshow(n)" if 0 else "show(sorted(map(str, g)))",
        "ComputeNormForBlobs(blobs=['x'], logging_frequency=1)(m.net, modify_output_record=True)\nshow(m.net.output_record())",
        "ComputeStatisticsForBlobs(blobs=['x'], logging_frequency=2)(m.net, blob_name='y') if 0 else None",
    ]  # fmt: skip
    steps += rng.sample(more, rng.randint(1, 4))
    return [*steps, "init(m.param_init_net)", "workspace.CreateNet(m.net)", "workspace.RunNet(m.net, 3)"]
