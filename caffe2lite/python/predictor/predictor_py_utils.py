"""Reading and writing a MetaNetDef, and the nets that prediction needs."""

from __future__ import annotations

from caffe2lite.python import core, scope


def create_predict_net(predictor_export_meta):
    """Return the NetDef to run for a prediction: that of the meta data with its inputs, parameters and outputs declared."""
    meta = predictor_export_meta
    net = core.Net(meta.predict_net.name or "predict")
    proto = net.Proto()
    proto.op.extend(meta.predict_net.op)
    proto.partition_info.extend(meta.predict_net.partition_info)
    proto.external_input.extend([*meta.inputs, *meta.parameters])
    proto.external_output.extend(meta.outputs)
    proto.arg.extend(meta.predict_net.arg)
    if meta.net_type is not None:
        proto.type = meta.net_type
    if meta.num_workers is not None:
        proto.num_workers = meta.num_workers
    return proto


def create_predict_init_net(ws, predictor_export_meta):
    """Return the NetDef that makes the input and output blobs, zeros of the shapes given or found in workspace `ws`."""
    meta = predictor_export_meta
    net = core.Net("predict-init")
    blobs = [*meta.inputs, *meta.outputs]
    shapes = [_shape_of(blob, meta, ws) for blob in blobs]
    with scope.EmptyDeviceScope():  # who runs the net says where
        for blob, shape in zip(blobs, shapes):
            net.ConstantFill([], blob, shape=shape, value=0.0)
    net.Proto().external_input.extend(blobs)
    if meta.extra_init_net:
        net.AppendNet(meta.extra_init_net)
    AddModelIdArg(meta, net.Proto())
    return net.Proto()


def _shape_of(blob, meta, ws):
    shape = meta.shapes.get(blob)
    if shape is not None:
        return shape
    if blob not in ws.blobs:
        raise Exception(f"{blob} not in workspace but needed for shape: give it in `shapes`, or run the net first")
    return ws.blobs[blob].fetch().shape


def get_comp_name(string, name):
    """`string`, followed by `name` if there is one."""
    return f"{string}_{name}" if name else string


def to_first_match_dict(kv_list):
    """Return a dict of messages with key and value; of equal keys the first counts."""
    return {item.key: item.value for item in reversed(kv_list)}


def _ProtoMapGet(field, key):
    return next((item.value for item in field if item.key == key), None)


def GetPlan(meta_net_def, key):
    """Return the PlanDef of that key, or None."""
    return _ProtoMapGet(meta_net_def.plans, key)


def GetPlanOriginal(meta_net_def, key):
    """Return the PlanDef of that key, or None."""
    return _ProtoMapGet(meta_net_def.plans, key)


def GetNet(meta_net_def, key):
    """Return the NetDef of that key, or None."""
    return _ProtoMapGet(meta_net_def.nets, key)


def GetNetOriginal(meta_net_def, key):
    """Return the NetDef of that key, or None."""
    return _ProtoMapGet(meta_net_def.nets, key)


def GetBlobs(meta_net_def, key):
    """Return the blob names listed under that key."""
    blobs = _ProtoMapGet(meta_net_def.blobs, key)
    return [] if blobs is None else blobs


def GetBlobsByTypePrefix(meta_net_def, blob_type_prefix):
    """Return the blob names listed under all keys that begin so, each once, in order."""
    lists = (item.value for item in meta_net_def.blobs if item.key.startswith(blob_type_prefix))
    return list(dict.fromkeys(blob for blobs in lists for blob in blobs))


def GetApplicationSpecificInfo(meta_net_def, key):
    """Return the string of that key, or None."""
    return _ProtoMapGet(meta_net_def.applicationSpecificInfo, key)


def GetApplicationSpecificInfoDict(meta_net_def):
    """Return all strings of an application, by key."""
    return to_first_match_dict(meta_net_def.applicationSpecificInfo)


def AddBlobs(meta_net_def, blob_name, blob_def):
    """Add blob names to the list under key `blob_name`."""
    blobs = _ProtoMapGet(meta_net_def.blobs, blob_name)
    if blobs is None:
        blobs = meta_net_def.blobs.add(key=blob_name).value
    blobs.extend(blob_def)


def ReplaceBlobs(meta_net_def, blob_name, blob_def):
    """Replace the list of blob names under key `blob_name`."""
    blobs = _ProtoMapGet(meta_net_def.blobs, blob_name)
    if blobs is None:
        raise AssertionError(f"The blob_name:{blob_name} does not exist")
    blobs[:] = blob_def


def AddPlan(meta_net_def, plan_name, plan_def):
    """Add a PlanDef."""
    meta_net_def.plans.add(key=plan_name, value=plan_def)


def AddNet(meta_net_def, net_name, net_def):
    """Add a NetDef."""
    meta_net_def.nets.add(key=net_name, value=net_def)


def SetBlobsOrder(meta_net_def, blobs_order):
    """Add to the order that blobs are loaded in."""
    meta_net_def.blobsOrder.extend(blobs_order)


def GetBlobsOrder(meta_net_def):
    """Return the order that blobs are loaded in."""
    return meta_net_def.blobsOrder


def SetPreLoadBlobs(meta_net_def, pre_load_blobs):
    """Add to the blobs that are loaded before others."""
    meta_net_def.preLoadBlobs.extend(pre_load_blobs)


def SetRequestOnlyEmbeddings(meta_net_def, request_only_embeddings):
    """Add to the embeddings that depend on the request only."""
    meta_net_def.requestOnlyEmbeddings.extend(request_only_embeddings)


def SetTensorBoundShapes(meta_net_def, tensor_bound_shapes):
    """Set the greatest shapes that blobs may have."""
    meta_net_def.tensorBoundShapes.CopyFrom(tensor_bound_shapes)


def SetAOTConfig(meta_net_def, aot_config):
    """Set the configuration of ahead-of-time compilation."""
    meta_net_def.aotConfig.CopyFrom(aot_config)


def GetArgumentByName(net_def, arg_name):
    """Return the argument of a net, or None."""
    return next((arg for arg in net_def.arg if arg.name == arg_name), None)


def AddModelIdArg(meta_net_def, net_def):
    """Give `net_def` the argument model_id of the predict net of PredictorExportMeta `meta_net_def`, if it has one."""
    model_id = GetArgumentByName(meta_net_def.predict_net, "model_id")
    if model_id is None:
        return
    arg = GetArgumentByName(net_def, "model_id") or net_def.arg.add(name="model_id")
    arg.i = model_id.i
