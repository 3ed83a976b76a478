"""Hosts on one machine: network namespaces with a name, an address and memory of their own, on one bridge.

Needs root and iproute2.  Each host has two interfaces, eth0 (10.77.0.x) and eth1 (10.78.0.x), as far as MPI can tell
on machines of their own: UCX would use shared memory between namespaces that share processes and IPC.
"""

import os
import shutil
import subprocess
import sys
import time

import launch


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def why_not():
    """Why there can be no hosts here, empty where there can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "network namespaces need root on Linux"
    if not shutil.which("ip") or not shutil.which("unshare"):
        return "ip (iproute2) and unshare are not there"
    try:
        with Hosts(1):
            return ""
    except subprocess.CalledProcessError as e:
        return f"no network namespaces: {e.stderr.strip()}"


class Hosts:
    """`count` hosts; leaving the context takes them away."""

    def __init__(self, count):
        self.count = count
        self.prefix = f"c2l{os.getpid()}"
        self.hub = f"{self.prefix}-hub"

    def __enter__(self):
        try:
            ip("netns", "add", self.hub)
            for net in (0, 1):
                ip("-n", self.hub, "link", "add", f"br{net}", "type", "bridge")
                ip("-n", self.hub, "link", "set", f"br{net}", "up")
            for k in range(self.count):
                host = self.name(k)
                ip("netns", "add", host)
                ip("-n", host, "link", "set", "lo", "up")
                for net in (0, 1):
                    port = f"p{k}-{net}"
                    ip("-n", host, "link", "add", f"eth{net}", "type", "veth", "peer", "name", port, "netns", self.hub)
                    ip("-n", host, "addr", "add", f"10.{77 + net}.0.{k + 1}/24", "dev", f"eth{net}")
                    ip("-n", host, "link", "set", f"eth{net}", "up")
                    ip("-n", self.hub, "link", "set", port, "master", f"br{net}")
                    ip("-n", self.hub, "link", "set", port, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        for name in [self.hub, *map(self.name, range(self.count))]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def name(self, k):
        return f"{self.prefix}-{k}"

    def cut(self, k):
        """Take host k off the network; what it sends is lost from now on, as is what is sent to it."""
        for net in (0, 1):
            ip("-n", self.hub, "link", "set", f"p{k}-{net}", "down")

    def sent(self, k, net):
        """Bytes that host k has sent by an interface."""
        line = ["ip", "netns", "exec", self.name(k), "cat", f"/sys/class/net/eth{net}/statistics/tx_bytes"]
        return int(subprocess.run(line, check=True, capture_output=True, text=True).stdout)

    def start(self, scenario, store, **options):
        """Start a shard on each host, below a shell, since a first process of a host cannot kill itself."""
        return [
            subprocess.Popen(
                ["ip", "netns", "exec", self.name(k), "unshare", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc",
                 "sh", "-c", f'hostname {self.name(k)}; "$@"', "sh",
                 *launch.command(scenario, k, self.count, store, options)],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=launch.environment(),
                start_new_session=True,
            )
            for k in range(self.count)
        ]  # fmt: skip

    def wait(self, children, limit=90):
        start = time.monotonic()
        return [launch.finish(child, limit, start) for child in children]
