"""Adagrad in NumPy, and checks of its sparse operators against it."""

from functools import partial

import numpy as np

from caffe2lite.python import core


def ref_adagrad(
    param_in,
    mom_in,
    grad,
    lr,
    epsilon,
    using_fp16=False,
    output_effective_lr=False,
    output_effective_lr_and_update=False,
    decay=1.0,
    row_wise=False,
    weight_decay=0.0,
    counter_halflife=-1,
    count=None,
):
    """Return (param, moment), and where asked the effective rate and the update (Duchi, Hazan, Singer: Adaptive Subgradient
    Methods, 2011); with `row_wise` the moment is one number for all of `grad`.
    """
    param, moment = np.asarray(param_in, "f"), np.asarray(mom_in, "f")
    pull = weight_decay
    if counter_halflife > 0 and count is not None and count > 0:
        pull = weight_decay * counter_halflife / count
    effective = grad + pull * param
    moment = decay * moment + (np.mean(effective**2) if row_wise else effective**2)
    rate = lr / (np.sqrt(moment) + epsilon)
    update = rate * effective
    kind = "float16" if using_fp16 else "float32"
    results = [(param + update).astype(kind), np.asarray(moment).astype(kind)]
    if output_effective_lr or output_effective_lr_and_update:
        results.append(rate.astype("f"))
    if output_effective_lr_and_update:
        results.append(update.astype("f"))
    return tuple(results)


def adagrad_sparse_test_helper(
    parent_test,
    inputs,
    lr,
    epsilon,
    engine,
    ref_adagrad,
    gc,
    dc,
    row_wise=False,
    weight_decay=0.0,
    counter_halflife=-1,
):
    """Check SparseAdagrad, or RowWiseSparseAdagrad, on some of the rows of (param, moment, grad).

    A `grad` without rows is an update of no rows.
    """
    param, moment, grad = inputs
    moment = np.abs(moment)
    rows = np.flatnonzero(np.random.random_sample(param.shape[0]) > 0.5)
    if grad.shape[0] == 0:
        rows = rows[:0]
    else:
        grad = grad[rows]
    if row_wise:
        moment = moment.reshape(moment.shape[0], -1)[:, 0].astype("f")
    rate = np.array([lr], "f")
    operands = [param, moment, rows.astype(np.int64), grad, rate]
    names = ["param", "moment", "indices", "grad", "lr"]
    args = {"weight_decay": weight_decay}
    if row_wise and counter_halflife > 0:
        operands.append(np.random.randint(0, 20, param.shape[0]).astype("d"))
        names.append("count")
        args["counter_halflife"] = counter_halflife
    op = core.CreateOperator(
        "RowWiseSparseAdagrad" if row_wise else "SparseAdagrad",
        names,
        ["param", "moment"],
        epsilon=epsilon,
        engine=engine,
        device_option=gc,
        **args,
    )

    def reference(param, moment, indices, grad, lr, counts=None):
        new_param, new_moment = param.copy(), moment.copy()
        step = partial(
            ref_adagrad,
            epsilon=epsilon,
            using_fp16=param.dtype == np.float16,
            weight_decay=weight_decay,
            counter_halflife=counter_halflife,
        )
        for i, row in enumerate(indices):
            new_param[row], new_moment[row] = step(
                param[row], moment[row], grad[i], lr, count=None if counts is None else counts[row]
            )
        return new_param, new_moment

    threshold = 1e-3 if param.dtype == np.float16 else 1e-4
    parent_test.assertReferenceChecks(gc, op, operands, reference, threshold=threshold)
