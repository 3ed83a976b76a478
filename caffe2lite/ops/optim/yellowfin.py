"""YellowFin: momentum SGD that tunes its own step size and momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.shapes import check_sizes, one


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
    for what, operand in (("moment", moment), ("g_avg", g_avg), ("g2_avg", g2_avg), ("grad", grad)):
        if operand.shape != param.shape:
            raise ValueError(f"{what} {list(operand.shape)} must have the shape of param, {list(param.shape)}")
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
    norm2 = float(xp.vdot(grad, grad))
    window = curv_win.copy()
    window[(turn - 1) % curv_win_width] = np.log(max(norm2, epsilon))
    seen = window[: min(max(turn, 1), curv_win_width)]
    g1 = _mean(beta, g_avg, grad.reshape(g_avg.shape))
    g2 = _mean(beta, g2_avg, xp.square(grad).reshape(g2_avg.shape))
    memory = _remembered(beta, scalars_memory.reshape(-1).tolist(), norm2, float(seen.min()), float(seen.max()))
    if turn > 1:
        debias = 1 - np.float64(beta) ** turn if zero_debias else 1.0
        *_, low, high, distance = (v / debias for v in memory)
        spread = max(np.float64(g2.sum()) / debias - np.float64(xp.vdot(g1, g1)) / debias**2, epsilon)
        best_mu, best_lr = _tune(np.exp(low), np.exp(high), spread, distance, epsilon)
        lr, mu = _mean(beta, lr, best_lr), _mean(beta, mu, best_mu)
    outs = tuple(o(a.shape, a.dtype) for o, a in zip(out, operands))
    for target, value in zip(outs, (param - step.reshape(param.shape), new, lr, mu, window, g1, g2)):
        target[...] = value
    outs[7][...] = xp.asarray(memory, dtype=param.dtype).reshape(scalars_memory.shape)
    return outs


def _mean(beta: float, average: Any, value: Any) -> Any:
    """Return the moving average, with a further value."""
    return beta * average + (1 - beta) * value


def _remembered(beta: float, averages: list[float], norm2: float, low: float, high: float) -> list[float]:
    """Return the averages of |g|, |g|^2, the log of the lowest and highest curvature, and the distance to the optimum."""
    values = np.sqrt(norm2), norm2, low, high
    norm, square, low, high = (_mean(beta, a, v) for a, v in zip(averages, values))
    return [norm, square, low, high, _mean(beta, averages[4], norm / square if square else 0.0)]


def _tune(low: float, high: float, spread: float, distance: float, epsilon: float) -> tuple[float, float]:
    """Return (momentum, step size) that the curvature between low and high, noise and distance call for."""
    # NumPy's numbers become infinite where a power of Python's is an error
    p = (np.float64(distance) * low) ** 2 / 2 / spread
    w3 = (-np.sqrt(p * p + 4 / 27 * p**3) - p) / 2
    w = np.copysign(abs(w3) ** (1 / 3), w3)
    root = w - p / 3 / (w - epsilon if w < 0 else w + epsilon) + 1
    ratio = np.sqrt(high / low)
    mu = max(root * root, ((ratio - 1) / (ratio + 1)) ** 2)
    return mu, (1 - np.sqrt(mu)) ** 2 / low
