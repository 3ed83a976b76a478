"""Nets that come from and go to other formats, devices and precisions: ONNX, Caffe, half precision, several GPUs, seq2seq."""

from program_families.base import SCOPES, Code, family, maybe, under

ONNX_LAYERS = [
    "h = brew.relu(m, h, 'r{i}')", "h = brew.fc(m, h, 'fc{i}', {c}, {c})", "h = m.net.Sigmoid(h, 'g{i}')", "h = m.net.Add([h, h], 'a{i}')",
    "h = brew.dropout(m, h, 'd{i}', ratio=0.5, is_test=1)", "h = brew.softmax(m, h, 's{i}')", "h = m.net.Sum([h, h], 'u{i}')",
    "h = m.net.Clip(h, 'c{i}', min=-1.0, max=0.5)", "h = m.net.Exp(h, 'e{i}')", "h = m.net.Negative(h, 'n{i}')", "h = m.net.Mul([h, h], 'm{i}')",
    "h = m.net.LeakyRelu(h, 'l{i}', alpha=0.1)", "h = m.net.Elu(h, 'elu{i}', alpha=1.0)", "h = m.net.Transpose(h, 't{i}', axes=[1, 0])\nh = m.net.Transpose(h, 'tt{i}', axes=[1, 0])",
    "h = m.net.Slice(h, 'sl{i}', starts=[0, 0], ends=[-1, -1])", "h = m.net.Concat([h, h], ['cc{i}', 'dims{i}'], axis=0)[0]", "h = m.net.Bogus(h, 'bogus{i}') if 0 else m.net.Sqrt(m.net.Sqr(h, 'q{i}'), 'sq{i}')",
    "h = m.net.Reshape(h, ['rs{i}', 'old{i}'], shape=[-1, {c}])[0]", "h = m.net.ReduceMean(h, 'rm{i}', axes=[0], keepdims=1)", "h = m.net.MomentumSGD([h, h], ['x{i}', 'y{i}'])[0] if 0 else m.net.Abs(h, 'ab{i}')",
]  # fmt: skip
IMAGE_LAYERS = [
    "h = brew.conv(m, h, 'conv{i}', 3, 3, kernel=3, pad=1)", "h = brew.max_pool(m, h, 'p{i}', kernel=2, stride=1)", "h = brew.average_pool(m, h, 'ap{i}', kernel=2, stride=1, pad=1)",
    "h = brew.spatial_bn(m, h, 'bn{i}', 3, is_test=True)", "h = brew.lrn(m, h, 'lrn{i}', size=3, alpha=0.1, beta=0.5, bias=1.0)", "h = brew.relu(m, h, h)", "h = brew.group_conv(m, h, 'gc{i}', 3, 3, kernel=3, group=3)",
    "h = m.net.PRelu([h, m.param_init_net.ConstantFill([], 'slope{i}', shape=[3], value=0.1)], 'pr{i}')", "h = m.net.ChannelShuffle(h, 'cs{i}', kernel=1, group=3)", "h = m.net.InstanceNorm([h, 'one', 'one'], 'in{i}')", "h = m.net.AveragePool(h, 'gp{i}', global_pooling=1)",
]  # fmt: skip


@family
def onnx_nets(rng):
    image = rng.random() < 0.4
    shape = (1, 3, 6, 6) if image else (2, 3)
    steps = ["from caffe2.python import brew, model_helper\nfrom caffe2.python.onnx import frontend, backend",
             "m = model_helper.ModelHelper('m')", f"feed('data', {shape})\nfeed('one', (3,))\nh = core.BlobReference('data')"]  # fmt: skip
    for i in range(rng.randint(1, 4)):
        step = rng.choice(IMAGE_LAYERS if image else ONNX_LAYERS).format(i=i, c=3)
        steps.append(under(rng.choice(["", "", "", *SCOPES[:3]]), step))
    steps += ["init(m.param_init_net)\nworkspace.RunNetOnce(m.net)\ninit_net = core.Net('init')\nfor p in m.net.external_inputs:\n    if str(p) != 'data' and workspace.HasBlob(str(p)):\n        init_net.GivenTensorFill([], str(p), shape=workspace.FetchBlob(str(p)).shape, values=workspace.FetchBlob(str(p)).flatten().tolist())",
              "predict = caffe2_pb2.NetDef.FromString(m.net.Proto().SerializeToString())\npredict.external_output.append(str(h))\nexpected = workspace.FetchBlob(h)",
              f"o = frontend.caffe2_net_to_onnx_model(predict, init_net.Proto(), {{'data': (1, {shape})}})",
              "show([n.op_type for n in o.graph.node])",
              "show([i.name for i in o.graph.output], len(o.graph.initializer))"]  # fmt: skip
    steps.append(rng.choice([
        f"b = backend.prepare(o)\nout = b.run(values('q', {shape}))\nshow([np.asarray(v) for v in out])", f"out = backend.run_model(o, [values('q', {shape})])\nshow(np.asarray(out[0]))",
        "i, p = backend.Caffe2Backend.onnx_graph_to_caffe2_net(o)\nshow([op.type for op in p.op], sorted(set(i.external_input) | set(p.external_input)), list(p.external_output))",
    ]))  # fmt: skip
    return steps


CAFFE_LAYERS = [
    "layer {{ name: 'conv{i}' type: 'Convolution' bottom: '{b}' top: '{t}' convolution_param {{ num_output: 2 kernel_size: 3 pad: 1 {more} }} }}",
    "layer {{ name: 'ip{i}' type: 'InnerProduct' bottom: '{b}' top: '{t}' inner_product_param {{ num_output: 3 }} }}",
    "layer {{ name: 'relu{i}' type: 'ReLU' bottom: '{b}' top: '{t}' }}", "layer {{ name: 'pool{i}' type: 'Pooling' bottom: '{b}' top: '{t}' pooling_param {{ pool: {pool} kernel_size: 2 stride: 2 {pad} }} }}",
    "layer {{ name: 'drop{i}' type: 'Dropout' bottom: '{b}' top: '{t}' dropout_param {{ dropout_ratio: 0.5 }} }}", "layer {{ name: 'sm{i}' type: 'Softmax' bottom: '{b}' top: '{t}' }}",
    "layer {{ name: 'lrn{i}' type: 'LRN' bottom: '{b}' top: '{t}' lrn_param {{ local_size: 3 alpha: 0.1 beta: 0.5 }} }}", "layer {{ name: 'sig{i}' type: 'Sigmoid' bottom: '{b}' top: '{t}' }}", "layer {{ name: 'tanh{i}' type: 'TanH' bottom: '{b}' top: '{t}' }}",
    "layer {{ name: 'elt{i}' type: 'Eltwise' bottom: '{b}' bottom: '{b}' top: '{t}' }}", "layer {{ name: 'cat{i}' type: 'Concat' bottom: '{b}' bottom: '{b}' top: '{t}' }}", "layer {{ name: 'odd{i}' type: 'Nonsense' bottom: '{b}' top: '{t}' }}",
    "layer {{ name: 'sc{i}' type: 'Scale' bottom: '{b}' top: '{t}' scale_param {{ bias_term: true }} }}", "layer {{ name: 'bn{i}' type: 'BatchNorm' bottom: '{b}' top: '{t}' }}", "layer {{ name: 'de{i}' type: 'Deconvolution' bottom: '{b}' top: '{t}' convolution_param {{ num_output: 2 kernel_size: 2 stride: 2 }} }}",
]  # fmt: skip


@family
def translator(rng):
    layers, blob = [], "data"
    for i in range(rng.randint(1, 5)):
        top = rng.choice([f"t{i}", f"t{i}", blob])
        layers.append(rng.choice(CAFFE_LAYERS).format(
            i=i, b=blob, t=top, more=rng.choice(["", "stride: 2", "group: 2", "bias_term: false", "dilation: 2"]), pool=rng.choice(["MAX", "AVE"]), pad=rng.choice(["", "pad: 1"])))  # fmt: skip
        blob = top
    head = rng.choice(
        [
            "input: 'data' input_dim: 1 input_dim: 2 input_dim: 6 input_dim: 6",
            "input: 'data' input_shape { dim: 1 dim: 2 dim: 6 dim: 6 }",
        ]
    )
    text = "name: 'net' " + head + " " + " ".join(layers)
    weights = ("p = caffe_pb2.NetParameter()\nfor l in net.layer:\n    q = p.layer.add(name=l.name, type=l.type)\n    size = {'Convolution': [(2, 2, 3, 3), (2,)], 'Deconvolution': [(2, 2, 2, 2), (2,)], 'InnerProduct': [(3, 72), (3,)], 'Scale': [(2,), (2,)], 'BatchNorm': [(2,), (2,), (1,)]}.get(l.type, [])\n"
               "    for k, s in enumerate(size):\n        blob = q.blobs.add()\n        blob.shape.dim.extend(s)\n        blob.data.extend(values('%s%d' % (l.name, k), s, 'f4', 0.1, 1).reshape(-1).tolist())")  # fmt: skip
    return ["from caffe2.python import caffe_translator\nfrom caffe.proto import caffe_pb2\nfrom google.protobuf import text_format", f"net = caffe_pb2.NetParameter()\ntext_format.Parse({text!r}, net)", weights,
            f"n, params = caffe_translator.TranslateModel(net, p{maybe(rng, 0.4, is_test=[True, False], remove_legacy_pad=[True, False] if rng.random() < 0.3 else [False], input_dims=[[1, 2, 6, 6]])})", "show(n, sorted((t.name, list(t.dims)) for t in params.protos))",
            "i = caffe_translator.ConvertTensorProtosToInitNet(params, 'data')\nshow(i)", "workspace.RunNetOnce(i)\nfeed('data', (1, 2, 6, 6))\nworkspace.RunNetOnce(n)"]  # fmt: skip


@family
def mixed_precision(rng):
    scope = rng.choice(["", "", *SCOPES])
    initializer = rng.choice(["PseudoFP16Initializer", "ReversePseudoFP16Initializer", "Initializer", "Initializer"])
    names = [Code(initializer)]
    layers = rng.sample([
        "h = brew.fc(m, h, 'fc', 3, 4%s)" % maybe(rng, 0.7, WeightInitializer=names, BiasInitializer=names), "h = m.net.HalfToFloat(h, 'full')", "h = m.net.FloatToHalf(h, 'half')", "h = m.net.Cast(h, 'cast', to=core.DataType.FLOAT16)", "h = brew.relu(m, h, 'r')",
    ], rng.randint(1, 4))  # fmt: skip
    steps = ["from caffe2.python import brew, model_helper, optimizer\nfrom caffe2.python.modeling.initializers import Initializer, PseudoFP16Initializer, ReversePseudoFP16Initializer",
             "m = model_helper.ModelHelper('m')", "feed('x', (2, 3))\nh = core.BlobReference('x')"]  # fmt: skip
    steps += [under(scope, layer) for layer in layers]
    steps += [
        under(scope, "loss = m.net.AveragedLoss(h, 'loss')"),
        under(scope, "show(m.AddGradientOperators([loss]))"),
    ]
    steps.append(rng.choice(["optimizer.build_multi_precision_sgd(m, 0.1%s)" % maybe(rng, 0.4, momentum=[0.9], nesterov=[True]), "optimizer.build_fp16_sgd(m, 0.1%s)" % maybe(rng, 0.4, momentum=[0.9], weight_decay=[0.1]), "optimizer.build_sgd(m, 0.1)",
                             "show([(i.name, str(i.blob), {k: str(v) for k, v in (i.blob_copy or {}).items()}) for i in m.GetOptimizationParamInfo()])"]))  # fmt: skip
    return [*steps, "init(m.param_init_net)", "workspace.RunNetOnce(m.net)"]


@family
def several_gpus(rng):
    """Nets of muji and of device scopes; nothing of them is run."""
    count = rng.choice([1, 2, 4, 8, 3])
    gpus = rng.choice([f"list(range({count}))", "None", f"list(range(1, {count + 1}))"])
    pattern = [
        [1 if a != b and (a // 2 == b // 2 or rng.random() < 0.5) else 0 for b in range(count)] for a in range(count)
    ]
    call = rng.choice(
        ["Allreduce", "Allreduce", "Allreduce2", "Allreduce4", "Allreduce4Group2", "Allreduce8", "AllreduceFallback"]
    )
    steps = ["from caffe2.python import muji", f"workspace.C.get_cuda_peer_access_pattern = workspace.GetCudaPeerAccessPattern = workspace.GetGpuPeerAccessPattern = lambda: np.array({pattern})" if 0 else
             f"workspace.GetGpuPeerAccessPattern = workspace.GetCudaPeerAccessPattern = lambda: np.array({pattern})", f"n = core.Net('n')\nblobs = ['g%d' % i for i in range({count})]",
             under(rng.choice(["", "s"]), f"r = muji.{call}(n, blobs, 'reduced', {gpus})\nshow(r)"), "show(muji.OnGPU(1), muji.OnCPU())"]  # fmt: skip
    steps.append(rng.choice([
        "c = core.Net('c')\nwith core.DeviceScope(core.DeviceOption(caffe2_pb2.CUDA, 1)):\n    c.Relu('x', 'y')\nc.Copy('y', 'z')\nk, maps = core.InjectCrossDeviceCopies(c)\nshow(k, {a: str(b) for a, b in maps.items()})",
        "with core.DeviceScope(muji.OnGPU(0)), core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):\n    n.Copy('a', 'b')\nshow(core.scope.CurrentDeviceScope())",
        "show(core.IsGPUDeviceType(caffe2_pb2.CUDA), core.device_option_equal(core.DeviceOption(1, 0), core.DeviceOption(1, 1)))", "n.RunAllOnGPU(2, use_cudnn=True)\nshow(n)", "n.CopyGPUToCPU('a', 'b')\nn.CopyCPUToGPU('b', 'c')\nn.EnsureCPUOutput('c', 'd')",
        "a = core.Net('a')\nwith core.DeviceScope(core.DeviceOption(caffe2_pb2.CUDA, 0)):\n    a.Relu('x', 'y')\nb = core.Net('b')\nb.Relu('y', 'z')\nnets, maps = core.InjectDeviceCopiesAmongNets([a, b])\nshow(nets)",
    ]))  # fmt: skip
    return steps


@family
def graph_changes(rng):
    """Fusions and other changes of nets, subgraphs, ssa, renamed blobs."""
    steps = ["from caffe2.python import brew, model_helper, transformations, workspace as w, utils\nfrom caffe2.python.transformations import Transformer",
             "m = model_helper.ModelHelper('m')", "feed('data', (1, 3, 6, 6))\nh = core.BlobReference('data')"]  # fmt: skip
    for i in range(rng.randint(1, 4)):
        steps.append(under(rng.choice(["", "", "s"]), rng.choice(IMAGE_LAYERS[:8]).format(i=i)))
    steps.append("init(m.param_init_net)\nworkspace.RunNetOnce(m.net)")
    for _ in range(rng.randint(1, 3)):
        steps.append(rng.choice([
            "t = Transformer()\nt.FuseConvBN(m.net)\nshow(m.net)", "t = Transformer()\nt.AddNNPACK(m.net)\nt.FuseNNPACKConvRelu(m.net)\nshow(m.net)", "t = Transformer()\nt.SinkMaxPool(m.net)\nshow(m.net)", "t = Transformer()\nt.FuseConv3DBN(m.net)\nshow(m.net)",
            "c = core.Net(m.net.Proto())\nworkspace.RunNetOnce(c)", "transformations.optimizeForMKLDNN(m.net) if 0 else show(core.get_ssa(m.net))",
            f"t = workspace.ApplyTransform({rng.choice(['ConvToNNPack', 'CommonSubexpressionElimination', 'Nosuch'])!r}, m.net.Proto())\nshow(t)", "show(workspace.ApplyTransformIfFaster.__name__)",
            "show(utils.ArgsToDict(m.net.Proto().op[0].arg))", "n = core.Net('r')\nn.AppendNet(m.net)\nfor op in n.Proto().op:\n    op.input[0] = op.input[0] + '_renamed' if False else op.input[0]\nshow(n)", "a, b = m.net.Clone('one'), m.net.Clone('two', {'data': 'q'})\na.AppendNet(b)\nshow(a, a.external_inputs)",
            "show(m.net.Proto() == core.Net(m.net.Proto()).Proto(), m.net.Proto().SerializeToString() == m.net.Clone('m').Proto().SerializeToString())", "show(utils.GetContentFromProto(m.net.Proto(), {caffe2_pb2.NetDef: lambda x: x.name}))",
            "s, versions = core.get_ssa(m.net)\nshow(sorted(versions.items()), core.get_output_producers(m.net.Proto().op))", "show(workspace.RunNetOnce(core.Net.ClonePartial(m.net, 'part', ['data'], [h])))",
        ]))  # fmt: skip
    return steps


@family
def seq2seq(rng):
    """The helper, the embeddings and the sizes of encoders."""
    units = rng.choice([2, 4])
    layers = rng.choice([1, 2])
    attention = rng.choice(["none", "regular", "recurrent"])
    steps = ["from caffe2.python.models.seq2seq import seq2seq_util as su\nfrom caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper\nfrom caffe2.python import core, rnn_cell, optimizer",
             f"m = Seq2SeqModelHelper({rng.choice(['', 'init_params=True', 'name=' + repr('s2s')])})", "workspace.FeedBlob('src', np.array([[1, 2], [3, 0], [2, 2]], 'i4'))\nworkspace.FeedBlob('len', np.array([3, 2], 'i4'))\nworkspace.FeedBlob('tgt', np.array([[1, 2], [3, 1]], 'i4'))\nworkspace.FeedBlob('tlen', np.array([2, 2], 'i4'))",
             "src, length, tgt, tlen = map(core.BlobReference, ('src', 'len', 'tgt', 'tlen'))", f"e = su.build_embeddings(m, 6, {units}, 'emb', {rng.choice([True, False])})\nshow(e)" if rng.random() < 0.8 else "e = m.param_init_net.XavierFill([], 'emb', shape=[6, %d])" % units,
             f"params = dict(attention={attention!r}, use_bidirectional_encoder={rng.choice([True, False])}, encoder_layer_configs=[dict(num_units={units})] * {layers})"]  # fmt: skip
    scope = rng.choice(["", "", "s"])
    kind = rng.choice(["unidirectional", "bidirectional", "encoder", "whole"])
    if kind == "unidirectional":
        steps.append(
            under(
                scope,
                f"g = m.net.Gather([e, src], 'g')\nr = su.rnn_unidirectional_layer(m, g, length, {units}, {units}, None, {rng.choice([True, False])}, True, {rng.choice([True, False])}, scope='layer')\nshow(r)",
            )
        )
    elif kind == "bidirectional":
        steps.append(
            under(
                scope,
                f"g = m.net.Gather([e, src], 'g')\nr = su.rnn_bidirectional_layer(m, g, length, {units}, {units}, None, {rng.choice([True, False])}, True, {rng.choice([True, False])}, scope='bi')\nshow(r)",
            )
        )
    else:
        steps.append(
            under(
                scope,
                f"r = su.build_embedding_encoder(m, dict(encoder_layer_configs=[dict(num_units={units})] * {layers}, use_bidirectional_encoder={rng.choice([True, False])}), src, length, 6, e, {units}, {rng.choice([True, False])}, num_gpus=0)\nshow(r)",
            )
        )
        steps.append(
            under(
                scope,
                f"s = su.build_initial_rnn_decoder_states(m, [{units}] * {layers}, r[2], r[3], [{units}] * {layers}, {attention != 'none'})\nshow(s)",
            )
        )
        if kind == "whole":
            steps.append(
                under(
                    scope,
                    f"d = su.build_embedding_decoder(m, [dict(num_units={units})] * {layers}, src, tgt, tlen, r[0], length, r[1], r[2], r[3], 6, e, {units}, {attention!r}, False, num_gpus=0)\nshow(d)",
                )
            )
            steps.append(
                under(scope, f"o = su.output_projection(m, d[0], d[1], 6, {rng.choice(['None', '3'])})\nshow(o)")
            )
    steps.append(
        "show([str(p) for p in m.params], m.non_trainable_params if hasattr(m, 'non_trainable_params') else 0)"
    )
    if rng.random() < 0.4:
        steps.append(under(scope, "g2 = m.AddGradientOperators([m.net.AveragedLoss(r[0], 'loss')])"))
    return [*steps, "init(m.param_init_net)", "workspace.RunNetOnce(m.net)"]
