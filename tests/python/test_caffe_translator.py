"""Models of Caffe 1, against NumPy formulas."""

import subprocess
import sys

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2, caffe_pb2
from caffe2.python import caffe_translator, workspace
from google.protobuf import text_format

RNG = np.random.default_rng(0)
NET = """
name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "drop" type: "Dropout" bottom: "pool" top: "pool" dropout_param { dropout_ratio: 0.4 } }
layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 5 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" include { phase: TRAIN } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" include { phase: TEST } }
"""
BLOBS = {
    "conv": [RNG.standard_normal((4, 3, 3, 3)), RNG.standard_normal(4)],
    "bn": [RNG.standard_normal(4), RNG.uniform(0.5, 2, 4), np.array([2.0])],
    "scale": [RNG.standard_normal(4), RNG.standard_normal(4)],
    "fc": [RNG.standard_normal((5, 64)), RNG.standard_normal(5)],
}


def prototxt(text):
    return text_format.Parse(text, caffe_pb2.NetParameter(), allow_unknown_field=True)


def trained(blobs=BLOBS):
    net = caffe_pb2.NetParameter()
    for name, arrays in blobs.items():
        layer = net.layer.add(name=name)
        for array in arrays:
            blob = layer.blobs.add(data=np.asarray(array, np.float32).ravel().tolist())
            blob.shape.dim.extend(array.shape)
    return net


def expected(x):
    w, b = (a.astype(np.float32) for a in BLOBS["conv"])
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    y = np.einsum("nchwij,ocij->nohw", windows, w) + b[:, None, None]
    mean, var, weight = BLOBS["bn"]
    y = (y - (mean / weight)[:, None, None]) / np.sqrt((var / weight)[:, None, None] + 1e-5)
    scale, bias = BLOBS["scale"]
    y = np.maximum(y * scale[:, None, None] + bias[:, None, None], 0)
    y = np.pad(y, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=-np.inf)  # Caffe rounds the size up
    y = np.lib.stride_tricks.sliding_window_view(y, (3, 3), axis=(2, 3))[:, :, ::2, ::2].max((4, 5))
    z = y.reshape(len(x), -1) @ BLOBS["fc"][0].T + BLOBS["fc"][1]
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def run(net, parameters, x):
    workspace.ResetWorkspace()
    init = caffe_translator.ConvertTensorProtosToInitNet(parameters, "data")
    workspace.RunNetOnce(init)
    workspace.FeedBlob("data", x)
    workspace.RunNetOnce(net)
    return workspace.FetchBlob(net.op[-1].output[0])


@pytest.mark.parametrize("pads", [False, True])
def test_a_convnet_computes_the_same(pads):
    x = RNG.standard_normal((2, 3, 8, 8)).astype(np.float32)
    net, parameters = caffe_translator.TranslateModel(
        prototxt(NET), trained(), is_test=True, remove_legacy_pad=pads, input_dims=[2, 3, 8, 8]
    )
    np.testing.assert_allclose(run(net, parameters, x), expected(x), rtol=1e-3, atol=1e-5)
    assert any(a.name == "legacy_pad" for op in net.op for a in op.arg) is not pads


def test_layers_by_phase():
    kinds = [op.type for op in caffe_translator.TranslateModel(prototxt(NET), trained(), is_test=False)[0].op]
    assert kinds[-3:] == ["Softmax", "LabelCrossEntropy", "AveragedLoss"]


def test_the_form_of_layers_before_2014():
    old = """name: "old" input: "data"
    layers { name: "fc" type: INNER_PRODUCT bottom: "data" top: "fc" inner_product_param { num_output: 5 } }
    layers { name: "relu" type: RELU bottom: "fc" top: "fc" }"""
    weights = caffe_pb2.NetParameter()
    layer = weights.layers.add(name="fc", type=caffe_pb2.V1LayerParameter.INNER_PRODUCT)
    w = RNG.standard_normal((5, 4)).astype(np.float32)
    layer.blobs.add(num=1, channels=1, height=5, width=4, data=w.ravel().tolist())
    layer.blobs.add(num=1, channels=1, height=1, width=5, data=[1.0] * 5)
    net, parameters = caffe_translator.TranslateModel(prototxt(old), weights, is_test=True)
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_allclose(run(net, parameters, x), np.maximum(x @ w.T + 1, 0), rtol=1e-5)


LAYERS = [
    ('type: "Eltwise" bottom: "a" bottom: "b"', lambda a, b: a + b),
    ('type: "Eltwise" bottom: "a" bottom: "b" eltwise_param { operation: PROD }', lambda a, b: a * b),
    ('type: "Eltwise" bottom: "a" bottom: "b" eltwise_param { operation: MAX }', np.maximum),
    ('type: "Eltwise" bottom: "a" bottom: "b" eltwise_param { coeff: 1 coeff: -1 }', lambda a, b: a - b),
    ('type: "Concat" bottom: "a" bottom: "b" concat_param { axis: 0 }', lambda a, b: np.concatenate([a, b])),
    ('type: "Power" bottom: "a" power_param { power: 2 scale: 3 shift: 1 }', lambda a, b: (3 * a + 1) ** 2),
    ('type: "ReLU" bottom: "a" relu_param { negative_slope: 0.5 }', lambda a, b: np.where(a > 0, a, a / 2)),
    ('type: "TanH" bottom: "a"', lambda a, b: np.tanh(a)),
    ('type: "Flatten" bottom: "a"', lambda a, b: a.reshape(len(a), -1)),
    ('type: "Reshape" bottom: "a" reshape_param { shape { dim: 0 dim: -1 } }', lambda a, b: a.reshape(len(a), -1)),
    ('type: "Split" bottom: "a"', lambda a, b: a),
    ('type: "ELU" bottom: "a" elu_param { alpha: 2 }', lambda a, b: np.where(a > 0, a, 2 * np.expm1(a))),
    ('type: "LRN" bottom: "a" lrn_param { local_size: 1 alpha: 2 beta: 0.5 }', lambda a, b: a / np.sqrt(1 + 2 * a * a)),
    ('type: "Pooling" bottom: "a" pooling_param { pool: AVE global_pooling: true }',
     lambda a, b: a.mean((2, 3), keepdims=True)),
    ('type: "Pooling" bottom: "a" pooling_param { pool: AVE kernel_size: 2 stride: 2 }',
     lambda a, b: a.reshape(2, 3, 2, 2, 2, 2).mean((3, 5))),
]  # fmt: skip


@pytest.mark.parametrize("layer, formula", LAYERS, ids=lambda v: v.split('"')[1] if isinstance(v, str) else "")
def test_a_layer(layer, formula):
    net, parameters = caffe_translator.TranslateModel(
        prototxt(f'layer {{ name: "l" top: "y" {layer} }}'), caffe_pb2.NetParameter(), is_test=True
    )
    arrays = {n: RNG.uniform(-1, 1, (2, 3, 4, 4)).astype(np.float32) for n in "ab"}
    workspace.ResetWorkspace()
    for name, array in arrays.items():
        workspace.FeedBlob(name, array)
    workspace.RunNetOnce(caffe_translator.ConvertTensorProtosToInitNet(parameters, "unused"))
    workspace.RunNetOnce(net)
    np.testing.assert_allclose(workspace.FetchBlob("y"), formula(*arrays.values()), rtol=1e-4, atol=1e-5)


def test_slices():
    layer = 'layer { name: "s" type: "Slice" bottom: "x" top: "a" top: "b" top: "c" slice_param { slice_point: 1 slice_point: 3 } }'
    net, _ = caffe_translator.TranslateModel(prototxt(layer), caffe_pb2.NetParameter(), is_test=True)
    x = RNG.standard_normal((2, 6, 2)).astype(np.float32)
    workspace.FeedBlob("x", x)
    workspace.RunNetOnce(net)
    for name, part in zip("abc", np.split(x, [1, 3], axis=1)):
        np.testing.assert_array_equal(workspace.FetchBlob(name), part)


@pytest.mark.parametrize(
    "layer, word",
    [
        ('name: "odd" type: "SPP" bottom: "x" top: "y"', "odd.*SPP"),
        ('name: "conv" type: "Convolution" bottom: "x" top: "y" convolution_param { kernel_size: 3 }', "conv.*blobs"),
        (
            'name: "p" type: "Pooling" bottom: "x" top: "y" pooling_param { pool: STOCHASTIC kernel_size: 2 }',
            "p.*stoch",
        ),
    ],
)
def test_what_cannot_be_translated_is_named(layer, word):
    with pytest.raises((KeyError, ValueError), match=word):
        caffe_translator.TranslateModel(prototxt(f"layer {{ {layer} }}"), caffe_pb2.NetParameter(), is_test=True)


def test_the_command(tmp_path):
    (tmp_path / "deploy.prototxt").write_text(NET)
    (tmp_path / "net.caffemodel").write_bytes(trained().SerializeToString())
    done = subprocess.run(
        [sys.executable, "-m", "caffe2.python.caffe_translator", "deploy.prototxt", "net.caffemodel"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    nets = [caffe2_pb2.NetDef.FromString((tmp_path / n).read_bytes()) for n in ("init_net.pb", "predict_net.pb")]
    assert nets[1].external_input[0] == "data" and nets[1].external_output == ["prob"]
    workspace.ResetWorkspace()
    workspace.RunNetOnce(nets[0])
    x = RNG.standard_normal((1, 3, 8, 8)).astype(np.float32)
    workspace.FeedBlob("data", x)
    workspace.RunNetOnce(nets[1])
    np.testing.assert_allclose(workspace.FetchBlob("prob"), expected(x), rtol=1e-3, atol=1e-5)


def test_the_messages_have_the_name_of_caffe_1_too():
    from caffe.proto import caffe_pb2 as of_caffe

    assert of_caffe is caffe_pb2


def test_parameters_are_named_after_tops():
    net = prototxt(
        """layer { name: "conv" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 1 kernel_size: 1 } }
        layer { name: "bn" type: "BatchNorm" bottom: "c" top: "n" }
        layer { name: "scale" type: "Scale" bottom: "n" top: "s" scale_param { bias_term: true } }
        layer { name: "ip" type: "InnerProduct" bottom: "s" top: "f" inner_product_param { num_output: 1 } }
        layer { name: "loss" type: "SoftmaxWithLoss" bottom: "f" bottom: "label" top: "l" }"""
    )
    weights = caffe_pb2.NetParameter()
    for name, shapes in {
        "conv": [(1, 1, 1, 1), (1,)],
        "bn": [(1,)] * 3,
        "scale": [(1,)] * 2,
        "ip": [(1, 1), (1,)],
    }.items():
        layer = weights.layer.add(name=name)
        for shape in shapes:
            layer.blobs.add(shape=caffe_pb2.BlobShape(dim=shape), data=[0.5])
    translated, parameters = caffe_translator.TranslateModel(net, weights, is_test=True)
    names = ["c_w", "c_b", "n_scale", "n_bias", "n_mean", "n_var", "sscale_w", "sscale_b", "f_w", "f_b"]
    assert [p.name for p in parameters.protos] == names
    made = [output for op in translated.op for output in op.output]
    assert made == ["c", "n", "s_internal", "s", "f", "f_translator_autogen_softmax", "f_translator_autogen_xent", "l"]


def test_what_only_training_reads_parses():
    text = """name: "n" layer { name: "d" type: "Data" top: "data" include { phase: TRAIN }
    transform_param { mean_file: "m" mirror: true crop_size: 20 } data_param { source: "db" batch_size: 8 backend: LMDB } }
    layer { name: "c" type: "Convolution" bottom: "data" top: "c" param { lr_mult: 1 decay_mult: 0 }
    convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "gaussian" std: 0.1 } engine: CUDNN } }
    layers { name: "old" type: RELU blobs_lr: 1 weight_decay: 0 }"""
    net = text_format.Parse(text, caffe_pb2.NetParameter())
    assert net.layer[0].data_param.backend == caffe_pb2.DataParameter.LMDB
    solver = text_format.Parse('net: "n" base_lr: 0.1 lr_policy: "step" solver_mode: GPU', caffe_pb2.SolverParameter())
    assert solver.momentum2 == pytest.approx(0.999)
