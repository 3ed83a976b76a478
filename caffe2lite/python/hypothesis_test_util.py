"""Hypothesis strategies for tensors, segments and devices, and a TestCase that checks operators."""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import os
import time

import hypothesis
import hypothesis.extra.numpy
import hypothesis.strategies as st
import numpy as np

from caffe2lite.ops.kit import dtypes
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, device_checker, gradient_checker, test_util, workspace

logger = logging.getLogger(__name__)


def is_sandcastle():
    """Return whether the tests run in Facebook's CI."""
    return os.getenv("SANDCASTLE") == "1" or os.getenv("TW_JOB_USER") == "sandcastle"


def is_travis():
    """Return whether the tests run on Travis."""
    return "TRAVIS" in os.environ


_COMMON = {"deadline": None, "suppress_health_check": list(hypothesis.HealthCheck), "database": None}
_PROFILES = {
    "sandcastle": {"derandomize": True, "max_examples": 50},
    "dev": {"max_examples": 10},
    "debug": {"max_examples": 1000, "verbosity": hypothesis.Verbosity.verbose},
}
for _name, _settings in _PROFILES.items():
    hypothesis.settings.register_profile(_name, **_COMMON, **_settings)
hypothesis.settings.load_profile("sandcastle" if is_sandcastle() else os.getenv("CAFFE2_HYPOTHESIS_PROFILE", "dev"))


def settings(*args, **kwargs):
    """hypothesis.settings without what newer versions dropped."""
    for dropped in ("min_satisfying_examples", "timeout", "perform_health_check"):
        kwargs.pop(dropped, None)
    return hypothesis.settings(*args, **kwargs)


# --- strategies ------------------------------------------------------------------------------------------------------


def to_float32(x):
    """`x` rounded to what float32 can say."""
    return None if x is None else float(np.float32(x))


def floats(*args, **kwargs):
    """hypothesis.strategies.floats of width 32."""
    args = [to_float32(bound) for bound in args]
    for bound in ("min_value", "max_value"):
        if bound in kwargs:
            kwargs[bound] = to_float32(kwargs[bound])
    return st.floats(*args, **{"width": 32, **kwargs})


def dims(min_value=1, max_value=5):
    """Return the size of one axis."""
    return st.integers(min_value=min_value, max_value=max_value)


def elements_of_type(dtype=np.float32, filter_=None):
    """Return the elements of a tensor: floats in [-1, 1], non-negative ints, bools."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        elements = floats(min_value=-1.0, max_value=1.0)
    elif dtype in (np.int32, np.int64):
        elements = st.integers(min_value=0, max_value=int(np.iinfo(dtype).max))
    elif dtype.kind == "b":
        elements = st.booleans()
    else:
        raise ValueError(f"Unexpected dtype without elements provided: {dtype}")
    return elements if filter_ is None else elements.filter(filter_)


def arrays(dims, dtype=np.float32, elements=None, unique=False):
    """Return the arrays of the shape `dims`."""
    if elements is None:
        elements = elements_of_type(dtype)
    return hypothesis.extra.numpy.arrays(dtype, dims, elements=elements, unique=unique)


def _shapes(min_dim, max_dim, kwargs):
    return st.lists(dims(**kwargs), min_size=min_dim, max_size=max_dim)


def tensor(min_dim=1, max_dim=4, dtype=np.float32, elements=None, unique=False, **kwargs):
    """Return the arrays of `min_dim` to `max_dim` axes."""
    return _shapes(min_dim, max_dim, kwargs).flatmap(lambda shape: arrays(shape, dtype, elements, unique))


def tensor1d(min_len=1, max_len=64, dtype=np.float32, elements=None):
    """Vectors."""
    return tensor(1, 1, dtype, elements, min_value=min_len, max_value=max_len)


def tensors(n, min_dim=1, max_dim=4, dtype=np.float32, elements=None, **kwargs):
    """Return the lists of `n` arrays of one shape."""
    return _shapes(min_dim, max_dim, kwargs).flatmap(
        lambda shape: st.lists(arrays(shape, dtype, elements), min_size=n, max_size=n)
    )


def tensors1d(n, min_len=1, max_len=64, dtype=np.float32, elements=None):
    """Return the lists of `n` vectors of one length."""
    return tensors(n, 1, 1, dtype, elements, min_value=min_len, max_value=max_len)


def segment_ids(size, is_sorted):
    """`size` segment numbers; sorted ones begin with 0 and have no gaps."""
    if size == 0:
        return st.just(np.empty(0, dtype=np.int32))
    if is_sorted:
        return arrays([size], dtype=np.int32, elements=st.integers(0, 1)).map(
            lambda steps: np.cumsum(steps, dtype=np.int32) - steps[0]
        )
    return arrays([size], dtype=np.int32, elements=st.integers(min_value=0, max_value=2 * size))


def lengths(size, min_segments=None, max_segments=None, **kwargs):
    """Return the lengths of segments that add up to `size`."""
    min_segments = 0 if min_segments is None else min_segments
    max_segments = size if max_segments is None else max_segments
    if min_segments > max_segments:
        raise AssertionError(f"min_segments {min_segments} exceeds max_segments {max_segments}")
    if size == 0 and max_segments == 0:
        return st.just(np.empty(0, dtype=np.int32))
    if max_segments <= 0:
        raise AssertionError(f"{size} elements need at least one segment")
    borders = st.integers(min_value=max(min_segments - 1, 0), max_value=max_segments - 1).flatmap(
        lambda n: arrays([n], dtype=np.int32, elements=st.integers(min_value=0, max_value=size))
    )
    return borders.map(lambda inner: np.diff(np.sort(np.array([0, *inner, size], dtype=np.int32))))


def segmented_tensor(
    min_dim=1,
    max_dim=4,
    dtype=np.float32,
    is_sorted=True,
    elements=None,
    segment_generator=segment_ids,
    allow_empty=False,
    **kwargs,
):
    """Return pairs (data, segments of its first axis)."""
    empty = st.booleans() if allow_empty else st.just(False)
    shapes = st.tuples(empty, _shapes(min_dim, max_dim, kwargs)).map(lambda pair: [0] * pair[0] + pair[1])
    return shapes.flatmap(
        lambda shape: st.tuples(arrays(shape, dtype, elements), segment_generator(shape[0], is_sorted=is_sorted))
    )


def lengths_tensor(min_segments=None, max_segments=None, *args, **kwargs):
    """Return pairs (data, lengths of segments of its first axis)."""
    generator = functools.partial(lengths, min_segments=min_segments, max_segments=max_segments)
    return segmented_tensor(*args, segment_generator=generator, **kwargs)


def sparse_segmented_tensor(
    min_dim=1,
    max_dim=4,
    dtype=np.float32,
    is_sorted=True,
    elements=None,
    allow_empty=False,
    segment_generator=segment_ids,
    itype=np.int64,
    **kwargs,
):
    """Return triples (data, indices into its first axis, segments of the indices)."""

    def with_indices(shape):
        counts = st.just(0) if shape[0] == 0 else st.integers(min_value=1, max_value=shape[0])
        return counts.flatmap(
            lambda n: st.tuples(
                arrays(shape, dtype, elements),
                arrays([n], dtype=itype, elements=st.integers(0, max(shape[0] - 1, 0))),
                segment_generator(n, is_sorted=is_sorted),
            )
        )

    empty = st.booleans() if allow_empty else st.just(False)
    shapes = st.tuples(empty, _shapes(min_dim, max_dim, kwargs)).map(lambda pair: [0] * pair[0] + pair[1])
    return shapes.flatmap(with_indices)


def sparse_lengths_tensor(**kwargs):
    """Return triples (data, indices into its first axis, lengths of segments of the indices)."""
    return sparse_segmented_tensor(segment_generator=lengths, **kwargs)


# --- devices ---------------------------------------------------------------------------------------------------------

cpu_do = caffe2_pb2.DeviceOption()
cuda_do = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CUDA)
hip_do = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.HIP)
gpu_do = caffe2_pb2.DeviceOption(device_type=workspace.GpuDeviceType)
_cuda_do_list = [cuda_do] if workspace.has_cuda_support else []
_hip_do_list = [hip_do] if workspace.has_hip_support else []
_gpu_do_list = _cuda_do_list + _hip_do_list
_device_options_no_hip = [cpu_do, *_cuda_do_list]
device_options = [cpu_do, *_gpu_do_list]
expanded_device_options = device_options + [
    caffe2_pb2.DeviceOption(device_type=workspace.GpuDeviceType, device_id=i) for i in range(workspace.NumGpuDevices())
]


def one_and_all(options):
    """Return the strategies of a test's `gc`, one of the devices, and `dc`, all of them."""
    return {"gc": st.sampled_from(options), "dc": st.just(options)}


gcs = one_and_all(device_options)


def device_checker_device_options():
    """Return all devices, as a list."""
    return gcs["dc"]


def gradient_checker_device_option():
    """Return one of the devices."""
    return gcs["gc"]


gcs_cpu_only = one_and_all([cpu_do])
gcs_cuda_only = one_and_all(_cuda_do_list)
gcs_gpu_only = one_and_all(_gpu_do_list)
gcs_no_hip = one_and_all(_device_options_no_hip)


# --- running operators -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def temp_workspace(name="temp_ws"):
    """Inside the block, the current workspace is a new one."""
    if isinstance(name, bytes):
        name = name.decode("utf-8")
    outer = workspace.CurrentWorkspace()
    workspace.SwitchWorkspace(name, True)
    try:
        yield
    finally:
        workspace.ResetWorkspace()
        workspace.SwitchWorkspace(outer)


def _placed(device_option, op):
    op = copy.deepcopy(op)
    op.device_option.CopyFrom(device_option)
    return op


def _feed(device_option, op, inputs, input_device_options):
    if len(op.input) > len(inputs):
        raise ValueError(f"must supply an input for each input on the op: {op.input} vs {inputs}")
    places = input_device_options or core.InferOpBlobDevicesAsDict(op)[0]
    for name, value in zip(op.input, inputs):
        workspace.FeedBlob(name, value, device_option=places.get(name, device_option))


def runOpBenchmark(device_option, op, inputs, input_device_options=None, iterations=10):
    """Return the seconds of one run of an operator, averaged."""
    op = _placed(device_option, op)
    with temp_workspace():
        _feed(device_option, op, inputs, input_device_options)
        net = core.Net("op")
        net.Proto().op.extend([op])
        workspace.CreateNet(net)
        workspace.RunNet(net)
        begin = time.perf_counter()
        workspace.RunNet(net, iterations)
        return (time.perf_counter() - begin) / iterations


def runOpOnInput(device_option, op, inputs, input_device_options=None):
    """Return the outputs of an operator."""
    op = _placed(device_option, op)
    with temp_workspace():
        _feed(device_option, op, inputs, input_device_options)
        workspace.RunOperatorOnce(op)
        return [workspace.FetchBlob(name) for name in op.output]


_PROTO_TYPES = {np.dtype(name): number for name, number in dtypes.NUMBERS.items()}


class HypothesisTestCase(test_util.TestCase):
    """Assertions about operators: against a reference, between devices, of gradients, of errors."""

    def assertDeviceChecks(
        self, device_options, op, inputs, outputs_to_check, input_device_options=None, threshold=0.01
    ):
        """Check that outputs number `outputs_to_check` agree on all devices."""
        checker = device_checker.DeviceChecker(threshold, device_options=device_options)
        self.assertTrue(checker.CheckSimple(op, inputs, outputs_to_check, input_device_options))

    def assertGradientChecks(
        self,
        device_option,
        op,
        inputs,
        outputs_to_check,
        outputs_with_grads,
        grad_ops=None,
        threshold=0.005,
        stepsize=0.05,
        input_device_options=None,
        ensure_outputs_are_inferred=False,
    ):
        """The gradient of input number `outputs_to_check` agrees with finite differences."""
        checker = gradient_checker.GradientChecker(
            stepsize=stepsize,
            threshold=threshold,
            device_option=device_option,
            workspace_name=str(device_option),
            input_device_options=input_device_options,
        )
        agrees, gradient, estimate = checker.CheckSimple(
            op,
            inputs,
            outputs_to_check,
            outputs_with_grads,
            grad_ops=grad_ops,
            input_device_options=input_device_options,
            ensure_outputs_are_inferred=ensure_outputs_are_inferred,
        )
        self.assertEqual(gradient.shape, estimate.shape)
        self.assertTrue(agrees, f"the gradient of {op.input[outputs_to_check]} differs from its estimate")

    def _assertGradReferenceChecks(self, op, inputs, ref_outputs, output_to_grad, grad_reference, threshold=1e-4):
        """Check that gradients agree with `grad_reference(output gradient, outputs, inputs)`; the workspace holds the outputs."""
        grad_name = output_to_grad + "_grad"
        grad_ops, grad_map = core.GradientRegistry.GetBackwardPass([op], {output_to_grad: grad_name})
        output_grad = workspace.FetchBlob(output_to_grad)
        expected = grad_reference(output_grad, ref_outputs, inputs)
        workspace.FeedBlob(grad_name, output_grad)
        workspace.RunOperatorsOnce(grad_ops)
        self.assertEqual(len(expected), len(inputs))
        for name, reference in zip(op.input, expected):
            gradient = grad_map.get(name)
            if gradient is None:
                self.assertIsNone(reference)
                continue
            parts = [(gradient, reference, threshold)]
            if isinstance(gradient, core.GradientSlice):
                values, indices = reference
                parts = [(gradient.values, values, threshold), (gradient.indices, indices, 1e-4)]
            for blob, value, tolerance in parts:
                np.testing.assert_allclose(
                    workspace.FetchBlob(blob),
                    value,
                    atol=tolerance,
                    rtol=tolerance,
                    err_msg=f"Gradient {blob} (x) is not matching the reference (y)",
                )

    def _assertInferTensorChecks(self, name, shapes, types, output, ensure_output_is_inferred=False):
        """What inference said about an output is what it is; mismatches only warn unless `ensure_…`."""
        strict = ensure_output_is_inferred or os.getenv("CAFFE2_ASSERT_SHAPEINFERENCE") == "1"
        if name not in shapes:
            self.assertFalse(ensure_output_is_inferred, f"Shape for {name} was not inferred")
            return
        try:
            np.testing.assert_array_equal(shapes[name], output.shape, err_msg=f"Shape {name} mismatch")
            self.assertEqual(types[name], _PROTO_TYPES.get(output.dtype), f"Type {name} mismatch")
        except AssertionError as e:
            if strict:
                raise
            logger.warning(str(e))

    def assertReferenceChecks(
        self,
        device_option,
        op,
        inputs,
        reference,
        input_device_options=None,
        threshold=1e-4,
        output_to_grad=None,
        grad_reference=None,
        atol=None,
        outputs_to_check=None,
        ensure_outputs_are_inferred=False,
    ):
        """Check that the outputs agree with `reference(*inputs)`, a tuple or list of arrays; return the outputs."""
        op = _placed(device_option, op)
        with temp_workspace():
            _feed(device_option, op, inputs, input_device_options)
            net = core.Net("opnet")
            net.Proto().op.extend([op])
            shapes = types = None
            try:
                shapes, types = workspace.InferShapesAndTypes([net])
            except RuntimeError as e:
                if ensure_outputs_are_inferred or os.getenv("CAFFE2_ASSERT_SHAPEINFERENCE") == "1":
                    raise
                logger.warning(str(e))
            workspace.RunNetOnce(net)
            expected = reference(*inputs)
            if not isinstance(expected, (tuple, list)):
                raise RuntimeError(
                    "You are providing a wrong reference implementation. "
                    "A proper one should return a tuple/list of numpy arrays."
                )
            if not outputs_to_check:
                self.assertEqual(len(expected), len(op.output))
                outputs_to_check = range(len(op.output))
            outputs = []
            for i, value in zip(outputs_to_check, expected):
                name = op.output[i]
                output = workspace.FetchBlob(name)
                if output.dtype.kind in "SO":
                    np.testing.assert_array_equal(output, value)
                else:
                    np.testing.assert_allclose(
                        output,
                        value,
                        atol=threshold if atol is None else atol,
                        rtol=threshold,
                        err_msg=f"Output {name} is not matching the reference",
                    )
                if shapes is not None:
                    self._assertInferTensorChecks(name, shapes, types, output, ensure_outputs_are_inferred)
                outputs.append(output)
            if grad_reference is not None:
                if output_to_grad is None:
                    raise AssertionError("If grad_reference is set, output_to_grad has to be set as well")
                with core.DeviceScope(device_option):
                    self._assertGradReferenceChecks(
                        op, inputs, expected, output_to_grad, grad_reference, threshold=threshold
                    )
            return outputs

    def assertValidationChecks(
        self, device_option, op, inputs, validator, input_device_options=None, as_kwargs=True, init_net=None
    ):
        """Call `validator` with inputs and outputs: by blob name, or as two lists where not `as_kwargs`."""
        if as_kwargs and set(op.input) & set(op.output):
            raise AssertionError(f"{op.type} works in place: its blobs cannot be told by name, use as_kwargs=False")
        op = _placed(device_option, op)
        with temp_workspace():
            _feed(device_option, op, inputs, input_device_options)
            if init_net:
                workspace.RunNetOnce(init_net)
            workspace.RunOperatorOnce(op)
            outputs = [workspace.FetchBlob(name) for name in op.output]
            if as_kwargs:
                validator(**dict(zip([*op.input, *op.output], [*inputs, *outputs])))
            else:
                validator(inputs=inputs, outputs=outputs)

    def assertRunOpRaises(
        self, device_option, op, inputs, input_device_options=None, exception=(Exception,), regexp=None
    ):
        """Running the operator raises `exception`, with a message that matches `regexp`."""
        op = _placed(device_option, op)
        with temp_workspace():
            _feed(device_option, op, inputs, input_device_options)
            if regexp is None:
                self.assertRaises(exception, workspace.RunOperatorOnce, op)
            else:
                self.assertRaisesRegex(exception, regexp, workspace.RunOperatorOnce, op)
