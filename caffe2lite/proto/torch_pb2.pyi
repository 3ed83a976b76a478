from caffe2lite.proto import caffe2_pb2 as _caffe2_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProtoVersion(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROTO_VERSION_NEWEST: _ClassVar[ProtoVersion]
PROTO_VERSION_NEWEST: ProtoVersion

class RecordRef(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class TensorDef(_message.Message):
    __slots__ = ("dims", "offset", "strides", "requires_grad", "data_type", "data", "device", "is_quantized", "scale", "zero_point")
    DIMS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    STRIDES_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_GRAD_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    IS_QUANTIZED_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    ZERO_POINT_FIELD_NUMBER: _ClassVar[int]
    dims: _containers.RepeatedScalarFieldContainer[int]
    offset: int
    strides: _containers.RepeatedScalarFieldContainer[int]
    requires_grad: bool
    data_type: _caffe2_pb2.TensorProto.DataType
    data: RecordRef
    device: str
    is_quantized: bool
    scale: float
    zero_point: int
    def __init__(self, dims: _Optional[_Iterable[int]] = ..., offset: _Optional[int] = ..., strides: _Optional[_Iterable[int]] = ..., requires_grad: bool = ..., data_type: _Optional[_Union[_caffe2_pb2.TensorProto.DataType, str]] = ..., data: _Optional[_Union[RecordRef, _Mapping]] = ..., device: _Optional[str] = ..., is_quantized: bool = ..., scale: _Optional[float] = ..., zero_point: _Optional[int] = ...) -> None: ...

class AttributeDef(_message.Message):
    __slots__ = ("type", "name", "id")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    type: str
    name: str
    id: int
    def __init__(self, type: _Optional[str] = ..., name: _Optional[str] = ..., id: _Optional[int] = ...) -> None: ...

class ParameterDef(_message.Message):
    __slots__ = ("is_buffer", "tensor_id", "name")
    IS_BUFFER_FIELD_NUMBER: _ClassVar[int]
    TENSOR_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    is_buffer: bool
    tensor_id: int
    name: str
    def __init__(self, is_buffer: bool = ..., tensor_id: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class ModuleDef(_message.Message):
    __slots__ = ("submodules", "torchscript_arena", "caffe2_nets", "pickle_arena", "cpp_arena", "parameters", "name", "optimize", "attributes", "get_state_attribute_id", "torchscript_debug_arena")
    SUBMODULES_FIELD_NUMBER: _ClassVar[int]
    TORCHSCRIPT_ARENA_FIELD_NUMBER: _ClassVar[int]
    CAFFE2_NETS_FIELD_NUMBER: _ClassVar[int]
    PICKLE_ARENA_FIELD_NUMBER: _ClassVar[int]
    CPP_ARENA_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    GET_STATE_ATTRIBUTE_ID_FIELD_NUMBER: _ClassVar[int]
    TORCHSCRIPT_DEBUG_ARENA_FIELD_NUMBER: _ClassVar[int]
    submodules: _containers.RepeatedCompositeFieldContainer[ModuleDef]
    torchscript_arena: RecordRef
    caffe2_nets: _containers.RepeatedCompositeFieldContainer[_caffe2_pb2.NetDef]
    pickle_arena: RecordRef
    cpp_arena: RecordRef
    parameters: _containers.RepeatedCompositeFieldContainer[ParameterDef]
    name: str
    optimize: bool
    attributes: _containers.RepeatedCompositeFieldContainer[AttributeDef]
    get_state_attribute_id: int
    torchscript_debug_arena: RecordRef
    def __init__(self, submodules: _Optional[_Iterable[_Union[ModuleDef, _Mapping]]] = ..., torchscript_arena: _Optional[_Union[RecordRef, _Mapping]] = ..., caffe2_nets: _Optional[_Iterable[_Union[_caffe2_pb2.NetDef, _Mapping]]] = ..., pickle_arena: _Optional[_Union[RecordRef, _Mapping]] = ..., cpp_arena: _Optional[_Union[RecordRef, _Mapping]] = ..., parameters: _Optional[_Iterable[_Union[ParameterDef, _Mapping]]] = ..., name: _Optional[str] = ..., optimize: bool = ..., attributes: _Optional[_Iterable[_Union[AttributeDef, _Mapping]]] = ..., get_state_attribute_id: _Optional[int] = ..., torchscript_debug_arena: _Optional[_Union[RecordRef, _Mapping]] = ...) -> None: ...

class LibDef(_message.Message):
    __slots__ = ("torchscript_arena",)
    TORCHSCRIPT_ARENA_FIELD_NUMBER: _ClassVar[int]
    torchscript_arena: RecordRef
    def __init__(self, torchscript_arena: _Optional[_Union[RecordRef, _Mapping]] = ...) -> None: ...

class ModelDef(_message.Message):
    __slots__ = ("proto_version", "main_module", "producer_name", "producer_version", "tensors")
    PROTO_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAIN_MODULE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_NAME_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_VERSION_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    proto_version: int
    main_module: ModuleDef
    producer_name: str
    producer_version: str
    tensors: _containers.RepeatedCompositeFieldContainer[TensorDef]
    def __init__(self, proto_version: _Optional[int] = ..., main_module: _Optional[_Union[ModuleDef, _Mapping]] = ..., producer_name: _Optional[str] = ..., producer_version: _Optional[str] = ..., tensors: _Optional[_Iterable[_Union[TensorDef, _Mapping]]] = ...) -> None: ...
