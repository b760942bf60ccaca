"""Measures what TLS costs a broker: equal sends over one connection, in plain text and with TLS, in turns.

    PYTHONPATH=build/compiled python bench/tls.py [--rounds 5] [--sends 200000] [--size 1024] [--in-flight 64]

It starts a broker with a certificate and asynchronous flush. The client writes prepared frames and counts answers. CPU
time is that of the broker's process, and each figure is the median of its rounds.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.certificates import Authority

from regulus.testing.running_server import ServerProcess
from regulus.transport import event_loop
from regulus.transport.tls import TlsConfig, client_context
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

_HOST = "127.0.0.1"
_SEND = {"a": "bench", "b": "Bench", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0",
         "i": "", "j": "0", "k": "false", "m": "false"}


class _Load(asyncio.Protocol):
    """Keeps `in_flight` requests under way; `done` when all are answered. Answers are counted by their length words."""

    def __init__(self, frame: bytes, sends: int, in_flight: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._frame, self._left, self._in_flight = frame, sends, in_flight
        self._answered, self._sends, self._rest = 0, sends, bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._write(self._in_flight)

    def data_received(self, data: bytes) -> None:
        self._rest += data
        position = answered = 0
        while len(self._rest) - position >= 4:
            size = 4 + int.from_bytes(self._rest[position:position + 4], "big")
            if len(self._rest) - position < size:
                break
            position += size
            answered += 1
        del self._rest[:position]
        self._answered += answered
        if self._answered == self._sends:
            self.done.set_result(None)
        self._write(answered)

    def _write(self, count: int) -> None:
        count = min(count, self._left)
        self._left -= count
        if count:
            self._transport.write(self._frame * count)  # type: ignore[attr-defined]


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _round(server: ServerProcess, arguments: argparse.Namespace, tls: TlsConfig | None) -> tuple[float, float]:
    """Sends a second, and the CPU seconds of the broker for a million."""
    frame = RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, dict(_SEND), bytes(arguments.size)).encode()
    before, begun = _processor_s(server.pid), time.perf_counter()
    _, load = await asyncio.get_running_loop().create_connection(
        lambda: _Load(frame, arguments.sends, arguments.in_flight), _HOST, server.port,
        ssl=client_context(tls) if tls is not None else None)
    await load.done
    seconds = time.perf_counter() - begun
    load._transport.close()  # type: ignore[attr-defined]
    return arguments.sends / seconds, (_processor_s(server.pid) - before) / arguments.sends * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sends", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--in-flight", type=int, default=64)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        shown = authority.issue("server")
        conf = Path(folder) / "broker.conf"
        conf.write_text(f"tls.server.certPath={shown.certificate}\ntls.server.keyPath={shown.key}\n")
        tls = TlsConfig(tls_enable=True, tls_client_trust_cert_path=str(authority.pair.certificate))
        server = ServerProcess(Path(folder) / "store", "-c", str(conf))
        server.start()
        found: dict[str, list[tuple[float, float]]] = {"plain": [], "TLS": []}
        try:
            for number in range(arguments.rounds + 1):
                for name, config in (("plain", None), ("TLS", tls)):
                    measured = event_loop.run(_round(server, arguments, config))
                    if number:      # the first round is a warm-up
                        found[name].append(measured)
        finally:
            server.stop()
    print(f"{arguments.sends} sends of {arguments.size} bytes, 1 x {arguments.in_flight}; "
          f"load {os.getloadavg()[0]:.1f}")
    for name, rounds in found.items():
        print(f"{name:5}  {statistics.median(rate for rate, _ in rounds):>9,.0f} sends/s  "
              f"{statistics.median(cost for _, cost in rounds):.2f} s of the broker's processor per million")


if __name__ == "__main__":
    main()
