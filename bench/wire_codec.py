"""Measures the CPU time of the wire codec's hot operations, in ns, as the best of five rounds.

    python bench/wire_codec.py                 the build that PYTHONPATH or the installation has
    python bench/wire_codec.py build/compiled  first src interpreted, then this compiled copy
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time_ns

ROOT = Path(__file__).resolve().parent.parent
ROUND_NS = 100_000_000              # about the CPU time of one round


def measure(name: str, operation: Callable[[], object]) -> None:
    """Print the time of one call; a round of calls takes about 0.1 s."""
    count = 1
    while True:
        elapsed = timed(operation, count)
        if elapsed > ROUND_NS // 5:
            break
        count *= 4
    best = min([timed(operation, count) for _ in range(5)])
    print(f"{name:<58} {best / count:>9,.0f} ns")


def timed(operation: Callable[[], object], count: int) -> int:
    rounds = range(count)
    start = process_time_ns()
    for _ in rounds:
        operation()
    return process_time_ns() - start


def main() -> None:
    from regulus.wire import header_json
    from regulus.wire.frame_reader import FrameReader
    from regulus.wire.headers import (
        PullMessageRequest,
        SendMessageRequest,
        pull_message_response,
        send_message_response,
    )
    from regulus.wire.remoting_command import ROCKETMQ, RemotingCommand

    build = "interpreted" if (header_json.__file__ or "").endswith(".py") else "compiled"
    print(f"{build}, Python {sys.version.split()[0]}")

    send = SendMessageRequest(
        "PG_bench", "TopicBench", queue_id=3, born_timestamp=1_795_219_811_578, broker_name="broker-a",
        properties={"KEYS": "order-1234567", "UNIQ_KEY": "C000020A51964E0E2F2A6701EDB60000", "WAIT": "true",
                    "TAGS": "TagA"})
    body = bytes(1024)
    frame = RemotingCommand.request(310, send.ext(), body, opaque=123_456).encode()
    binary_frame = RemotingCommand.request(310, send.ext(), body, opaque=123_456, serialize_type=ROCKETMQ).encode()
    pull = PullMessageRequest("CG_bench", "TopicBench", 3, 123_456, sub_version=1_795_219_811_578,
                              expression_type="TAG", suspend_timeout_millis=15_000, broker_name="broker-a")
    pull_frame = RemotingCommand.request(11, pull.ext(), opaque=123_456).encode()
    many = frame * 50
    reader = FrameReader()

    def read_one() -> RemotingCommand:
        reader.feed(frame)
        return reader.frames()[0]

    def read_send() -> SendMessageRequest:
        reader.feed(frame)
        return SendMessageRequest.decode(reader.frames()[0])

    def read_binary_send() -> SendMessageRequest:
        reader.feed(binary_frame)
        return SendMessageRequest.decode(reader.frames()[0])

    def read_many_sends() -> None:
        reader.feed(many)
        for command in reader.frames():
            SendMessageRequest.decode(command)

    def read_pull() -> PullMessageRequest:
        reader.feed(pull_frame)
        return PullMessageRequest.decode(reader.frames()[0])

    request = read_one()

    def answer_send() -> bytes:
        return send_message_response(request, 0, "7F00000100002A9F00000000075BCD15", 3, 1_234_567,
                                     "C000020A51964E0E2F2A6701EDB60000", "DefaultRegion", True).encode()

    records = [memoryview(bytes(4096))]

    def answer_pull() -> list[bytes | memoryview]:
        return pull_message_response(request, 0, "FOUND", 1_234_567, 0, 1_234_599, 0, records).encode_parts()

    print(f"  a send frame has {len(frame)} bytes, {len(frame) - len(body) - 8} of them header")
    measure("frame of a 1 KiB SEND_MESSAGE_V2 -> RemotingCommand", read_one)
    measure("frame of a 1 KiB SEND_MESSAGE_V2 -> SendMessageRequest", read_send)
    measure("50 such frames in one feed -> 50 SendMessageRequest", read_many_sends)
    measure("the same, binary header -> SendMessageRequest", read_binary_send)
    measure("frame of a PULL_MESSAGE -> PullMessageRequest", read_pull)
    measure("answer to a send -> bytes", answer_send)
    measure("answer to a pull -> buffers", answer_pull)
    measure("a send's frame, client side -> bytes", lambda: RemotingCommand.request(310, send.ext(), body).encode())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        for source in (ROOT / "src", Path(sys.argv[1])):
            subprocess.run([sys.executable, __file__], check=True, env={**os.environ, "PYTHONPATH": str(source)})
    else:
        main()
