"""Which blobs a net knows, and names for new ones."""

from __future__ import annotations

import itertools

from caffe2lite.python._core.operators import BlobReference, ScopedBlobReference, ScopedName, blob_reference


class BlobTable:
    """The part of Net that keeps the names of its blobs: those it computes, its external inputs, those handed out."""

    def _InvalidateLookupTables(self):
        self._recreate_lookup_tables = True

    def _RecreateLookupTables(self):
        self._op_outputs = {blob for op in self._net.op for blob in op.output}
        self._external_input_map = set(self._net.external_input)
        self._recreate_lookup_tables = False

    def _CheckLookupTables(self):
        """Raise AssertionError if the tables do not say what the proto says."""
        outputs, inputs = self._op_outputs, self._external_input_map
        self._RecreateLookupTables()
        if outputs != self._op_outputs or inputs != self._external_input_map:
            raise AssertionError(f"Lookup tables of net {self.Name()} disagree with its proto")

    def BlobIsDefined(self, blob):
        """Return whether the net computes `blob` or has it as external input."""
        if self._recreate_lookup_tables:
            self._RecreateLookupTables()
        name = blob._name if type(blob) is BlobReference else str(blob)
        return name in self._op_outputs or name in self._external_input_map

    def is_external_input(self, blob):
        """Return whether `blob` is an external input."""
        if self._recreate_lookup_tables:
            self._RecreateLookupTables()
        return str(blob) in self._external_input_map

    def UsesBlob(self, blob):
        """Return whether an operator reads `blob`, or it is an external input."""
        name = str(blob)
        return any(name in op.input for op in self._net.op) or self.is_external_input(name)

    def UsedBlobNames(self):
        """Return the set of all blob names."""
        names = set(self._net.external_input) | set(self._net.external_output)
        for op in self._net.op:
            names.update(op.input, op.output)
        return names

    def GetBlobRef(self, blob_name):
        """Return a reference to a blob that the net defines; KeyError for others."""
        if not self.BlobIsDefined(blob_name):
            raise KeyError(f"Net does not define blob {blob_name}")
        return BlobReference(blob_name, self)

    @property
    def external_inputs(self):
        """References to the external inputs."""
        return [BlobReference(blob) for blob in self._net.external_input]

    @property
    def external_outputs(self):
        """References to the external outputs."""
        return [BlobReference(blob) for blob in self._net.external_output]

    def AddExternalInput(self, *inputs):
        """Declare external inputs; return a reference, or a list for several. AssertionError for one it has."""
        if not inputs:
            raise AssertionError(f"AddExternalInput of net {self.Name()} needs at least one input, got none")
        names = [str(blob) for blob in inputs]
        for i, name in enumerate(names):
            if self.is_external_input(name) or name in names[:i]:
                raise AssertionError(f"Net already contains an input named {name}")
        self._net.external_input.extend(names)
        self._external_input_map.update(names)
        references = [blob_reference(name) for name in names]
        return references[0] if len(references) == 1 else references

    def AddExternalOutput(self, *outputs):
        """Declare external outputs (BlobReferences that the net defines)."""
        for blob in outputs:
            if not isinstance(blob, BlobReference):
                raise AssertionError(f"An external output is a BlobReference, got {blob!r}")
            if not self.BlobIsDefined(blob):
                raise AssertionError(f"{blob} is not defined")
        self._net.external_output.extend([blob._name for blob in outputs])

    def AddScopedExternalInputs(self, *inputs):
        """AddExternalInput with the name scope in front; always returns a list."""
        references = self.AddExternalInput(*[ScopedBlobReference(str(blob)) for blob in inputs])
        return references if isinstance(references, list) else [references]

    def AddScopedExternalOutputs(self, *outputs):
        """AddExternalOutput with the name scope in front."""
        return self.AddExternalOutput(*[ScopedBlobReference(str(blob)) for blob in outputs])

    def AddExternalInputs(self, *inputs):
        """AddExternalInput."""
        return self.AddExternalInput(*inputs)

    def AddExternalOutputs(self, *outputs):
        """AddExternalOutput."""
        self.AddExternalOutput(*outputs)

    # --- names for new blobs ---

    def NextScopedBlob(self, prefix="unnamed"):
        """NextBlob with the name scope in front."""
        return self.NextBlob(ScopedName(prefix))

    def NextBlob(self, prefix="unnamed"):
        """Return a reference called `prefix`, or `prefix_auto_0`, … where that name is defined or was handed out before."""
        name = str(prefix)
        for i in itertools.count():
            if name not in self._registered_blob_names and not self.BlobIsDefined(name):
                break
            name = f"{prefix}_auto_{i}"
        self._registered_blob_names.add(name)
        return BlobReference(name)

    def NextName(self, prefix=None, output_id=None):
        """Return a name for an operator's output: `net/prefix`, `net/prefix_2`, … or `net_blob_0`, …"""
        if not prefix:
            name = f"{self._net.name}_blob_{self._next_blob_index}"
            self._next_blob_index += 1
            return str(name)
        base = f"{self._net.name}/{prefix}"
        suffix = "" if output_id is None else f":{output_id}"
        name = base + suffix
        counters = self._name_counters
        while self.BlobIsDefined(ScopedName(name)):
            i = counters.get(base + suffix, 2)
            counters[base + suffix] = i + 1
            name = f"{base}_{i}{suffix}"
        return name
