"""Shards on hosts of their own: network namespaces with addresses, names and memory of their own; needs root.

    python benchmarks/hosts.py [--hosts 4]

Three runs by hand over a folder: the seed's sync; the same on a pinned interface; and a link that is cut amid syncs,
with a deadline of 4 s.
"""

import argparse
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "shards"))

import hosts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    count = parser.parse_args().hosts
    reason = hosts.why_not()
    if reason:
        sys.exit(reason)
    with hosts.Hosts(count) as net:
        for title, options in (("sync", {}), ("sync on eth1", {"interface": "eth1"})):
            before = [[net.sent(k, i) for i in (0, 1)] for k in range(count)]
            with tempfile.TemporaryDirectory() as store:
                ends = net.wait(net.start("sync", store, devices="2", **options))
            alike = len({line for end in ends for line in end.output.splitlines() if line.startswith("parameters")})
            sent = [[net.sent(k, i) - before[k][i] for i in (0, 1)] for k in range(count)]
            print(
                f"{title}: statuses {[e.status for e in ends]}, {alike} set of parameters, "
                f"{max(e.seconds for e in ends):.1f} s, bytes sent by [eth0, eth1] {sent}",
                flush=True,
            )
        with tempfile.TemporaryDirectory() as store:
            flag = pathlib.Path(store, "amid")
            children = net.start("fault", store, timeout_ms="4000", steps="1000000", flag=str(flag))
            while not flag.exists():
                time.sleep(0.02)
            time.sleep(0.5)
            net.cut(count - 1)
            ends = net.wait(children)
        for rank, end in enumerate(ends):
            said = [line for line in end.output.splitlines() if "Error: " in line]
            print(
                f"link of rank {count - 1} cut: rank {rank} ends after {end.seconds:.1f} s with status {end.status}: "
                f"{said[-1] if said else end.output[-300:]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
