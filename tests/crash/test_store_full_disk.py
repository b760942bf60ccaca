"""What a store does on a disk that really is full."""

from pathlib import Path

from tests.crash.small_disk import on_small_disk

SIZE = "8m"
SCRIPT = """
import sys
from pathlib import Path
from regulus.errors import StoreNotWritable
from regulus.model.store_result import PutStatus
from tests.stores import NOW, a_message, bodies, dispatch, open_store

disk = Path(sys.argv[1])
(disk / "ballast").write_bytes(bytes(1 << 20))
SETTINGS = dict(mapped_file_size_commit_log=2 << 20, mapped_file_size_consume_queue=6_000_000, max_hash_slot_num=1000,
                max_index_num=100_000)
store = open_store(disk / "store", **SETTINGS)
stored = []
while True:
    if store.wants_allocation:
        store.allocate_ahead()
    body = str(len(stored)).encode().ljust(900, b".")
    appended = store.append(a_message(body=body, queue_id=len(stored) % 8, UNIQ_KEY=f"U{len(stored)}"), NOW)
    if appended.status is not PutStatus.PUT_OK:
        break
    stored.append(body)
    store.dispatch(100)
assert appended.status is PutStatus.SERVICE_NOT_AVAILABLE, appended.status
assert "is full" in appended.remark and str(disk) in appended.remark, appended.remark
assert len(stored) > 4000, len(stored)
assert store.flush_commit_log() == store.commit_log_max_offset()
try:
    store.save_config("topics", [b"{%s}" % (b"1" * 100_000)])
except StoreNotWritable as error:
    assert "is full" in str(error)
else:
    raise AssertionError("a document was saved to a full disk")

def readable():
    return sorted(body for queue_id in range(8) for body in bodies(store, "TopicA", queue_id))

seen = len(readable())
assert seen >= len(stored) - 1, (seen, len(stored))
(disk / "ballast").unlink()
assert store.is_writable
dispatch(store)
assert readable() == sorted(stored)
assert store.append(a_message(body=b"after"), NOW).status is PutStatus.PUT_OK
dispatch(store)
store.close()
(disk / "ballast").write_bytes(bytes(900 << 10))
try:
    while True:
        with (disk / "ballast").open("ab") as file:
            file.write(bytes(4096))
except OSError:
    pass
store = open_store(disk / "store", **SETTINGS)
assert len(readable()) == len(stored) + 1
print("well")
"""


ROUNDS = """
import asyncio, sys
from pathlib import Path
from regulus.broker.config import BrokerConfig
from regulus.broker.state import BrokerState
from regulus.model.store_result import PutStatus
from regulus.server.retention_loop import RetentionLoop
from regulus.server.workers import Line, ThreadWorkers
from regulus.store import disk as door
from tests.stores import NOW, a_message, bodies, dispatch, open_store

disk, forcibly = Path(sys.argv[1]), sys.argv[2] == "forcibly"

async def main():
    store = open_store(disk / "store", mapped_file_size_commit_log=512 << 10, mapped_file_size_consume_queue=4000,
                       max_hash_slot_num=100, max_index_num=400)
    rules = BrokerConfig(delete_commit_log_files_interval=0, delete_consume_queue_files_interval=0,
                         clean_file_forcibly_enable=forcibly)
    loop = RetentionLoop(store, BrokerState(rules, store), lambda: NOW, ThreadWorkers().line(Line.RETENTION))
    sent = 0
    refusal = ""
    while sent < 1000 and not refusal:
        appended = store.append(a_message(body=str(sent).encode().ljust(60_000, b"."), KEYS=f"k{sent}"), NOW)
        if appended.status is not PutStatus.PUT_OK:
            refusal = appended.remark
            break
        sent += 1
        dispatch(store)
        if sent % 5 == 0:
            store.flush_commit_log()
            store.flush_consume_queues(0)
            await loop.run_pass(NOW)
            await loop.follow()
    numbers = [int(body.rstrip(b".")) for body in bodies(store)]
    assert numbers == list(range(numbers[0], sent)), numbers
    ratio = door.used_ratio(disk)
    if forcibly:
        assert not refusal, refusal
        assert numbers[0] > 800 and ratio <= 0.90, (numbers[0], ratio)
    else:
        assert "diskSpaceWarningLevelRatio 90 %" in refusal and numbers[0] == 0, (refusal, numbers[0])
        assert 0.90 < ratio < 1, ratio
    await loop.stop()
    store.close()
    print("well")

asyncio.run(main())
"""


def test_a_full_disk_stops_sends_and_nothing_else(tmp_path: Path) -> None:
    on_small_disk(tmp_path, SIZE, SCRIPT)


def test_a_disk_that_fills_again_and_again_keeps_the_newest_messages(tmp_path: Path) -> None:
    """Seven times as much as it holds goes through it, and no send is refused."""
    on_small_disk(tmp_path, SIZE, ROUNDS, "forcibly")


def test_a_disk_where_nothing_may_go_refuses_sends_before_it_is_full(tmp_path: Path) -> None:
    on_small_disk(tmp_path, SIZE, ROUNDS, "in-time")
