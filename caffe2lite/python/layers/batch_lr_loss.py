"""Logistic regression."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core, schema
from caffe2lite.python.layers._losses import Loss, check


class BatchLRLoss(Loss):
    """Cross entropy of the sigmoid of input.logit with input.label, weighted by input.weight.

    With input.log_variance the loss is attenuated where the model is uncertain.  `jsd_weight` mixes in the
    Jensen-Shannon divergence of input.prediction from the label (growing with training under `homotopy_weighting`);
    `focal_gamma` weighs down what is predicted well already; `task_gamma` decays the whole loss down to
    `task_gamma_lb`.
    """

    def __init__(
        self,
        model,
        input_record,
        name="batch_lr_loss",
        average_loss=True,
        jsd_weight=0.0,
        pos_label_target=1.0,
        neg_label_target=0.0,
        homotopy_weighting=False,
        log_D_trick=False,
        unjoined_lr_loss=False,
        uncertainty_penalty=1.0,
        focal_gamma=0.0,
        stop_grad_in_focal_factor=False,
        task_gamma=1.0,
        task_gamma_lb=0.1,
        **kwargs,
    ):
        super().__init__(model, name, input_record, output=None, **kwargs)
        check(input_record, label=schema.Scalar(), logit=schema.Scalar())
        if jsd_weight < 0 or homotopy_weighting and jsd_weight == 0:
            raise AssertionError(f"jsd_weight must not be negative, nor 0 with homotopy_weighting; got {jsd_weight}")
        if not 0 <= neg_label_target < pos_label_target <= 1:
            raise AssertionError(
                f"targets of labels must be 0 <= negative < positive <= 1, got {neg_label_target}, {pos_label_target}"
            )
        if uncertainty_penalty < 0:
            raise AssertionError(f"uncertainty_penalty must not be negative, got {uncertainty_penalty}")
        self.average_loss = average_loss
        self.pos_label_target = pos_label_target
        self.neg_label_target = neg_label_target
        self.log_D_trick = log_D_trick
        self.unjoined_lr_loss = unjoined_lr_loss
        self.uncertainty_penalty = uncertainty_penalty
        self.focal_gamma = focal_gamma
        self.stop_grad_in_focal_factor = stop_grad_in_focal_factor
        self.jsd_fuse = False
        if jsd_weight > 0 or homotopy_weighting:
            check(input_record, prediction=schema.Scalar())
            self.init_weight(jsd_weight, homotopy_weighting)
        self.task_gamma = task_gamma
        if task_gamma < 1.0:
            self.task_gamma_cur = self._number("task_gamma_cur", 1.0)
            self.task_gamma_blob = self._number("task_gamma", task_gamma)
            self.task_gamma_lb = self._number("task_gamma_lb", task_gamma_lb)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))

    def _number(self, what, value):
        return self.create_param(
            param_name=f"{self.name}_{what}",
            shape=[1],
            initializer=("ConstantFill", {"value": float(value), "dtype": core.DataType.FLOAT}),
            optimizer=self.model.NoOptim,
        )

    def init_weight(self, jsd_weight, homotopy_weighting):
        """Make the weights of cross entropy and divergence."""
        if homotopy_weighting:
            self.mutex = self.create_param(
                param_name=f"{self.name}_mutex",
                shape=None,
                initializer=("CreateMutex", {}),
                optimizer=self.model.NoOptim,
            )
            self.counter = self.create_param(
                param_name=f"{self.name}_counter",
                shape=[1],
                initializer=("ConstantFill", {"value": 0, "dtype": core.DataType.INT64}),
                optimizer=self.model.NoOptim,
            )
            self.xent_weight = self._number("xent_weight", 1.0)
            self.jsd_weight = self._number("jsd_weight", 0.0)
        else:
            self.jsd_weight = self.model.add_global_constant(f"{self.name}_jsd_weight", jsd_weight)
            self.xent_weight = self.model.add_global_constant(f"{self.name}_xent_weight", 1.0 - jsd_weight)
        self.jsd_fuse = True
        self.homotopy_weighting = homotopy_weighting

    def update_weight(self, net):
        """Let the weight of the divergence grow with training."""
        net.AtomicIter([self.mutex, self.counter], [self.counter])
        net.LearningRate([self.counter], [self.xent_weight], base_lr=1.0, policy="inv", gamma=1e-6, power=0.1)
        net.Sub([self.model.global_constants["ONE"], self.xent_weight], [self.jsd_weight])

    def add_ops(self, net):
        # Whatever the record says, labels are often integers.
        label = net.Cast(self.input_record.label(), net.NextScopedBlob("label_float32"), to=core.DataType.FLOAT)
        label = net.ExpandDims(label, net.NextScopedBlob("expanded_label"), dims=[1])
        if self.pos_label_target != 1.0 or self.neg_label_target != 0.0:
            label = net.StumpFunc(
                label,
                net.NextScopedBlob("smoothed_label"),
                threshold=0.5,
                low_value=self.neg_label_target,
                high_value=self.pos_label_target,
            )
        loss = net.SigmoidCrossEntropyWithLogits(
            [self.input_record.logit(), label],
            net.NextScopedBlob("cross_entropy"),
            log_D_trick=self.log_D_trick,
            unjoined_lr_loss=self.unjoined_lr_loss,
        )
        if self.focal_gamma != 0:
            label = net.StopGradient([label], [net.NextScopedBlob("label_stop_gradient")])
            loss = self._focal(net, loss, label)
        if self.task_gamma < 1.0:
            net.Mul([self.task_gamma_cur, self.task_gamma_blob], self.task_gamma_cur)
            most = net.Max([self.task_gamma_cur, self.task_gamma_lb], net.NextScopedBlob("task_gamma_cur_multiplier"))
            loss = net.Mul([loss, most], net.NextScopedBlob("expdecayxent"))
        if self.jsd_fuse:
            loss = self._with_divergence(net, loss, label)
        if "log_variance" in self.input_record.fields:
            loss = self._attenuated(net, loss)
        loss = self.weighted(net, loss, "weighted_cross_entropy")
        (net.AveragedLoss if self.average_loss else net.ReduceFrontSum)(loss, self.output_schema.field_blobs())

    def _focal(self, net, loss, label):
        name = net.NextScopedBlob
        pair = [self.input_record.prediction(), label]
        # y + p - 2 y p is how far p is from a label y of 0 or 1.
        both = net.Add(pair, name("y_plus_p"))
        twice = net.Scale(net.Mul(pair, name("yp")), name("two_yp"), scale=2.0)
        distance = net.Sub([both, twice], name("y_plus_p_sub_two_yp"))
        factor = net.Pow(distance, name("y_plus_p_sub_two_yp_power"), exponent=float(self.focal_gamma))
        if self.stop_grad_in_focal_factor:
            factor = net.StopGradient([factor], [name("focal_factor_stop_gradient")])
        return net.Mul([loss, factor], name("focallossxent"))

    def _with_divergence(self, net, loss, label):
        divergence = net.BernoulliJSD([self.input_record.prediction(), label], [net.NextScopedBlob("jsd")])
        if self.homotopy_weighting:
            self.update_weight(net)
        return net.WeightedSum([loss, self.xent_weight, divergence, self.jsd_weight], net.NextScopedBlob("loss"))

    def _attenuated(self, net, loss):
        name = net.NextScopedBlob
        log_variance = net.ExpandDims(self.input_record.log_variance(), name("expanded_log_variance"), dims=[1])
        negative = net.Negative([log_variance], name("neg_log_variance"))
        negative = net.Clip(negative, name("clipped_neg_log_variance"), max=88.0)  # exp(88) still is a float32
        inverse = net.Exp(negative, name("exp_neg_log_variance"))
        scaled = net.Mul([inverse, loss], name("exp_neg_log_variance_loss"))
        penalty = net.Scale(log_variance, name("penalized_unceratinty"), scale=self.uncertainty_penalty)
        return net.Scale(net.Add([scaled, penalty], name("loss")), name("loss"), scale=0.5)
