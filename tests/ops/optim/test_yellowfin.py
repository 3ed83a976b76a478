"""YellowFin's averages, its step, and the momentum and step size that it finds."""

import numpy as np
import pytest
from running import check_places, floats, refused, run

WIDTH, BETA, EPSILON = 3, 0.9, 1e-6


def tune(low, high, spread, distance):
    """The paper's rule: x is the root of the cubic D^2 h_min^2 / (2 C) x = (1 - x)^3, and mu at least what curvatures ask."""
    p = distance**2 * low**2 / (2 * spread)
    roots = np.roots([-1, 3, -(3 + p), 1])
    x = min((r.real for r in roots if abs(r.imag) < 1e-7), key=lambda r: abs(r - 0.5))
    ratio = np.sqrt(high / low)
    mu = max(x**2, ((ratio - 1) / (ratio + 1)) ** 2)
    return mu, (1 - np.sqrt(mu)) ** 2 / low


@pytest.mark.parametrize("nesterov", [0, 1])
@pytest.mark.parametrize("turns", [1, 6])
def test_steps(turns, nesterov):
    param, moment = floats(4), np.zeros(4, "f")
    lr, mu, window = np.array([0.1], "f"), np.array([0.3], "f"), np.zeros(WIDTH, "f")
    g1, g2, memory = np.zeros(4, "f"), np.zeros(4, "f"), np.zeros(5, "f")
    args = {"curv_win_width": WIDTH, "beta": BETA, "nesterov": nesterov, "epsilon": EPSILON}
    curvatures, state = [], [param, moment, lr, mu, window, g1, g2, memory]
    wide = [v.astype("d") for v in state]
    for t in range(1, turns + 1):
        grad = floats(4, seed=t)
        state = run("YellowFin", [*state, grad, np.array([t])], args, 8)
        p, m, rate, momentum, _, a, b, kept = wide
        new = momentum * m + rate * grad
        step = (1 + momentum) * new - momentum * m if nesterov else new
        mean = lambda old, value: BETA * old + (1 - BETA) * value
        curvatures.append(np.log((grad.astype("d") ** 2).sum()))
        a, b = mean(a, grad), mean(b, grad.astype("d") ** 2)
        size = (grad.astype("d") ** 2).sum()
        recent = curvatures[-WIDTH:]
        norm, square = mean(kept[0], np.sqrt(size)), mean(kept[1], size)
        kept = np.array(
            [norm, square, mean(kept[2], min(recent)), mean(kept[3], max(recent)), mean(kept[4], norm / square)]
        )
        if t > 1:
            debias = 1 - BETA**t
            spread = b.sum() / debias - (a / debias) @ (a / debias)
            best = tune(*np.exp(kept[2:4] / debias), spread, kept[4] / debias)
            momentum, rate = mean(momentum, best[0]), mean(rate, best[1])
        wide = [p - step, new, rate, momentum, None, a, b, kept]
    for k, want in enumerate(wide):
        if want is not None:
            np.testing.assert_allclose(state[k], want, rtol=1e-3, atol=1e-5, err_msg=str(k))
    np.testing.assert_allclose(np.sort(state[4][state[4] != 0]), np.sort(curvatures[-WIDTH:]), rtol=1e-4)


ONE = np.array([0.1], "f")
STATE = [floats(4), floats(4), ONE, ONE, floats(20), floats(4), floats(4), floats(5, low=0.1)]


def test_places():
    check_places("YellowFin", [*STATE, floats(4), np.array([3])], outputs=8)


@pytest.mark.parametrize(("place", "value", "words"), [
    (1, floats(3), r"moment \[3\] must have as many elements as param \[4\]"),
    (2, floats(2), r"lr_avg must be one value, found the shape \[2\]"),
    (4, floats(3), "curv_win_width=20 values and scalars_memory 5, found 3 and 5"),
    (7, floats(4), "found 20 and 4"),
    (8, floats(5), r"grad \[5\]"),
    (9, np.array([1, 2]), r"iter must be one value, found the shape \[2\]"),
])  # fmt: skip
def test_refusals(place, value, words):
    inputs = [*STATE, floats(4), np.array([3])]
    inputs[place] = value
    refused("YellowFin", inputs, words, outputs=8)
