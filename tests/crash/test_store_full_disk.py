"""What a store does on a disk that really is full."""

from pathlib import Path

import pytest
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


START = """
import os, shutil, subprocess, sys
from pathlib import Path
from regulus.model.store_result import PutStatus
from regulus.store.file_message_store import FileMessageStore
from tests.stores import NOW, a_message, bodies, dispatch, fill, open_store, small_config

disk, harm = Path(sys.argv[1]), sys.argv[2]
SETTINGS = dict(mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=6_000_000, max_hash_slot_num=1000,
                max_index_num=100_000)
root = disk / "store"
store = open_store(root, **SETTINGS)
messages = fill(store, 2000, queues=8, size=900)
store.flush_commit_log()
store.flush_queue_table()
store.flush_checkpoint()
store.flush_mark()
if harm == "not dispatched":
    for number in range(2000, 2600):
        message = a_message(body=b"%d" % number, queue_id=number % 8, UNIQ_KEY=f"U{number:08d}")
        assert store.append(message, NOW + number).status is PutStatus.PUT_OK
        messages.append(message)
else:
    messages += fill(store, 600, first=2000, queues=8, size=900)
store._release()        # as a kill would: nothing more is written, `abort` stays
torn = 0
if harm == "torn":
    last = max((root / "commitlog").iterdir())
    place = messages[-1].physical_offset % (1 << 20)
    with last.open("r+b") as file:
        file.seek(place + 200)
        file.write(b"!" * 300)
    torn = 1
elif harm == "queues gone":
    for queue_id in (2, 3):
        shutil.rmtree(root / "consumequeue/TopicA" / str(queue_id))
elif harm == "index gone":
    shutil.rmtree(root / "index")
try:
    with (disk / "ballast").open("wb") as file:
        while True:
            os.write(file.fileno(), bytes(4096))
except OSError:
    pass

def readable(store):
    return sorted(body for queue_id in range(8) for body in bodies(store, "TopicA", queue_id))

expected = sorted(message.body for message in messages[:len(messages) - torn])
store = FileMessageStore(small_config(root, **SETTINGS))
report = store.open()
seen = len(readable(store))
assert seen >= 1400, (harm, seen)
if harm != "nothing":
    refused = store.append(a_message(body=b"refused" * 100), NOW)
    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE and "is full" in refused.remark, refused.remark
    assert report.is_warning and "is full" in str(report), report
    for wish in ("somebody says so", ""):       # which changes nothing while the start is not finished
        store.refuse_writes(wish)
        assert store.append(a_message(), NOW).status is PutStatus.SERVICE_NOT_AVAILABLE
(disk / "ballast").unlink()
assert store.is_writable or store.dispatch_behind_bytes(), store.fault
store.dispatch(100_000)
assert store.is_writable, store.fault
assert readable(store) == expected
if torn:
    (kept,) = (disk / "store/cut").iterdir()
    assert b"!" * 300 in next(kept.iterdir()).read_bytes()
again = store.append(a_message(body=b"after", queue_id=3), NOW)
assert (again.status, again.queue_offset) == (PutStatus.PUT_OK, 325)
dispatch(store)
for number in (5, 1999, 2100):
    assert store.query_message("TopicA", f"U{number:08d}", 10, 0, NOW * 2).buffers, number
store.close()
store = FileMessageStore(small_config(root, **SETTINGS))
assert not store.open().is_warning
assert len(readable(store)) == len(expected) + 1
print("well")
"""


@pytest.mark.parametrize("harm", ["nothing", "not dispatched", "torn", "queues gone", "index gone"])
def test_a_start_on_a_full_disk_serves_reads_and_goes_on_when_there_is_room(tmp_path: Path, harm: str) -> None:
    on_small_disk(tmp_path, SIZE, START, f"'{harm}'")


def test_a_full_disk_stops_sends_and_nothing_else(tmp_path: Path) -> None:
    on_small_disk(tmp_path, SIZE, SCRIPT)


def test_a_disk_that_fills_again_and_again_keeps_the_newest_messages(tmp_path: Path) -> None:
    """Seven times as much as it holds goes through it, and no send is refused."""
    on_small_disk(tmp_path, SIZE, ROUNDS, "forcibly")


def test_a_disk_where_nothing_may_go_refuses_sends_before_it_is_full(tmp_path: Path) -> None:
    on_small_disk(tmp_path, SIZE, ROUNDS, "in-time")
