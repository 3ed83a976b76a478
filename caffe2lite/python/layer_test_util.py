"""A TestCase with a LayerModelHelper."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from caffe2lite.python import core, layer_model_instantiator, schema, test_util, workspace
from caffe2lite.python.layer_model_helper import LayerModelHelper
from caffe2lite.python.layers.layers import InstantiationContext

OpSpec = namedtuple("OpSpec", ["type", "input", "output", "arg"], defaults=[None])
OpSpec.__doc__ = "What an operator should be; None stands for anything."


class LayersTestCase(test_util.TestCase):
    """`self.model` is a new model with one input, float_features of 32 numbers."""

    def setUp(self):
        super().setUp()
        self.setup_example()

    def setup_example(self):
        """Make the model; a subclass may make another."""
        self.reset_model()

    def reset_model(self, input_feature_schema=None, trainer_extra_schema=None):
        """Start with a new model."""
        default = schema.Struct(("float_features", schema.Scalar((np.float32, (32,)))))
        self.model = LayerModelHelper(
            "test_model",
            input_feature_schema=input_feature_schema or default,
            trainer_extra_schema=trainer_extra_schema or schema.Struct(),
        )

    def new_record(self, schema_obj):
        """Return a record with new blobs."""
        return schema.NewRecord(self.model.net, schema_obj)

    def get_training_nets(self, add_constants=False):
        """Return (init net, net) with all layers' operators; without `add_constants` the constants are left out."""
        net = core.Net("train_net")
        init_net = self.model.create_init_net("train_init_net") if add_constants else core.Net("train_init_net")
        for layer in self.model.layers:
            layer.add_operators(net, init_net)
        return init_net, net

    def _get_net(self, name, context):
        net = core.Net(name)
        for layer in self.model.layers:
            layer.add_operators(net, context=context)
        return net

    def get_eval_net(self):
        """Return all layers as in an evaluation."""
        return self._get_net("eval_net", InstantiationContext.EVAL)

    def get_predict_net(self):
        """Return all layers as in a prediction."""
        return self._get_net("predict_net", InstantiationContext.PREDICTION)

    def run_train_net(self):
        """Run a training once."""
        self.model.output_schema = schema.Struct()
        for net in layer_model_instantiator.generate_training_nets(self.model):
            workspace.RunNetOnce(net)

    def run_train_net_forward_only(self, num_iter=1):
        """Run a training without gradients `num_iter` times."""
        self.model.output_schema = schema.Struct()
        init_net, net = layer_model_instantiator.generate_training_nets_forward_only(self.model)
        workspace.RunNetOnce(init_net)
        workspace.CreateNet(net, True)
        workspace.RunNet(net.Proto().name, num_iter=num_iter)

    def assertBlobsEqual(self, spec_blobs, op_blobs):
        """Compare names of blobs; None in `spec_blobs` matches any."""
        self.assertEqual(len(spec_blobs), len(op_blobs))
        for wanted, found in zip(spec_blobs, op_blobs):
            if wanted is not None:
                self.assertEqual(wanted, found)

    def assertArgsEqual(self, spec_args, op_args):
        """Compare a dict with the arguments of an operator."""
        self.assertEqual(len(spec_args), len(op_args))
        fields = {arg.name: arg for arg in op_args}
        for name, wanted in spec_args.items():
            arg = fields[name]
            if isinstance(wanted, float):
                np.testing.assert_allclose(arg.f, wanted, rtol=1e-5)
            elif isinstance(wanted, str):
                self.assertEqual(wanted, arg.s.decode())
            else:
                self.assertEqual(wanted, arg.i)

    def assertNetContainOps(self, net, op_specs):
        """Find operators in this order, others between them; return those found."""
        specs = iter(op_specs)
        wanted = next(specs, None)
        found = []
        for op in net.Proto().op:
            if wanted is None or op.type != wanted.type:
                continue
            if wanted.input is not None:
                self.assertBlobsEqual(wanted.input, op.input)
            if wanted.output is not None:
                self.assertBlobsEqual(wanted.output, op.output)
            if wanted.arg is not None:
                self.assertArgsEqual(wanted.arg, op.arg)
            found.append(op)
            wanted = next(specs, None)
        self.assertIsNone(wanted, f"the net has no operator {wanted}")
        return found
