"""The work of fakefp16_transform_lib, on serialized nets as the C extension takes them."""

from __future__ import annotations

from caffe2lite.proto import caffe2_pb2

_QUANTIZE = "Int8QuantizeNNPI"
_FUSED = {  # chains of operators, and the one that does their work
    ("Int8DequantizeNNPI", "SwishFakeFp16NNPI", _QUANTIZE): "SwishFakeInt8NNPI",
    ("TanhFakeFp16NNPI", _QUANTIZE): "TanhQuantFakeFp16NNPI",
    ("LayerNormFakeFP16NNPI", _QUANTIZE): "LayerNormInt8QuantizeFakeNNPI",
}


def fakeFp16FuseOps(content):
    """Return a serialized NetDef in which chains that end in Int8QuantizeNNPI are one operator each."""
    fused = caffe2_pb2.NetDef.FromString(content)
    for kinds, kind in _FUSED.items():
        while chain := _find(fused, kinds):
            first, last = fused.op[chain[0]], fused.op[chain[-1]]
            quantization = {a.name: a for a in last.arg}
            made = caffe2_pb2.OperatorDef(type=kind, input=first.input, output=last.output, arg=first.arg)
            for name, field in (("Y_scale", "f"), ("Y_zero_point", "i")):
                given = quantization.get(name, caffe2_pb2.Argument())
                made.arg.add(name=name, **{field: getattr(given, field)})
            if first.HasField("device_option"):
                made.device_option.CopyFrom(first.device_option)
            fused.op[chain[-1]].CopyFrom(made)
            for i in reversed(chain[:-1]):
                del fused.op[i]
    return fused.SerializeToString()


def _find(net, kinds):
    """Return the positions of operators of these types, each of which alone reads what the one before it writes."""
    for i in range(len(net.op)):
        chain = [i]
        while net.op[chain[-1]].type == kinds[len(chain) - 1]:
            if len(chain) == len(kinds):
                return chain
            written = net.op[chain[-1]].output[:1]
            readers = [j for j, other in enumerate(net.op) if written and written[0] in other.input]
            if len(readers) != 1 or written[0] in net.external_output or readers[0] < chain[-1]:
                break
            chain.append(readers[0])
    return None
