"""Gradient descent, plain or with momentum, also for half precision; weight decay."""

from __future__ import annotations

from caffe2lite.python import core
from caffe2lite.python._optimizers.base import Optimizer, current_device, is_sparse, zeros_like


class SgdOptimizer(Optimizer):
    """Stochastic gradient descent: w -= lr * g.

    With `momentum` m: v' = m * v + lr * g and w -= v', or by default with Nesterov's w -= (1 + m) * v' - m * v
    (Sutskever, Martens, Dahl, Hinton 2013: On the importance of initialization and momentum in deep learning).
    `lars` multiplies lr by 1 / (|g| / |w| + lars) for each parameter (You, Gitman, Ginsburg 2017: Large batch training of
    convolutional networks).
    """

    def __init__(
        self,
        base_learning_rate=0.01,
        policy="fixed",
        momentum=0.0,
        nesterov=True,
        sparse_dedup_aggregator=None,
        lars=None,
        **kwargs,
    ):
        super().__init__()
        self.base_learning_rate = base_learning_rate
        self.policy = policy
        self.momentum = momentum
        self.nesterov = nesterov
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.lars = lars
        self.init_kwargs = kwargs

    def _learns(self):
        """Return whether there is anything to do; a negative rate is a mistake."""
        if self.base_learning_rate < 0:
            raise AssertionError(f"Expect positive base learning rate, got {self.base_learning_rate}")
        return self.base_learning_rate > 0

    def _positive_lr(self, net, param_init_net):
        """Return the rate for operators that subtract."""
        return self.build_lr(
            net, param_init_net, base_learning_rate=-self.base_learning_rate, policy=self.policy, **self.init_kwargs
        )[0]

    def _run(self, net, param_init_net, param_info):
        param, grad = param_info.blob, param_info.grad
        if not self._learns():
            return
        self._apply_lars(net, param_init_net, param, grad, self.lars)
        sign = -1 if self.momentum else 1  # MomentumSGDUpdate subtracts, WeightedSum adds
        lr, _ = self.build_lr(
            net,
            param_init_net,
            base_learning_rate=self.base_learning_rate * sign,
            policy=self.policy,
            **self.init_kwargs,
        )
        device = current_device()
        one = param_init_net.ConstantFill(
            [], f"ONE_{device.device_type}_{device.device_id}{device.node_name}", shape=[1], value=1.0
        )
        self._aux_params.shared.append(one)
        momentum_args = {"momentum": self.momentum, "nesterov": self.nesterov}
        if self.momentum > 0:
            momentum = zeros_like(param_init_net, param, f"{param}_momentum")
            self._aux_params.local.append(momentum)

        if is_sparse(grad):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            if self.momentum > 0:
                net.SparseMomentumSGDUpdate(
                    [grad.values, momentum, lr, param, grad.indices], [grad.values, momentum, param], **momentum_args
                )
            else:
                net.ScatterWeightedSum([param, one, grad.indices, grad.values, lr], param)
        elif self.momentum > 0:
            net.MomentumSGDUpdate([grad, momentum, lr, param], [grad, momentum, param], **momentum_args)
        else:
            net.WeightedSum([param, one, grad, lr], param)

    def scale_learning_rate(self, scale):
        self.base_learning_rate *= scale


class MultiPrecisionSgdOptimizer(SgdOptimizer):
    """SGD on the float32 copy w32 of each float16 parameter, other parameters as by SgdOptimizer.

    w32 -= v' of SgdOptimizer, w = float16(w32) (Micikevicius et al. 2018: Mixed precision training).
    """

    def __init__(
        self,
        base_learning_rate=0.1,
        momentum=0.0,
        policy="fixed",
        nesterov=True,
        sparse_dedup_aggregator=None,
        **kwargs,
    ):
        super().__init__(
            base_learning_rate=base_learning_rate,
            policy=policy,
            momentum=momentum,
            nesterov=nesterov,
            sparse_dedup_aggregator=sparse_dedup_aggregator,
            **kwargs,
        )

    def _run(self, net, param_init_net, param_info):
        if param_info.blob_copy is None:
            super()._run(net, param_init_net, param_info)
            return
        master = param_info.blob_copy.get(core.DataType.FLOAT)
        if master is None:
            raise KeyError(f"{param_info.blob} has no copy in float32 (data type {core.DataType.FLOAT}) to be updated")
        if not self._learns():
            return
        param, grad = param_info.blob, param_info.grad
        lr = self._positive_lr(net, param_init_net)
        momentum = param_init_net.ConstantFill(master, f"{param}_momentum", value=0.0)
        self._aux_params.local.append(momentum)
        if is_sparse(grad):
            raise AssertionError(f"MultiPrecisionSgd takes dense gradients only, {param} has sparse ones")
        grad = net.HalfToFloat(grad, grad + "_fp32")
        net.MomentumSGDUpdate(
            [grad, momentum, lr, master], [grad, momentum, master], momentum=self.momentum, nesterov=self.nesterov
        )
        net.FloatToHalf(master, param)


class FP16SgdOptimizer(SgdOptimizer):
    """SGD that updates float16 parameters in float16; those without a float32 copy count as float32.

    g += weight_decay * w, then as SgdOptimizer (Micikevicius et al. 2018: Mixed precision training).
    """

    def __init__(
        self,
        base_learning_rate=0.1,
        momentum=0.0,
        policy="fixed",
        nesterov=True,
        weight_decay=0.0001,
        sparse_dedup_aggregator=None,
        **kwargs,
    ):
        super().__init__(
            base_learning_rate=base_learning_rate,
            policy=policy,
            momentum=momentum,
            nesterov=nesterov,
            sparse_dedup_aggregator=sparse_dedup_aggregator,
            **kwargs,
        )
        self.weight_decay = weight_decay

    def _run(self, net, param_init_net, param_info, fp32_update=False):
        param, grad = param_info.blob, param_info.grad
        copies = param_info.blob_copy or {}
        master = None  # float32, beside a parameter in float16
        if not fp32_update and "spatbn" not in str(param):  # whose parameters cuDNN needs in float32
            if core.DataType.FLOAT in copies:
                master = copies[core.DataType.FLOAT]
            elif core.DataType.FLOAT16 in copies:
                param, master = copies[core.DataType.FLOAT16], param
        if not self._learns():
            return
        lr = self._positive_lr(net, param_init_net)
        momentum_fp32 = param_init_net.ConstantFill(
            param if master is None else master, f"{param}_momentum_fp32", value=0.0
        )
        momentum = param_init_net.FloatToHalf(momentum_fp32, f"{param}_momentum")
        self._aux_params.local.append(momentum)
        if is_sparse(grad):
            raise AssertionError(f"FP16Sgd takes dense gradients only, {param} has sparse ones")
        update = net.FP16MomentumSGDUpdate
        if master is None:
            update, momentum = net.FP32MomentumSGDUpdate, momentum_fp32
        update(
            [grad, momentum, lr, param],
            [grad, momentum, param],
            momentum=self.momentum,
            nesterov=self.nesterov,
            weight_decay=self.weight_decay,
        )


class WeightDecayBuilder(Optimizer):
    """Weight decay: g += weight_decay * w (Krogh, Hertz 1991: A simple weight decay can improve generalization)."""

    def __init__(self, weight_decay):
        self.weight_decay = weight_decay

    def _run(self, net, param_init_net, param_info):
        device = current_device()
        where = f"{device.device_type}_{device.device_id}"
        one = param_init_net.ConstantFill([], f"ONE_{where}", shape=[1], value=1.0)
        decay = param_init_net.ConstantFill([], f"wd_{where}", shape=[1], value=self.weight_decay)
        if is_sparse(param_info.grad):
            raise ValueError(f"weight decay needs dense gradients, {param_info.blob} has sparse ones")
        net.WeightedSum([param_info.grad, one, param_info.blob, decay], param_info.grad)


class RmsPropOptimizer(Optimizer):
    """RMSProp: the gradient over a running mean of its square, with momentum.

    s = decay * s + (1 - decay) * g², v = momentum * v + lr * g / sqrt(s + epsilon), w -= v (Tieleman, Hinton 2012:
    Neural networks for machine learning, lecture 6.5).
    """

    def __init__(self, alpha=0.01, decay=0.9, momentum=0.0, epsilon=1e-5, policy="fixed", engine="", **kwargs):
        super().__init__()
        self.alpha = alpha
        self.decay = decay
        self.momentum = momentum
        self.epsilon = epsilon
        self.policy = policy
        self.engine = engine
        self.init_kwargs = kwargs

    def _run(self, net, param_init_net, param_info):
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            raise AssertionError(f"Expect positive alpha, got {self.alpha}")
        if is_sparse(grad):
            raise AssertionError(f"RmsProp takes dense gradients only, {param} has sparse ones")
        device = current_device()
        one = param_init_net.ConstantFill([], f"ONE_{device.device_type}_{device.device_id}", shape=[1], value=1.0)
        lr, _ = self.build_lr(
            net, param_init_net, base_learning_rate=-self.alpha, policy=self.policy, **self.init_kwargs
        )
        # The argument's name is Caffe2's: an unknown one, so that the fill takes its default, which is 0.
        scaled, mean_squares, momentum = (
            param_init_net.ConstantFill([param], f"{param}{suffix}", values=0.0)
            for suffix in ("_grad_o", "_mean_squares", "_momentum")
        )
        self._aux_params.local.extend([mean_squares, momentum])
        net.RmsProp(
            [grad, mean_squares, momentum, one],
            [scaled, mean_squares, momentum],
            decay=self.decay,
            momentum=self.momentum,
            epsilon=self.epsilon,
            engine=self.engine,
        )
        net.MomentumSGDUpdate([scaled, momentum, lr, param], [scaled, momentum, param])

    def scale_learning_rate(self, scale):
        self.alpha *= scale
