"""Gradients against finite differences."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core, net_drawer, workspace


def getGradientForOp(op):
    """Return (gradient operators, input gradients) of an operator whose output gradients are called `output_grad`."""
    return core.GradientRegistry.GetGradientForOp(op, [output + "_grad" for output in op.output])


def _get_grad_blob(grad_map, input_to_check):
    """Return the value of a gradient; a sparse one is made dense in the shape of its input."""
    gradient = grad_map[input_to_check]
    if isinstance(gradient, core.BlobReference):
        return workspace.blobs[gradient]
    return _dense(workspace.blobs[input_to_check], gradient)


def _dense(like, gradient_slice):
    indices = workspace.FetchBlob(str(gradient_slice.indices))
    values = workspace.FetchBlob(str(gradient_slice.values))
    dense = np.zeros(like.shape, dtype=np.float32)
    np.add.at(dense, indices.ravel(), values.reshape((-1, *like.shape[1:])))
    return dense


def _get_grad(net, outputs, outputs_with_grad, input_values, inputs_with_grads):
    """Run a clone of `net` with its gradients: ([(output, value)], {input: gradient}, the clone)."""
    grad_net = net.Clone(net.Name() + "_copy")
    grad_map = grad_net.AddGradientOperators(outputs_with_grad)
    for name, value in (input_values or {}).items():
        workspace.blobs[name] = value
    for blob in inputs_with_grads:
        if str(blob) not in grad_map:
            raise AssertionError(f"{blob} has no gradient; there are: {sorted(map(str, grad_map))}")
    workspace.RunNetOnce(grad_net)
    forward = [(output, workspace.blobs[output]) for output in outputs]
    return forward, {blob: _get_grad_blob(grad_map, blob) for blob in inputs_with_grads}, grad_net


def _assert_close(value1, value2, threshold, err_msg=""):
    """Raise unless close; return (mean, maximum) of the differences."""
    np.testing.assert_allclose(value1, value2, atol=threshold, rtol=threshold, err_msg=err_msg)
    difference = np.abs(value1 - value2).ravel()
    return np.mean(difference), max(difference)


class NetGradientChecker:
    """Checks of the gradients of whole nets."""

    @staticmethod
    def CompareNets(
        nets,
        outputs,
        outputs_with_grad_ids,
        inputs_with_grads,
        input_values=None,
        threshold=0.0000001,
        print_net_images=False,
    ):
        """Raise unless all nets compute the same outputs and the same gradients of `inputs_with_grads`.

        `outputs[i]` are the outputs of `nets[i]`; `outputs_with_grad_ids` say which of them have gradients.
        """
        results = []
        for net, names in zip(nets, outputs):
            with_grad = [names[i] for i in outputs_with_grad_ids]
            forward, gradients, grad_net = _get_grad(net, names, with_grad, input_values, inputs_with_grads)
            results.append((forward, gradients))
            if print_net_images:
                with open(net.Name() + ".png", "wb") as file:
                    file.write(net_drawer.GetPydotGraph(grad_net).create_png())

        first_forward, first_gradients = results[0]
        for forward, gradients in results[1:]:
            for (name1, value1), (name2, value2) in zip(first_forward, forward):
                _assert_close(value1, value2, threshold, f"Different forward results: {name1} and {name2}")
            for blob, gradient in first_gradients.items():
                _assert_close(gradient, gradients[blob], threshold, f"Different gradients of {blob}")

    @staticmethod
    def Check(net, outputs_with_grad, input_values, input_to_check, step_size=0.0001, threshold=0.05, print_net=True):
        """Compare the gradient of `input_to_check` with central differences; return (mean, maximum) differences."""
        if input_to_check not in input_values:
            raise AssertionError(f"input_values has no {input_to_check}")
        net_copy = net.Clone(net.Name() + "_copy")
        grad_map = net_copy.AddGradientOperators(outputs_with_grad)
        if input_to_check not in grad_map:
            raise AssertionError(f"{input_to_check} has no gradient; there are: {sorted(map(str, grad_map))}")
        for name, value in input_values.items():
            workspace.blobs[name] = value

        def loss_at(value):
            workspace.blobs[input_to_check] = value
            workspace.RunNetOnce(net_copy)
            return sum(workspace.blobs[output] for output in outputs_with_grad).sum()

        original = input_values[input_to_check]
        estimate = _central_differences(loss_at, original, step_size)
        loss_at(original)
        gradient = _get_grad_blob(grad_map, input_to_check)
        message = f"Error in gradient check for net {net.Name()}"
        if print_net:
            message += f": {net.Proto()}"
        return _assert_close(gradient, estimate, threshold, message)


def _central_differences(loss_at, value, step):
    estimate = np.zeros(value.shape, dtype=np.float64)
    for i in np.ndindex(value.shape):
        shifted = value.copy()
        shifted[i] += step
        above = loss_at(shifted)
        shifted[i] -= step * 2
        estimate[i] = (above - loss_at(shifted)) / step / 2
    return estimate


class GradientChecker:
    """Compares an operator's gradient with central differences of the loss sum(output ** 2) / 2."""

    def __init__(
        self,
        stepsize,
        threshold,
        device_option=None,
        workspace_name="gradient_check",
        input_device_options=None,
    ):
        self._stepsize = stepsize
        self._threshold = threshold
        self._device_option = device_option or core.DeviceOption(0)
        self._workspace_name = workspace_name
        self._input_device_options = {} if input_device_options is None else input_device_options

    def GetLossAndGrad(self, op, grad_ops, inputs, input_names, input_to_check, grad_name, outputs_with_grads):
        """Return (loss, gradient of the input to check) at what the inputs hold now."""
        for name, value in zip(input_names, inputs):
            workspace.FeedBlob(name, value, self._input_device_options.get(name, self._device_option))
        loss = 0.0
        workspace.RunOperatorOnce(op)
        for i in outputs_with_grads:
            name = op.output[i]
            value = workspace.FetchBlob(name)
            loss += (value.astype(np.float64) ** 2).sum()
            workspace.FeedBlob(name + "_grad", value, self._device_option)
        workspace.RunOperatorsOnce(grad_ops)
        if isinstance(grad_name, core.GradientSlice):
            gradient = _dense(inputs[input_to_check], grad_name)
        else:
            gradient = workspace.FetchBlob(grad_name)
        return loss / 2.0, gradient

    def CheckSimple(
        self,
        op,
        inputs,
        input_to_check,
        outputs_with_grads,
        grad_ops=None,
        input_device_options=None,
        ensure_outputs_are_inferred=False,
    ):
        """Check the gradient of input number `input_to_check`; the losses are outputs number `outputs_with_grads`.

        Return (whether they agree, gradient, estimate).
        """
        if self._device_option is not None:
            op.device_option.CopyFrom(self._device_option)
        if grad_ops is None:
            grad_ops, g_input = getGradientForOp(op)
            grad_name = g_input[input_to_check]
        else:
            grad_name = op.input[input_to_check] + "_grad"
        outer_options = self._input_device_options
        self._input_device_options = input_device_options or outer_options or core.InferOpBlobDevicesAsDict(op)[0]
        inputs = list(inputs)
        original = inputs[input_to_check]
        try:
            with workspace.WorkspaceGuard(self._workspace_name):
                try:

                    def at(value):
                        inputs[input_to_check] = value
                        return self.GetLossAndGrad(
                            op, grad_ops, inputs, op.input, input_to_check, grad_name, outputs_with_grads
                        )

                    gradient = at(original)[1]
                    if ensure_outputs_are_inferred:
                        self._assertInferTensorChecks(op, grad_ops)
                    estimate = _central_differences(lambda value: at(value)[0], original, self._stepsize)
                finally:
                    workspace.ResetWorkspace()
        finally:
            self._input_device_options = outer_options

        estimate = estimate.astype(np.float32)
        wrong = ~np.isclose(gradient, estimate, atol=self._threshold, rtol=self._threshold)
        if wrong.any():
            print(f"Gradient of {op.type} w.r.t. input {op.input[input_to_check]}: (place, gradient, estimate)")
            for i in np.argwhere(wrong):
                print(" ", tuple(i), gradient[tuple(i)], estimate[tuple(i)])
        return not wrong.any(), gradient, estimate

    def _assertInferTensorChecks(self, op, grad_ops):
        """Raise AssertionError unless inference knows the shapes that the gradient operators just made."""
        names = {name for grad_op in grad_ops for name in grad_op.output}
        net = core.Net("gradient_check_inference")
        net.Proto().op.extend([op, *grad_ops])
        shapes, _ = workspace.InferShapesAndTypes([net])
        for name in sorted(names):
            if name not in shapes:
                raise AssertionError(f"the shape of {name} was not inferred")
            np.testing.assert_array_equal(shapes[name], workspace.FetchBlob(name).shape, err_msg=f"shape of {name}")
