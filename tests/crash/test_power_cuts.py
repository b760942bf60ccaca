"""After a power cut, all is there that was said to be on disk: proven on a disk that forgets what was not synced.

REGULUS_POWER_CUT_SEEDS sets how many runs by chance there are.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.crash.power_cut_run import (
    COMMITTED,
    PREPARED,
    ROLLED_BACK,
    SETTINGS,
    PowerCuts,
    Promise,
    Run,
    check,
    kept_records,
)

from regulus.broker.config import BrokerConfig
from regulus.client.sending.producer import Producer
from regulus.errors import StoreNotWritable
from regulus.model.message import Message
from regulus.model.message_filter import Filter
from regulus.model.store_rules import FlushDiskType
from regulus.nameserver.config import NamesrvConfig
from regulus.record import message_record, synced_mark
from regulus.server.assembly import Regulus
from regulus.store import recovery
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.testing.forgetful_disk import EVERYTHING, SURE_ONLY, ForgetfulDisk, SyncPoint, rebooted
from regulus.transport.config import TransportConfig

RUNS = int(os.environ.get("REGULUS_POWER_CUT_SEEDS", "6"))
DEEDS = 40
ENTRIES_PER_FILE = SETTINGS["max_index_num"] - 1
KEYS_PER_RECORD = 3
MEANWHILE_MAX, CUTS_MAX = 12, 12


@pytest.fixture(autouse=True)
def small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the many recoveries reads its small files into memory of their size."""
    monkeypatch.setattr(recovery, "SCAN_WINDOW", 1 << 16)


@pytest.fixture
def power(tmp_path: Path) -> Iterator[ForgetfulDisk]:
    with ForgetfulDisk(tmp_path / "store") as disk:
        yield disk


def cut_and_check(run: Run, target: Path, *seeds: int) -> FileMessageStore:
    """The store that is found after a power cut now that leaves what is sure."""
    for seed in seeds or (SURE_ONLY,):
        copy = target / f"{len(list(target.iterdir()))}-{seed}"
        store = check(run.power.crash(seed, copy), run.promise, **run.settings)
    return store


# --- one promise each ------------------------------------------------------------------------------------------------


def test_a_flush_does_not_vouch_for_what_is_appended_meanwhile(tmp_path: Path, power: ForgetfulDisk) -> None:
    run = Run(power.root, power, seed=1)
    run.append(100)

    def append_meanwhile(point: SyncPoint) -> None:
        power.on_sync = None
        for _ in range(9):
            run.append(5000)

    power.on_sync = append_meanwhile
    run.flush_log()
    assert run.promise.durable_end < run.store.commit_log_max_offset()
    cut_and_check(run, tmp_path)
    # The next one brings what came meanwhile, although others came behind it.
    run.append(100)
    run.flush_log()
    assert run.promise.durable_end == run.store.commit_log_max_offset()
    cut_and_check(run, tmp_path)


def test_all_files_since_the_last_flush_are_synced(tmp_path: Path, power: ForgetfulDisk) -> None:
    run = Run(power.root, power, seed=1)
    for _ in range(12):
        run.append(4500)
    run.flush_log()
    assert len(list(run.store.config.commit_log_directory.iterdir())) > 3
    cut_and_check(run, tmp_path, SURE_ONLY, 2, 3, 4)


def test_a_file_that_is_made_ahead_does_not_come_before_its_time(tmp_path: Path, power: ForgetfulDisk) -> None:
    """Whichever was synced of it and of the one before, the log has no empty file in its midst."""
    run = Run(power.root, power, seed=1)
    run.append(100)
    run.allocate_ahead()
    cut_and_check(run, tmp_path)
    for _ in range(2):
        run.flush_log()
        run.allocate_ahead()
        for _ in range(4):
            run.append(4500)
        run.allocate_ahead()
        cut_and_check(run, tmp_path)


def test_what_a_killed_process_left_is_on_disk_after_the_next_start(tmp_path: Path, power: ForgetfulDisk) -> None:
    """Log, units, index entries and names, of which nobody knows whether they were synced."""
    run = Run(power.root, power, seed=1)
    for _ in range(30):
        run.append(1000, sys_flag=0)
    run.dispatch()
    run.kill()
    cut_and_check(run, tmp_path)
    run.flush_queues()
    run.flush_checkpoint()
    cut_and_check(run, tmp_path, 2, 3)
    run.close()
    cut_and_check(run, tmp_path, 4, 5)


def test_the_checkpoint_does_not_pass_queues_that_a_partial_flush_left_out(tmp_path: Path,
                                                                           power: ForgetfulDisk) -> None:
    run = without_index(power)
    run.append(4000, "TopicA", 0, 0)
    run.dispatch()
    run.now_ms += 10_000
    for _ in range(12):
        run.append(4000, "TopicB", 0, 0)
    run.dispatch()
    run.now_ms += 10_000
    run.append(4000, "TopicB", 0, 0)
    run.dispatch()
    run.flush_log()
    run.flush_queues(2)
    run.flush_checkpoint()
    cut_and_check(run, tmp_path)


def test_the_checkpoint_does_not_pass_what_is_dispatched_meanwhile(tmp_path: Path, power: ForgetfulDisk) -> None:
    """And the next flush brings it."""
    run = without_index(power)
    run.append(100, "TopicB", 0, 0)
    run.dispatch()

    def append_meanwhile(point: SyncPoint) -> None:
        power.on_sync = None
        run.append(100, "TopicB", 0, 0)
        run.append(100, "TopicA", 0, 0)
        run.now_ms += 10_000
        for _ in range(8):
            run.append(4500, "TopicA", 1, 0)
        run.dispatch()

    power.on_sync = append_meanwhile
    for _ in range(2):
        run.flush_queues()
        run.flush_log()
        run.flush_checkpoint()
        cut_and_check(run, tmp_path)


def test_the_mark_does_not_speak_of_what_is_dispatched_meanwhile(tmp_path: Path, power: ForgetfulDisk) -> None:
    run = without_index(power)
    run.append(100, "TopicA", 0, 0)
    run.dispatch()

    def append_meanwhile(point: SyncPoint) -> None:
        power.on_sync = None
        run.append(100, "TopicA", 0, 0)
        run.dispatch()

    power.on_sync = append_meanwhile
    run.flush_log()
    assert power.on_sync is None
    run.store.flush_mark()
    mark = synced_mark.decode((power.root / "regulusSynced").read_bytes())
    assert mark.end == run.store.flushed_offset < run.store.commit_log_max_offset()


def without_index(power: ForgetfulDisk) -> Run:
    """The start goes back to the checkpoint alone, and not to where the index lacks something."""
    run = Run(power.root, power, seed=1, message_index_enable=False)
    run.promise.indexed_end = 0
    return run


def test_the_index_is_whole_after_any_power_cut_if_it_is_to_be_safe(tmp_path: Path, power: ForgetfulDisk) -> None:
    run = Run(power.root, power, seed=1, max_hash_slot_num=2000)
    for number in range(2 * ENTRIES_PER_FILE // KEYS_PER_RECORD + 8):
        run.append(600, "TopicA", 0, 0)
        run.now_ms += 500
        run.dispatch()
        if number % 5 == 0:
            power.look()
        if number == ENTRIES_PER_FILE // KEYS_PER_RECORD + 3:
            run.flush_log()
            run.flush_queues()
            run.flush_checkpoint()
    run.flush_log()
    cut_and_check(run, tmp_path, *range(10))


def test_full_index_files_are_on_disk_when_the_checkpoint_says_so(tmp_path: Path, power: ForgetfulDisk) -> None:
    """Without messageIndexSafe nothing else finds the keys of older messages after a power cut."""
    run = Run(power.root, power, seed=1, message_index_safe=False)
    for number in range(3 * ENTRIES_PER_FILE // KEYS_PER_RECORD + 5):
        if number == 2 * ENTRIES_PER_FILE // KEYS_PER_RECORD:
            run.promise.indexed_end = run.store.commit_log_max_offset()
        run.append(600, "TopicA", 0, 0)
        run.now_ms += 500
    run.dispatch()
    run.flush_log()
    run.flush_queues()
    run.flush_checkpoint()
    cut_and_check(run, tmp_path, SURE_ONLY, 2, 3)


def test_the_name_of_a_full_index_file_is_on_disk_when_the_checkpoint_says_so(tmp_path: Path,
                                                                              power: ForgetfulDisk) -> None:
    """Without a table of them, an index of which only the last files are missing looks whole."""
    run = Run(power.root, power, seed=1, message_index_safe=False)
    run.append(600, "TopicA", 0, 0)
    run.dispatch()
    run.kill()      # the start brings to disk what there is, names included
    for _ in range(3 * ENTRIES_PER_FILE // KEYS_PER_RECORD):
        run.append(600, "TopicA", 0, 0)
        run.now_ms += 500
    run.promise.indexed_end = sorted(run.promise.records)[2 * ENTRIES_PER_FILE // KEYS_PER_RECORD]
    run.dispatch()
    run.flush_log()
    run.flush_queues()
    run.flush_checkpoint()
    copy = power.crash(SURE_ONLY, tmp_path / "copy")
    (copy / "regulusQueues").unlink()
    check(copy, run.promise, **run.settings)


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_what_a_failed_flush_left_out_is_flushed_by_the_next(tmp_path: Path, power: ForgetfulDisk, kind: str,
                                                             has_index: bool) -> None:
    """Each sync of queues and index fails once; the checkpoint that is saved then does not pass what is not on disk."""
    run = Run(power.root, power, seed=1, max_hash_slot_num=2000) if has_index else without_index(power)
    for queue_id in range(3):
        run.append(4000, "TopicA", queue_id, 0)
    run.dispatch()
    run.now_ms += 10_000
    for _ in range(24):
        run.append(4000, "TopicB", 0, 0)
    run.dispatch()
    run.now_ms += 10_000
    run.append(4000, "TopicB", 0, 0)
    run.dispatch()
    run.flush_log()
    failed: list[Path] = []

    def fails_once(point: SyncPoint) -> bool:
        if point.kind != kind or point.path in failed:
            return False
        failed.append(point.path)
        return True

    power.fails = fails_once
    is_flushed = False
    while not is_flushed:
        power.fails = fails_once
        with suppress(StoreNotWritable):
            run.flush_queues()
            is_flushed = True
        power.fails = None
        run.flush_checkpoint()
        cut_and_check(run, tmp_path)
    assert len(failed) > 3
    # The last page of a file is no proof of those before it.
    cut_and_check(run, tmp_path, *range(2, 14))


def test_the_log_takes_nothing_for_flushed_after_a_failed_sync(tmp_path: Path, power: ForgetfulDisk) -> None:
    run = Run(power.root, power, seed=1)
    run.append(100)
    power.fails = lambda point: True
    with pytest.raises(StoreNotWritable):
        run.flush_log()
    power.fails = None
    with pytest.raises(StoreNotWritable):
        run.flush_log()
    assert run.store.flushed_offset == 0


def test_a_saved_document_is_there_and_the_one_before_until_then(tmp_path: Path, power: ForgetfulDisk) -> None:
    run = Run(power.root, power, seed=1)
    cuts = PowerCuts(run, tmp_path, (SURE_ONLY, 2, 3))
    power.on_sync = cuts
    for _ in range(4):
        run.save_document()
        cuts.cut("saved")
    for copy, promise in cuts.copies:
        check(copy, promise, **SETTINGS)


def test_no_stop_is_a_clean_one_before_its_end(tmp_path: Path, power: ForgetfulDisk) -> None:
    run = Run(power.root, power, seed=1)
    for number in range(30):
        run.append(700, "TopicA", number % 2, 0)
    cuts = PowerCuts(run, tmp_path, (SURE_ONLY, EVERYTHING))
    power.on_sync = cuts
    run.close()
    cuts.cut("end")
    for copy, promise in cuts.copies:
        check(copy, promise, **SETTINGS).close()


def test_a_stop_that_could_not_dispatch_all_is_no_clean_one(tmp_path: Path, power: ForgetfulDisk) -> None:
    """The unit of a record is there, and there was no room for its keys: the next start makes up for them."""
    run = Run(power.root, power, seed=1, mapped_file_size_consume_queue=20_000)
    for _ in range(ENTRIES_PER_FILE // KEYS_PER_RECORD):
        run.append(20, "TopicA", 0, 0)
    run.dispatch()
    run.append(20, "TopicA", 0, 0)
    power.is_full = True
    run.dispatch()
    run.close()
    power.is_full = False
    assert run.store.dispatch_behind_bytes() > 0
    cut_and_check(run, tmp_path, EVERYTHING)


# --- all of them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(RUNS))
def test_promises_hold_whenever_the_power_is_cut(tmp_path: Path, power: ForgetfulDisk, seed: int) -> None:
    """Twice: what was found after the first cut is there after another."""
    run = Run(power.root, power, seed)
    cuts = PowerCuts(run, tmp_path, (SURE_ONLY, EVERYTHING, 2 + seed), cut_chance=0.04, append_chance=0.3)
    power.on_sync = cuts
    for _ in range(DEEDS):
        run.anything()
    cuts.cut("end")
    power.on_sync = None
    for copy, promise in cuts.copies:
        check_twice(copy, promise, seed)


def check_twice(copy: Path, promise: Promise, seed: int) -> None:
    with ForgetfulDisk(copy) as power:
        store = check(copy, promise, **SETTINGS)
        found = replace(promise, records={record.start: record for record in kept_records(store, promise)},
                        durable_end=store.commit_log_max_offset())
        check(power.crash(2 + seed, copy.with_name(f"{copy.name}-again")), found, **SETTINGS)
        store.close()
        check(power.crash(SURE_ONLY, copy.with_name(f"{copy.name}-closed")), found, **SETTINGS).close()


def a_day(run: Run) -> None:
    """Rolls, batches, delayed and transactional messages, several queues, documents, partial flushes, a clean stop."""
    run.save_document()
    for number in range(8):
        run.append(2500)
        run.append_batch()
        run.append(80, sys_flag=(PREPARED, COMMITTED, ROLLED_BACK)[number % 3])
        if number % 2:
            run.dispatch()
        if number % 3 == 0:
            run.flush_log()
        if number % 4 == 0:
            run.allocate_ahead()
            run.flush_queues(2)
        if number % 4 == 1:
            run.flush_queues(0)
            run.flush_checkpoint()
            run.save_document()
    run.flush_log()


def test_the_power_is_cut_in_the_midst_of_each_sync(tmp_path: Path, power: ForgetfulDisk) -> None:
    run = Run(power.root, power, seed=7)
    cuts = PowerCuts(run, tmp_path, (SURE_ONLY,))
    power.on_sync = cuts
    a_day(run)
    run.close()
    cuts.cut("end")
    assert {"file", "range", "directory"} <= {copy.name.split("-")[2] for copy, _ in cuts.copies[:-1]}
    for copy, promise in cuts.copies:
        check(copy, promise, **SETTINGS).close()


# --- the broker ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
async def test_answered_sends_are_there_with_sync_flush(tmp_path: Path, power: ForgetfulDisk, seed: int) -> None:
    """Real broker, real client on the loopback; the power is cut in the midst of syncs, and messages come then."""
    store_config = MessageStoreConfig(
        store_path_root_dir=str(power.root), mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=2000,
        max_hash_slot_num=50, max_index_num=200, message_index_safe=True, flush_interval_consume_queue=20,
        flush_consume_queue_thorough_interval=60)
    server = Regulus(BrokerConfig(listen_port=0, flush_disk_type=FlushDiskType.SYNC_FLUSH), store_config,
                     NamesrvConfig(listen_port=0, bind_address="127.0.0.1"),
                     transport_config=TransportConfig(bind_address="127.0.0.1"))
    answered: list[tuple[int, int, bytes, str]] = []
    cuts: list[tuple[Path, tuple[tuple[int, int, bytes, str], ...]]] = []
    meanwhile: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    store = server.broker_server.store

    def cut(point: SyncPoint) -> None:
        if point.kind == "range" and len(meanwhile) < MEANWHILE_MAX:
            asyncio.run_coroutine_threadsafe(one_more(), loop).result()
        if len(cuts) < CUTS_MAX and point.number % 3 == seed:
            promised = tuple(answered)
            copy = power.crash((SURE_ONLY, point.number)[point.number % 2], tmp_path / f"{point.number}")
            cuts.append((copy, promised))

    async def one_more() -> None:
        """A send is appended while the sync is under way."""
        end = store.commit_log_max_offset()
        sending = asyncio.create_task(send(1000 + len(meanwhile)))
        meanwhile.append(sending)
        while store.commit_log_max_offset() == end and not sending.done():
            await asyncio.sleep(0)

    async def send(number: int) -> None:
        body = f"{number}".encode().ljust(number * 131 % 3000, b".")
        result = await producer.send(Message("Orders", body))
        answered.append((result.message_queue.queue_id, result.queue_offset, body, result.message_id))

    await server.start()
    try:
        address = f"127.0.0.1:{server.name_server.port}"
        async with Producer(address, "PG") as producer:
            await producer.send(Message("Orders", b"first"))
            power.on_sync = cut
            for first in range(0, 120, 12):
                await asyncio.gather(*(send(number) for number in range(first, first + 12)))
            await asyncio.gather(*meanwhile)
            power.on_sync = None
            cuts.append((power.crash(SURE_ONLY, tmp_path / "last"), tuple(answered)))
    finally:
        power.on_sync = None
        await server.stop()
    assert len(meanwhile) == MEANWHILE_MAX
    assert len({len(promised) for _, promised in cuts}) > 3
    for copy, promised in cuts:
        check_answered(copy, store_config, promised)


def check_answered(copy: Path, config: MessageStoreConfig, answered: tuple[tuple[int, int, bytes, str], ...]) -> None:
    store = FileMessageStore(replace(config, store_path_root_dir=str(copy)))
    with rebooted():
        store.open()
    assert "Orders" in (store.load_config("topics") or "")
    for queue_id, queue_offset, body, key in answered:
        result = store.get_message("Orders", queue_id, queue_offset, 1, 1 << 20, Filter())
        found = [message.body for buffer in result.buffers for message in message_record.decode_all(buffer)]
        assert found == [body]
        assert body in [message_record.decode(data).body
                        for data in store.query_message("Orders", key, 32, 0, 1 << 62).buffers]
    store.close()
