"""If and While operators whose subnets see the blobs around them by lexical scope."""

from __future__ import annotations

from caffe2lite.python import core


def _external_names(net, lexical_scope):
    """Return (inputs, outputs) of a subnet that are blobs of the scope around it, each in order of appearance."""
    ssa, _ = core.get_ssa(net.Proto())
    undefined = core.get_undefined_blobs(ssa)
    inputs = list(dict.fromkeys(blob for read, _ in ssa for blob, _ in read if blob in undefined))
    for blob in inputs:
        if str(blob) not in lexical_scope:
            raise AssertionError(f"Input blob {blob} is undefined")
    outputs = dict.fromkeys(blob for op in net.Proto().op for blob in op.output if blob in lexical_scope)
    return inputs, list(outputs)


def get_external_blob_names(net, lexical_scope):
    """Return (inputs, outputs) of a subnet that are blobs of the scope around it, as sets of names.

    AssertionError for an input that is not in `lexical_scope`.
    """
    inputs, outputs = _external_names(net, lexical_scope)
    return set(inputs), set(outputs)


def _do_net(name, subnet, inputs, outputs, workspace_blob, **arguments):
    """Return a net of one Do operator, which runs `subnet` in a workspace of its own."""
    net = core.Net(name)
    blobs = [core.BlobReference(blob) for blob in inputs]
    written = [core.BlobReference(blob) for blob in outputs]
    outer = [*inputs, *outputs]
    inner = list(dict.fromkeys(outer))
    net.Do(
        [*blobs, workspace_blob],
        [*written, workspace_blob],
        net=subnet.Proto(),
        inner_blobs=inner,
        outer_blobs_idx=[outer.index(blob) for blob in inner],
        **arguments,
    )
    net.AddExternalOutput(*written, workspace_blob)
    return net


def _scope_blob(net, name):
    return net.CreateScope([], [net.NextScopedBlob(f"{net.Name()}/{name}")])


def add_if_op(if_net, cond_blob, lexical_scope, then_net, else_net=None):
    """Add an If operator over two subnets to `if_net`.

    In a subnet, names in `lexical_scope` are blobs outside; the others are its own and vanish after it ran.
    """
    branches = [("then", then_net)] + ([("else", else_net)] if else_net else [])
    externals = [_external_names(net, lexical_scope) for _, net in branches]
    scopes = [_scope_blob(if_net, f"workspace_if_{kind}") for kind, _ in branches]
    nets = {
        f"{kind}_net": _do_net(f"do_{kind}_net", net, inputs, outputs, scope).Proto()
        for (kind, net), (inputs, outputs), scope in zip(branches, externals, scopes)
    }
    inputs = dict.fromkeys(blob for read, _ in externals for blob in read)
    outputs = dict.fromkeys(blob for _, written in externals for blob in written)
    written = [*map(core.BlobReference, outputs), *scopes]
    if_net.If([cond_blob, *map(core.BlobReference, inputs), *scopes], written, **nets)
    if_net.AddExternalOutput(*written)


def add_while_op(while_net, cond_blob, lexical_scope, loop_body_net, condition_body_net=None):
    """Add a While operator to `while_net`: it runs `condition_body_net`, and `loop_body_net` while `cond_blob` is true.

    Names are seen as in add_if_op; without a condition net, the body writes `cond_blob`.
    """
    body_inputs, body_outputs = _external_names(loop_body_net, lexical_scope)
    body_inputs += [blob for blob in body_outputs if blob not in body_inputs]  # they survive from round to round
    cond_inputs, cond_outputs = [], []
    if condition_body_net:
        if str(cond_blob) not in lexical_scope:
            lexical_scope = {*lexical_scope, str(cond_blob)}
            while_net.Const(False, blob_out=cond_blob)
        cond_inputs, cond_outputs = _external_names(condition_body_net, lexical_scope)

    body_scope = _scope_blob(while_net, "workspace_loop_body")
    nets = {
        "loop_net": _do_net(
            "do_loop_body_net", loop_body_net, body_inputs, body_outputs, body_scope, copy_external_blobs=True
        ).Proto()
    }
    outputs = [*body_outputs, str(body_scope)]
    scopes = [body_scope]
    if condition_body_net:
        cond_scope = _scope_blob(while_net, "workspace_loop_cond")
        nets["cond_net"] = _do_net(
            "do_loop_condition_net", condition_body_net, cond_inputs, cond_outputs, cond_scope
        ).Proto()
        outputs += [blob for blob in cond_outputs if blob not in body_outputs] + [str(cond_scope)]
        scopes.append(cond_scope)
    inputs = dict.fromkeys(blob for blob in [*body_inputs, *cond_inputs] if blob != str(cond_blob))
    written = [core.BlobReference(blob) for blob in outputs]
    while_net.While([cond_blob, *map(core.BlobReference, inputs), *scopes], written, **nets)
    while_net.AddExternalOutput(*written)
