"""Learning rates that follow a policy.

A policy is a factory: it gets a reader of the operator's arguments and the base rate, and returns a function from the
iteration to the factor that the base rate is multiplied with.  Numbers are NumPy's: like C's they overflow to infinity and
are NaN where there is no result, which Python's own refuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from caffe2lite.ops.kit.gradient import NO_GRADIENT
from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.registry import operator

Factor = Callable[[int], float]


class Reader:
    """Arguments by name, with a prefix for the policies of a composite."""

    def __init__(self, op: Any, prefix: str = "") -> None:
        self.op = op
        self.prefix = prefix
        self.messages = {a.name: a for a in op.arg}

    def _field(self, name: str, field: str, words: str, default: Any) -> Any:
        message = self.messages.get(self.prefix + name)
        if message is None:
            return default
        if not message.HasField(field):
            raise ValueError(f"argument {message.name} of LearningRate must be {words}")
        return getattr(message, field)

    def number(self, name: str, default: float = 0.0) -> np.float64:
        """A float argument."""
        return np.float64(self._field(name, "f", "a float", default))

    def integer(self, name: str, default: int = 0) -> int:
        """An integer argument."""
        return int(self._field(name, "i", "an integer", default))

    def text(self, name: str) -> str:
        """A string argument."""
        value: bytes = self._field(name, "s", "a string", b"")
        return value.decode()

    def positive(self, name: str, default: int = 0) -> int:
        """An integer argument that something is divided by."""
        value = self.integer(name, default)
        if value <= 0:
            raise ValueError(f"the policy needs the argument {self.prefix}{name}, above 0; found {value}")
        return value


def _fixed(read: Reader, base: float) -> Factor:
    return lambda i: 1.0


def _alter(read: Reader, base: float) -> Factor:
    first = bool(read.integer("active_first", 1))
    active, inactive = read.integer("active_period"), read.integer("inactive_period")
    if active + inactive <= 0:
        raise ValueError("the policy 'alter' needs active_period or inactive_period above 0")
    lead = active if first else inactive
    return lambda i: float((math.fmod(i, active + inactive) < lead) == first)


def _hill(read: Reader, base: float) -> Factor:
    n, start = read.integer("num_iter"), read.number("start_multiplier")
    gamma, power, end = read.number("gamma"), read.number("power"), read.number("end_multiplier")

    def factor(i: int) -> float:
        if i < n:
            return start + (1 - start) * i / n
        return max(end, (1 + gamma * (i - n)) ** -power)  # `end` where this is NaN

    return factor


def _slope(read: Reader, base: float) -> Factor:
    n1, n2 = read.integer("num_iter_1"), read.integer("num_iter_2")
    m1, m2 = read.number("multiplier_1"), read.number("multiplier_2")
    return lambda i: m1 if i < n1 else max(m1 + (i - n1) * (m2 - m1) / (n2 - n1), m2)


def _step(read: Reader, base: float) -> Factor:
    size, gamma = read.positive("stepsize"), read.number("gamma")
    return lambda i: gamma ** float(int(i / size))  # towards 0, as C divides


def _exp(read: Reader, base: float) -> Factor:
    gamma = read.number("gamma")
    return lambda i: gamma ** float(i)


def _gate(read: Reader, base: float) -> Factor:
    before, after = read.number("multiplier_1", 1.0), read.number("multiplier_2", 1.0)
    n = read.integer("num_iter")
    return lambda i: after if i >= n else before


def _inv(read: Reader, base: float) -> Factor:
    gamma, power = read.number("gamma"), read.number("power")
    return lambda i: (1 + gamma * i) ** -power


def _poly(read: Reader, base: float) -> Factor:
    power, last = read.number("power"), np.float64(read.integer("max_iter"))
    return lambda i: (1 - i / last) ** power


def _linear_warmup(read: Reader, base: float) -> Factor:
    start, n = read.number("start_multiplier"), read.integer("num_iter")
    return lambda i: 1.0 if i >= n else start + (1 - start) * i / n


def _constant_warmup(read: Reader, base: float) -> Factor:
    low, n = read.number("multiplier", 0.5), read.integer("num_iter")
    return lambda i: 1.0 if i >= n else low


def _piece_warmup(read: Reader, base: float) -> Factor:
    m1, m2, m3 = read.number("m1", 0.5), read.number("m2", 0.5), read.number("m3", 0.5)
    n1, n2 = read.integer("n1"), read.integer("n2")
    return lambda i: m1 if i < n1 else m2 if i < n2 else m3


def _wave(base: float, top: float, size: int, decay: float) -> Factor:
    rise = abs(np.float64(top) / base) - 1

    def factor(i: int) -> float:
        cycle = int(i / (2 * size))  # towards 0, as C divides
        x = abs(i / size - 2 * (cycle + 1) + 1)
        return 1 + rise * max(0.0, 1 - x) * decay**cycle

    return factor


def _cyclical(read: Reader, base: float) -> Factor:
    return _wave(base, read.number("max_lr", 0.005), read.positive("stepsize"), read.number("decay", 1.0))


def _constant_then_linear(read: Reader, base: float) -> Factor:
    start = read.number("start_warmup_multiplier", 0.1)
    flat = read.integer("constant_warmup_num_iter", 10_000_000)
    rising = read.integer("linear_warmup_num_iter", 10_000_000)

    def factor(i: int) -> float:
        if i < flat:
            return start
        return start + (1 - start) * (i - flat) / rising if i < flat + rising else 1.0

    return factor


def _after_warmup(read: Reader, base: float, later: Factor) -> Factor:
    warmup = _constant_then_linear(read, base)
    n = read.integer("constant_warmup_num_iter", 10_000_000) + read.integer("linear_warmup_num_iter", 10_000_000)
    return lambda i: warmup(i) if i < n else later(i - n)


def _composite_cyclical(read: Reader, base: float) -> Factor:
    top, decay = read.number("cyclical_max_lr", 0.05), read.number("cyclical_decay", 1.0)
    return _after_warmup(read, base, _wave(base, top, read.positive("cyclical_step_size", 1_000_000), decay))


def _restarts(top: float, bottom: float, period: int, growth: float, shrink: float) -> Factor:
    def factor(i: int) -> float:
        if growth == 1:
            turn, length = i // period, float(period)
            at = float(i - turn * period)
        else:
            left = 1 - i / period * (1 - growth)
            if left <= 0:  # shorter and shorter periods: the last one is over
                return math.nan
            turn = np.floor(np.log(left) / np.log(growth) + 1e-9)
            length = growth**turn * period
            at = i - (1 - growth**turn) / (1 - growth) * period
        low, high = (np.float32(shrink**turn) * v for v in (bottom, top))
        return low + 0.5 * (high - low) * (1 + np.cos(np.pi * at / length))

    return factor


def _cosine(read: Reader, base: float, prefix: str = "") -> Factor:
    return _restarts(
        read.number(prefix + "max_lr", 0.5),
        read.number(prefix + "min_lr", 0.1),
        read.positive(prefix + "period", 50),
        read.number(prefix + "t_mult", 1.0),
        read.number(prefix + "lr_shrink", 0.99),
    )


def _composite_cosine(read: Reader, base: float) -> Factor:
    return _after_warmup(read, base, _cosine(read, base, "cosine_"))


def _composite(read: Reader, base: float) -> Factor:
    """Policy after policy, each for so many iterations; the last one stays."""
    message = read.messages.get("sub_policy_num_iters")
    lengths = list(message.ints) if message is not None else []
    if not lengths or min(lengths) <= 0:
        raise ValueError(f"a composite needs sub_policy_num_iters, all above 0; found {lengths}")
    parts: list[tuple[int, float, Factor]] = []
    end = 0
    for k, length in enumerate(lengths):
        sub = Reader(read.op, f"sub_policy_{k}_")
        end += length
        parts.append((end, sub.number("lr_scale", 1.0), _policy(sub, base)))

    def factor(i: int) -> float:
        for end, scale, part in parts:
            if i <= end:
                return scale * part(i)
        _, scale, part = parts[-1]
        return scale * part(i)

    return factor


_POLICIES: dict[str, Callable[[Reader, float], Factor]] = {
    "fixed": _fixed,
    "alter": _alter,
    "hill": _hill,
    "slope": _slope,
    "step": _step,
    "exp": _exp,
    "gate": _gate,
    "inv": _inv,
    "poly": _poly,
    "linearWarmup": _linear_warmup,
    "constantWarmup": _constant_warmup,
    "pieceWarmup": _piece_warmup,
    "cyclical": _cyclical,
    "constantThenLinearWarmup": _constant_then_linear,
    "compositeCyclical": _composite_cyclical,
    "cosine": _cosine,
    "compositeCosine": _composite_cosine,
    "composite": _composite,
}


def _policy(read: Reader, base: float) -> Factor:
    name = read.text("policy")
    if not name:
        raise ValueError(f"LearningRate needs the argument {read.prefix}policy, one of {', '.join(_POLICIES)}")
    if name not in _POLICIES:
        raise ValueError(f"there is no learning rate policy {name!r}; there are {', '.join(_POLICIES)}")
    return _POLICIES[name](read, base)


@operator(
    "lr",
    stateful=True,
    types="int64",
    host="iter",
    infer=like(0, dtype="float32"),
    gradient=NO_GRADIENT,
)
def LearningRate(ctx, iter, *, base_lr: float | None = None, out):
    """lr = base_lr times the factor that the argument `policy` gives for this iteration.

    The policies are fixed, alter, hill, slope, step, exp, gate, inv, poly, linearWarmup, constantWarmup, pieceWarmup,
    cyclical (Smith, Cyclical Learning Rates for Training Neural Networks, 2017), constantThenLinearWarmup,
    compositeCyclical, cosine (Loshchilov and Hutter, SGDR, 2017), compositeCosine and composite.

    iter [1] (int64), lr a scalar (float32).  ValueError where there is no such policy, base_lr or an argument of the
    policy is missing, or one by which it divides is not above 0.
    """
    if base_lr is None:
        raise ValueError("LearningRate needs the argument base_lr, a float")
    if not iter.size:
        raise ValueError("the iteration is an empty tensor")
    state = ctx.state
    if not hasattr(state, "factor"):
        state.factor, state.base = _policy(Reader(ctx.op), np.float64(base_lr)), np.float32(base_lr)
    count = iter.item() if iter.size == 1 else int(iter.reshape(-1)[0])
    lr = out((), "float32")
    try:
        lr[()] = state.base * np.float32(state.factor(count))
    except FloatingPointError:  # which is no error here, even where it is one of other operators
        with np.errstate(all="ignore"):
            lr[()] = state.base * np.float32(state.factor(count))
    return lr
