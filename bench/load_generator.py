"""Sends messages to a broker, or pulls them, as fast as the broker answers, and prints the rate.

The load is neutral: frames are built before the clock starts, no client library is used, and any broker that speaks
RocketMQ's remoting protocol gets the same bytes. One thread keeps `--in-flight` SEND_MESSAGE_V2 requests outstanding
on each of `--connections` connections, and counts the answers by their length words.

    python bench/load_generator.py --address 127.0.0.1:10911 --seconds 10 --server-pid <pid>

With `--backlog` the requests are PULL_MESSAGE, each for the next 32 messages of a queue. The topic must hold that many
messages, spread evenly over its queues. After the last message the load starts again from the first.

Latency is the time from writing a request to the socket until its answer is read. Answers are matched by position: the
n-th answer of a connection belongs to its n-th request. If a broker reorders answers, the sum of latencies stays the
same and their spread is slightly understated.
"""

import argparse
import hmac
import json
import os
import select
import socket
import struct
import sys
import time
from base64 import b64encode
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_LENGTH = struct.Struct(">i")
_CREATE_TOPIC = 17
_SEND_MESSAGE_V2 = 310
_PULL_MESSAGE = 11
_PULL_BATCH = 32                # messages that one pull asks for, like RocketMQ's clients
_PULL_FLAGS = 0x2 | 0x4         # the broker may hold it; it contains its subscription
_OPAQUE_BASE = 1_000_000        # all opaques have seven digits, so that all frames have the same length
_READ_SIZE = 1 << 18
_SUCCESS = b'"code":0,'
_WAIT_MAX_S = 5.0               # the run fails if no answer comes for this long
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class LoadFailed(Exception):
    """The broker refused a request, closed a connection or stopped answering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    host: str
    port: int
    topic: str
    queues: int
    body_size: int
    connections: int
    in_flight: int
    count_max: int              # messages; 0: no limit
    seconds_max: float          # 0: no limit
    warm_up_seconds: float
    server_pid: int             # 0: not measured
    backlog: int = 0            # messages of the topic to pull; 0: send
    access_key: str = ""        # account that signs the requests; empty: unsigned
    secret_key: str = ""


@dataclass(slots=True)
class Lane:
    """One connection and its ring of frames. The first `in_flight_max` frames are repeated at the end, so that each
    window is one slice."""

    connection: socket.socket
    ring: memoryview
    frame_size: int
    frame_count: int
    in_flight_max: int
    position: int = 0           # the next frame to send
    in_flight: int = 0
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    sent: deque[tuple[float, int]] = field(default_factory=deque)       # time of sending, number of unanswered requests
    partial: bytes = b""        # the beginning of an answer that is not complete


@dataclass(slots=True)
class Tally:
    answers: int = 0
    refused: int = 0
    latencies: list[tuple[float, int]] = field(default_factory=list)   # seconds, number of answers


def frame(code: int, opaque: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    header = json.dumps({"code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": opaque,
                         "serializeTypeCurrentRPC": "JSON", "version": 409}, separators=(",", ":")).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def signed(load: Load, fields: dict[str, str], body: bytes = b"") -> dict[str, str]:
    """The fields with a signature, if the load has an account. The signature comes first, as in RocketMQ's clients."""
    if not load.access_key:
        return fields
    fields = {"AccessKey": load.access_key, **fields}
    content = "".join([fields[name] for name in sorted(fields)]).encode() + body
    return {"Signature": b64encode(hmac.digest(load.secret_key.encode(), content, "sha1")).decode(), **fields}


def send_frames(load: Load, lane: int) -> Iterator[bytes]:
    """One frame for each request that may be in flight."""
    body = os.urandom(load.body_size // 2 + 1).hex().encode()[:load.body_size]
    born = str(int(time.time() * 1000))
    for slot in range(load.in_flight):
        unique_key = f"7F000001{os.getpid() & 0xFFFF:04X}18B4AAC2{lane & 0xFFFF:04X}{slot:08X}"
        yield frame(_SEND_MESSAGE_V2, _OPAQUE_BASE + slot, signed(load, {
            "a": "bench_producer", "b": load.topic, "c": "TBW102", "d": "4", "e": str(slot % load.queues), "f": "0",
            "g": born, "h": "0", "i": f"UNIQ_KEY\x01{unique_key}\x02WAIT\x01true\x02TAGS\x01bench",
            "j": "0", "k": "false", "m": "false", "n": "broker-a"}, body), body)


def pull_frames(load: Load) -> Iterator[bytes]:
    """Pulls over the whole backlog, queue by queue in turn. They begin at the first offset with as many digits as the
    last one, so that all frames have the same length."""
    per_queue = load.backlog // load.queues
    first = 10 ** (len(str(per_queue - _PULL_BATCH)) - 1)
    opaque = _OPAQUE_BASE
    for queue_offset in range(first, per_queue - _PULL_BATCH + 1, _PULL_BATCH):
        for queue in range(load.queues):
            opaque += 1
            yield frame(_PULL_MESSAGE, opaque, signed(load, {
                "consumerGroup": "bench_consumer", "topic": load.topic, "queueId": str(queue),
                "queueOffset": str(queue_offset), "maxMsgNums": str(_PULL_BATCH), "sysFlag": str(_PULL_FLAGS),
                "commitOffset": "0", "suspendTimeoutMillis": "15000", "subscription": "*", "subVersion": "0",
                "expressionType": "TAG"}))


def create_topic(load: Load) -> None:
    with socket.create_connection((load.host, load.port), timeout=_WAIT_MAX_S) as connection:
        queues = str(load.queues)
        connection.sendall(frame(_CREATE_TOPIC, 1, signed(load, {
            "topic": load.topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues,
            "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"})))
        answer = read_frame(connection)
    if _SUCCESS not in answer:
        raise LoadFailed(f"topic {load.topic} was not created: {answer!r}")


def read_frame(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + _LENGTH.unpack_from(data)[0]:
        more = connection.recv(_READ_SIZE)
        if not more:
            raise LoadFailed("the broker closed the connection")
        data += more
    return data


def open_lane(load: Load, number: int) -> Lane:
    connection = socket.create_connection((load.host, load.port), timeout=_WAIT_MAX_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setblocking(False)
    frames = list(pull_frames(load) if load.backlog else send_frames(load, number))
    sizes = {len(each) for each in frames}
    assert len(sizes) == 1, "all frames of a lane have one length"
    # Lanes begin at different places, so that no two pull the same messages at the same time.
    return Lane(connection=connection, ring=memoryview(b"".join(frames + frames[:load.in_flight])),
                frame_size=sizes.pop(), frame_count=len(frames), in_flight_max=load.in_flight,
                position=len(frames) * number // load.connections)


def top_up(lane: Lane, now: float, allowed: int) -> int:
    """Send as many requests as the window allows; returns their number."""
    room = min(lane.in_flight_max - lane.in_flight, allowed)
    if lane.unsent or room <= 0:
        flush(lane)
        return 0
    start = lane.position * lane.frame_size
    lane.unsent = lane.ring[start:start + room * lane.frame_size]
    lane.position = (lane.position + room) % lane.frame_count
    lane.in_flight += room
    lane.sent.append((now, room))
    flush(lane)
    return room


def flush(lane: Lane) -> None:
    while lane.unsent:
        try:
            lane.unsent = lane.unsent[lane.connection.send(lane.unsent):]
        except BlockingIOError:
            return


def take_answers(lane: Lane, tally: Tally) -> int:
    """Read once and count the complete answers. Raises BlockingIOError if there is nothing to read, LoadFailed if the
    broker closed the connection."""
    data = lane.connection.recv(_READ_SIZE)
    if not data:
        raise LoadFailed("the broker closed a connection")
    now = time.perf_counter()
    if lane.partial:
        data = lane.partial + data
    count, position = scan(data)
    refused = count - data.count(_SUCCESS, 0, position)
    if refused:
        tally.refused += refused
        if tally.refused == refused:
            print(f"first refusal: {first_refusal(data)!r}", file=sys.stderr)
    lane.partial = data[position:]
    lane.in_flight -= count
    tally.answers += count
    book(lane, tally, now, count)
    return count


def scan(data: bytes) -> tuple[int, int]:
    """The number of complete frames at the beginning of `data`, and where the rest starts."""
    unpack = _LENGTH.unpack_from
    position, count, last = 0, 0, len(data) - 4
    while position <= last:
        end = position + 4 + unpack(data, position)[0]
        if end > last + 4:
            break
        position = end
        count += 1
    return count, position


def first_refusal(data: bytes) -> bytes:
    position = 0
    while position + 4 <= len(data):
        end = position + 4 + _LENGTH.unpack_from(data, position)[0]
        if _SUCCESS not in data[position:end]:
            return data[position + 8:end]
        position = end
    return b""


def book(lane: Lane, tally: Tally, now: float, count: int) -> None:
    while count:
        sent_at, outstanding = lane.sent[0]
        share = min(count, outstanding)
        tally.latencies.append((now - sent_at, share))
        if share == outstanding:
            lane.sent.popleft()
        else:
            lane.sent[0] = (sent_at, outstanding - share)
        count -= share


def drive(lanes: list[Lane], count_max: int, seconds_max: float) -> tuple[Tally, float]:
    """Send until a limit is reached, then wait for the last answers; returns the tally and the seconds. Raises
    LoadFailed."""
    tally = Tally()
    poll = select.epoll()
    by_number = {lane.connection.fileno(): lane for lane in lanes}
    for number in by_number:
        poll.register(number, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    begin = time.perf_counter()
    deadline = begin + seconds_max if seconds_max else float("inf")
    left = count_max or 1 << 62
    for lane in lanes:
        left -= top_up(lane, begin, left)
    while any(lane.in_flight for lane in lanes):
        events = poll.poll(_WAIT_MAX_S)
        if not events:
            raise LoadFailed(f"no answer for {_WAIT_MAX_S} s after {tally.answers} answers")
        for number, event in events:
            lane = by_number[number]
            if event & select.EPOLLIN:
                read_all(lane, tally)
            now = time.perf_counter()
            if now >= deadline:
                left = 0
            left -= top_up(lane, now, left)
    elapsed = time.perf_counter() - begin
    poll.close()
    return tally, elapsed


def read_all(lane: Lane, tally: Tally) -> None:
    while True:
        try:
            take_answers(lane, tally)
        except BlockingIOError:
            return


def percentile(latencies: list[tuple[float, int]], share: float) -> float:
    """The latency in ms that a share of the answers does not exceed; 0 without answers."""
    ordered = sorted(latencies)
    rank = share * sum(count for _, count in ordered)
    for latency, count in ordered:
        rank -= count
        if rank <= 0:
            return latency * 1000
    return ordered[-1][0] * 1000 if ordered else 0.0


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, in seconds; 0 for process 0."""
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def run(load: Load) -> dict[str, float | int | str]:
    if not load.backlog:
        create_topic(load)
    lanes = [open_lane(load, number) for number in range(load.connections)]
    if load.warm_up_seconds:
        drive(lanes, 0, load.warm_up_seconds)
    server_before, own_before = cpu_seconds(load.server_pid), time.process_time()
    tally, elapsed = drive(lanes, load.count_max, load.seconds_max)
    server_cpu, own_cpu = cpu_seconds(load.server_pid) - server_before, time.process_time() - own_before
    for lane in lanes:
        lane.connection.close()
    messages = tally.answers * (_PULL_BATCH if load.backlog else 1)
    return {
        "topic": load.topic, "body_size": load.body_size, "connections": load.connections, "in_flight": load.in_flight,
        "messages": messages, "refused": tally.refused, "seconds": round(elapsed, 3),
        "messages_per_second": round(messages / elapsed),
        "latency_p50_ms": round(percentile(tally.latencies, 0.5), 3),
        "latency_p99_ms": round(percentile(tally.latencies, 0.99), 3),
        "latency_max_ms": round(percentile(tally.latencies, 1.0), 3),
        "server_cpu_seconds_per_million": round(server_cpu / messages * 1e6, 2) if load.server_pid else "no pid",
        "generator_cpu_seconds_per_million": round(own_cpu / messages * 1e6, 2),
    }


def parse_arguments(arguments: list[str]) -> Load:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default="127.0.0.1:10911", help="host:port of the broker")
    parser.add_argument("--topic", default="BenchLoad")
    parser.add_argument("--queues", type=int, default=4)
    parser.add_argument("--body-size", type=int, default=1024)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--in-flight", type=int, default=512, help="requests outstanding on each connection")
    parser.add_argument("--count", type=int, default=0, help="stop after this number of messages")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this time; 10 if no limit is given")
    parser.add_argument("--warm-up", type=float, default=1.0, help="seconds of load before measuring")
    parser.add_argument("--server-pid", type=int, default=0, help="process whose CPU time is measured")
    parser.add_argument("--backlog", type=int, default=0, help="pull this number of messages; the topic must hold them")
    parser.add_argument("--access-key", default="", help="account that signs the requests")
    parser.add_argument("--secret-key", default="")
    options = parser.parse_args(arguments)
    host, _, port = options.address.rpartition(":")
    for name in ("queues", "connections", "in_flight", "body_size"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be 1 or more")
    if options.backlog and options.backlog < options.queues * _PULL_BATCH:
        parser.error(f"--backlog must be {_PULL_BATCH} or more for each queue")
    return Load(host=host, port=int(port), topic=options.topic, queues=options.queues, body_size=options.body_size,
                connections=options.connections, in_flight=options.in_flight, count_max=options.count,
                seconds_max=options.seconds if options.seconds or options.count else 10.0,
                warm_up_seconds=options.warm_up, server_pid=options.server_pid, backlog=options.backlog,
                access_key=options.access_key, secret_key=options.secret_key)


def main() -> None:
    try:
        result = run(parse_arguments(sys.argv[1:]))
    except (LoadFailed, OSError) as error:
        sys.exit(f"load failed: {error}")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
