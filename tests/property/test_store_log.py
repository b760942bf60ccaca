"""Whatever is appended comes back, wherever the log is cut."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stores import HOST, NOW, dispatch, small_config

from regulus.errors import StoreNewer
from regulus.model.message import MessageExt
from regulus.model.store_result import PutStatus
from regulus.record import message_record
from regulus.store.file_message_store import FileMessageStore

LOG_FILE = 4096
TEXT = st.text("abcZ09 标", max_size=12)
MESSAGES = st.lists(st.builds(
    lambda topic, queue_id, size, tags, keys, flag: MessageExt(
        topic, b"." * size, {"TAGS": tags, "KEYS": keys, "UNIQ_KEY": f"{size}{tags}"}, queue_id, 0, flag, NOW, HOST,
        HOST),
    st.sampled_from(["TopicA", "%RETRY%g", "t" * 128]), st.integers(0, 2), st.integers(0, 1200), TEXT, TEXT,
    st.sampled_from([0, 0, 0, 0x8, 0x4])), min_size=1, max_size=25)
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def write(root: Path, messages: list[MessageExt]) -> list[bytes]:
    """The records, in the order of the log."""
    store = FileMessageStore(small_config(root))
    store.open()
    for number, message in enumerate(messages):
        assert store.append(message, NOW + number).status is PutStatus.PUT_OK
        if number % 3 == 2:
            dispatch(store)
    store.close()
    return [message_record.encode(message) for message in messages]


def crash_unsynced(root: Path) -> None:
    """As after a crash before anything was known to be on disk."""
    (root / "abort").touch()
    for name in ("checkpoint", "regulusSynced", "regulusQueues"):
        (root / name).unlink()


def visible(store: FileMessageStore) -> list[bytes]:
    """Records that any queue speaks of, in the order of the log."""
    found = {}
    for topic, queue_id in store.queues():
        for unit in store.queue_units(topic, queue_id, 0, 1000):
            data = store.record_bytes(unit.physical_offset)
            assert data is not None
            message = message_record.decode(data)
            assert (message.topic, message.queue_id, message.queue_offset) == (topic, queue_id, unit.queue_offset)
            assert len(data) == unit.size
            found[unit.physical_offset] = bytes(data)
    return [found[offset] for offset in sorted(found)]


def with_offset(records: list[bytes]) -> list[bytes]:
    """Without the prepared ones, which no queue knows."""
    return [record for record in records if message_record.decode(record).sys_flag & 0xC in (0, 8)]


@SLOW
@given(MESSAGES)
def test_what_is_written_is_there_after_a_restart(messages: list[MessageExt]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        records = write(Path(folder), messages)
        store = FileMessageStore(small_config(Path(folder)))
        assert store.open().dropped_bytes == 0
        assert visible(store) == with_offset(records)
        store.close()


@SLOW
@given(MESSAGES, st.data())
def test_a_cut_at_any_byte_keeps_every_record_before_it(messages: list[MessageExt], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        records = write(root, messages)
        ends = [message.physical_offset + message.store_size for message in messages]
        cut = data.draw(st.integers(0, ends[-1]), label="cut")
        for path in sorted((root / "commitlog").iterdir()):
            start = int(path.name)
            if start + LOG_FILE > cut:
                content = path.read_bytes()[:max(cut - start, 0)]
                path.write_bytes(content.ljust(LOG_FILE, b"\0"))
        crash_unsynced(root)
        if data.draw(st.booleans(), label="lost queues"):
            shutil.rmtree(root / "consumequeue", ignore_errors=True)
        store = FileMessageStore(small_config(root))
        store.open()
        kept = [record for record, end in zip(records, ends, strict=True) if end <= cut]
        assert visible(store) == with_offset(kept)
        for topic, queue_id in store.queues():
            offsets = [unit.queue_offset for unit in store.queue_units(topic, queue_id, 0, 1000)]
            assert offsets == list(range(len(offsets)))
            assert store.max_offset(topic, queue_id) == len(offsets)
        # And the log goes on: what comes now is not followed by what was there.
        again = MessageExt("TopicA", b"after", {}, 0, 0, 0, NOW, HOST, HOST)
        assert store.append(again, NOW).status is PutStatus.PUT_OK
        dispatch(store)
        assert visible(store) == [*with_offset(kept), message_record.encode(again)]
        store.close()


@SLOW
@given(MESSAGES, st.data())
def test_any_changed_byte_costs_at_most_what_lies_behind_it(messages: list[MessageExt], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        records = write(root, messages)
        ends = [message.physical_offset + message.store_size for message in messages]
        position = data.draw(st.integers(0, ends[-1] - 1), label="position")
        path = root / "commitlog" / f"{position // LOG_FILE * LOG_FILE:020d}"
        content = bytearray(path.read_bytes())
        content[position % LOG_FILE] ^= data.draw(st.integers(1, 255), label="flip")
        path.write_bytes(content)
        crash_unsynced(root)
        store = FileMessageStore(small_config(root))
        try:
            store.open()
        except StoreNewer:
            # The last byte of a magic number tells the format.
            assert position in {message.physical_offset + 7 for message in messages}
            return
        for message, record, end in zip(messages, records, ends, strict=True):
            # No queue vouches for a prepared one, so none is found by its offset alone.
            if end <= position and with_offset([record]):
                kept = store.record_bytes(message.physical_offset)
                assert kept is not None
                assert bytes(kept) == record
        bodies = {message.physical_offset: message.body for message in messages}
        for topic, queue_id in store.queues():
            for unit in store.queue_units(topic, queue_id, 0, 1000):
                served = store.look_message(unit.physical_offset)
                assert served is None or served.body == bodies[unit.physical_offset]
        store.close()


def test_a_damaged_store_time_does_not_stop_recovery(tmp_path: Path) -> None:
    message = MessageExt("TopicA", b"tea", {"KEYS": "k1"}, 0, 0, 0, NOW, HOST, HOST)
    write(tmp_path, [message])
    path = tmp_path / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[56] ^= 1
    path.write_bytes(content)
    (tmp_path / "abort").touch()
    (tmp_path / "checkpoint").unlink()
    shutil.rmtree(tmp_path / "index")
    store = FileMessageStore(small_config(tmp_path))
    store.open()
    assert [message_record.decode(record).body for record in visible(store)] == [b"tea"]
    assert len(store.query_message("TopicA", "k1", 10, 0, 2**62).buffers) == 1
    store.close()
