"""Adam, Adadelta, YellowFin, and the follow-the-regularized-leader optimizers."""

from __future__ import annotations

from caffe2lite.python import core, utils
from caffe2lite.python._optimizers.base import Optimizer, inferred_shape, is_sparse, zeros_like


class AdamOptimizer(Optimizer):
    """Adam: steps along a running mean of the gradient, over the root of one of its square.

    m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g²,
    w -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)
    (Kingma, Ba 2015: Adam, a method for stochastic optimization).  `rowWise` keeps one v a row, `enableRAdam` rectifies
    the rate (Liu et al. 2020: On the variance of the adaptive learning rate and beyond), `use_smart_decay` decays the
    moments of a row for the steps in which it had no gradient.
    """

    def __init__(
        self,
        alpha=0.001,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-8,
        policy="fixed",
        use_lr_adaption=False,
        lr_alpha=0.01,
        normalized_lr_adaption=True,
        sparse_dedup_aggregator=None,
        rowWise=False,
        engine="",
        enableRAdam=False,
        use_smart_decay=False,
        **kwargs,
    ):
        super().__init__()
        self.alpha, self.policy, self.init_kwargs = alpha, policy, kwargs
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.use_lr_adaption, self.lr_alpha, self.normalized_lr_adaption = (
            use_lr_adaption,
            lr_alpha,
            normalized_lr_adaption,
        )
        self.engine, self.sparse_dedup_aggregator = engine, sparse_dedup_aggregator
        self.rowWise, self.enableRAdam, self.use_smart_decay = rowWise, enableRAdam, use_smart_decay
        for name, given in {"rowWise": rowWise, "enableRAdam": enableRAdam, "use_lr_adaption": use_lr_adaption}.items():
            if use_smart_decay and given:
                raise NotImplementedError(
                    f"smart decay does not go with {name}: give {name} or use_smart_decay, not both"
                )

    def _run(self, net, param_init_net, param_info):
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        lr, iteration = self.build_lr(
            net, param_init_net, base_learning_rate=self.alpha, policy=self.policy, **self.init_kwargs
        )
        first = zeros_like(param_init_net, param, param + "_first_moment")
        second = self._second_moment(param_init_net, param)
        state = [first, second]
        if self.use_smart_decay:
            state.append(
                param_init_net.ConstantFill(
                    [],
                    param + "_last_seen",
                    shape=[self._rows(param_init_net, param)],
                    value=0,
                    dtype=core.DataType.INT64,
                )
            )
        self._aux_params.shared.append(iteration)
        self._aux_params.local.extend([*state[2:], first, second])
        outputs = [param, *state]
        if self.use_lr_adaption:
            effective = f"{param}_effective_grad"
            outputs.append(effective)
        args = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        if is_sparse(grad):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            if self.rowWise:
                if self.enableRAdam:
                    raise AssertionError(
                        f"row-wise Adam has no rectified form: set enableRAdam or rowWise to False ({param})"
                    )
                update = net.RowWiseSparseAdam
            elif self.use_smart_decay:
                update = net.SmartDecaySparseAdam
            else:
                update = net.SparseAdam
                args["enableRAdam"] = self.enableRAdam
            update([param, *state, grad.indices, grad.values, lr, iteration], outputs, **args)
            grad = grad.values
        else:
            if self.rowWise:
                raise AssertionError(
                    f"rowWise Adam needs a sparse gradient (a GradientSlice), that of {param} is dense: "
                    "leave rowWise off for dense parameters"
                )
            net.Adam([param, *state[:2], grad, lr, iteration], outputs, **args)
        if self.use_lr_adaption:
            net.LearningRateAdaption(
                [lr, grad, effective], [lr], lr_alpha=self.lr_alpha, normalized_lr_adaption=self.normalized_lr_adaption
            )

    @staticmethod
    def _rows(param_init_net, param):
        shape = inferred_shape(param_init_net, param)
        if shape is None:
            raise KeyError(f"the shape of parameter {param} cannot be inferred from {param_init_net.Name()}")
        return shape[0]

    def _second_moment(self, param_init_net, param):
        if not self.rowWise:
            return zeros_like(param_init_net, param, param + "_second_moment")
        rows = self._rows(param_init_net, param)
        return param_init_net.ConstantFill([], param + "_avg_second_moment", shape=[rows], value=0.0)

    def scale_learning_rate(self, scale):
        self.alpha *= scale


class AdadeltaOptimizer(Optimizer):
    """Adadelta: steps in the ratio of running means of squared updates and gradients.

    s = decay * s + (1 - decay) * g², d = sqrt(u + epsilon) / sqrt(s + epsilon) * g, u = decay * u + (1 - decay) * d²,
    w -= lr * d (Zeiler 2012: ADADELTA, an adaptive learning rate method).
    """

    def __init__(
        self, alpha=0.01, epsilon=1e-4, decay=0.95, policy="fixed", sparse_dedup_aggregator=None, engine="", **kwargs
    ):
        super().__init__()
        self.alpha, self.policy, self.init_kwargs = alpha, policy, kwargs
        self.epsilon, self.decay = epsilon, decay
        self.engine, self.sparse_dedup_aggregator = engine, sparse_dedup_aggregator

    def _run(self, net, param_init_net, param_info):
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        lr, _ = self.build_lr(
            net, param_init_net, base_learning_rate=self.alpha, policy=self.policy, **self.init_kwargs
        )
        names = (f"{param}_squared_moment", f"{param}_squared_moment_update")
        state = [zeros_like(param_init_net, param, name) for name in names]
        self._aux_params.local.extend(state)
        outputs = [param, *state]
        args = {"epsilon": self.epsilon, "decay": self.decay, "engine": self.engine}
        if is_sparse(grad):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseAdadelta([*outputs, grad.indices, grad.values, lr], outputs, **args)
        else:
            net.Adadelta([*outputs, grad, lr], outputs, **args)

    def scale_learning_rate(self, scale):
        self.alpha *= scale


class YellowFinOptimizer(Optimizer):
    """YellowFin: momentum SGD that tunes its own rate lr (from `alpha`) and momentum m (from `mu`).

    v = m * v + lr * g, w -= v.  Of the least and greatest curvature a and b, the variance C of the gradient and the
    distance D to the optimum it keeps running means (`beta`; curvature over `curv_win_width` steps), and moves
    towards lr = (1 - sqrt(m))² / a and the m that makes m * D² + lr² * C least, but no less than
    ((sqrt(b / a) - 1) / (sqrt(b / a) + 1))² (Zhang, Mitliagkas 2019: YellowFin and the art of momentum tuning).
    """

    def __init__(
        self,
        alpha=0.1,
        mu=0.0,
        beta=0.999,
        curv_win_width=20,
        zero_debias=True,
        epsilon=0.1**6,
        policy="fixed",
        sparse_dedup_aggregator=None,
        **kwargs,
    ):
        super().__init__()
        self.alpha, self.mu, self.policy, self.init_kwargs = alpha, mu, policy, kwargs
        self.beta, self.epsilon, self.zero_debias = beta, epsilon, zero_debias
        self.curv_win_width, self.sparse_dedup_aggregator = curv_win_width, sparse_dedup_aggregator

    def _run(self, net, param_init_net, param_info):
        param, grad = param_info.blob, param_info.grad
        scalars = 5  # what the operator remembers between steps
        moment = zeros_like(param_init_net, param, param + "_moment")
        curv_win = param_init_net.ConstantFill([], param + "_curv_win", shape=[self.curv_win_width], value=0.0)
        g_avg = zeros_like(param_init_net, param, param + "_g_avg")
        g2_avg = zeros_like(param_init_net, param, param + "_g2_avg")
        lr_avg = param_init_net.ConstantFill([], param + "_lr_avg", shape=[1], value=self.alpha)
        mu_avg = param_init_net.ConstantFill([], param + "_mu_avg", shape=[1], value=self.mu)
        memory = param_init_net.ConstantFill([], param + "_scalars_memory", shape=[scalars], value=0.0)
        if self.alpha <= 0:
            raise AssertionError(f"Expect positive alpha, got {self.alpha}")
        if is_sparse(grad):
            raise AssertionError(f"YellowFin takes dense gradients only, {param} has sparse ones")
        iteration = utils.BuildUniqueMutexIter(param_init_net, net, iter_val=0)
        self._aux_params.shared.append(iteration)
        state = [moment, lr_avg, mu_avg, curv_win, g_avg, g2_avg, memory]
        self._aux_params.local.extend(state)
        net.YellowFin(
            [param, *state, grad, iteration],
            [param, *state],
            beta=self.beta,
            epsilon=self.epsilon,
            curv_win_width=self.curv_win_width,
            zero_debias=self.zero_debias,
        )

    def scale_learning_rate(self, scale):
        self.alpha *= scale


class _Leader(Optimizer):
    """What Ftrl and GFtrl share."""

    def __init__(self, alpha=0.01, beta=1e-4, lambda1=0, lambda2=0, sparse_dedup_aggregator=None, engine=""):
        super().__init__()
        self.alpha, self.beta, self.lambda1, self.lambda2 = alpha, beta, lambda1, lambda2
        self.engine, self.sparse_dedup_aggregator = engine, sparse_dedup_aggregator

    def _state(self, param_init_net, param, suffix):
        """Return two numbers an element."""
        state = param_init_net.ConstantFill([param], f"{param}{suffix}", extra_shape=[2], value=0.0)
        self._aux_params.local.append(state)
        return state

    def _args(self):
        return {
            "engine": self.engine,
            "alpha": self.alpha,
            "beta": self.beta,
            "lambda1": self.lambda1,
            "lambda2": self.lambda2,
        }

    def scale_learning_rate(self, scale):
        self.alpha *= scale


class FtrlOptimizer(_Leader):
    """Follow the regularized leader, with L1 (`lambda1`) and L2 (`lambda2`): weights become exactly 0.

    z += g - (sqrt(n + g²) - sqrt(n)) / alpha * w, n += g²,
    w = -(z - sign(z) * lambda1) / ((beta + sqrt(n)) / alpha + lambda2) where |z| > lambda1, else 0
    (McMahan et al. 2013: Ad click prediction, a view from the trenches).
    """

    def _run(self, net, param_init_net, param_info):
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        state = self._state(param_init_net, param, "_ftrl_nz")
        if is_sparse(grad):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseFtrl([param, state, grad.indices, grad.values], [param, state], **self._args())
        else:
            net.Ftrl([param, state, grad], [param, state], **self._args())


class GFtrlOptimizer(_Leader):
    """Ftrl with group lasso: all weights of an input become exactly 0 together; dense gradients only.

    z and n as in Ftrl, then for each input, over its k weights,
    w = -z * (1 - lambda1 * sqrt(k) / |z|) / ((beta + sqrt(n)) / alpha + lambda2) where |z| > lambda1 * sqrt(k), else 0
    (Ni et al. 2019: Feature selection for Facebook feed ranking system via a group-sparsity-regularized training
    algorithm).
    """

    def _run(self, net, param_init_net, param_info):
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        state = self._state(param_init_net, param, "_gftrl_nz")
        if is_sparse(grad):
            raise TypeError(f"GFtrl takes dense gradients only; that of {param} is sparse")
        net.GFtrl([param, state, grad], [param, state], **self._args())
