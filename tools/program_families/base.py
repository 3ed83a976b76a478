"""What families are made of."""

FAMILIES = {}

SCOPES = ["s", "a/b", "tower-1", "gpu_0", "x.y", "Ünï", "s/"]


def family(function):
    """Decorator: a family of programs, by the function's name."""
    FAMILIES[function.__name__] = function
    return function


def maybe(rng, chance=0.5, **options):
    """Some of the options, as the text of keyword arguments: each value is a list to draw from."""
    drawn = [f"{name}={rng.choice(values)!r}" for name, values in options.items() if rng.random() < chance]
    return "".join(", " + text for text in drawn)


class Code(str):
    """Text that stands in a program as it is."""

    __slots__ = ()

    def __repr__(self):
        return str(self)


def under(scope, step):
    """A step within a name scope, if there is one."""
    return step if not scope else f"with core.NameScope({scope!r}):\n    " + step.replace("\n", "\n    ")


def on(device, step):
    """A step within a device scope, if there is one."""
    return step if not device else f"with core.DeviceScope({device}):\n    " + step.replace("\n", "\n    ")


DEVICES = [
    "core.DeviceOption(caffe2_pb2.CUDA, 0)",
    "core.DeviceOption(caffe2_pb2.CUDA, 1)",
    "core.DeviceOption(caffe2_pb2.CPU, random_seed=5)",
    "core.DeviceOption(caffe2_pb2.CPU, 0, node_name='node')",
    "core.DeviceOption(caffe2_pb2.IDEEP)",
]
