"""Nets that are too large or too deep for anybody: each command answers within 10 s and 1 GB, or refuses with a sentence.

    python tools/large_nets.py [--small] [NAME ...]

Exit status 1 where a command takes longer, takes more, shows a traceback, or is ended by a signal.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "compat")]

from caffe2lite.proto import caffe2_pb2  # noqa: E402

SECONDS, MEMORY = 10.0, 1 << 30
COMMANDS = [
    ["inspect", "{}"], ["inspect", "{}", "--json"], ["lint", "{}"], ["diff", "{}", "{}"], ["draw", "{}", "-o", "{}.svg"],
    ["draw", "{}", "-o", "{}.html"], ["draw", "{}", "-o", "{}.dot"],
]  # fmt: skip


def chain(size: int) -> caffe2_pb2.NetDef:
    """Operators one after the other."""
    net = caffe2_pb2.NetDef(name="chain", external_input=["b0"])
    for k in range(size):
        net.op.add(type="Relu", input=[f"b{k}"], output=[f"b{k + 1}"])
    return net


def wide(size: int) -> caffe2_pb2.NetDef:
    """One operator of many inputs."""
    net = caffe2_pb2.NetDef(name="wide")
    net.op.add(type="Concat", input=[f"b{k}" for k in range(size)], output=["y", "sizes"])
    return net


def fan(size: int) -> caffe2_pb2.NetDef:
    """One blob that all operators read, and one that reads all of theirs."""
    net = caffe2_pb2.NetDef(name="fan", external_input=["x"])
    for k in range(size):
        net.op.add(type="Relu", input=["x"], output=[f"y{k}"])
    net.op.add(type="Sum", input=[f"y{k}" for k in range(size)], output=["z"])
    return net


def rewritten(size: int) -> caffe2_pb2.NetDef:
    """One blob that all operators write anew."""
    net = caffe2_pb2.NetDef(name="rewritten", external_input=["x"])
    for _ in range(size):
        net.op.add(type="Relu", input=["x"], output=["x"])
    return net


def nested(depth: int) -> bytes:
    """A net within an operator within a net ..., as bytes: protobuf itself would refuse to make it."""
    content = caffe2_pb2.NetDef(name="inmost").SerializeToString()
    for _ in range(depth):
        argument = caffe2_pb2.Argument(name="step_net").SerializeToString() + field(8, content)
        operator = caffe2_pb2.OperatorDef(type="RecurrentNetwork").SerializeToString() + field(5, argument)
        content = field(1, b"net") + field(2, operator)
    return content


def field(number: int, content: bytes) -> bytes:
    """A field of a message, of bytes."""
    size, head = len(content), bytearray(varint(number << 3 | 2))
    return bytes(head + varint(size)) + content


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def nested_text(depth: int) -> bytes:
    """The same as text."""
    return b"name: 'a' " + b"op { type: 'If' arg { name: 'then_net' n { " * depth + b"} } }" * depth


def names(size: int) -> caffe2_pb2.NetDef:
    """Very long names."""
    net = caffe2_pb2.NetDef(name="n" * size)
    net.op.add(type="T" * size, input=["i" * size], output=["o" * size], name="x" * size)
    net.op[0].arg.add(name="a" * size, s=b"s" * size)
    return net


def numbers(size: int) -> caffe2_pb2.NetDef:
    """A fill of many values."""
    net = caffe2_pb2.NetDef(name="numbers")
    net.op.add(type="GivenTensorFill", output=["w"])
    net.op[0].arg.add(name="values", floats=[0.5] * size)
    net.op[0].arg.add(name="shape", ints=[size])
    return net


NETS: dict[str, tuple[Callable[[int], caffe2_pb2.NetDef | bytes], int]] = {
    "chain": (chain, 100_000),
    "wide": (wide, 1_000_000),
    "fan": (fan, 100_000),
    "rewritten": (rewritten, 100_000),
    "nested": (nested, 10_000),
    "nested less": (nested, 90),
    "nested.txt": (nested_text, 10_000),
    "nested less.txt": (nested_text, 200),
    "brackets.txt": (lambda size: b"{" * size, 10_000_000),
    "opened.txt": (lambda size: b"op { " * (size // 5), 10_000_000),
    "names": (names, 1_000_000),
    "numbers": (numbers, 5_000_000),
}


def measured(command: list[str]) -> tuple[int, float, int, str]:
    """Status, seconds, largest memory and stderr of a command; status -9 where it took too long."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[:2])}
    with tempfile.TemporaryFile("w+") as errors:
        begun = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "caffe2lite", *command], stdout=subprocess.DEVNULL, stderr=errors, env=environment
        )
        while time.monotonic() - begun < 4 * SECONDS:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            time.sleep(0.01)
        else:
            process.kill()
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        taken = usage.ru_utime + usage.ru_stime
        return process.returncode, taken, usage.ru_maxrss * 1024, errors.read()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETS))
    parser.add_argument("--small", action="store_true", help="a thousandth of the size, to try the tool")
    given = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in given.names or NETS:
            make, size = NETS[name]
            made = make(max(2, size // 1000) if given.small else size)
            path = os.path.join(folder, name if name.endswith(".txt") else f"{name}.pb")
            pathlib.Path(path).write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
            for command in COMMANDS:
                status, seconds, memory, errors = measured([part.replace("{}", path) for part in command])
                bad = status not in (0, 1, 2) or seconds > SECONDS or memory > MEMORY or "Traceback" in errors
                wrong += bad
                last = errors.strip().splitlines()[-1:] or [""]
                shape = " ".join(command).replace("{}", "*")
                print(
                    f"{'WRONG' if bad else 'ok':5} {name:16} {shape:24} status {status} {seconds:6.1f} s "
                    f"{memory >> 20:5} MiB  {last[0][:90]}",
                    flush=True,
                )
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
