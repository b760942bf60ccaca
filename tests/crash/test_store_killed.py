"""A process that appends is killed in the midst of it: all that it said was flushed is there afterwards."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.stores import small_config

from regulus.model.message_filter import EVERYTHING
from regulus.record import message_record
from regulus.store.file_message_store import FileMessageStore

WRITER = """
import sys
from pathlib import Path
from regulus.store.file_message_store import FileMessageStore
from tests.stores import NOW, a_message, small_config

root, seed = Path(sys.argv[1]), int(sys.argv[2])
store = FileMessageStore(small_config(root, mapped_file_size_commit_log=65536))
store.open()
number = store.max_offset("TopicA", 0)
while True:
    for _ in range(1 + (number * seed) % 7):
        body = f"{number:08d}".encode().ljust(10 + (number * seed) % 3000, b".")
        store.append(a_message(body=body, UNIQ_KEY=f"U{number:08d}", KEYS="all"), NOW + number)
        number += 1
    if number % 3:
        store.dispatch(1000, ())
    if number % 5 == 0:
        store.allocate_ahead()
    if number % 11 == 0:
        store.flush_consume_queues(0)
        store.flush_checkpoint()
    print(store.flush_commit_log(), number, flush=True)
"""
ROOT = Path(__file__).resolve().parent.parent.parent


def kill_after(root: Path, seed: int, flushes: int) -> tuple[int, int]:
    """Offset and count of messages that the last whole line reported."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(root), str(seed)], stdout=subprocess.PIPE, cwd=ROOT,
                          env={"PYTHONPATH": ":".join([str(ROOT), *sys.path])}) as writer:
        assert writer.stdout is not None
        for _ in range(flushes):
            line = writer.stdout.readline()
            assert line, "the writer ended by itself"
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().splitlines(keepends=True)
    last = [each for each in (line, *rest) if each.endswith(b"\n")][-1]
    offset, count = last.split()
    return int(offset), int(count)


@pytest.mark.parametrize("seed", [1, 13, 401])
def test_all_that_was_flushed_is_there_after_a_kill(tmp_path: Path, seed: int) -> None:
    """Killed three times in a row, each time opened by the next writer."""
    for flushes in (3, 40, 17):
        flushed, count = kill_after(tmp_path, seed, flushes)
        store = FileMessageStore(small_config(tmp_path, mapped_file_size_commit_log=65_536))
        report = store.open()
        assert not report.is_clean_stop
        assert report.kept_to >= flushed
        assert store.max_offset("TopicA", 0) >= count
        numbers = []
        offset = 0
        while offset < store.max_offset("TopicA", 0):
            result = store.get_message("TopicA", 0, offset, 100, 1 << 20, EVERYTHING)
            for buffer in result.buffers:
                numbers += [int(message.body[:8]) for message in message_record.decode_all(buffer)]
            offset = result.next_begin_offset
        assert numbers == list(range(store.max_offset("TopicA", 0)))
        for number in (0, count // 2, count - 1):
            found = store.query_message("TopicA", f"U{number:08d}", 32, 0, 2**62).buffers
            assert {int(message_record.decode(data).body[:8]) for data in found} == {number}
        store._release()    # as a crash would: no flush, `abort` stays
