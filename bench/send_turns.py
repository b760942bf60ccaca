"""Compares builds of the broker: CPU microseconds per request, without sockets.

    git worktree add build/before <commit> && (cd build/before && python build_ext.py build/compiled)
    python build_ext.py build/compiled
    python bench/send_turns.py before=build/before/build/compiled after=build/compiled [--kinds json,pull,pop]

Each build runs in a process of its own, all on the same processor. They take turns of 2,048 requests, so that changes
of the machine affect all of them. Sends are `json`, `binary` and `delayed`; a `pull` or a `pop` asks for one message. A
turn reads frames, handles them and encodes the answers: `FrameReader`, then `decide` of `server.request_server`. Work
that follows the answers is done between the turns. `ratio` is the time of a build divided by that of the first build in
the same turn, as the median over all turns. A build whose path ends with `+page` counts requests, as with the page of
metrics on.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KINDS = ("json", "binary", "delayed", "pull", "pop")
READS = ("pull", "pop")
SENDS_PER_TURN = 2048
SENDS_PER_READ = 64                 # requests in the bytes of one read
RING = 512                      # number of different sends
WARM_UP_TURNS = 10
PAGE_SUFFIX = "+page"
PAGE_VARIABLE = "BENCH_HAS_PAGE"
NOW_MS = 1_700_000_000_000
LOG_FILE_SIZE = 64 << 20


# --- one build -------------------------------------------------------------------------------------------------------


def chunks(kind: str, body_size: int) -> list[bytes]:
    """The bytes of each read in one turn of sends."""
    from load_generator import Load, send_frames

    from regulus.wire.frame_reader import FrameReader
    from regulus.wire.remoting_command import JSON, ROCKETMQ, RemotingCommand

    load = Load(host="", port=0, topic="BenchLoad", queues=4, body_size=body_size, connections=1, in_flight=RING,
                count_max=0, seconds_max=0.0, warm_up_seconds=0.0, server_pid=0)
    reader = FrameReader()
    reader.feed(b"".join(send_frames(load, 0)))
    frames = []
    for sent in reader.frames():
        if kind == "delayed":
            sent.ext["i"] += "\x02DELAY\x013\x02"
        frames.append(RemotingCommand.request(sent.code, sent.ext, sent.body, opaque=sent.opaque,
                                              serialize_type=ROCKETMQ if kind == "binary" else JSON).encode())
    ring = [b"".join(frames[start:start + SENDS_PER_READ]) for start in range(0, len(frames), SENDS_PER_READ)]
    return ring * (SENDS_PER_TURN // len(frames))


def asked(kind: str) -> list[bytes]:
    """The bytes of each read in one turn of pulls or pops."""
    from regulus.model.sys_flag import PULL_SUBSCRIPTION
    from regulus.wire.codes import RequestCode
    from regulus.wire.headers import PopMessageRequest, PullMessageRequest
    from regulus.wire.remoting_command import RemotingCommand

    frames = []
    for number in range(SENDS_PER_READ):
        if kind == "pull":
            pull = PullMessageRequest(consumer_group="G", topic="BenchLoad", queue_id=number % 4,
                                      queue_offset=number // 4, max_msg_nums=1, sys_flag=PULL_SUBSCRIPTION,
                                      subscription="*", sub_version=1)
            frames.append(RemotingCommand.request(RequestCode.PULL_MESSAGE, pull.ext(), opaque=number).encode())
        else:
            pop = PopMessageRequest(consumer_group="G", topic="BenchLoad", queue_id=number % 4, max_msg_nums=1,
                                    invisible_time=60_000, poll_time=0, born_time=NOW_MS, init_mode=0)
            frames.append(RemotingCommand.request(RequestCode.POP_MESSAGE, pop.ext(), opaque=number).encode())
    return [b"".join(frames)] * (SENDS_PER_TURN // SENDS_PER_READ)


def take_turns(kind: str, body_size: int, *, has_page: bool) -> None:
    """For each line of the standard input run a turn and print its microseconds per request."""
    from regulus.broker.config import BrokerConfig
    from regulus.broker.state import BrokerState
    from regulus.model.topics import TopicConfig
    from regulus.store.config import MessageStoreConfig
    from regulus.store.file_message_store import FileMessageStore
    from regulus.wire.frame_reader import FrameReader

    sends = chunks("json" if kind in READS else kind, body_size)
    reads = asked(kind) if kind in READS else sends
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as path:
        store = FileMessageStore(MessageStoreConfig(store_path_root_dir=path,
                                                    mapped_file_size_commit_log=LOG_FILE_SIZE))
        store.open()
        broker = BrokerState(BrokerConfig(listen_port=10911), store, now_ms=NOW_MS, seed=1)
        broker.topics.put(TopicConfig(topic_name="BenchLoad", read_queue_nums=4, write_queue_nums=4), NOW_MS)
        reader = FrameReader()
        latencies = None
        if has_page:
            from regulus.broker.request_latencies import RequestLatencies
            latencies = RequestLatencies()
        print("ready", flush=True)
        while sys.stdin.readline():
            if kind in READS:
                turn(reader, sends, broker, latencies)
                while store.dispatch_behind_bytes():
                    store.dispatch(SENDS_PER_TURN, ())
            print(f"{turn(reader, reads, broker, latencies) / SENDS_PER_TURN * 1e6:.4f}", flush=True)
            while store.dispatch_behind_bytes():
                store.dispatch(SENDS_PER_TURN, ())
            if store.wants_allocation:
                store.allocate_ahead()
        store.close()


def turn(reader: Any, reads: list[bytes], broker: Any, latencies: Any) -> float:
    """Run one turn; returns its CPU seconds."""
    from regulus.broker import request_table
    from regulus.model.message_id import host_bytes
    from regulus.model.peer import Peer
    from regulus.server.refusals import Refusals
    from regulus.server.request_server import decide

    if latencies is not None:
        from regulus.server.request_server import Tally

    peer = Peer(1, host_bytes("127.0.0.1", 50_000), host_bytes("127.0.0.1", 10911), "127.0.0.1:50000", "127.0.0.1")
    parts: list[bytes | memoryview] = []
    others: list[Any] = []
    refusals = Refusals()
    tally = None if latencies is None else Tally(latencies)
    begin = time.process_time()
    for data in reads:
        reader.feed(data)
        parts.clear()
        if tally is None:
            decide(reader.frames(), request_table.handle, peer, broker, NOW_MS, parts, [], others, refusals)
            continue
        tally.begin_again()
        decide(reader.frames(), request_table.handle, peer, broker, NOW_MS, parts, [], others, refusals, tally)
        tally.parts_sent()
    spent = time.process_time() - begin
    reader.feed(b"".join(parts))
    answers = reader.frames()
    assert not others
    assert [answer.code for answer in answers] == [0] * SENDS_PER_READ
    return spent


# --- all of them -----------------------------------------------------------------------------------------------------


def measure(kind: str, builds: dict[str, Path], turns: int, body_size: int, processor: int) -> dict[str, list[float]]:
    command = [sys.executable, __file__, "--one", kind, "--body-size", str(body_size)]
    running = {name: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(
                                          Path(str(path).removesuffix(PAGE_SUFFIX)).resolve()),
                                           PAGE_VARIABLE: "yes" if str(path).endswith(PAGE_SUFFIX) else ""})
               for name, path in builds.items()}
    for process in running.values():
        os.sched_setaffinity(process.pid, {processor})
    spent: dict[str, list[float]] = {name: [] for name in running}
    for each in running.values():
        _line_of(each)
    for number in range(WARM_UP_TURNS + turns):
        for name in in_turn(list(running), number):
            process = running[name]
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            figure = float(_line_of(process))
            if number >= WARM_UP_TURNS:
                spent[name].append(figure)
    for process in running.values():
        process.communicate()
    return spent


def in_turn(names: list[str], number: int) -> Iterator[str]:
    """The order of a turn. Each build is first equally often."""
    first = number % len(names)
    yield from names[first:] + names[:first]


def _line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"a build ended before its turn, with status {process.wait()}")
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="*", help="NAME=PATH of a copy of the package; the first is the base of ratios")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--body-size", type=int, default=1024)
    parser.add_argument("--processor", type=int, default=0, help="number of the processor that runs all builds")
    parser.add_argument("--one", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        take_turns(options.one, options.body_size, has_page=bool(os.environ.get(PAGE_VARIABLE)))
        return
    builds = {name: Path(path) for name, _, path in (build.partition("=") for build in options.builds)}
    for kind in options.kinds.split(","):
        spent = measure(kind, builds, options.turns, options.body_size, options.processor)
        first = next(iter(spent.values()))
        for name, each in spent.items():
            ratio = statistics.median(mine / base for base, mine in zip(first, each, strict=True))
            tenth = sorted(each)[len(each) // 10]
            print(f"{kind:8} {name:10} tenth percentile {tenth:.3f} us  median {statistics.median(each):.3f} us  "
                  f"ratio {ratio:.4f}", flush=True)


if __name__ == "__main__":
    main()
