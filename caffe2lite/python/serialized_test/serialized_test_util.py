"""Operator tests that also record one case, or compare with the recorded one.

A case is a zip beside the tests (`data/operator_test/MODULE.TEST.zip`) with the operator, its gradient operators,
inputs and outputs.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import io
import os
import sys
import threading
import zipfile

import hypothesis as hy
import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import gradient_checker, utils
from caffe2lite.python import hypothesis_test_util as hu

operator_test_type = "operator_test"
TOP_DIR = os.path.dirname(os.path.abspath(__file__))
DATA_SUFFIX = "data"
DATA_DIR = os.path.join(TOP_DIR, DATA_SUFFIX)

_output_context = threading.local()


def given(*given_args, **given_kwargs):
    """hypothesis.given, after one example with a fixed seed that is recorded or compared."""

    def decorate(test):
        examples = hy.given(*given_args, **given_kwargs)(test)
        fixed = hy.seed(0)(hy.settings(max_examples=1)(hy.given(*given_args, **given_kwargs)(test)))

        @functools.wraps(examples)
        def run(self, *args, **kwargs):
            self.should_serialize = True
            try:
                fixed(self, *args, **kwargs)
            finally:
                self.should_serialize = False
            examples(self, *args, **kwargs)

        return run

    return decorate


def _getGradientOrNone(op_proto):
    try:
        return gradient_checker.getGradientForOp(op_proto)[0]
    except Exception:  # of any kind: the operator has no gradient then
        return []


def _transformList(items):
    """Return an object array, also of arrays that have one shape."""
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array


def _prepare_dir(path):
    os.makedirs(path, exist_ok=True)


def _npz(arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{str(i): np.asarray(a) for i, a in enumerate(arrays)})
    return buffer.getvalue()


class SerializedTestCase(hu.HypothesisTestCase):
    """A HypothesisTestCase whose reference checks are recorded or compared (see the module)."""

    should_serialize = False

    def get_output_dir(self):
        """Return the folder of the recorded cases."""
        output_dir_arg = getattr(_output_context, "output_dir", DATA_DIR)
        return os.path.join(output_dir_arg, operator_test_type)

    def get_output_filename(self):
        """Return the recorded case of this test, without `.zip`."""
        module = os.path.splitext(os.path.basename(inspect.getfile(self.__class__)))[0]
        return f"{module}.{self._testMethodName}"

    def _output_path(self):
        return os.path.join(self.get_output_dir(), self.get_output_filename() + ".zip")

    def serialize_test(self, inputs, outputs, grad_ops, op, device_option):
        """Record a case."""
        _prepare_dir(self.get_output_dir())
        with zipfile.ZipFile(self._output_path(), "w", zipfile.ZIP_DEFLATED) as case:
            case.writestr("op.pb", op.SerializeToString())
            for i, grad_op in enumerate(grad_ops):
                case.writestr(f"grad_{i}.pb", grad_op.SerializeToString())
            case.writestr("device_type.pb", str(device_option.device_type))
            case.writestr("inputs.npz", _npz(inputs))
            case.writestr("outputs.npz", _npz(outputs))

    def compare_test(self, inputs, outputs, grad_ops, atol=1e-7, rtol=1e-7):
        """Compare with the recorded case, where there is one: operators, and outputs where the inputs are its own."""
        if not os.path.exists(self._output_path()):
            return
        with zipfile.ZipFile(self._output_path()) as case:
            names = set(case.namelist())
            recorded = [caffe2_pb2.OperatorDef() for i in range(len(names)) if f"grad_{i}.pb" in names]
            for i, message in enumerate(recorded):
                message.ParseFromString(case.read(f"grad_{i}.pb"))
            old_inputs, old_outputs = (
                list(np.load(io.BytesIO(case.read(f"{kind}.npz")), encoding="bytes").values())
                for kind in ("inputs", "outputs")
            )
        self.assertEqual(len(recorded), len(grad_ops))
        for a, b in zip(recorded, grad_ops):
            self._assertSameOps(a, b)
        same_inputs = len(old_inputs) == len(inputs) and all(map(np.array_equal, old_inputs, inputs))
        if same_inputs:
            for old, value in zip(old_outputs, outputs):
                np.testing.assert_allclose(value, old, atol=atol, rtol=rtol)

    def _assertSameOps(self, op1, op2):
        self.assertTrue(utils.OpAlmostEqual(op1, op2, ["debug_info"]), f"{op1} differs from {op2}")

    def assertSerializedOperatorChecks(
        self, inputs, outputs, gradient_operator, op, device_option, atol=1e-7, rtol=1e-7
    ):
        """Record or compare, in the one example where that is due."""
        if not self.should_serialize or getattr(_output_context, "disable_serialized_check", False):
            return
        grad_ops = [] if gradient_operator is None else _getGradientOrNone(op)
        if getattr(_output_context, "should_generate_output", False):
            self.serialize_test(inputs, outputs, grad_ops, op, device_option)
        else:
            self.compare_test(inputs, outputs, grad_ops, atol, rtol)

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
        """HypothesisTestCase.assertReferenceChecks, recorded or compared."""
        outputs = super().assertReferenceChecks(
            device_option,
            op,
            inputs,
            reference,
            input_device_options,
            threshold,
            output_to_grad,
            grad_reference,
            atol,
            outputs_to_check,
            ensure_outputs_are_inferred,
        )
        self.assertSerializedOperatorChecks(
            inputs, outputs, output_to_grad, op, device_option, threshold if atol is None else atol, threshold
        )

    @contextlib.contextmanager
    def set_disable_serialized_check(self, val: bool):
        """Leave recorded cases alone, within a `with`."""
        before = getattr(_output_context, "disable_serialized_check", False)
        _output_context.disable_serialized_check = val
        try:
            yield
        finally:
            _output_context.disable_serialized_check = before


def testWithArgs():
    """unittest.main with options: -g to record cases, -o where, -d to leave recorded cases alone."""
    import unittest

    parser = argparse.ArgumentParser()
    parser.add_argument("-g", "--generate-serialized", action="store_true", help="record cases")
    parser.add_argument("-o", "--output", default=DATA_DIR, help="where recorded cases are")
    parser.add_argument("-d", "--disable-serialized_check", action="store_true", help="do not compare recorded cases")
    parser.add_argument("unittest_args", nargs="*")
    args = parser.parse_args()
    sys.argv[1:] = args.unittest_args
    _output_context.should_generate_output = args.generate_serialized
    _output_context.disable_serialized_check = args.disable_serialized_check
    _output_context.output_dir = args.output
    unittest.main()
