"""YellowFin: momentum SGD that tunes its own step size and momentum."""

from __future__ import annotations

import math

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.optim.dense import check_sizes, one


@operator(
    "param_out moment_out lr_out mu_out curv_win_out g_avg_out g2_avg_out scalars_out",
    inplace=[(i, i) for i in range(8)],
    types={
        "param": "float32",
        "moment": "=param",
        "lr_avg": "=param",
        "mu_avg": "=param",
        "curv_win": "=param",
        "g_avg": "=param",
        "g2_avg": "=param",
        "scalars_memory": "=param",
        "grad": "=param",
        "iter": "int64",
    },
    host="iter",
    gradient=FORBID_GRADIENT,
)
def YellowFin(
    xp,
    param,
    moment,
    lr_avg,
    mu_avg,
    curv_win,
    g_avg,
    g2_avg,
    scalars_memory,
    grad,
    iter,
    *,
    curv_win_width: int = 20,
    nesterov: bool = False,
    zero_debias: bool = True,
    epsilon: float = 1e-6,
    beta: float = 0.999,
    out,
):
    """A step with the present lr and mu, then new averages of the gradient, its size, curvature and distance, and of
    the lr and mu that follow from them.

    Zhang and Mitliagkas, YellowFin and the Art of Momentum Tuning, 2019.  param [...], moment, g_avg, g2_avg and grad
    of its size, lr_avg, mu_avg and iter [1], curv_win [curv_win_width], scalars_memory [5]; float32, iter int64.
    ValueError where a size differs.
    """
    check_sizes(param=param, moment=moment, g_avg=g_avg, g2_avg=g2_avg, grad=grad)
    if curv_win.size != curv_win_width or scalars_memory.size != 5:
        raise ValueError(
            f"curv_win must have curv_win_width={curv_win_width} values and scalars_memory 5, found "
            f"{curv_win.size} and {scalars_memory.size}"
        )
    operands = (param, moment, lr_avg, mu_avg, curv_win, g_avg, g2_avg, scalars_memory)
    turn = int(one(iter, "iter"))
    lr, mu = float(one(lr_avg, "lr_avg")), float(one(mu_avg, "mu_avg"))
    old = moment * param.dtype.type(mu)
    new = old + grad.reshape(moment.shape) * param.dtype.type(lr)
    step = new * param.dtype.type(1 + mu) - old if nesterov else new

    def mean(average, value):
        return beta * average + (1 - beta) * value

    norm2 = float(xp.vdot(grad, grad))
    window = curv_win.copy()
    window[(turn - 1) % curv_win_width] = math.log(max(norm2, epsilon))
    seen = window[: min(max(turn, 1), curv_win_width)]
    g1, g2 = mean(g_avg, grad.reshape(g_avg.shape)), mean(g2_avg, xp.square(grad).reshape(g2_avg.shape))
    norm_avg, norm2_avg, low_avg, high_avg, distance_avg = scalars_memory.tolist()
    norm_avg, norm2_avg = mean(norm_avg, math.sqrt(norm2)), mean(norm2_avg, norm2)
    low_avg, high_avg = mean(low_avg, float(seen.min())), mean(high_avg, float(seen.max()))
    distance_avg = mean(distance_avg, norm_avg / norm2_avg if norm2_avg else 0.0)
    if turn > 1:
        debias = 1 - beta**turn if zero_debias else 1.0
        low, high = math.exp(low_avg / debias), math.exp(high_avg / debias)
        spread = max(float(g2.sum()) / debias - float(xp.vdot(g1, g1)) / debias**2, epsilon)
        best_mu, best_lr = _tune(low, high, spread, distance_avg / debias, epsilon)
        lr, mu = mean(lr, best_lr), mean(mu, best_mu)
    values = (param - step.reshape(param.shape), new, lr, mu, window, g1, g2, None)
    outs = tuple(o(a.shape, a.dtype) for o, a in zip(out, operands))
    for target, value in zip(outs[:7], values):
        target[...] = value
    outs[7][...] = xp.asarray([norm_avg, norm2_avg, low_avg, high_avg, distance_avg], dtype=param.dtype)
    return outs


def _tune(low: float, high: float, spread: float, distance: float, epsilon: float) -> tuple[float, float]:
    """(momentum, step size) that the curvature between low and high, noise and distance call for."""
    p = (distance * low) ** 2 / 2 / spread
    w3 = (-math.sqrt(p * p + 4 / 27 * p**3) - p) / 2
    w = math.copysign(abs(w3) ** (1 / 3), w3)
    root = w - p / 3 / (w - epsilon if w < 0 else w + epsilon) + 1
    ratio = math.sqrt(high / low)
    mu = max(root * root, ((ratio - 1) / (ratio + 1)) ** 2)
    return mu, (1 - math.sqrt(mu)) ** 2 / low
