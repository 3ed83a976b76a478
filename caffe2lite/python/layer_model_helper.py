"""A model made of layers: each knows its records, parameters and optimizers, and nets are made from all of them."""

from __future__ import annotations

import logging

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, model_helper, schema, scope, utils
from caffe2lite.python.layers import layers
from caffe2lite.python.modeling.net_modifier import NetModifier
from caffe2lite.python.modeling.parameter_sharing import parameter_sharing_context
from caffe2lite.python.optimizer import get_param_device
from caffe2lite.python.regularizer import RegularizationBy, Regularizer

logger = logging.getLogger(__name__)

_FILLS = {
    "i4": "GivenTensorIntFill",
    "i8": "GivenTensorInt64Fill",
    "b1": "GivenTensorBoolFill",
}


def _fill_of(array):
    if array.dtype.kind in "OSU":
        return "GivenTensorStringFill"
    return _FILLS.get(array.dtype.str[1:], "GivenTensorFill")


class LayerModelHelper(model_helper.ModelHelper):
    """`model.FC(record, 10)` adds the layer FC; a name that is an operator's adds a layer around it:
    `model.Relu(record, 1)`. layer_model_instantiator makes the nets.

    `input_feature_schema` and `trainer_extra_schema` say what a training net reads; a prediction reads only the former.
    """

    def __init__(self, name, input_feature_schema, trainer_extra_schema, keep_blobs=False, use_attribution=True):
        super().__init__(name=name)
        self._layer_names = set()
        self._layers = []
        self._param_to_shape = {}

        self._initialize_params = True

        self._output_schema = self._preproc_output_schema = self._loss = None
        self._breakdown_map = self._transfer_learning_blob_name_mappings = None
        self._prediction = []

        self._stored_seed = (None, True)
        self._default_optimizer = None
        self.param_to_optim, self.param_to_reg = {}, {}
        self._post_grad_net_modifiers, self._final_net_modifiers = [], []
        self.ad_hoc_diagnose_blobs_and_operations = []
        self.ad_hoc_plot_blobs = []
        self.use_attribution = use_attribution

        make = (lambda record: record.clone()) if keep_blobs else (lambda record: schema.NewRecord(self.net, record))
        self._input_feature_schema = make(input_feature_schema)
        self._trainer_extra_schema = make(trainer_extra_schema)
        self._metrics_schema = schema.Struct()

        self.global_constants = {}
        self.global_constant_initializers = {}
        self.param_init_net = self.create_init_net("param_init_net")
        for constant, value, dtype in (
            ("ONE", 1.0, None),
            ("NAN", float("NaN"), None),
            ("ZERO", 0.0, None),
            ("ZERO_RANGE", [0, 0], "int32"),
        ):
            self.add_global_constant(constant, value, dtype=dtype)
        self._add_global_constants(self.param_init_net)

    # --- constants and parameters ------------------------------------------------------------------------------------

    def _get_global_constant_initializer_op(self, blob_name, array=None, dtype=None, initializer=None):
        if array is None:
            if initializer is None:
                raise AssertionError(f"global constant {blob_name} needs an array or an initializer")
            return initializer(blob_name)
        if initializer is not None:
            raise AssertionError(f"global constant {blob_name} has an array and an initializer: give one")
        array = np.array(array, dtype=dtype)
        return core.CreateOperator(_fill_of(array), [], blob_name, shape=array.shape, values=array.ravel().tolist())

    def add_global_constant(self, name, array=None, dtype=None, initializer=None):
        """Return the blob of a constant that init nets make from `array`, or by the operator `initializer(blob)`."""
        if name in self.global_constants:
            raise AssertionError(f"{name} already added in global_constants")
        blob = self.net.NextBlob(name)
        self.global_constants[name] = blob
        op = self._get_global_constant_initializer_op(blob, array, dtype, initializer)
        if blob in self.global_constant_initializers:
            raise AssertionError(f"there already is an initializer of blob {blob}")
        self.global_constant_initializers[blob] = op
        return blob

    def maybe_add_global_constant(self, name, *args, **kwargs):
        """add_global_constant, or the blob of the same constant where it exists; AssertionError if it differs."""
        blob = self.global_constants.get(name)
        if blob is None:
            return self.add_global_constant(name, *args, **kwargs)
        known = self.global_constant_initializers[blob]
        wanted = self._get_global_constant_initializer_op(blob, *args, **kwargs)
        if not utils.OpAlmostEqual(wanted, known, "debug_info"):
            raise AssertionError(f"conflict initializers for global constant {name}, previous {known}, now {wanted}")
        return blob

    def _add_global_constants(self, init_net):
        init_net.Proto().op.extend(self.global_constant_initializers.values())

    def create_init_net(self, name):
        """Return a net that makes the global constants."""
        init_net = core.Net(name)
        self._add_global_constants(init_net)
        return init_net

    def _validate_param_shape(self, param_name, shape):
        known = self._param_to_shape.setdefault(param_name, shape)
        if known != shape:
            raise ValueError(
                f"Got inconsistent shapes between shared parameters when trying to map a blob in scope "
                f"{scope.CurrentNameScope()} to {param_name}. ref_shape : {known}, shape : {shape}"
            )

    def _validate_param_optim(self, param_name, optim):
        if param_name not in self.param_to_optim:
            return
        known = self.param_to_optim[param_name]
        wanted = self.default_optimizer if optim is None else optim
        same = known is wanted or known == wanted
        if not same and type(known) is type(wanted) and hasattr(known, "attributes"):
            same = known.attributes == wanted.attributes
        if not same:
            raise AssertionError(
                f"parameter {param_name} is shared: its optimizer is {known}, {wanted} is asked for at another place"
            )

    def create_param(self, param_name, shape, initializer, optimizer=None, ps_param=None, regularizer=None):
        """Return a LayerParameter.

        `initializer` is (operator type, arguments); a parameter of the same name (see ParameterSharing) must have the
        same shape and optimizer.
        """
        if isinstance(param_name, core.BlobReference):
            param_name = str(param_name)
        elif isinstance(param_name, str):
            param_name = parameter_sharing_context.get_parameter_name(param_name)
        else:
            raise ValueError(f"Unsupported type for param_name: {param_name!r}")
        blob = core.BlobReference(param_name)
        if len(initializer) != 2:
            raise AssertionError(f"initializer of {param_name} must be (operator type, arguments), got {initializer!r}")
        op = None
        if self._initialize_params:
            kind, arguments = initializer
            op = core.CreateOperator(kind, [], blob, **({} if shape is None else {"shape": shape}), **arguments)
        param = layers.LayerParameter(
            parameter=blob, initializer=op, optimizer=optimizer, ps_param=ps_param, regularizer=regularizer
        )
        self._validate_param_shape(param_name, shape)
        self._validate_param_optim(param_name, optimizer)
        return param

    def set_initialize_params(self, initialize_params):
        """Whether parameters made from here on get an initializer."""
        self._initialize_params = initialize_params

    def get_parameter_blobs(self):
        """Return the blobs of all parameters of all layers."""
        return [param.parameter for layer in self._layers for param in layer.get_parameters()]

    # --- layers ------------------------------------------------------------------------------------------------------

    @property
    def layers(self):
        """The layers, in order."""
        return self._layers

    def next_layer_name(self, prefix):
        """Return a name for a layer that no other has; the current scope is part of it."""
        name = core.ScopedName(prefix)
        unique, number = name, 0
        while unique in self._layer_names:
            unique, number = f"{name}_auto_{number}", number + 1
        self._layer_names.add(unique)
        return unique

    def add_layer(self, layer):
        """Take in a layer; its output."""
        self._layers.append(layer)
        for param in layer.get_parameters():
            if not isinstance(param.parameter, core.BlobReference):
                raise AssertionError(f"layer {layer.name} has the parameter {param.parameter!r}, which is no blob")
            name = str(param.parameter)
            self.param_to_optim[name] = param.optimizer or self.default_optimizer
            self.params.append(param.parameter)
            if isinstance(param.regularizer, Regularizer):
                self.param_to_reg[name] = param.regularizer
        # Its operators go to the model's net at once, so that what is wrong shows here.
        layer.add_operators(self.net, self.param_init_net)
        return layer.output_schema

    def __getattr__(self, layer):
        if layer.startswith("__"):
            raise AttributeError(layer)
        if layers.layer_exists(layer):

            def make(*args, **kwargs):
                return self.add_layer(layers.create_layer(layer, self, *args, **kwargs))

        elif core.IsOperator(layer):

            def make(*args, **kwargs):
                return self._functional(layer, *args, **kwargs)

        else:
            raise AttributeError(f"Trying to create non-registered layer: {layer}")
        make.__name__ = layer
        return make

    def _functional(self, op_type, input_record, output_names_or_num=1, **kwargs):
        own = {key: kwargs.pop(key) for key in ("output_dtypes", "tags") if key in kwargs}
        own["name"] = kwargs.pop("name", op_type)
        if not isinstance(input_record, schema.Field):
            given = input_record if isinstance(input_record, (list, tuple)) else [input_record]
            fields = [part if isinstance(part, schema.Field) else schema.Scalar(blob=part) for part in given]
            input_record = schema.Tuple(*fields)

        def apply(net, in_record, out_record):
            getattr(net, op_type)(in_record.field_blobs(), out_record.field_blobs(), **kwargs)

        return self.add_layer(layers.create_layer("Functional", self, input_record, output_names_or_num, apply, **own))

    # --- records -----------------------------------------------------------------------------------------------------

    @property
    def input_feature_schema(self):
        """What every net reads."""
        return self._input_feature_schema

    @property
    def trainer_extra_schema(self):
        """What training and evaluation read as well."""
        return self._trainer_extra_schema

    def add_trainer_extra_schema(self, trainer_extra_schema):
        """Let training read more."""
        self._trainer_extra_schema += schema.NewRecord(self.net, trainer_extra_schema)

    @property
    def output_schema(self):
        """What nets return; AssertionError before it is set."""
        if self._output_schema is None:
            raise AssertionError(f"the output schema of model {self.name} is not set")
        return self._output_schema

    @output_schema.setter
    def output_schema(self, output_schema):
        if self._output_schema is not None:
            raise AssertionError(f"the output schema of model {self.name} is set already: clear_output_schema() first")
        self._output_schema = output_schema

    def clear_output_schema(self):
        """Forget the output schema."""
        self._output_schema = None

    def add_output_schema(self, name, value):
        """Return one more field, which must be new."""
        present = self._output_schema or schema.Struct()
        if name in present.fields:
            raise AssertionError(f"the output schema has a field {name} already")
        self._output_schema = present + schema.Struct((name, value))

    @property
    def preproc_output_schema(self):
        """What preprocessing returns; None before it is set."""
        return self._preproc_output_schema

    @preproc_output_schema.setter
    def preproc_output_schema(self, output_schema):
        if self._preproc_output_schema is not None:
            raise AssertionError(f"the preprocessing's output schema of model {self.name} is set already")
        self._preproc_output_schema = output_schema

    @property
    def metrics_schema(self):
        """What training and evaluation return beside the output."""
        return self._metrics_schema

    def add_metric_field(self, name, value):
        """Return a metric, whose name must be new."""
        if name in self._metrics_schema.fields:
            raise AssertionError(f"Try to add metric field twice: {name}")
        self._metrics_schema += schema.Struct((name, value))

    def filter_metrics_schema(self, white_set):
        """Keep only these columns of the metrics."""
        for name in self._metrics_schema.field_names():
            if name not in white_set:
                self._metrics_schema -= schema.Struct((name, schema.Scalar()))

    def add_ad_hoc_plot_blob(self, blob, dtype=None):
        """Return this blob as a metric, to be plotted."""
        self.add_metric_field(str(blob), schema.Scalar(dtype or (float, (1,)), blob))
        self.ad_hoc_plot_blobs.append(blob)

    @property
    def loss(self):
        """The losses by name; AssertionError before there is one."""
        if self._loss is None:
            raise AssertionError(f"model {self.name} has no loss")
        return self._loss

    @loss.setter
    def loss(self, loss):
        if self._loss is not None:
            raise AssertionError(f"model {self.name} has a loss already: use add_loss")
        self._loss = loss

    def has_loss(self):
        """Return whether there is a loss."""
        return self._loss is not None

    def add_loss(self, loss, name="unnamed"):
        """Add a record of losses under `name`, numbered if it is taken."""
        if loss is None:
            raise AssertionError(f"loss {name!r} is None")
        if not isinstance(loss, (schema.Scalar, schema.Struct)):
            raise AssertionError(f"Added loss should be a Scalar or a Struct, got {loss!r}")
        present = self._loss or schema.Struct()
        unique, number = name, 0
        while unique in present.fields:
            unique, number = f"{name}_auto_{number}", number + 1
        self._loss = present + schema.Struct((unique, loss))

    @property
    def prediction(self):
        """Pairs (prediction, weight); AssertionError before there is one."""
        if not self._prediction:
            raise AssertionError(f"model {self.name} has no prediction yet: add_prediction comes first")
        return self._prediction

    def add_prediction(self, prediction, weight=1.0):
        """Add a prediction with its weight."""
        if prediction is None:
            raise AssertionError("the prediction is None")
        self._prediction.append((prediction, weight))

    @property
    def breakdown_map(self):
        """{metric: blob to break it down by}, or None."""
        return self._breakdown_map

    @breakdown_map.setter
    def breakdown_map(self, breakdown_map):
        if not all(isinstance(part, str) for pair in breakdown_map.items() for part in pair):
            raise AssertionError(f"breakdown_map maps names to names, got {breakdown_map!r}")
        self._breakdown_map = breakdown_map

    @property
    def transfer_learning_blob_name_mappings(self):
        """{name here: name in the model that parameters come from}, or None."""
        return self._transfer_learning_blob_name_mappings

    @transfer_learning_blob_name_mappings.setter
    def transfer_learning_blob_name_mappings(self, blob_name_mappings):
        if blob_name_mappings is None:
            raise AssertionError("transfer learning mappings should not be None")
        self._transfer_learning_blob_name_mappings = blob_name_mappings

    # --- training ----------------------------------------------------------------------------------------------------

    def store_seed(self, seed, sequence_seed=True):
        """Keep a seed for apply_seed."""
        self._stored_seed = (seed, sequence_seed)

    def apply_seed(self, net):
        """Give a net the stored seed, if there is one."""
        if self.seed:
            net.set_rand_seed(*self._stored_seed)

    @property
    def seed(self):
        """The seed given to store_seed."""
        return self._stored_seed[0]

    @property
    def sequence_seed(self):
        """Whether operators get seeds that differ."""
        return self._stored_seed[1]

    @property
    def default_optimizer(self):
        """The optimizer of parameters that name none."""
        return self._default_optimizer

    @default_optimizer.setter
    def default_optimizer(self, optimizer):
        self._default_optimizer = optimizer

    def NoOptim(self, *args, **kwargs):
        """Leave the parameter alone, as an optimizer."""

    def add_post_grad_net_modifiers(self, modifier):
        """Apply a NetModifier after the gradients, before the optimizers."""
        self._check_new(modifier, self._post_grad_net_modifiers)
        self._post_grad_net_modifiers.append(modifier)

    def add_final_net_modifiers(self, modifier):
        """Apply a NetModifier last."""
        self._check_new(modifier, self._final_net_modifiers)
        self._final_net_modifiers.append(modifier)

    @staticmethod
    def _check_new(modifier, present):
        if modifier in present:
            raise AssertionError(f"{modifier} is there already")
        if not isinstance(modifier, NetModifier):
            raise AssertionError(f"{modifier} has to be a NetModifier instance")

    def _on_devices(self, grad_map, blob_to_device, what):
        """Yield (parameter, gradient, action) for each item of `what`, inside the parameter's device scope."""
        default = core.DeviceOption(caffe2_pb2.CPU)
        for name, action in what.items():
            param = core.BlobReference(name)
            grad = grad_map.get(name)
            device = get_param_device(name, grad, param_to_device=blob_to_device or {}, default_device=default)
            with core.DeviceScope(device):
                yield param, grad, action

    def apply_regularizers_on_loss(self, train_net, train_init_net, blob_to_device=None):
        """Add the losses of regularizers."""
        for name, regularizer in self.param_to_reg.items():
            added = regularizer(train_net, train_init_net, core.BlobReference(name), by=RegularizationBy.ON_LOSS)
            if added is not None:
                self.add_loss(schema.Scalar(blob=added), str(added))

    def apply_regularizers_after_optimizer(self, train_net, train_init_net, grad_map, blob_to_device=None):
        """Let regularizers change parameters after their update."""
        for param, grad, regularizer in self._on_devices(grad_map, blob_to_device, self.param_to_reg):
            regularizer(train_net, train_init_net, param, grad, by=RegularizationBy.AFTER_OPTIMIZER)

    def apply_optimizers(self, train_net, train_init_net, grad_map, blob_to_device=None):
        """Add the updates of all parameters."""
        for param, grad, optimizer in self._on_devices(grad_map, blob_to_device, self.param_to_optim):
            if optimizer is None:
                raise AssertionError(f"{param} has no optimizer: model.default_optimizer must be set before its layer")
            optimizer(train_net, train_init_net, param, grad)

    def apply_post_grad_net_modifiers(
        self, trainer_net, trainer_init_net, grad_map, blob_to_device=None, modify_output_record=False
    ):
        """Apply the modifiers of add_post_grad_net_modifiers to the gradients of parameters."""
        of_params = {name: grad_map[name] for name in self.param_to_optim if name in grad_map}
        self._modify(
            self._post_grad_net_modifiers,
            trainer_net,
            trainer_init_net,
            of_params,
            blob_to_device,
            modify_output_record,
        )

    def apply_final_net_modifiers(
        self, trainer_net, trainer_init_net, grad_map, blob_to_device=None, modify_output_record=False
    ):
        """Apply the modifiers of add_final_net_modifiers."""
        self._modify(
            self._final_net_modifiers, trainer_net, trainer_init_net, grad_map, blob_to_device, modify_output_record
        )

    @staticmethod
    def _modify(modifiers, net, init_net, grad_map, blob_to_device, modify_output_record):
        for modifier in modifiers:
            modifier(net, init_net, grad_map, blob_to_device=blob_to_device, modify_output_record=modify_output_record)
