"""Measures how much memory a broker uses when many clients begin large frames and do not finish them.

    python bench/unfinished_frames.py --connections 60 --mib 15

It starts `regulus up` on the loopback with a store in a temporary directory, and opens the connections. It sends as
much of each frame as the broker accepts, and waits until the broker's memory no longer grows. Then it prints the memory
before and at its maximum, and whether a small request is still answered.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from regulus.testing.running_server import HOST, ServerProcess
from regulus.transport.connector import connect
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

FRAME_SIZE = 16 << 20
STILL_S = 2.0       # time without growth after which the broker accepts no more
LONGEST_S = 30.0                    # limit of the wait


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


async def begin_frame(port: int, size: int) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection(HOST, port)
    writer.write(FRAME_SIZE.to_bytes(4, "big") + bytes(size - 4))
    return writer


async def main(connections: int, size: int) -> None:
    with tempfile.TemporaryDirectory() as folder, ServerProcess(Path(folder) / "store") as server:
        asker = await connect(HOST, server.port)
        before = most = resident_mib(server.pid)
        writers = [await begin_frame(server.port, size) for _ in range(connections)]
        began = grown = time.monotonic()
        while time.monotonic() - grown < STILL_S and time.monotonic() - began < LONGEST_S:
            await asyncio.sleep(0.05)
            now = resident_mib(server.pid)
            if now > most + 1:
                most, grown = now, time.monotonic()
        asked = time.monotonic()
        answer = await asker.request(RemotingCommand.request(RequestCode.GET_BROKER_RUNTIME_INFO), 5000)
        took = time.monotonic() - asked
        print(f"{connections} frames of {size >> 20} MiB begun: {before:.0f} MiB before, {most:.0f} MiB at the most "
              f"(+{most - before:.0f}); a small request was answered {answer.code} in {took * 1000:.1f} ms")
        for writer in writers:
            writer.transport.abort()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=60)
    parser.add_argument("--mib", type=int, default=15)
    options = parser.parse_args()
    asyncio.run(main(options.connections, options.mib << 20))
