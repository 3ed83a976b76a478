"""The vocabulary of a script that builds nets: Net, BlobReference, CreateOperator, scopes, gradients, plans."""

from __future__ import annotations

import caffe2lite.python._import_c_extension as C
from caffe2lite.python import control_ops_grad, scope, utils, workspace
from caffe2lite.python._core.cloning import (
    clone_and_bind_net,
    control_op_remap,
    recurrent_network_op_remap,
    remap_proto,
)
from caffe2lite.python._core.device_copies import (
    InjectCrossDeviceCopies,
    InjectDeviceCopiesAmongNets,
    InjectDeviceCopiesAmongNetsWithoutB2D,
    RemapEntry,
    copy_func_between_devices,
    update_placeholder_op_output,
)
from caffe2lite.python._core.devices import (
    DeviceOption,
    InferBlobDevices,
    InferOpBlobDevices,
    InferOpBlobDevicesAsDict,
    InferOpDeviceAsBlobDevices,
    IsGPUDeviceType,
    device_equal,
    device_option_equal,
)
from caffe2lite.python._core.gradients import (
    IR,
    GetIndexFromGradientList,
    GradGenMeta,
    GradientRegistry,
    GradientSlice,
    OpSSA,
    SparseGradGenMeta,
)
from caffe2lite.python._core.net import Net, get_net_name, output_to_list, remap_input
from caffe2lite.python._core.operators import REGISTERED_OPERATORS as _REGISTERED_OPERATORS
from caffe2lite.python._core.operators import (
    BlobReference,
    CreateOperator,
    CreatePythonOperator,
    DataType,
    GetGlobalInitArgs,
    GlobalInit,
    IsOperator,
    IsOperatorWithEngine,
    RefreshRegisteredOperators,
    ScopedBlobReference,
    ScopedName,
)
from caffe2lite.python._core.operators import blob_reference as _get_blob_ref
from caffe2lite.python._core.operators import rectified as _RectifyInputOutput
from caffe2lite.python._core.operators import register_python_functions as _RegisterPythonImpl
from caffe2lite.python._core.operators import script_frames as _extract_stacktrace
from caffe2lite.python._core.plan import (
    ExecutionStep,
    Plan,
    add_nets_in_order,
    execution_step,
    scoped_execution_step,
    to_execution_step,
)
from caffe2lite.python._core.plan import add_net_to_dict as _add_net_to_dict
from caffe2lite.python._core.records import recover_record_by_prefix as _recover_record_by_prefix
from caffe2lite.python._core.renaming import DEFAULT_REMAP_FUNCS
from caffe2lite.python._core.ssa import get_op_ids_in_path, get_output_producers, get_ssa, get_undefined_blobs
from caffe2lite.python.lazy import TriggerLazyImport
from caffe2lite.python.scope import DeviceScope, EmptyDeviceScope, EmptyNameScope, NameScope

string_types = utils.string_types

SetPerOpEnginePref = C.set_per_op_engine_pref
SetGlobalEnginePref = C.set_global_engine_pref
SetEnginePref = C.set_engine_pref
SetOpEnginePref = C.set_op_engine_pref
