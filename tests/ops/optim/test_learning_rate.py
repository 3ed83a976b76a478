"""Policies are their formulas, iteration by iteration; where there is no result the rate is NaN, as C has it."""

import math

import numpy as np
import pytest
from running import refused, run

STEPS = (0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 25, 100)
wave = lambda i, size, top, decay: (
    1 + (top - 1) * max(0, 1 - abs(i / size - 2 * (i // (2 * size)) - 1)) * decay ** (i // (2 * size))
)
ramp = lambda i: 0.2 if i < 3 else 0.2 + 0.8 * (i - 3) / 4 if i < 7 else 1.0
WARM = {"start_warmup_multiplier": 0.2, "constant_warmup_num_iter": 3, "linear_warmup_num_iter": 4}


def restarts(i, period=4, growth=2.0, low=0.1, high=0.9, shrink=0.5):
    """Loshchilov and Hutter: half a cosine in each period, each longer than the one before."""
    length, turn = period, 0
    while i >= length:
        i, length, turn = i - length, length * growth, turn + 1
    return shrink**turn * (low + (high - low) * (1 + math.cos(math.pi * i / length)) / 2)


POLICIES = {
    "fixed": ({}, lambda i: 1),
    "alter": ({"active_first": 1, "active_period": 2, "inactive_period": 3}, lambda i: float(i % 5 < 2)),
    "hill": (
        {"num_iter": 4, "start_multiplier": 0.2, "gamma": 0.5, "power": 2.0, "end_multiplier": 0.05},
        lambda i: 0.2 + 0.8 * i / 4 if i < 4 else max((1 + 0.5 * (i - 4)) ** -2, 0.05),
    ),
    "slope": (
        {"num_iter_1": 2, "multiplier_1": 1.0, "num_iter_2": 6, "multiplier_2": 0.2},
        lambda i: 1 if i < 2 else max(1 - (i - 2) * 0.8 / 4, 0.2),
    ),
    "step": ({"stepsize": 3, "gamma": 0.5}, lambda i: 0.5 ** (i // 3)),
    "exp": ({"gamma": 0.9}, lambda i: 0.9**i),
    "gate": ({"num_iter": 4, "multiplier_1": 0.3, "multiplier_2": 2.0}, lambda i: 0.3 if i < 4 else 2),
    "inv": ({"gamma": 0.3, "power": 0.75}, lambda i: (1 + 0.3 * i) ** -0.75),
    "poly": ({"power": 2.0, "max_iter": 200}, lambda i: (1 - i / 200) ** 2),
    "linearWarmup": ({"start_multiplier": 0.2, "num_iter": 5}, lambda i: 1 if i >= 5 else 0.2 + 0.8 * i / 5),
    "constantWarmup": ({"multiplier": 0.2, "num_iter": 5}, lambda i: 1 if i >= 5 else 0.2),
    "pieceWarmup": (
        {"m1": 0.1, "n1": 3, "m2": 0.5, "n2": 6, "m3": 2.0},
        lambda i: 0.1 if i < 3 else 0.5 if i < 6 else 2,
    ),
    "cyclical": ({"stepsize": 3, "max_lr": 1.0, "decay": 0.5}, lambda i: wave(i, 3, 2.0, 0.5)),
    "constantThenLinearWarmup": (WARM, ramp),
    "compositeCyclical": (
        {**WARM, "cyclical_step_size": 3, "cyclical_max_lr": 1.0, "cyclical_decay": 0.5},
        lambda i: ramp(i) if i < 7 else wave(i - 7, 3, 2.0, 0.5),
    ),
    "cosine": ({"period": 4, "t_mult": 2.0, "min_lr": 0.1, "max_lr": 0.9, "lr_shrink": 0.5}, restarts),
    "compositeCosine": (
        {
            **WARM,
            "cosine_period": 4,
            "cosine_t_mult": 2.0,
            "cosine_min_lr": 0.1,
            "cosine_max_lr": 0.9,
            "cosine_lr_shrink": 0.5,
        },
        lambda i: ramp(i) if i < 7 else restarts(i - 7),
    ),
}


def rates(args, steps=STEPS):
    return [run("LearningRate", [np.array([i])], {"base_lr": 0.5, **args})[0].item() for i in steps]


@pytest.mark.parametrize("policy", POLICIES)
def test_policies(policy):
    args, factor = POLICIES[policy]
    np.testing.assert_allclose(rates({"policy": policy, **args}), [0.5 * factor(i) for i in STEPS], rtol=1e-5)


def test_a_composite_runs_policy_after_policy():
    args = {"policy": "composite", "sub_policy_num_iters": [3, 3],
            "sub_policy_0_policy": "linearWarmup", "sub_policy_0_start_multiplier": 0.0, "sub_policy_0_num_iter": 4,
            "sub_policy_1_policy": "step", "sub_policy_1_stepsize": 5, "sub_policy_1_gamma": 0.1,
            "sub_policy_1_lr_scale": 0.5}  # fmt: skip
    found = rates({**args, "base_lr": 2.0}, range(10))
    np.testing.assert_allclose(found, [0, 0.5, 1, 1.5, 1, 0.1, 0.1, 0.1, 0.1, 0.1], rtol=1e-5)


@pytest.mark.parametrize(("args", "step", "expected"), [
    ({"policy": "poly", "power": 0.5, "max_iter": 10}, 11, math.nan),
    ({"policy": "poly", "power": -1.0, "max_iter": 10}, 10, math.inf),
    ({"policy": "exp", "gamma": 2.0}, 1 << 31, math.inf),
    ({"policy": "step", "stepsize": 1, "gamma": -3.0}, 100001, -math.inf),
    ({"policy": "inv", "gamma": -0.1, "power": 0.5}, 11, math.nan),
    ({"policy": "hill", "gamma": -0.1, "power": 0.5, "end_multiplier": 0.2}, 100, 0.1),
    ({"policy": "cosine", "period": 5, "lr_shrink": 2.0}, 1001, math.nan),
    ({"policy": "cyclical", "stepsize": 2, "base_lr": 0.0}, 3, math.nan),
])  # fmt: skip
def test_without_a_result(args, step, expected):
    """The numbers are Caffe2's."""
    np.testing.assert_allclose(rates(args, [step]), [expected], rtol=1e-6)


@pytest.mark.parametrize(("args", "words"), [
    ({}, "needs the argument policy, one of fixed,"),
    ({"policy": "nonsense"}, "no learning rate policy 'nonsense'"),
    ({"policy": "step", "gamma": 0.5}, "stepsize, above 0; found 0"),
    ({"policy": "cyclical", "stepsize": -1}, "stepsize, above 0; found -1"),
    ({"policy": "alter"}, "active_period or inactive_period above 0"),
    ({"policy": "exp", "gamma": 1}, "gamma of LearningRate must be a float"),
    ({"policy": "composite"}, r"sub_policy_num_iters, all above 0; found \[\]"),
    ({"policy": "composite", "sub_policy_num_iters": [2]}, "needs the argument sub_policy_0_policy"),
])  # fmt: skip
def test_refusals(args, words):
    refused("LearningRate", [np.array([1])], words, {"base_lr": 0.1, **args})


def test_what_is_needed():
    refused("LearningRate", [np.array([1])], "base_lr, a float", {"policy": "fixed"})
    refused("LearningRate", [np.zeros(0, int)], "empty tensor", {"policy": "fixed", "base_lr": 0.1})
