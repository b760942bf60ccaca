"""Measures the CPU time of an empty gRPC call with grpc.aio, with the library h2, and with Regulus's own HTTP/2.

    python bench/http2_calls.py [--calls 20000] [--in-flight 16] [--rounds 3]

Each server is a process of its own. One connection of `bench/grpc_load.py` keeps the given number of sends of 1 KiB
under way, and all CPU time of the server counts. For `h2` only the calls into the library count, without sockets and
event loop: the cost of reading such a request and writing its answer.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import grpc_load
import h2.config
import h2.connection
import h2.events

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "interop"))

from child_process import ChildProcess
from ports import free_ports
from remoting_probe import await_port
from toolchain import our_environment

from regulus.transport import event_loop
from regulus.transport.config import TransportConfig
from regulus.transport.http2.grpc_call import GrpcCall, OneAnswer
from regulus.transport.http2.grpc_server import GrpcLimits, GrpcServer
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import Code
from regulus.wire.http2.grpc_messages import Message, framed

_HERE = Path(__file__).resolve().parent
_SEND = f"/{messages.SERVICE}/SendMessage"
_LIMITS = GrpcLimits(connections_max=16, message_size_max=4 << 20, held_max=64 << 20, waiting_max=64 << 20,
                     metadata_size_max=16 << 10)
_WINDOW = 1 << 30                   # so large that flow control never stops the load
_OK = messages.SendMessageResponse(status=messages.Status(code=Code.OK, message="OK")).SerializeToString()


# --- servers ---------------------------------------------------------------------------------------------------------


async def _serve_own(port: int) -> None:
    async def answer(message: Message, call: GrpcCall) -> bytes:
        return bytes(_OK)

    server = GrpcServer({_SEND: OneAnswer(answer)}, TransportConfig(), _LIMITS)
    await server.accept(server.bind("127.0.0.1", port))
    await asyncio.Event().wait()


def _of_server(program: list[str], arguments: argparse.Namespace) -> float:
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as run:
        process = ChildProcess(program[0], [sys.executable, *program, str(port)], Path(run, "log"), our_environment(),
                               Path(run))
        try:
            await_port(f"127.0.0.1:{port}", process.check_alive)
            load = subprocess.run(
                [sys.executable, str(_HERE / "grpc_load.py"), "send", "--address", f"127.0.0.1:{port}", "--count",
                 str(arguments.calls), "--in-flight", str(arguments.in_flight), "--pids", str(process.pid),
                 "--without-settings"], capture_output=True, text=True, env=our_environment(), check=True)
        finally:
            process.kill()
    return float(json.loads(load.stdout)["server_cpu_seconds_per_million"])


# --- h2 --------------------------------------------------------------------------------------------------------------


class _Clocked:
    """The server's side of h2; `taken` is the CPU time of the calls into the library."""

    def __init__(self) -> None:
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        self.h2.initiate_connection()
        self.taken = 0.0

    def hear(self, data: bytes) -> bytes:
        began = time.process_time()
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.h2.send_headers(event.stream_id, ((b":status", b"200"), (b"content-type", b"application/grpc")))
                self.h2.send_data(event.stream_id, framed(bytes(_OK)))
                self.h2.send_headers(event.stream_id, ((b"grpc-status", b"0"),), end_stream=True)
        answer = self.h2.data_to_send()
        self.taken += time.process_time() - began
        return bytes(answer)


def _of_h2(arguments: argparse.Namespace) -> float:
    server = _Clocked()
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    client.initiate_connection()
    client.increment_flow_control_window(_WINDOW)
    client.receive_data(server.hear(client.data_to_send()))
    headers = ((":method", "POST"), (":scheme", "http"), (":path", _SEND), (":authority", "127.0.0.1:8081"),
               ("te", "trailers"), ("content-type", "application/grpc"), ("user-agent", "grpc-python-asyncio/1.66"),
               ("x-mq-client-id", "load"), ("x-mq-language", "JAVA"), ("x-mq-client-version", "5.0.7"),
               ("x-mq-protocol", "v2"), ("grpc-timeout", "30S"))
    bodies = [framed(each) for each in grpc_load.send_requests()]
    server.taken = 0.0
    for number in range(arguments.calls):
        stream_id = client.get_next_available_stream_id()
        client.send_headers(stream_id, headers)
        client.send_data(stream_id, bodies[number % len(bodies)], end_stream=True)
        if not number % arguments.in_flight:
            for event in client.receive_data(server.hear(client.data_to_send())):
                if isinstance(event, h2.events.DataReceived):
                    client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
    server.hear(client.data_to_send())
    return server.taken / arguments.calls * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--in-flight", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", type=int, metavar="PORT", help="be Regulus's server, with an empty handler")
    arguments = parser.parse_args()
    if arguments.serve is not None:
        event_loop.run(_serve_own(arguments.serve))
        return
    kinds: dict[str, Callable[[], float]] = {
        "grpc.aio, empty handler": lambda: _of_server([str(_HERE / "grpc_empty.py")], arguments),
        "our own, empty handler": lambda: _of_server([str(_HERE / "http2_calls.py"), "--serve"], arguments),
        "h2 by itself": lambda: _of_h2(arguments)}
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(arguments.rounds):
        for kind, measure in kinds.items():
            found[kind].append(measure())
    for kind, each in found.items():
        print(f"{kind:24} {median(each):6.0f} us a call ({min(each):.0f} to {max(each):.0f})")


if __name__ == "__main__":
    main()
