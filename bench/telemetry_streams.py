"""Measures how much memory of a gRPC proxy many idle telemetry streams take.

    python bench/telemetry_streams.py --streams 10000 --connections 100

It starts a `regulus proxy` on the loopback, whose name server does not exist, and opens the streams. Each belongs to
another client, whose settings were answered. It prints the memory of the proxy before and after, and ends by itself.
"""

import argparse
import asyncio
import subprocess
import sys
import time

import grpc
from unfinished_frames import resident_mib

from regulus.wire.grpc import definitions, messages

METHOD = f"/{definitions.SERVICE}/Telemetry"
AT_ONCE = 50                        # streams that are opened at the same time


async def open_stream(channel: grpc.aio.Channel, number: int, room: asyncio.Semaphore) -> object:
    call = channel.stream_stream(METHOD, request_serializer=messages.TelemetryCommand.SerializeToString,
                                 response_deserializer=messages.TelemetryCommand.FromString)
    told = messages.Settings(client_type=1)
    told.publishing.validate_message_type = True
    told.user_agent.hostname = f"host-{number}"
    async with room:
        stream = call(metadata=(("x-mq-client-id", f"host-{number}@1234@0@abcdefgh"),))
        await stream.write(messages.TelemetryCommand(settings=told))
        answer = await stream.read()
    if answer.status.code != 20000:
        raise SystemExit(f"stream {number} was refused: {answer.status}")
    return stream


async def main(streams: int, connections: int) -> None:
    front = subprocess.Popen([sys.executable, "-m", "regulus", "proxy", "--namesrv", "127.0.0.1:9", "--listen",
                              "127.0.0.1", "--port", "0", "--log-level", "warning"], stdout=subprocess.PIPE, text=True)
    try:
        assert front.stdout is not None
        ready = next(line for line in front.stdout if "is ready: " in line)
        port = ready.partition("127.0.0.1:")[2].partition(",")[0]
        options = [("grpc.use_local_subchannel_pool", 1)]      # otherwise all channels share a connection
        channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) for _ in range(connections)]
        room = asyncio.Semaphore(AT_ONCE)
        before, began = resident_mib(front.pid), time.monotonic()
        opened = await asyncio.gather(*[open_stream(channels[number % connections], number, room)
                                        for number in range(streams)])
        took = time.monotonic() - began
        await asyncio.sleep(2)      # wait for memory that is freed with a delay
        after = resident_mib(front.pid)
        print(f"{len(opened)} idle telemetry streams on {connections} connections: {before:.0f} MiB before, "
              f"{after:.0f} MiB with them, "
              f"{(after - before) * 1024 / streams:.1f} KiB a stream; opened in {took:.0f} s")
        for channel in channels:
            await channel.close()
    finally:
        front.terminate()
        front.wait(30)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=100)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.streams, arguments.connections))
