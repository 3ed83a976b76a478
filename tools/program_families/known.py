"""Differences between programs here and on genuine Caffe2 that have a reason, recognised by rule.

Each rule is a function of the difference's text and of both results; where it holds, its reason is counted.
"""

import re

RULES = []


def rule(reason):
    """Decorator: a function of (text, there, here) that tells whether this is the reason."""

    def add(function):
        RULES.append((reason, function))
        return function

    return add


def reason_of(text, there, here):
    """Why this difference is one; None where no rule knows."""
    return next((reason for reason, holds in RULES if holds(text, there, here)), None)


@rule("memory that an operator which raised has not written, or not yet: the blob is named in the error")
def _unwritten(text, there, here):
    blob = re.match(r"/blobs/(.*?): ", text)
    said = " ".join(message for side in (there, here) for _, message in side["errors"].values())
    return bool(blob) and blob[1] in said


@rule(
    "names of gradients that memonger shares: Caffe2 takes them from sets of strings, in another order at every start"
)
def _shared(text, there, here):
    return bool(re.search(r"__m\d+_shared", text))


@rule(
    "arguments are refused when the net is created there, when the operator runs here: the operators before it have run"
)
def _late(text, there, here):
    before = there["errors"].keys() == here["errors"].keys() and any(
        "Cannot create operator" in m or "enforce fail" in m or "INTERNAL ASSERT" in m
        for _, m in there["errors"].values()
    )
    step = re.match(r"/errors/(\d+): only there: RuntimeError", text)
    made = bool(step) and "is of unexpected type" in there["errors"][step[1]][1]
    return made or (before and text.startswith("/blobs/") and "uninitialized" in text)


@rule("Print and Summarize of a blob that nothing was put into: an error here, a line about its type there")
def _nothing(text, there, here):
    return any("uninitialised: nothing has been put into it" in m for _, m in here["errors"].values())


@rule("ConstantFill of a whole number without dtype: genuine infers float32 and makes int64, we infer what is made")
def _inferred(text, there, here):
    return text.startswith("/shown") and "'1' there, '10' here" in text


@rule("what Caffe 1 counts, genuine's translator leaves out: averages of padded pools count the padding")
def _padded(text, there, here):
    return "count_include_pad=1" in text and "legacy_pad" in text


@rule("genuine's ClipTensorByScaling multiplies its own threshold by the third input, again at every run")
def _shrinking(text, there, here):
    nets = str(here["nets"])
    return text.startswith("/blobs/") and bool(re.search(r"ClipTensorByScaling\([^,)]+, [^,)]+, ", nets))


@rule("the order of a workspace's blobs, which a checkpoint writes down: there it is that of a hash table")
def _listed(text, there, here):
    names = [sorted(side["blobs"].get("blob_names", ["", "", [], []])[3]) for side in (there, here)]
    return text.startswith("/blobs/blob_names") and "array" in text or names[0] == names[1] and "blob_names" in text


@rule("the ONNX exporter writes PRelu's slope in a shape of its own (newer opsets broadcast from the right)")
def _slope(text, there, here):
    return "'PRelu' there, 'Unsqueeze' here" in text


@rule("genuine's ONNX backend stumbles over a name that it does not define")
def _undefined(text, there, here):
    step = re.match(r"/errors/(\d+): only there: NameError", text)
    return bool(step) and "is not defined" in there["errors"][step[1]][1]


@rule(
    "the ONNX backend writes a slice's bounds as arguments here; genuine's finds them as the net runs, and cuts one axis"
)
def _bounds(text, there, here):
    return "'Shape' there, 'Slice' here" in text


@rule("names that the ONNX backend makes up: genuine's converts each node twice, and counts on")
def _made_up(text, there, here):
    return bool(re.search(r"'OC2_DUMMY_\d+' there, 'OC2_DUMMY_\d+' here", text))


@rule("genuine exports InstanceNorm to ONNX under Caffe2's name, which ONNX's checker does not know")
def _instance_norm(text, there, here):
    return any("No Op registered for InstanceNorm" in m for _, m in there["errors"].values())


@rule("an operator that genuine has for GPUs only, and that is here for the CPU too")
def _on_cpu(text, there, here):
    return any(
        "Cannot create operator of type 'FP32MomentumSGDUpdate' on the device 'CPU'" in m
        for _, m in there["errors"].values()
    )


@rule("masks of dropout are random")
def _masks(text, there, here):
    return text.startswith("/blobs/") and bool(re.search(r"Dropout\([^'\"]*ratio=0.5", str(here["nets"])))


@rule("an error within brew.arg_scope: genuine leaves the arguments of the scope in force")
def _scope_left(text, there, here):
    failed = [{step for step, (kind, _) in side["errors"].items() if kind == "NameError"} for side in (there, here)]
    return text.startswith(("/nets/", "/blobs/", "/shown")) and failed[0] == failed[1] != set()


@rule("genuine's translator runs the net to find the sizes of pools with legacy padding, and meets what cannot run")
def _translated(text, there, here):
    step = re.match(r"/errors/(\d+): only there: RuntimeError", text)
    return bool(step) and "did not pass schema checking" in there["errors"][step[1]][1] and "_dims" in str(there)


@rule("a tensor of fewer dimensions than LRN asks for: genuine reads its sizes from behind its shape")
def _few_dimensions(text, there, here):
    return any("images with 4 dimensions are needed" in m for _, m in here["errors"].values())
