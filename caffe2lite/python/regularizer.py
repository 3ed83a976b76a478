"""Regularizers: a term added to the loss, or a change made to the parameter after its update."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core, utils


class RegularizationBy:
    """When a regularizer is called."""

    AFTER_OPTIMIZER = "after_optimizer"
    ON_LOSS = "on_loss"


_MOMENTS = (RegularizationBy.AFTER_OPTIMIZER, RegularizationBy.ON_LOSS)


class Regularizer:
    """Called with the nets, the parameter, its gradient and `by`; a subclass does something at one of the moments.

    ON_LOSS it returns the blob to add to the loss, AFTER_OPTIMIZER it changes the parameter in place.
    """

    kEpsilon = 1e-9

    def __init__(self):
        self.kEpsilon = type(self).kEpsilon

    def __call__(self, net, param_init_net, param, grad=None, by=None):
        if not isinstance(param, core.BlobReference):
            raise AssertionError(f"the parameter is a BlobReference, not {type(param).__name__}")
        if by not in _MOMENTS:
            raise AssertionError(f"Regularizer of type {type(self)} is called with invalid by={by}, not in {_MOMENTS}")
        run = self._run_on_loss if by == RegularizationBy.ON_LOSS else self._run_after_optimizer
        return run(net, param_init_net, param, grad)

    def _run_on_loss(self, net, param_init_net, param, grad=None):
        return None

    def _run_after_optimizer(self, net, param_init_net, param, grad):
        return None

    def _feature_grouping(self, param, net):
        """Return the norm of each column of a weight, that is of all weights of one feature."""
        squares = net.Mul([param, param], net.NextScopedBlob("param_mul"))
        sums = net.ReduceFrontSum([squares], net.NextScopedBlob("param_reduced"))
        return net.Pow([sums], net.NextScopedBlob("grouped_feature_weight_vec"), exponent=0.5)

    def _ensure_clipped(
        self, net, param, grad=None, min=None, max=None, open_range=False, left_open=False, right_open=False
    ):
        """Clip the parameter, or the rows of a sparse gradient, to the range; an open end is left out."""
        if min is not None and (open_range or left_open):
            min += self.kEpsilon
        if max is not None and (open_range or right_open):
            max -= self.kEpsilon
        inputs = [param, grad.indices, grad.values] if isinstance(grad, core.GradientSlice) else [param]
        net.EnsureClipped(inputs, [param], min=min, max=max)

    def _only_sparse(self, grad):
        if not isinstance(grad, core.GradientSlice):
            raise NotImplementedError(f"{self._name} is not supported for dense parameters")

    @property
    def _name(self):
        return type(self).__name__


class _ScaledNorm(Regularizer):
    """reg_lambda times the p-norm (the sum of |w|^p)."""

    _p = 1

    def __init__(self, reg_lambda):
        super().__init__()
        if reg_lambda < 0:
            raise AssertionError(f"reg_lambda is 0 or more, got {reg_lambda}")
        self.reg_lambda = reg_lambda

    def _run_on_loss(self, net, param_init_net, param, grad=None):
        blob = net.NextScopedBlob(f"{param}_l{self._p}_regularization")
        net.LpNorm([param], [blob], p=self._p)
        net.Scale([blob], [blob], scale=self.reg_lambda)
        return blob


class L1Norm(_ScaledNorm):
    """reg_lambda * sum |w|."""


class L2Norm(_ScaledNorm):
    """reg_lambda * sum w^2."""

    _p = 2


def _trimmed_l1(net, param, k, output):
    """sum |w| without the k greatest."""
    absolute = net.Abs([param], [net.NextScopedBlob("abs")])
    total = net.SumElements([absolute], [net.NextScopedBlob("sum_abs")], average=False)
    greatest, _, _ = net.TopK([absolute], [net.NextScopedBlob(n) for n in ("topk", "id", "flat_id")], k=k)
    top = net.SumElements([greatest], [net.NextScopedBlob("topk_sum")], average=False)
    return net.Sub([total, top], [output])


class L1NormTrimmed(Regularizer):
    """reg_lambda * (sum |w| without the k greatest)."""

    def __init__(self, reg_lambda, k):
        super().__init__()
        if reg_lambda < 0:
            raise AssertionError(f"reg_lambda is 0 or more, got {reg_lambda}")
        if not isinstance(k, int):
            raise AssertionError(f"k is an integer, the number of weights that are kept, got {k!r}")
        if k < 1:
            raise AssertionError(f"k is 1 or more, got {k}")
        self.reg_lambda = reg_lambda
        self.k = k

    def _run_on_loss(self, net, param_init_net, param, grad=None):
        blob = net.NextScopedBlob(f"{param}_l1_trimmed_regularization")
        _trimmed_l1(net, param, self.k, blob)
        net.Scale([blob], [blob], scale=self.reg_lambda)
        return blob


class ElasticNet(Regularizer):
    """l1 * sum |w| + l2 * sum w^2."""

    def __init__(self, l1, l2):
        super().__init__()
        self.l1 = l1
        self.l2 = l2

    def _run_on_loss(self, net, param_init_net, param, grad=None):
        blob = net.NextScopedBlob(f"{param}_elastic_net_regularization")
        l2, l1 = net.NextScopedBlob(f"{param}_l2_blob"), net.NextScopedBlob(f"{param}_l1_blob")
        net.LpNorm([param], [l2], p=2)
        net.LpNorm([param], [l1], p=1)
        net.Scale([l2], [l2], scale=self.l2)
        net.Scale([l1], [l1], scale=self.l1)
        net.Add([l1, l2], [blob])
        return blob


class ElasticNetL1NormTrimmed(Regularizer):
    """l1 * (sum |w| without the k greatest) + l2 * sum w^2."""

    def __init__(self, l1, l2, k):
        super().__init__()
        self.l1 = l1
        self.l2 = l2
        self.k = k

    def _run_on_loss(self, net, param_init_net, param, grad=None):
        blob = net.NextScopedBlob(f"{param}_elastic_net_l1_trimmed_regularization")
        l2 = net.NextScopedBlob(f"{param}_l2_blob")
        net.LpNorm([param], [l2], p=2)
        net.Scale([l2], [l2], scale=self.l2)
        l1 = net.NextScopedBlob(f"{param}_l1_blob")
        _trimmed_l1(net, param, self.k, l1)
        net.Scale([l1], [l1], scale=self.l1)
        net.Add([l1, l2], [blob])
        return blob


class GroupL1Norm(Regularizer):
    """Group lasso (Scardapane and others 2016): the columns of w in groups of the given sizes, each group's 2-norm."""

    def __init__(self, reg_lambda, groups, stabilizing_val=0):
        super().__init__()
        if reg_lambda < 0:
            raise AssertionError(f"reg_lambda is 0 or more, got {reg_lambda}")
        if not isinstance(groups, list):
            raise AssertionError(f"groups is a list of the groups' sizes, got {groups!r}")
        self.reg_lambda = reg_lambda
        self.groups = groups
        self.stabilizing_val = stabilizing_val

    def _run_on_loss(self, net, param_init_net, param, grad=None):
        count = len(self.groups)
        columns = net.ReduceSum(net.Sqr(param), axes=[0], keepdims=0)
        sums = net.LengthsSum([columns, net.GivenTensorIntFill([], 1, shape=[count], values=self.groups)])
        if self.stabilizing_val:  # keeps the square root's gradient finite at 0
            net.Add([sums, net.ConstantFill([], 1, value=self.stabilizing_val)], [sums], broadcast=1)
        norms = net.Sqrt(sums)
        factors = net.GivenTensorFill([], shape=[count], values=np.sqrt(self.groups) * self.reg_lambda)
        scaled = net.Mul([norms, factors], ["normalized_l2_norm_scaled"])
        return net.LpNorm(scaled, ["group_l1_nrom"], p=1)  # spelt as in Caffe2


class LpNorm(Regularizer):
    """reg_lambda * the p-norm of the norms of all features."""

    def __init__(self, reg_lambda, p_value=0.5):
        super().__init__()
        if reg_lambda <= 0:
            raise AssertionError(f"reg_lambda is positive, got {reg_lambda}")
        if p_value <= 0:
            raise AssertionError(f"p_value is positive, got {p_value}")
        self.reg_lambda = reg_lambda
        self.p_value = p_value

    def _run_on_loss(self, net, param_init_net, param, grad=None):
        blob = net.NextScopedBlob(f"{param}_dense_feature_regularization")
        norms = self._feature_grouping(param, net)
        raised = net.Pow([norms], [net.NextScopedBlob("lp_vec_raised")], exponent=self.p_value)
        total = net.ReduceFrontSum([raised], [net.NextScopedBlob("lp_vec_summed")])
        norm = net.Pow([total], [net.NextScopedBlob("lp_vec")], exponent=1 / self.p_value)
        net.Scale([norm], [blob], scale=self.reg_lambda)
        return blob


class L0ApproxNorm(Regularizer):
    """reg_lambda * (about how many features are not zero; only what is over `budget`, if that is given).

    A feature counts by its norm over alpha, at most 1.
    """

    def __init__(self, reg_lambda, alpha=0.01, budget=0):
        super().__init__()
        if reg_lambda <= 0:
            raise AssertionError(f"reg_lambda is positive, got {reg_lambda}")
        if alpha <= 0:
            raise AssertionError(f"alpha is positive, got {alpha}")
        if budget < 0:
            raise AssertionError(f"budget is 0 or more, got {budget}")
        self.reg_lambda = reg_lambda
        self.alpha = alpha
        self.budget = float(budget)

    def _run_on_loss(self, net, param_init_net, param, grad=None):
        blob = net.NextScopedBlob(f"{param}_dense_feature_regularization")
        norms = self._feature_grouping(param, net)
        absolute = net.Abs([norms], [net.NextScopedBlob("l0_abs")])
        least = net.Clip([absolute], [net.NextScopedBlob("l0_min")], max=self.alpha)
        total = net.ReduceFrontSum([least], [net.NextScopedBlob("l0_summed")])
        count = net.Scale([total], [net.NextScopedBlob("l0_norm")], scale=1 / self.alpha)
        if self.budget:
            budget = net.ConstantFill([], "budget", shape=[1], value=self.budget)
            over = net.Sub([count, budget], [net.NextScopedBlob("l0_budget")])
            count = net.Relu([over], [net.NextScopedBlob("relu_l0_sub_budget")])
        net.Scale([count], [blob], scale=self.reg_lambda)
        return blob


class _SparseNormalize(Regularizer):
    """Scales the rows that were updated."""

    _use_max_norm = False

    def __init__(self, norm=1.0):
        super().__init__()
        self.norm = norm

    def _run_after_optimizer(self, net, param_init_net, param, grad):
        if self.norm <= 0:
            raise AssertionError(f"the norm is positive, got {self.norm}")
        self._only_sparse(grad)
        half = getattr(self, "dtype", None) == "fp16"
        normalize = net.Float16SparseNormalize if half else net.SparseNormalize
        normalize([param, grad.indices], [param], use_max_norm=self._use_max_norm, norm=self.norm)


class MaxNorm(_SparseNormalize):
    """Rows get at most that norm; dtype "fp16" for a table of float16."""

    _use_max_norm = True

    def __init__(self, norm=1.0, dtype=None):
        super().__init__(norm)
        self.dtype = dtype


class ConstantNorm(_SparseNormalize):
    """Rows get that norm."""


class SparseLpNorm(Regularizer):
    """Shrinks the rows that were updated: soft thresholding for p = 1, decay for p = 2."""

    def __init__(self, p, reg_lambda):
        super().__init__()
        if p not in (1.0, 2.0):
            raise AssertionError(f"p is 1.0 or 2.0, got {p}")
        if reg_lambda <= 0:
            raise AssertionError(f"reg_lambda is positive, got {reg_lambda}")
        self.p = p
        self.reg_lambda = reg_lambda

    @property
    def _name(self):
        return "SparseLpNorm"

    def _run_after_optimizer(self, net, param_init_net, param, grad):
        self._only_sparse(grad)
        net.SparseLpRegularizer([param, grad.indices], [param], p=self.p, reg_lambda=self.reg_lambda)


class SparseL1Norm(SparseLpNorm):
    """SparseLpNorm of p = 1."""

    def __init__(self, reg_lambda):
        super().__init__(p=1.0, reg_lambda=reg_lambda)


class SparseL2Norm(SparseLpNorm):
    """SparseLpNorm of p = 2."""

    def __init__(self, reg_lambda):
        super().__init__(p=2.0, reg_lambda=reg_lambda)


class LogBarrier(Regularizer):
    """Keeps weights positive: -reg_lambda * sum log w on the loss, fading by a policy of LearningRate; then a clip."""

    def __init__(self, reg_lambda, discount_policy="inv", discount_options=None):
        super().__init__()
        if reg_lambda <= 0:
            raise AssertionError(f"reg_lambda is positive, got {reg_lambda}")
        options = discount_options or {"gamma": 1.0, "power": 1.0}
        self.reg_lambda, self.discount_policy, self.discount_options = reg_lambda, discount_policy, options

    def _run_on_loss(self, net, param_init_net, param, grad=None):
        iteration = utils.BuildUniqueMutexIter(param_init_net, net)
        factor = net.LearningRate(
            [iteration],
            [net.NextScopedBlob(f"{param}_log_barrier_discount")],
            base_lr=-self.reg_lambda,
            policy=self.discount_policy,
            **self.discount_options,
        )
        positive = net.Clip([param], [net.NextScopedBlob(f"{param}_non_neg")], min=self.kEpsilon)
        logs = net.Log([positive], [net.NextScopedBlob(f"{param}_log")])
        total = net.SumElements([logs], [net.NextScopedBlob(f"{param}_log_sum")])
        return net.Mul([total, factor], [net.NextScopedBlob(f"{param}_log_barrier")], broadcast=1)

    def _run_after_optimizer(self, net, param_init_net, param, grad):
        self._ensure_clipped(net, param, grad, min=0, open_range=True)


class BoundedGradientProjection(Regularizer):
    """Projects weights into [lb, ub] after each update; an end may be open, by epsilon."""

    def __init__(self, lb=None, ub=None, left_open=False, right_open=False, epsilon=None):
        super().__init__()
        lb = None if lb is None else float(lb)
        ub = None if ub is None else float(ub)
        epsilon = self.kEpsilon if epsilon is None else float(epsilon)
        if epsilon <= 0:
            raise AssertionError(f"Bounded Gradient Projection with invalid eps={epsilon}")
        if lb is not None and ub is not None:
            least, most = lb + (epsilon if left_open else 0), ub - (epsilon if right_open else 0)
            interval = f"{'(' if left_open else '['}ub={ub}, lb={lb}{')' if right_open else ']'}"
            if least > most:
                raise AssertionError(f"Bounded Gradient Projection with invalid {interval}, eps={epsilon}")
        self.lb, self.left_open = lb, left_open
        self.ub, self.right_open = ub, right_open
        self.kEpsilon = epsilon

    def _run_after_optimizer(self, net, param_init_net, param, grad):
        self._ensure_clipped(
            net, param, grad, min=self.lb, max=self.ub, left_open=self.left_open, right_open=self.right_open
        )
