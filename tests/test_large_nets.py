"""Nets that are too large or too deep: an answer, or a sentence; `tools/large_nets.py` is the long run."""

import pathlib
import subprocess
import sys

import pytest
from click.testing import CliRunner

from caffe2lite import commands

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import large_nets

SIZES = {
    "chain": 300, "wide": 1000, "fan": 2000, "rewritten": 3000, "nested": 10_000, "nested less": 60,
    "nested.txt": 3000, "nested less.txt": 150, "brackets.txt": 1_000_000, "opened.txt": 100_000, "names": 10_000,
    "numbers": 10_000,
}  # fmt: skip


@pytest.mark.parametrize("name", large_nets.NETS)
def test_commands_answer_or_refuse(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = large_nets.NETS[name][0](SIZES[name])
    path = name if name.endswith(".txt") else f"{name}.pb"
    pathlib.Path(path).write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    for command in large_nets.COMMANDS:
        result = CliRunner().invoke(commands.cli, [part.replace("{}", path) for part in command])
        assert result.exit_code in (0, 1, 2), result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        if result.exit_code == 2:
            assert result.stderr.startswith(("Error: ", "Usage: ")) and len(result.stderr) < 1000


def test_memory_and_time_grow_with_the_net_and_no_faster(tmp_path):
    """Tables whose every line is as long as the longest, and comparing all lines with all, take the square."""
    for name in ("fan", "rewritten"):
        path = tmp_path / f"{name}.pb"
        path.write_bytes(large_nets.NETS[name][0](20_000).SerializeToString())
        for command in (["inspect", path], ["diff", path, path], ["draw", path, "-o", tmp_path / "a.svg"]):
            limit = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (20, 20)); "
            limit += "resource.setrlimit(resource.RLIMIT_DATA, (1 << 29, 1 << 29)); "
            code = f"{limit}from caffe2lite import commands; commands.cli.main({[str(part) for part in command]!r})"
            done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            assert done.returncode == 0, (command, done.stderr[-500:])


def test_what_is_too_large_to_be_shown_is_said(tmp_path):
    path = tmp_path / "wide.pb"
    path.write_bytes(large_nets.wide(500_000).SerializeToString())
    for command, words in (("inspect", "more than can be shown"), ("draw", "too large to draw")):
        line = [command, str(path), *(["-o", str(tmp_path / "a.svg")] if command == "draw" else [])]
        result = CliRunner().invoke(commands.cli, line)
        assert result.exit_code == 2 and words in result.stderr, result.output
