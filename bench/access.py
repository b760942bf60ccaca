"""Measures what access control costs a broker: equal sends to a broker without and to one with accounts, in turns.

    PYTHONPATH=build/compiled python bench/access.py [--rounds 5] [--seconds 4] [--connections 2] [--in-flight 512]

It starts two brokers with asynchronous flush. The second has `aclEnable=true`, and its sends are signed. The load comes
from load_generator.py, in a process of its own. Each figure is the median of its rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from regulus.testing.running_server import ServerProcess

_ACCOUNT = ("--access-key", "bench-operator", "--secret-key", "secret-of-bench")
_GENERATOR = Path(__file__).with_name("load_generator.py")


def guarded(folder: Path) -> ServerProcess:
    (folder / "conf").mkdir()
    (folder / "conf" / "plain_acl.yml").write_text(
        f"accounts:\n- accessKey: {_ACCOUNT[1]}\n  secretKey: {_ACCOUNT[3]}\n  admin: true\n")
    settings = folder / "broker.conf"
    settings.write_text(f"aclEnable=true\nrocketmqHome={folder}\n")
    return ServerProcess(folder / "guarded", "-c", str(settings))


def load(server: ServerProcess, arguments: argparse.Namespace, account: tuple[str, ...]) -> tuple[float, float]:
    """Sends a second, and the CPU seconds of the broker for a million sends."""
    command = [sys.executable, str(_GENERATOR), "--address", server.address, "--server-pid", str(server.pid),
               "--seconds", str(arguments.seconds), "--connections", str(arguments.connections), "--in-flight",
               str(arguments.in_flight), "--body-size", str(arguments.body_size), *account]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    if found["refused"]:
        raise SystemExit(f"{found['refused']} sends were refused")
    return found["messages_per_second"], found["server_cpu_seconds_per_million"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--in-flight", type=int, default=512)
    parser.add_argument("--body-size", type=int, default=1024)
    arguments = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"plain": [], "signed": []}
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        with ServerProcess(folder / "plain") as plain, guarded(folder) as signed:
            for _ in range(arguments.rounds):
                found["plain"].append(load(plain, arguments, ()))
                found["signed"].append(load(signed, arguments, _ACCOUNT))
    print(f"sends of {arguments.body_size} bytes, {arguments.connections} x {arguments.in_flight}; "
          f"load {os.getloadavg()[0]:.1f}")
    for name, rounds in found.items():
        print(f"{name:6} {statistics.median(rate for rate, _ in rounds):>9,.0f} sends/s  "
              f"{statistics.median(cost for _, cost in rounds):.2f} s of the broker's processor per million")


if __name__ == "__main__":
    main()
