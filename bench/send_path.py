"""Measures what one send costs the broker, step by step and without sockets, in CPU microseconds per message.

    python bench/send_path.py [--count 200000] [--body-size 1024] [--signed]

Each step is timed for the frames of one read (256 KiB), in CPU time of this process, so that a busy machine changes
little. Run it with PYTHONPATH=build/compiled to measure the compiled modules.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from load_generator import Load, send_frames

from regulus.access.accounts import Account, Grant
from regulus.access.plain_rules import PlainRules
from regulus.access.white_addresses import WhiteAddresses
from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.outcome import Outcome, Reply
from regulus.broker.state import BrokerState
from regulus.model.message_id import host_bytes
from regulus.model.peer import Peer
from regulus.record import message_record
from regulus.server.door import Door
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.wire.frame_reader import FrameReader

READ_SIZE = 256 << 10               # bytes of one read of the server
DISPATCH_MAX = 2048
STEPS = ("read frames", "handle", "encode answers", "dispatch")


def reads(body_size: int, count: int, account: Account | None) -> Iterator[bytes]:
    """The bytes of each read. Frames may go over the end of a read."""
    signature = {} if account is None else {"access_key": account.access_key, "secret_key": account.secret_key}
    load = Load(host="", port=0, topic="BenchLoad", queues=4, body_size=body_size, connections=1, in_flight=512,
                count_max=0, seconds_max=0.0, warm_up_seconds=0.0, server_pid=0, **signature)
    ring = b"".join(send_frames(load, 0))
    frame_size = len(ring) // 512
    total, position = count * frame_size, 0
    twice = ring * 2
    while position < total:
        size = min(READ_SIZE, total - position)
        start = position % len(ring)
        yield (twice if size <= len(ring) else twice * 2)[start:start + size]
        position += size


def frame_of(outcome: Outcome) -> bytes:
    """The encoded answer; that of a straight send was already encoded when it was handled."""
    assert isinstance(outcome, Reply)
    return b"".join(outcome.encode_parts())


def measure(store: FileMessageStore, body_size: int, count: int, account: Account | None) -> dict[str, float]:
    broker = BrokerState(BrokerConfig(listen_port=10911), store, now_ms=1_700_000_000_000, seed=1)
    peer = Peer(1, host_bytes("127.0.0.1", 50_000), host_bytes("127.0.0.1", 10911), "127.0.0.1:50000", "127.0.0.1")
    handle = request_table.handle
    if account is not None:
        rules = PlainRules(WhiteAddresses(()), {account.access_key: account})
        handle = Door(lambda: rules, request_table.needs_of).guard(handle)
    reader = FrameReader()
    spent = dict.fromkeys(STEPS, 0.0)
    answered = 0
    for data in reads(body_size, count, account):
        begin = time.process_time()
        reader.feed(data)
        requests = reader.frames()
        read = time.process_time()
        outcomes = [handle(request, peer, broker, 1_700_000_000_000) for request in requests]
        handled = time.process_time()
        answers = [frame_of(outcome) for outcome in outcomes]
        encoded = time.process_time()
        while store.dispatch_behind_bytes():
            store.dispatch(DISPATCH_MAX, ())
        dispatched = time.process_time()
        if store.wants_allocation:
            store.allocate_ahead()
        answered += len(answers)
        costs = (read - begin, handled - read, encoded - handled, dispatched - encoded)
        for step, cost in zip(STEPS, costs, strict=True):
            spent[step] += cost
        assert answers[0].count(b'"code":0'), answers[0]
    assert answered == count, f"{answered} answers to {count} sends"
    return {step: cost / count * 1e6 for step, cost in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--body-size", type=int, default=1024)
    parser.add_argument("--signed", action="store_true", help="sign the sends, for a broker with access control")
    options = parser.parse_args()
    account = Account(access_key="bench", secret_key="secret-of-bench", white_addresses=WhiteAddresses(()),
                      default_topic=Grant.PUB) if options.signed else None
    with tempfile.TemporaryDirectory(dir=Path.cwd() / "build" if Path("build").is_dir() else None) as path:
        store = FileMessageStore(MessageStoreConfig(store_path_root_dir=path))
        store.open()
        costs = measure(store, options.body_size, options.count, account)
        store.close()
    kind = Path(message_record.__file__).suffix
    print(f"message_record is {kind}, {options.count} messages of {options.body_size} bytes")
    for step, cost in costs.items():
        print(f"{step:16} {cost:8.2f} us")
    print(f"{'sum':16} {sum(costs.values()):8.2f} us")


if __name__ == "__main__":
    main()
