"""Adagrad with its many options, and its relatives."""

from __future__ import annotations

import logging

import numpy as np

from caffe2lite.python import core
from caffe2lite.python._optimizers.base import Optimizer, inferred_shape, is_sparse, zeros_like

log = logging.getLogger(__name__)

# Engines that keep the state of SparseAdagrad in half precision.
FP16_ENGINES = ["SIMD_Q_FP16", "SIMD_Q_STOC_FP16", "SIMD_Q_STOC_MKL_FP16"]


def _keep(optimizer, options, names):
    """The named options become attributes of the optimizer, None where they are not given; without options nothing does."""
    for name in names.split() if options else ():
        setattr(optimizer, name, options.get(name))


class _Ema:
    """The option `ema_options`: an exponential moving average of the parameter, which may replace it."""

    def _take_ema(self, ema_options):
        self.ema_enabled = bool(ema_options)
        _keep(self, ema_options, "ema_start ema_end ema_step ema_alpha")

    def _ema_blob(self, param_init_net, param):
        if self.ema_enabled:
            self._aux_params.local.append(zeros_like(param_init_net, param, f"{param}_ema"))

    def _update_ema(self, net, param, iteration):
        if self.ema_enabled:
            average = f"{param}_ema"
            net.EMA(
                [param, average, iteration],
                [param, average],
                ema_start=self.ema_start,
                ema_end=self.ema_end,
                ema_step=self.ema_step,
                ema_alpha=self.ema_alpha,
            )


class AdagradOptimizer(_Ema, Optimizer):
    """Adagrad: each element's (or with `rowWise` each row's) rate falls with the squares of its gradients.

    s = decay * s + g², w -= lr * g / (sqrt(s) + epsilon); with `rowWise` g² is its mean over the row (Duchi, Hazan,
    Singer 2011: Adaptive subgradient methods for online learning and stochastic optimization).

    `pruning_options` mask weights (a mask_tensor, or mask_db_path, mask_db_type and mask_blob_name; prune_delays,
    prune_ratios, prune_block_size), `swa_options` and `ema_options` average them, `weight_scale` shrinks them,
    `counter_halflife` counts the updates of each row.
    """

    def __init__(
        self,
        alpha=0.01,
        epsilon=1e-4,
        decay=1,
        weight_decay=0.0,
        policy="fixed",
        sparse_dedup_aggregator=None,
        rowWise=False,
        engine="",
        lars=None,
        output_effective_lr=False,
        output_effective_lr_and_update=False,
        pruning_options=None,
        swa_options=None,
        ema_options=None,
        weight_scale=None,
        counter_halflife=-1,
        **kwargs,
    ):
        super().__init__()
        self.alpha, self.policy, self.lars, self.init_kwargs = alpha, policy, lars, kwargs
        self.decay, self.weight_decay, self.weight_scale = decay, float(weight_decay), weight_scale
        self.epsilon, self.rowWise, self.counter_halflife = epsilon, rowWise, counter_halflife
        self.engine, self.sparse_dedup_aggregator = engine, sparse_dedup_aggregator
        self.output_effective_lr = output_effective_lr
        self.output_effective_lr_and_update = output_effective_lr_and_update
        self._take_pruning(pruning_options)
        self._take_swa(swa_options)
        self._take_ema(ema_options)

    def _take_swa(self, swa_options):
        self.swa_enabled = bool(swa_options)
        _keep(self, swa_options, "swa_avg_start_it swa_avg_end_it")
        _keep(self, swa_options, "swa_feedback_start_it swa_feedback_step swa_feedback_end_it")

    def _take_pruning(self, pruning_options):
        options = {} if pruning_options is None else pruning_options
        if not isinstance(options, dict):
            raise AssertionError(f"pruning_options can only be provided as a dictionary, currently: {pruning_options}")
        for name in ("mask_tensor", "mask_db_path", "mask_db_type", "mask_blob_name"):
            setattr(self, name, options.get(name))
        self.prune_delays = options.get("prune_delays", [])
        self.prune_ratios = options.get("prune_ratios", [])
        self.prune_block_size = options.get("prune_block_size", 1)

        from_db = (self.mask_db_path, self.mask_db_type, self.mask_blob_name)
        if self.mask_tensor is not None:
            if type(self.mask_tensor) is not np.ndarray:
                raise AssertionError(f"mask_tensor is a NumPy array, got {type(self.mask_tensor).__name__}")
            if any(from_db):
                raise AssertionError(
                    f"a mask comes as mask_tensor or from a database, not both; got mask_tensor and {from_db}"
                )
        elif (self.mask_db_path is not None or self.mask_db_type is not None) and not all(from_db):
            raise AssertionError(
                f"a mask from a database needs mask_db_path, mask_db_type and mask_blob_name, got {from_db}"
            )
        if self.prune_delays:
            if not (self.prune_ratios is not None and len(self.prune_delays) == len(self.prune_ratios)):
                raise AssertionError(
                    f"{len(self.prune_delays)} prune_delays need as many prune_ratios, got {self.prune_ratios}"
                )
            if self.mask_tensor is not None:
                raise AssertionError("prune_ratios make their own mask: give no mask_tensor")
            if self.mask_db_path is not None:
                raise AssertionError("prune_ratios make their own mask: give no mask_db_path")
        self.use_mask = bool(self.mask_tensor is not None or self.mask_db_path is not None or self.prune_delays)

    def _run(self, net, param_init_net, param_info):
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        if self.lars is not None and self.weight_decay and not is_sparse(grad):
            raise AssertionError("weight decay is not implemented for LARS: leave one of them out")
        self._apply_lars(net, param_init_net, param, grad, self.lars)
        lr, iteration = self.build_lr(
            net, param_init_net, base_learning_rate=self.alpha, policy=self.policy, **self.init_kwargs
        )
        if self.weight_decay > 0 and self.engine in FP16_ENGINES and not self.rowWise:
            raise AssertionError(f"weight decay is not tested for engine: {self.engine}")
        shape = inferred_shape(param_init_net, param)
        weight_decay = self._weight_decay_of(param, grad, shape)
        history = self._history(param_init_net, param, shape)
        self._aux_params.local.append(history)
        mask = self._mask(param_init_net, param, is_sparse(grad)) if self.use_mask else []
        counters = []
        if self.counter_halflife > 0:
            counters = self._counters(param_init_net, param, shape)
            self._aux_params.local.extend(counters)
            self._aux_params.shared.append(iteration)
        if is_sparse(grad):
            self._update_sparse(net, param, grad, history, lr, iteration, mask, counters, weight_decay)
        else:
            self._update_dense(net, param, grad, history, lr, iteration, mask, weight_decay)
        self._add_averages(net, param_init_net, param, grad, history, iteration)

    def _weight_decay_of(self, param, grad, shape):
        if self.weight_decay > 0 and not is_sparse(grad) and shape is not None and len(shape) == 1:
            log.warning("SKIPPING weight decay on 1d dense param: %s.shape is %s", param, shape)
            return {}
        return {"weight_decay": self.weight_decay} if self.weight_decay != 0.0 else {}

    @staticmethod
    def _row_fill(param_init_net, param, shape, name, **args):
        """Return one value a row of the parameter; rows are counted at run time where the shape is not known before."""
        if shape is not None:
            return param_init_net.ConstantFill([], name, shape=[shape[0]], **args)
        shape_blob, rows_blob = f"{param}_shape", f"{param}_shape_numrows"
        if param_init_net.BlobIsDefined(rows_blob):
            rows = param_init_net.GetBlobRef(rows_blob)
        else:
            dims = param_init_net.Shape(param, shape_blob)
            rows = param_init_net.Slice([dims], rows_blob, starts=[0], ends=[1])
        return param_init_net.ConstantFill([rows], name, input_as_shape=1, **args)

    def _history(self, param_init_net, param, shape):
        """Return the sums of squares kept between steps."""
        if self.rowWise:
            return self._row_fill(param_init_net, param, shape, f"{param}_avg_squared_sum", value=0.0)
        if self.engine in FP16_ENGINES:
            if shape is None:
                raise AssertionError(f"engine {self.engine} needs the shape of {param}, which cannot be inferred")
            return param_init_net.Float16ConstantFill([], f"{param}_squared_sum", value=0.0, shape=shape)
        return zeros_like(param_init_net, param, f"{param}_squared_sum")

    def _counters(self, param_init_net, param, shape):
        return [
            self._row_fill(
                param_init_net, param, shape, f"{param}_update_counter", value=0.0, dtype=core.DataType.DOUBLE
            ),
            self._row_fill(
                param_init_net, param, shape, f"{param}_prev_update_iter", value=0, dtype=core.DataType.INT64
            ),
        ]

    def _mask(self, init, param, sparse):
        """Return the inputs that a masked operator takes beside those of the plain one."""
        if self.mask_tensor is not None:
            if sparse:
                self.mask_tensor = self.mask_tensor.astype(np.uint8)
                mask = init.GivenTensorBoolFill(
                    [], f"{param}_mask", values=self.mask_tensor, shape=self.mask_tensor.shape
                )
                mask = init.Cast(mask, to=core.DataType.UINT8)
            else:
                mask = init.GivenTensorFill([], f"{param}_mask", values=self.mask_tensor, shape=self.mask_tensor.shape)
        elif self.mask_db_path is not None:
            mask = init.Load(
                [], self.mask_blob_name, db=self.mask_db_path, db_type=self.mask_db_type, absolute_path=True
            )
        else:
            if sparse:
                raise ValueError(f"the gradient of {param} is sparse: prune_ratios are for dense ones, give a mask")
            updated = init.ConstantFill(
                [], f"{param}_last_mask_updated_iter", value=-1, dtype=core.DataType.INT64, shape=[1]
            )
            empty = init.GivenTensorFill([], f"{param}_empty_mask", values=[], dtype=core.DataType.FLOAT, shape=[0])
            return [empty, updated]
        if not sparse:
            return [mask]
        changed = init.ConstantFill([], f"{param}_mask_changed_blob", value=False, dtype=core.DataType.BOOL, shape=[1])
        return [mask, changed]

    def _update_sparse(self, net, param, grad, history, lr, iteration, mask, counters, weight_decay):
        if self.decay != 1:
            raise AssertionError(f"sparse Adagrad knows no decay: expected 1, got {self.decay} ({param})")
        grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
        inputs = [param, history, grad.indices, grad.values, lr, *mask]
        args = {"epsilon": self.epsilon, **weight_decay}
        if self.rowWise:
            update = net.MaskedRowWiseSparseAdagrad if mask else net.RowWiseSparseAdagrad
            if counters and not mask:
                inputs.append(counters[0])
        else:
            update = net.MaskedSparseAdagrad if mask else net.SparseAdagrad
        if counters and weight_decay:
            args["counter_halflife"] = self.counter_halflife
        update(inputs, [param, history], engine=self.engine, **args)
        if counters:
            counter, previous = counters
            net.RowWiseCounter(
                [previous, counter, grad.indices, iteration],
                [previous, counter],
                counter_halflife=self.counter_halflife,
            )

    def _update_dense(self, net, param, grad, history, lr, iteration, mask, weight_decay):
        if self.rowWise:
            raise AssertionError(
                f"rowWise Adagrad needs a sparse gradient (a GradientSlice), that of {param} is dense: "
                "leave rowWise off for dense parameters"
            )
        inputs, outputs = [param, history, grad, lr], [param, history]
        if self.output_effective_lr_and_update:
            outputs += [f"{param}_effective_lr", f"{param}_update"]
        elif self.output_effective_lr:
            outputs.append(f"{param}_effective_lr")
        args = {"epsilon": self.epsilon, "decay": float(self.decay), **weight_decay}
        if not mask:
            net.Adagrad(inputs, outputs, engine=self.engine, **args)
            return
        inputs += mask
        if len(mask) > 1:  # the mask is made while training: it needs to know when
            inputs.insert(-1, iteration)
            outputs += mask
        net.MaskedAdagrad(
            inputs,
            outputs,
            engine=self.engine,
            **args,
            block_size=self.prune_block_size,
            delays=self.prune_delays,
            prune_ratios=self.prune_ratios,
        )

    def _add_averages(self, net, param_init_net, param, grad, history, iteration):
        if self.swa_enabled and not is_sparse(grad):
            average = zeros_like(param_init_net, param, f"{param}_swa")
            self._aux_params.local.append(average)
            net.SWA(
                [param, average, iteration],
                [param, average],
                avg_start=self.swa_avg_start_it,
                avg_end=self.swa_avg_end_it,
                feedback_start=self.swa_feedback_start_it,
                feedback_step=self.swa_feedback_step,
                feedback_end=self.swa_feedback_end_it,
            )
        self._ema_blob(param_init_net, param)
        self._update_ema(net, param, iteration)
        if self.weight_scale:
            scaling = self.weight_scale
            for blob in [param, history] if scaling.to_aux else [param]:
                net.WeightScale(
                    [blob, iteration],
                    [blob],
                    stepsize=scaling.stepsize,
                    upper_bound_iter=scaling.upper_bound_iter,
                    scale=float(scaling.scale),
                )

    def scale_learning_rate(self, scale):
        self.alpha *= scale


class WngradOptimizer(Optimizer):
    """WNGrad: one rate for all elements of a parameter, which falls with the norms of its gradients.

    w -= lr * g / (b + epsilon), then b += |g|² / (b + epsilon), from `moment_init` on (Wu, Ward, Bottou 2018: WNGrad,
    learn the learning rate in gradient descent).
    """

    def __init__(
        self,
        alpha=1.0,
        epsilon=1e-9,
        policy="fixed",
        sparse_dedup_aggregator=None,
        engine="",
        moment_init=100.0,
        lars=None,
        output_effective_lr=False,
        output_effective_lr_and_update=False,
        **kwargs,
    ):
        super().__init__()
        self.alpha, self.policy, self.lars, self.init_kwargs = alpha, policy, lars, kwargs
        self.epsilon, self.moment_init = epsilon, moment_init
        self.engine, self.sparse_dedup_aggregator = engine, sparse_dedup_aggregator
        self.output_effective_lr = output_effective_lr
        self.output_effective_lr_and_update = output_effective_lr_and_update

    def _run(self, net, param_init_net, param_info):
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        self._apply_lars(net, param_init_net, param, grad, self.lars)
        lr, _ = self.build_lr(
            net, param_init_net, base_learning_rate=self.alpha, policy=self.policy, **self.init_kwargs
        )
        moment = param_init_net.ConstantFill([], f"{param}_moment", shape=[1], value=self.moment_init)
        self._aux_params.local.append(moment)
        args = {"epsilon": self.epsilon, "engine": self.engine}
        if is_sparse(grad):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseWngrad([param, moment, grad.indices, grad.values, lr], [param, moment], **args)
            return
        outputs = [param, moment]
        if self.output_effective_lr_and_update:
            outputs += [f"{param}_effective_lr", f"{param}_update"]
        elif self.output_effective_lr:
            outputs.append(f"{param}_effective_lr")
        net.Wngrad([param, moment, grad, lr], outputs, **args)

    def scale_learning_rate(self, scale):
        self.alpha *= scale


class StormOptimizer(Optimizer):
    """STORM: momentum with less variance, its rate and share by the sum of all squared gradients.

    s += |g|², r = lr / cbrt(beta + s), v = g + (1 - momentum * r²) * (v - g), w -= r * v (Cutkosky, Orabona 2019:
    Momentum-based variance reduction in non-convex SGD).
    """

    def __init__(
        self,
        lr=0.1,
        momentum=10.0,
        beta=0.1,
        grad_sq_init=0.01,
        policy="fixed",
        sparse_dedup_aggregator=None,
        lars=None,
        **kwargs,
    ):
        super().__init__()
        self.lr, self.policy, self.lars, self.init_kwargs = lr, policy, lars, kwargs
        self.momentum, self.beta, self.grad_sq_init = momentum, beta, grad_sq_init
        self.sparse_dedup_aggregator = sparse_dedup_aggregator

    def _run(self, net, param_init_net, param_info):
        param, grad = param_info.blob, param_info.grad
        if self.lr <= 0:
            return
        self._apply_lars(net, param_init_net, param, grad, self.lars)
        lr, _ = self.build_lr(net, param_init_net, base_learning_rate=self.lr, policy=self.policy, **self.init_kwargs)
        moment = zeros_like(param_init_net, param, f"{param}_moment")
        squares = param_init_net.ConstantFill([], f"{param}_grad_sq_sum", shape=[1], value=self.grad_sq_init)
        self._aux_params.local.extend([moment, squares])
        outputs = [param, moment, squares]
        args = {"momentum": self.momentum, "beta": self.beta}
        if is_sparse(grad):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseStorm([*outputs, grad.values, grad.indices, lr], outputs, **args)
        else:
            net.Storm([*outputs, grad, lr], outputs, **args)

    def scale_learning_rate(self, scale):
        self.lr *= scale


class DecayAdagradOptimizer(_Ema, Optimizer):
    """Adagrad on a running mean of the gradient, as in Adam; sparse gradients are updated by SparseAdagrad.

    m = beta1 * m + (1 - beta1) * g, s += g², w -= lr * (m / (1 - beta1^t) / (sqrt(s) + epsilon) + weight_decay * w);
    without `bias_correction_first` m is not divided.  Caffe2's own, without a paper; `beta2` has no effect.
    """

    def __init__(
        self,
        alpha=0.01,
        beta1=0.0,
        beta2=0.999,
        epsilon=0.1,
        weight_decay=0.0,
        ema_options=None,
        bias_correction_first=True,
        policy="fixed",
        engine="",
        **kwargs,
    ):
        super().__init__()
        self.alpha, self.policy, self.engine, self.init_kwargs = alpha, policy, engine, kwargs
        self.beta1, self.beta2, self.bias_correction_first = beta1, beta2, bias_correction_first
        self.epsilon, self.weight_decay = epsilon, weight_decay
        self._take_ema(ema_options)

    def _run(self, net, param_init_net, param_info):
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        lr, iteration = self.build_lr(
            net, param_init_net, base_learning_rate=self.alpha, policy=self.policy, **self.init_kwargs
        )
        if is_sparse(grad):
            history = zeros_like(param_init_net, param, param + "_squared_sum")
            self._aux_params.local.append(history)
            net.SparseAdagrad(
                [param, history, grad.indices, grad.values, lr],
                [param, history],
                epsilon=self.epsilon,
                engine=self.engine,
            )
            return
        first = zeros_like(param_init_net, param, param + "_first_mo1ment")  # spelt as in Caffe2
        second = zeros_like(param_init_net, param, param + "_second_moment")
        self._aux_params.local.extend([first, second])
        self._aux_params.shared.append(iteration)
        self._ema_blob(param_init_net, param)
        outputs = [param, first, second]
        net.DecayAdagrad(
            [*outputs, grad, lr, iteration],
            outputs,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            weight_decay=self.weight_decay,
            bias_correction_first=self.bias_correction_first,
        )
        self._update_ema(net, param, iteration)

    def scale_learning_rate(self, scale):
        self.alpha *= scale
