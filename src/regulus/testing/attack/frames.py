"""Hostile frames: what no client sends, and what is nearly valid. The broker must survive, serve others, and stay
small.

Frames are mutations of good ones: recorded ones if there is a directory of them, otherwise of requests made here.
"""

import asyncio
import base64
import json
from contextlib import suppress
from pathlib import Path

from regulus.errors import RegulusError
from regulus.testing.attack.field import Field, Talk, memory_bytes
from regulus.testing.running_server import HOST, ServerProcess
from regulus.wire.bodies import ConsumerData, HeartbeatData, SubscriptionData
from regulus.wire.codes import RequestCode
from regulus.wire.headers import (
    ConsumerSendMsgBackRequest,
    EndTransactionRequest,
    PullMessageRequest,
    QueryMessageRequest,
    SendMessageRequest,
    UpdateAndCreateTopicRequest,
    UpdateConsumerOffsetRequest,
)
from regulus.wire.remoting_command import RemotingCommand

FRAMES_OF_A_BATCH = 150
RECORDED_FILES_READ = 40
FRAME_SIZE_MAX = 200_000
"""Larger recorded frames are left out: they would make up most of the traffic."""
MEMORY_MORE_MAX = 150 << 20
MEMORY_OF_A_FRAME_MAX = 8 << 10
"""Memory that one frame may leave behind: a topic or a group with a random name that it made."""
UNFINISHED = 24
UNFINISHED_SIZE = 15 << 20
UNFINISHED_SENT_WITHIN_S = 4.0
UNFINISHED_MEMORY_MAX = 200 << 20
NUMBERS = (b"-1", b"0", b"2147483647", b"2147483648", b"-2147483649", b"9223372036854775807", b"9223372036854775808",
           b"1e400", b"NaN", b"1" * 5_000, b"null", b"[]", b'""')


def own_frames() -> list[bytes]:
    """One good request of each kind that contains numbers, names or a document."""
    heartbeat = HeartbeatData(client_id="c", producer_data_set=[], consumer_data_set=[
        ConsumerData(group_name="G", message_model="CLUSTERING",
                     subscription_data_set=[SubscriptionData.compile("T", "a || b", 1)])])
    v2 = int(RequestCode.SEND_MESSAGE_V2)
    send = SendMessageRequest("P", "T", queue_id=0, properties={"KEYS": "k", "DELAY": "1"})
    requests: list[tuple[int, dict[str, str], bytes]] = [
        (v2, send.ext_for(v2), b"body"),
        (RequestCode.PULL_MESSAGE, PullMessageRequest("G", "T", 0, 0, sys_flag=4, subscription="*").ext(), b""),
        (RequestCode.HEART_BEAT, {}, heartbeat.encode()),
        (RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequest(
            consumer_group="G", topic="T", queue_id=0, commit_offset=1).ext(), b""),
        (RequestCode.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBackRequest(offset=0, group="G", delay_level=0).ext(), b""),
        (RequestCode.END_TRANSACTION, EndTransactionRequest(
            producer_group="P", tran_state_table_offset=0, commit_log_offset=0, commit_or_rollback=8,
            msg_id="M").ext(), b""),
        (RequestCode.QUERY_MESSAGE, QueryMessageRequest(topic="T", key="k", max_num=8, begin_timestamp=0,
                                                        end_timestamp=1).ext(), b""),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, UpdateAndCreateTopicRequest(
            topic="Made", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6).ext(), b""),
        (RequestCode.GET_ALL_TOPIC_CONFIG, {}, b""),
    ]
    return [RemotingCommand.request(int(code), ext, body).encode() for code, ext, body in requests]


def recorded_frames(directory: Path) -> list[bytes]:
    """Recorded requests to brokers: one JSON object on each line, with `frame_base64`."""
    frames = []
    for path in sorted(directory.glob("*.jsonl"))[:RECORDED_FILES_READ]:
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry.get("dir") == "c2s" and "frame_base64" in entry:
                frame = base64.b64decode(entry["frame_base64"])
                if len(frame) <= FRAME_SIZE_MAX:
                    frames.append(frame)
    return frames


def mutated(field: Field, frame: bytes) -> bytes:
    chance = field.chance
    data = bytearray(frame)
    deed = chance.choice(("bits", "cut", "total", "header", "number", "deep", "repeat", "noise", "none"))
    if deed == "bits":
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(8, len(data))] ^= 1 << chance.randrange(8)
    elif deed == "cut":
        data = data[:chance.randrange(1, len(data))]
    elif deed == "total":
        data[0:4] = chance.choice((0, 3, len(data) * 2, 15 << 20, 17 << 20, 0xFFFFFFFF)).to_bytes(4, "big")
    elif deed == "header":
        data[5:8] = chance.choice((0, 1, len(data), 0xFFFFFF)).to_bytes(3, "big")
    elif deed == "number":
        return with_another_number(field, frame)
    elif deed == "deep":
        deep = chance.choice((b"[", b'{"a":', b'{"extFields":')) * chance.choice((50, 5_000, 100_000))
        return framed(deep if chance.random() < 0.5 else b'{"code":34}', deep)
    elif deed == "repeat":
        return bytes(data) * chance.randint(2, 50)
    elif deed == "noise":
        return chance.randbytes(chance.choice((1, 100, 10_000)))
    return bytes(data)


def framed(header: bytes, body: bytes) -> bytes:
    return (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


def with_another_number(field: Field, frame: bytes) -> bytes:
    """The frame with one run of digits in header or body replaced by a number at a limit, or removed; the lengths are
    corrected."""
    header_size = int.from_bytes(frame[5:8], "big")
    parts = [frame[8:8 + header_size], frame[8 + header_size:]]
    which = field.chance.randrange(2) if parts[1] else 0
    text = parts[which]
    places = [place for place in range(len(text)) if text[place:place + 1].isdigit()]
    if places:
        start = end = field.chance.choice(places)
        while end < len(text) and text[end:end + 1].isdigit():
            end += 1
        parts[which] = text[:start] + field.chance.choice(NUMBERS) + text[end:]
    return framed(parts[0], parts[1])


async def _throw(port: int, frames: list[bytes]) -> None:
    """Send frames over one connection, as long as the broker keeps it."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        for frame in frames:
            writer.write(frame)
            await writer.drain()
        async with asyncio.timeout(0.2):
            while await reader.read(1 << 16):
                pass
    except (OSError, TimeoutError):
        return
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _is_well(field: Field, server: ServerProcess) -> bool:
    """Whether another client is served. Notes what is wrong."""
    if not server.is_running:
        field.find(f"the broker died; its log ends: {server.log_path.read_text(errors='replace')[-800:]}")
        return False
    try:
        async with Talk(server.port) as talk:
            sent = await talk.sent("Other", b"client")
            if sent is None or sent.queue_offset >= len(await talk.queue("Other", 0)):
                field.find("another client's message was not taken and served")
    except (RegulusError, OSError) as error:
        field.find(f"another client is not served: {error}")
        return False
    return True


def _tracebacks(server: ServerProcess) -> list[str]:
    """The last line of each traceback in the log, each once."""
    ends = [part.splitlines() for part in server.log_path.read_text(errors="replace").split("Traceback")[1:]]
    return sorted({next((line for line in lines[1:] if line and not line.startswith(" ")), "?")[:200]
                   for lines in ends})


async def mutations(field: Field) -> None:
    server = field.server()
    server.start()
    good = own_frames() + (recorded_frames(field.frames) if field.frames is not None else [])
    await _is_well(field, server)
    before = memory_bytes(server.pid)
    thrown = 0
    while not field.is_over or not thrown:
        batch = [mutated(field, field.chance.choice(good)) for _ in range(FRAMES_OF_A_BATCH)]
        thrown += len(batch)
        await asyncio.gather(*(_throw(port, batch[first:first + 10]) for first in range(0, len(batch), 10)
                               for port in (server.port, server.name_server_port)))
        if not await _is_well(field, server):
            return
    more = memory_bytes(server.pid) - before
    field.note = f"{thrown} frames, {more >> 20} MiB more"
    allowed = MEMORY_MORE_MAX + thrown * MEMORY_OF_A_FRAME_MAX
    if more > allowed:
        field.find(f"{thrown} frames took {more >> 20} MiB; {allowed >> 20} are allowed")
    for end in _tracebacks(server):
        field.find(f"a request ended in a traceback: {end}")


async def unfinished(field: Field) -> None:
    """Over many connections, large frames are begun, nearly sent, and never ended."""
    server = field.server()
    server.start()
    before = memory_bytes(server.pid)
    begun = (UNFINISHED_SIZE + 100).to_bytes(4, "big") + (20).to_bytes(4, "big") + b'{"code":10}'.ljust(20)
    writers = []
    for _ in range(UNFINISHED):
        _, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(begun + bytes(UNFINISHED_SIZE))
        writers.append(writer)
    # A broker that accepts no more of them leaves them waiting, or closes them.
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(UNFINISHED_SENT_WITHIN_S):
            await asyncio.gather(*(writer.drain() for writer in writers), return_exceptions=True)
    await _is_well(field, server)
    more = memory_bytes(server.pid) - before
    field.note = f"{UNFINISHED} frames of {UNFINISHED_SIZE >> 20} MiB: {more >> 20} MiB"
    if more > UNFINISHED_MEMORY_MAX:
        field.find(f"{field.note}; {UNFINISHED_MEMORY_MAX >> 20} are allowed over all connections")
    for writer in writers:
        writer.close()
