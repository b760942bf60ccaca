"""The deletion service on a real store; time and the disk's ratio are given, files get their age by utime."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.state import BrokerState
from regulus.client.config import ProducerConfig
from regulus.client.sync import Admin, Producer
from regulus.errors import StoreNotWritable
from regulus.model.message import Message, MessageExt
from regulus.model.message_filter import EVERYTHING
from regulus.model.message_queue import MessageQueue
from regulus.model.retention_rules import ArchiveGate, ArchiveGatePolicy
from regulus.model.store_result import PutStatus
from regulus.model.topics import TopicConfig
from regulus.record.message_record import decode_all
from regulus.server.retention_loop import ORDERED_PASSES, RetentionLoop
from regulus.server.workers import Line, ThreadWorkers
from regulus.store import disk
from regulus.store.file_message_store import FileMessageStore
from regulus.testing.running_server import HOST, ServerThread, small_store
from regulus.wire.codes import RequestCode
from regulus.wire.frame_reader import FrameReader
from regulus.wire.remoting_command import RemotingCommand
from tests.stores import a_message, bodies, fill, small_config

NOON = int(datetime(2026, 11, 21, 12).timestamp() * 1000)
FOUR = int(datetime(2026, 11, 21, 4).timestamp() * 1000)
HOUR = 3_600_000
FILE = 4096
HOURS_MS = 7_200_000
QUICK = {"delete_commit_log_files_interval": 0, "delete_consume_queue_files_interval": 0}


class Rig:
    """100 files of log, each an hour younger than the one before; `ratio` is what the disk says."""

    def __init__(self, root: Path) -> None:
        self.ratio = 0.5
        self.store = FileMessageStore(small_config(root))
        self.store.open()
        number = 0
        while len(self.files()) < 100:
            fill(self.store, 10, first=number, queues=3)
            number += 10
        self.store.flush_commit_log()
        self.count = number
        self.now_ms = NOON
        for hour, name in enumerate(self.files()):
            self.age(name, 120 - hour)
        self.broker = BrokerState(BrokerConfig(), self.store)
        self.set(**QUICK)
        self.loop = RetentionLoop(self.store, self.broker, lambda: self.now_ms,
                                  ThreadWorkers().line(Line.RETENTION))

    def age(self, name: str, hours: float) -> None:
        seconds = (self.now_ms - hours * HOUR) / 1000
        os.utime(self.store.config.commit_log_directory / name, (seconds, seconds))

    def set(self, **settings: Any) -> None:
        self.broker.set_config(replace(self.broker.config, **settings))

    def files(self) -> list[str]:
        return disk.names(self.store.config.commit_log_directory)

    def kept(self) -> list[int]:
        return sorted(int(body[:8]) for queue_id in range(3) for body in bodies(self.store, queue_id=queue_id))

    async def passes(self, count: int = 1, now_ms: int | None = None) -> int:
        """How many files of the log went; queues and index follow."""
        before = len(self.files())
        for _ in range(count):
            self.broker.steady_ms = self.now_ms if now_ms is None else now_ms
            await self.loop.run_pass(self.broker.steady_ms)
        await self.loop.follow()
        if self.store.old_files.hanging is None:
            assert int(self.files()[0]) == self.store.commit_log_min_offset()
        return before - len(self.files())


def one_more() -> MessageExt:
    return a_message(body=b"one more")


@pytest.fixture
def ratio(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What both disks say, in place of the real one."""
    said = {"used": 0.5}
    monkeypatch.setattr(disk, "used_ratio", lambda path: said["used"])
    return said


@pytest.fixture
async def rig(tmp_path: Path, ratio: dict[str, float]) -> AsyncIterator[Rig]:
    made = Rig(tmp_path)
    yield made
    await made.loop.stop()
    made.store.close()


async def test_expired_files_go_at_their_hour_ten_a_pass(rig: Rig) -> None:
    assert await rig.passes() == 0
    four = FOUR + 24 * HOUR
    rig.now_ms = four
    for hour, name in enumerate(rig.files()):
        rig.age(name, 120 - hour)
    assert await rig.passes() == 10
    assert await rig.passes(3) == 30
    # The file that is 72 h old just now is the 49th.
    assert await rig.passes(3) == 9
    assert rig.store.commit_log_min_offset() == 49 * FILE
    kept = rig.kept()
    assert kept == list(range(kept[0], rig.count))
    assert rig.broker.retention_report["deletedCommitLogFiles"] == "49"


async def test_queues_and_index_follow(rig: Rig) -> None:
    rig.set(delete_file_batch_max=100, delete_when="12")
    directory = rig.store.config.consume_queue_directory / "TopicA"
    queue_files = [len(disk.names(directory / str(queue_id))) for queue_id in range(3)]
    index_files = len(disk.names(rig.store.config.index_directory))
    assert await rig.passes() == 49
    for queue_id in range(3):
        assert len(disk.names(directory / str(queue_id))) < 0.6 * queue_files[queue_id]
        assert rig.store.min_offset("TopicA", queue_id) > 0
    assert len(disk.names(rig.store.config.index_directory)) < 0.6 * index_files


async def test_a_file_that_was_a_symbolic_link_stays_and_is_named(rig: Rig, tmp_path: Path,
                                                                  caplog: pytest.LogCaptureFixture) -> None:
    rig.set(delete_file_batch_max=100, delete_when="12")
    root, elsewhere = rig.store.config.root, tmp_path / "another disk"
    elsewhere.mkdir()
    links = {}
    for folder in ("commitlog", "consumequeue/TopicA/0", "index"):
        link = root / folder / disk.names(root / folder)[0]
        links[link] = elsewhere / folder.replace("/", "-")
        link.rename(links[link])
        link.symlink_to(links[link])
    rig.age(rig.files()[0], 200)
    assert await rig.passes() == 49
    told = [record.getMessage() for record in caplog.records if "symbolic link" in record.getMessage()]
    assert len(told) == 3
    for link, left in links.items():
        assert not link.is_symlink()
        assert left.exists()
        assert [text for text in told if text.startswith(f"{link} was") and f"{left} stays" in text]


async def test_an_operator_orders_twenty_passes(rig: Rig) -> None:
    rig.set(delete_file_batch_max=1)
    rig.broker.is_retention_wanted = True
    rig.loop.take_orders()
    assert not rig.broker.is_retention_wanted
    assert await rig.passes(ORDERED_PASSES + 5) == ORDERED_PASSES


async def test_watermarks(rig: Rig, ratio: dict[str, float], caplog: pytest.LogCaptureFixture) -> None:
    ratio["used"] = 0.76
    assert await rig.passes(10) == 49
    assert not rig.store.fault
    assert await rig.passes(1) == 0
    assert [record.message for record in caplog.records if "running full" in record.message] != []
    ratio["used"] = 0.86
    assert await rig.passes(1) == 10
    assert rig.store.append(one_more(), NOON).status is PutStatus.PUT_OK
    ratio["used"] = 0.91
    assert await rig.passes(1) == 10
    appended = rig.store.append(one_more(), NOON)
    assert appended.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "91 %" in appended.remark
    assert rig.broker.retention_report["diskFull"] == "true"
    assert not rig.store.is_writable
    ratio["used"] = 0.88
    await rig.passes(1)
    assert rig.store.fault
    ratio["used"] = 0.85
    await rig.passes(1)
    assert not rig.store.fault
    assert rig.store.is_writable
    assert rig.store.append(one_more(), NOON).status is PutStatus.PUT_OK


async def test_the_disk_is_looked_at_from_the_start_on_and_nothing_is_deleted_in_the_first_minute(
        rig: Rig, ratio: dict[str, float]) -> None:
    rig.set(clean_resource_interval=1)
    ratio["used"] = 0.95
    rig.loop.start()
    for used, is_full in (0.95, "true"), (0.02, "false"), (0.95, "true"):
        ratio["used"] = used
        async with asyncio.timeout(60):
            while rig.broker.retention_report["diskFull"] != is_full:
                await asyncio.sleep(0)
    assert len(rig.files()) == 100


async def test_reads_and_dispatch_go_on_while_the_disk_is_full(rig: Rig, ratio: dict[str, float]) -> None:
    for _ in range(3):
        assert rig.store.append(one_more(), NOON).status is PutStatus.PUT_OK
    ratio["used"] = 0.95
    await rig.loop.run_pass(NOON, deletes=False)
    assert rig.store.append(one_more(), NOON).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert len(rig.files()) == 100
    end = rig.store.max_offset("TopicA", 0)
    rig.store.dispatch(100)
    assert rig.store.max_offset("TopicA", 0) == end + 3
    assert rig.store.get_message("TopicA", 0, end, 10, 1 << 20, EVERYTHING).message_count == 3
    rig.store.flush_commit_log()
    rig.store.flush_consume_queues(0)


async def test_until_one_file_is_left(rig: Rig, ratio: dict[str, float]) -> None:
    ratio["used"] = 0.99
    rig.set(delete_file_batch_max=1000)
    assert await rig.passes(2) == 99
    kept = rig.kept()
    assert kept == list(range(kept[0], rig.count))
    assert rig.store.commit_log_min_offset() == 99 * FILE


async def test_what_is_read_stays_for_two_minutes(rig: Rig, ratio: dict[str, float],
                                                  caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    held = rig.store.record_bytes(0)
    assert held is not None
    content = bytes(held)
    ratio["used"] = 0.80
    assert await rig.passes(5, NOON) == 0
    first = rig.store.config.commit_log_directory / f"{0:020d}"
    assert first.exists()
    assert rig.store.commit_log_min_offset() == FILE
    assert rig.broker.retention_report["hangingCommitLogFile"] == str(first)
    assert len([record for record in caplog.records if "still being read" in record.message]) == 1
    assert await rig.passes(1, NOON + 119_999) == 0
    assert await rig.passes(1, NOON + 120_000) == 11
    assert not first.exists()
    assert held == content
    assert rig.broker.retention_report["hangingCommitLogFile"] == ""


async def test_a_hanging_file_is_tried_again_outside_of_passes(rig: Rig) -> None:
    """Where nothing else is due, after redeleteHangedFileInterval, whatever the clock on the wall is set to."""
    held = rig.store.record_bytes(0)
    assert held is not None
    rig.set(delete_file_batch_max=1, destroy_maped_file_interval_forcibly=600_000, redelete_hanged_file_interval=60_000)
    rig.broker.is_retention_wanted = True
    rig.loop.take_orders()
    rig.broker.steady_ms = 7
    await rig.loop.run_pass(NOON)
    rig.loop._ordered_passes = 0
    del held
    rig.broker.steady_ms += 59_999
    await rig.loop.run_pass(NOON + HOURS_MS)
    assert len(rig.files()) == 100
    rig.broker.steady_ms += 1
    await rig.loop.run_pass(NOON - HOURS_MS)
    assert len(rig.files()) == 99


async def test_the_gate_waits_for_the_archive(rig: Rig, ratio: dict[str, float],
                                              caplog: pytest.LogCaptureFixture) -> None:
    rig.set(archive_gate=ArchiveGate.on, archive_identity="mine", delete_file_batch_max=1000)
    ratio["used"] = 0.80
    assert await rig.passes() == 0
    assert rig.broker.archived_offset.advance(rig.store.flushed_offset, rig.store.flushed_offset, "another") == ""
    assert await rig.passes() == 0
    assert rig.broker.archived_offset.advance(7 * FILE + 5, rig.store.flushed_offset, "mine") == ""
    assert await rig.passes() == 7
    ratio["used"] = 0.95
    for _ in range(3):
        assert await rig.passes() == 0
    remark = rig.store.append(one_more(), NOON).remark
    assert "wait for the archive" in remark
    assert f"up to {7 * FILE + 5}" in remark
    assert "wait for the archive" in rig.broker.retention_report["archiveGateReport"]
    assert len([record for record in caplog.records if "run the archive" in record.message]) == 1
    assert rig.broker.archived_offset.advance(rig.store.flushed_offset, rig.store.flushed_offset, "mine") == ""
    assert await rig.passes() == 92
    assert rig.broker.retention_report["archiveGateReport"] == ""
    assert rig.broker.retention_report["archiveDroppedBytes"] == "0"


async def test_the_gate_opens_and_says_what_was_lost(rig: Rig, ratio: dict[str, float],
                                                     caplog: pytest.LogCaptureFixture) -> None:
    rig.set(archive_gate=ArchiveGate.on, archive_gate_policy=ArchiveGatePolicy.drop_and_report,
            archive_identity="mine", delete_file_batch_max=3)
    assert rig.broker.archived_offset.advance(FILE + 96, rig.store.flushed_offset, "mine") == ""
    ratio["used"] = 0.80
    assert await rig.passes() == 1
    ratio["used"] = 0.86
    assert await rig.passes() == 3
    told = [record.message for record in caplog.records if "without being archived" in record.message]
    assert [text.split(" go ")[0] for text in told] == [
        f"physical offsets {FILE + 96} to {2 * FILE}", f"physical offsets {2 * FILE} to {3 * FILE}",
        f"physical offsets {3 * FILE} to {4 * FILE}"]
    assert rig.broker.retention_report["archiveDroppedBytes"] == str(3 * FILE - 96)


async def test_empty_queues_without_a_topic_are_cleaned(rig: Rig, ratio: dict[str, float]) -> None:
    """One that its topic still has keeps its newest file, which alone knows where to go on counting."""
    rig.broker.topics.put(TopicConfig(topic_name="TopicA", read_queue_nums=2, write_queue_nums=1), NOON)
    fill(rig.store, 40, topic="Other", first=rig.count)
    rig.store.flush_commit_log()
    rig.set(delete_file_batch_max=1000)
    ratio["used"] = 0.99
    await rig.passes()
    assert rig.store.queues() == [("Other", 0), ("TopicA", 0), ("TopicA", 1), ("TopicA", 2)]
    rig.broker.is_queue_cleaning_wanted = True
    rig.loop.take_orders()
    await rig.loop.follow()
    assert rig.store.queues() == [("Other", 0), ("TopicA", 0), ("TopicA", 1)]
    assert rig.store.min_offset("TopicA", 0) == rig.store.max_offset("TopicA", 0) > 0


async def test_a_queue_that_is_out_of_use_keeps_no_other_from_being_cleaned(rig: Rig, ratio: dict[str, float]) -> None:
    rig.broker.topics.put(TopicConfig(topic_name="TopicA", read_queue_nums=2, write_queue_nums=1), NOON)
    fill(rig.store, 40, topic="Other", first=rig.count)
    rig.store.flush_commit_log()
    rig.set(delete_file_batch_max=1000)
    ratio["used"] = 0.99
    await rig.passes()
    queues = rig.store.deep_check._queues
    queues._forget("Other", 0)
    queues.set_faulty("Other", 0, "0 40", "does not agree with the log")
    rig.broker.is_queue_cleaning_wanted = True
    rig.loop.take_orders()
    await rig.loop.follow()
    assert rig.store.queues() == [("Other", 0), ("TopicA", 0), ("TopicA", 1)]


@pytest.mark.parametrize("deed", ["run_pass", "follow"])
async def test_a_fault_of_our_own_does_not_end_the_looking_after_files(
        rig: Rig, ratio: dict[str, float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
        deed: str) -> None:
    monkeypatch.setattr("regulus.server.retention_loop.FIRST_PASS_MS", 10)
    rig.set(clean_resource_interval=10)
    own, calls = getattr(rig.loop, deed), 0

    async def failing(*arguments: object, **named: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ZeroDivisionError
        await own(*arguments, **named)

    monkeypatch.setattr(rig.loop, deed, failing)
    rig.loop.start()
    async with asyncio.timeout(60):
        while calls < 2:
            await asyncio.sleep(0.001)
    assert "ZeroDivisionError" in caplog.text


async def test_a_directory_that_cannot_be_changed_is_told_once(rig: Rig, ratio: dict[str, float],
                                                               monkeypatch: pytest.MonkeyPatch,
                                                               caplog: pytest.LogCaptureFixture) -> None:
    def refuse(path: Path) -> None:
        raise StoreNotWritable(f"{path} cannot be written")

    ratio["used"] = 0.80
    with monkeypatch.context() as patch:
        patch.setattr(disk, "remove_file", refuse)
        for _ in range(3):
            await rig.loop.run_pass(NOON)
    assert len([record for record in caplog.records if "were not deleted" in record.message]) == 1
    await rig.loop.run_pass(NOON)
    assert rig.files()[0] != f"{0:020d}"


async def test_a_pass_that_breaks_off_does_not_count(rig: Rig, ratio: dict[str, float],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Or passes that all break off would look like ones that get somewhere."""
    with monkeypatch.context() as broken:
        broken.setattr(rig.store.old_files, "look", lambda count_max: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            await rig.loop.run_pass(NOON)
    assert rig.loop.passes == 0
    await rig.loop.run_pass(NOON)
    assert rig.loop.passes == 1


async def test_a_disk_that_does_not_answer_is_told_once(rig: Rig, ratio: dict[str, float],
                                                        caplog: pytest.LogCaptureFixture) -> None:
    ratio["used"] = -1.0
    assert await rig.passes(2) == 20
    assert len([record for record in caplog.records if "cannot be told" in record.message]) == 1
    assert not rig.store.fault


async def test_it_runs_by_itself_and_stops(rig: Rig, ratio: dict[str, float]) -> None:
    """The disk is looked at when it starts; an order does not wait for the first minute to be over."""
    ratio["used"] = 0.95
    rig.loop.start()
    while not rig.store.fault:
        await asyncio.sleep(0)
    assert len(rig.files()) == 100
    ratio["used"] = 0.5
    rig.broker.is_retention_wanted = True
    rig.loop.take_orders()
    while len(rig.files()) > 90 or not rig.store.min_offset("TopicA", 0):
        await asyncio.sleep(0.001)
    assert not rig.store.fault


def test_a_slow_reader_gets_what_it_asked_for(tmp_path: Path) -> None:
    """Its answers wait in the connection as slices of a file; the file goes only when they have left."""
    store_config = replace(small_store(tmp_path), mapped_file_size_commit_log=1 << 20)
    config = BrokerConfig(listen_port=0, file_reserved_time=0, delete_commit_log_files_interval=0)
    first = store_config.commit_log_directory / f"{0:020d}"
    sent = [b"%d" % number + bytes(100_000) for number in range(45)]
    with ServerThread(tmp_path, config, store_config) as server, Admin(server.name_server_address) as admin:
        plain = ProducerConfig(compress_msg_body_over_howmuch=1 << 30)
        with Producer(server.name_server_address, "PG", plain) as producer:
            queue = MessageQueue("T", "broker-a", 0)
            for body in sent:
                producer.send(Message("T", body), queue=queue)
        while admin.log_state(server.address).flushed_physical_offset < 4 << 20:
            time.sleep(0.01)
        with socket.create_connection((HOST, server.port)) as slow:
            for opaque in range(200):
                slow.sendall(a_pull(opaque).encode())
            while not (hanging := admin.broker_runtime_info(server.address)["hangingCommitLogFile"]):
                admin.delete_expired_commit_log(server.address)
            assert hanging == str(first)
            assert admin.log_state(server.address).min_physical_offset == 1 << 20
            assert first.exists()
            answers = read_answers(slow, 200)
        found = [[message.body for message in decode_all(answer.body)] for answer in answers if answer.body]
        assert len(found) > 20
        assert all(each == sent[:len(each)] for each in found)
        while first.exists():
            admin.delete_expired_commit_log(server.address)


def a_pull(opaque: int) -> RemotingCommand:
    return RemotingCommand.request(RequestCode.PULL_MESSAGE, {
        "consumerGroup": "readers", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
        "expressionType": "TAG"}, opaque=opaque)


def read_answers(connection: socket.socket, count: int) -> list[RemotingCommand]:
    frames = FrameReader()
    answers: list[RemotingCommand] = []
    while len(answers) < count:
        frames.feed(connection.recv(1 << 20))
        answers += frames.frames()
    return answers


@pytest.mark.parametrize("turns", range(8))
async def test_it_stops_at_whatever_moment_of_an_order(rig: Rig, turns: int) -> None:
    rig.loop.start()
    at_start = rig.broker.retention_report
    async with asyncio.timeout(60):
        while rig.broker.retention_report is at_start:
            await asyncio.sleep(0.001)
    rig.loop.take_orders()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await rig.loop.stop()
