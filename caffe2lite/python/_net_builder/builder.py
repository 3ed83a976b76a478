"""The block that collects nets and blocks in it."""

from __future__ import annotations

from caffe2lite.python import core
from caffe2lite.python._core.builder import Builder


class NetBuilder(Builder):
    """Collects nets and nested builders as steps that run in order; `ops.X(...)` adds operators to the innermost one.

    With `_use_control_ops` everything becomes one net, with If and While operators; otherwise loops and conditions are
    execution steps that end when their stop blob becomes true.
    """

    def __init__(
        self,
        name=None,
        initial_scope=None,
        _stop_blob_required=False,
        _stop_blob=None,
        _fullname=None,
        _use_control_ops=False,
    ):
        parent = NetBuilder.current(required=False)
        if _fullname and name:
            raise AssertionError(f"give name ({name}) or _fullname ({_fullname}), not both")
        if _use_control_ops and (_stop_blob_required or _stop_blob):
            raise AssertionError("a builder of control operators has no stop blob")
        self.name = _fullname or "/".join(part for part in (parent.name if parent else None, name) if part)
        self._frozen = False
        self._current_net = None
        self._children = []
        if parent:
            parent._update_lexical_scope()
        self._init_lexical_scope = set(parent._lexical_scope) if parent else set()
        self._init_lexical_scope |= {str(blob) for blob in initial_scope or ()}
        self._lexical_scope = set(self._init_lexical_scope)
        self._stop_blob = _stop_blob
        self._stop_blob_required = _stop_blob_required
        self._use_control_ops = _use_control_ops

    def stop_blob(self):
        """Return the bool blob that ends this builder's steps, made when first asked for."""
        if self._use_control_ops:
            raise AssertionError("a builder of control operators has no stop blob")
        if self._stop_blob is None:
            net = self.current_net()
            self._stop_blob = core.BlobReference(net.NextName("stop_blob"), net=net)
            net.Const(False, blob_out=self._stop_blob)
            if self._current_net is not self._children[0]:
                # Steps check the blob after every net: it has to be there from the first one on.
                self._children.insert(0, core.Net("stop_blob_init"))
                self._children[0].Const(False, blob_out=self._stop_blob)
        return self._stop_blob

    def stop_if(self, blob):
        """End here when `blob` is true."""
        stop_blob = self.stop_blob()
        NetBuilder.current().current_net().Or([stop_blob, blob], [stop_blob])
        self._current_net = None

    def _assert_mutable(self):
        if self._frozen:
            raise AssertionError(f"This NetBuilder ({self.name}) has been built already.")

    def _update_lexical_scope(self):
        """Note the names that a builder inside this one may see now."""
        seen = [self._init_lexical_scope]
        for child in self._children:
            if isinstance(child, core.Net):
                seen.append(child.UsedBlobNames())
            elif isinstance(child, NetBuilder) and child._use_control_ops:
                seen.append(child._lexical_scope)
        self._lexical_scope = set().union(*seen)

    def _reset_children(self):
        self._children = []
        self._current_net = None
        self._lexical_scope = set(self._init_lexical_scope)

    def _take_merged(self):
        """Return the children as one net (None if there are none), which are forgotten."""
        children = self._children
        self._reset_children()
        return NetBuilder.merge_nets(children, self._lexical_scope)

    def _become(self, net):
        self._current_net = net
        self._children = [net]

    def add(self, child):
        """Append a net, a step or a builder; return it."""
        self._assert_mutable()
        if self._use_control_ops and not (
            isinstance(child, core.Net) or (isinstance(child, NetBuilder) and child._use_control_ops)
        ):
            raise AssertionError(f"a builder of control operators takes nets and such builders, got {child!r}")
        self._current_net = child if isinstance(child, core.Net) else None
        self._children.append(child)
        self._update_lexical_scope()
        return child

    def current_net(self, name=None):
        """Return the net that operators are added to; with `name` a new one."""
        self._assert_mutable()
        if self._current_net is None or name is not None:
            self.add(core.Net(name))
        return self._current_net

    def freeze(self):
        """End building."""
        for child in self._children:
            if hasattr(child, "freeze"):
                child.freeze()
        self._current_net = None
        self._frozen = True

    def get(self):
        """Return the nets, steps and builders, in order; ends building."""
        self.freeze()
        return self._children

    def __exit__(self, etype, *args):
        super().__exit__(etype, *args)
        if self._use_control_ops and self._children:
            self._children = [self._take_merged()]
        self.freeze()
        if etype is None and self._stop_blob_required and self._stop_blob is None:
            raise AssertionError(
                f"This NetBuilder ({self.name}) requires a stop condition to be set with `stop` or `stop_if`"
            )

    @staticmethod
    def merge_nets(nets_or_builders, outer_blob_names):
        """Return one net of all operators; what it writes to `outer_blob_names` stays an external output."""
        merged = None
        for part in nets_or_builders:
            if isinstance(part, NetBuilder):
                if not part._use_control_ops:
                    raise AssertionError(f"{part} holds execution steps, which cannot become part of a net")
                nets = part.get()
                if not nets:
                    continue
                if len(nets) != 1 or not isinstance(nets[0], core.Net):
                    raise AssertionError(f"{part} must come down to one net, got {nets}")
                part = nets[0]
            elif not isinstance(part, core.Net):
                raise AssertionError(f"only nets and builders can be merged, got {part!r}")
            merged = merged.AppendNet(part) if merged else part
        if merged:
            outputs = merged.Proto().external_output
            kept = [blob for blob in outputs if blob in outer_blob_names]
            del outputs[:]
            outputs.extend(kept)
        return merged

    def __str__(self):
        return self.name or "Un-named NetBuilder"
