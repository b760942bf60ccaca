"""What a peer names becomes a place only where it is what it claims: docs/places.md, row by row.

Each test sends what an attacker would, to a broker on a real store that stands in a folder with a neighbour.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.stores import HOST, NOW, a_message, bodies, dispatch, small_config

from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.outcome import Outcome, Reply
from regulus.broker.state import BrokerState
from regulus.errors import StoreError
from regulus.model.message import MessageExt
from regulus.model.message_id import offset_message_id
from regulus.model.peer import Peer
from regulus.model.store_result import Appended, PutStatus
from regulus.model.topics import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC, is_storable
from regulus.nameserver import handlers as name_server
from regulus.nameserver.config import NamesrvConfig
from regulus.nameserver.state import NameServerState
from regulus.record import message_record
from regulus.store.file_message_store import FileMessageStore
from regulus.wire.bodies import ConsumerData, HeartbeatData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.frame_reader import FrameReader
from regulus.wire.headers import EndTransactionRequest, SendMessageRequest
from regulus.wire.remoting_command import RemotingCommand

HOSTILE = ("../../../victim", "..", ".", "", " ", "/etc", "a/b", "a\0b", "a.b", "T\u00e9", "x" * 300, "%RETRY%../../x")
BODY_POSITION = 88
"""Of a record with IPv4 hosts."""
PEER = Peer(1, HOST, HOST, "127.0.0.1:40000", "127.0.0.1")


class Attacked:
    """A broker with the topic T, whose store has a neighbour that nobody may touch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.victim = folder / "victim"
        self.victim.mkdir()
        (self.victim / "14").mkdir()
        (self.victim / "14" / "file").write_bytes(b"precious")
        self.store = FileMessageStore(small_config(folder / "a" / "store", mapped_file_size_commit_log=1 << 20))
        self.store.open()
        self.broker = BrokerState(BrokerConfig(broker_ip1="127.0.0.1"), self.store, now_ms=NOW)
        self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic="T", defaultTopic="TBW102", readQueueNums=4,
                 writeQueueNums=4, perm=6, topicFilterType="SINGLE_TAG")
        self.ask(RequestCode.HEART_BEAT, HeartbeatData(client_id="c", producer_data_set=[], consumer_data_set=[
            ConsumerData(group_name="G", subscription_data_set=[])]).encode())

    def handle(self, code: RequestCode, body: bytes = b"", **fields: object) -> Outcome:
        ext = {name: str(value) for name, value in fields.items()}
        outcome = request_table.handle(RemotingCommand.request(int(code), ext, body), PEER, self.broker, NOW)
        dispatch(self.store)
        return outcome

    def ask(self, code: RequestCode, body: bytes = b"", **fields: object) -> int:
        """The code of the answer."""
        outcome = self.handle(code, body, **fields)
        assert isinstance(outcome, Reply)
        reader = FrameReader()
        reader.feed(b"".join(outcome.encode_parts()))
        return reader.frames()[0].code

    def send(self, topic: str, body: bytes = b"x", queue_id: int = 0, sys_flag: int = 0, **properties: str) -> int:
        header = SendMessageRequest(producer_group="PG", topic=topic, default_topic="TBW102",
                                    default_topic_queue_nums=4, queue_id=queue_id, sys_flag=sys_flag,
                                    born_timestamp=NOW, properties=properties)
        return self.ask(RequestCode.SEND_MESSAGE, body, **header.ext())

    def plant(self, topic: str, **properties: str) -> MessageExt:
        """Send a body that holds a record, where it says that it is."""
        forged = MessageExt(topic, b"forged", properties, 0, 0, 0, NOW, HOST, HOST)
        forged.physical_offset = self.store.commit_log_max_offset() + BODY_POSITION
        forged.store_timestamp = NOW
        carrier = a_message("T", message_record.encode(forged))
        assert self.store.append(carrier, NOW).status is PutStatus.PUT_OK
        dispatch(self.store)
        self.store.flush_commit_log()
        read = self.store.read_log(carrier.physical_offset, 1 << 20, self.store.flushed_offset)
        assert read is not None
        found = message_record.decode(read.data, BODY_POSITION)
        assert (found.topic, found.physical_offset) == (topic, carrier.physical_offset + BODY_POSITION)
        return forged

    def end_transaction(self, half: MessageExt) -> int:
        return self.ask(RequestCode.END_TRANSACTION, **EndTransactionRequest(
            producer_group=half.properties["PGROUP"], tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.physical_offset, commit_or_rollback=8, msg_id="").ext())

    def outside(self) -> dict[str, bytes]:
        """All files beside the store."""
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*")
                if path.is_file() and "store" not in path.parts}


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[Attacked]:
    made = Attacked(tmp_path)
    before = made.outside()
    assert before == {"victim/14/file": b"precious"}
    yield made
    made.store.close()
    assert made.outside() == before


@pytest.mark.parametrize("real_topic", ["../../../victim", "T", TRANS_OP_HALF_TOPIC, "TBW102"])
def test_a_half_in_a_body_is_none(attacked: Attacked, real_topic: str) -> None:
    half = attacked.plant(TRANS_HALF_TOPIC, PGROUP="PG", REAL_TOPIC=real_topic, REAL_QID="14")
    end = attacked.store.commit_log_max_offset()
    assert attacked.end_transaction(half) == ResponseCode.SYSTEM_ERROR
    assert attacked.store.commit_log_max_offset() == end


def test_a_half_in_a_body_that_names_a_real_one_is_none(attacked: Attacked) -> None:
    assert attacked.send("T", b"real", sys_flag=4, TRAN_MSG="true", PGROUP="PG", UNIQ_KEY="U") == ResponseCode.SUCCESS
    assert attacked.store.max_offset(TRANS_HALF_TOPIC, 0) == 1
    half = attacked.plant(TRANS_HALF_TOPIC, PGROUP="PG", REAL_TOPIC="T", REAL_QID="0", UNIQ_KEY="U")
    assert half.queue_offset == 0
    assert attacked.end_transaction(half) == ResponseCode.SYSTEM_ERROR
    assert bodies(attacked.store, "T")[1:] == []        # the carrier alone


def test_a_half_is_found_before_it_is_dispatched(attacked: Attacked) -> None:
    for number in range(3):
        half = a_message(TRANS_HALF_TOPIC, b"half %d" % number, PGROUP="PG", REAL_TOPIC="T", REAL_QID="2")
        assert attacked.store.append(half, NOW).status is PutStatus.PUT_OK
    assert attacked.store.max_offset(TRANS_HALF_TOPIC, 0) == 0
    assert attacked.end_transaction(half) == ResponseCode.SUCCESS
    assert bodies(attacked.store, "T", 2) == [b"half 2"]


def test_a_half_in_a_body_is_none_before_it_is_dispatched(attacked: Attacked) -> None:
    forged = MessageExt(TRANS_HALF_TOPIC, b"forged", {"PGROUP": "PG", "REAL_TOPIC": "T", "REAL_QID": "2"}, 0, 0, 0,
                        NOW, HOST, HOST)
    forged.physical_offset = attacked.store.commit_log_max_offset() + BODY_POSITION
    attacked.store.append(a_message("T", message_record.encode(forged)), NOW)
    assert attacked.store.dispatch_behind_bytes() > 0
    assert attacked.end_transaction(forged) == ResponseCode.SYSTEM_ERROR
    assert bodies(attacked.store, "T", 2) == []


def test_a_record_in_a_body_is_never_looked_up(attacked: Attacked) -> None:
    forged = attacked.plant("T", KEYS="k")
    message_id = offset_message_id(HOST, forged.physical_offset)
    end = attacked.store.commit_log_max_offset()
    assert attacked.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=forged.physical_offset) == ResponseCode.SYSTEM_ERROR
    assert attacked.ask(RequestCode.CONSUMER_SEND_MSG_BACK, offset=forged.physical_offset, group="G",
                        delayLevel=0) == ResponseCode.SYSTEM_ERROR
    assert attacked.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, consumerGroup="G", clientId="c",
                        msgId=message_id) == ResponseCode.SYSTEM_ERROR
    given_up = attacked.plant(TRANS_CHECK_MAX_TIME_TOPIC, PGROUP="PG", REAL_TOPIC="T", REAL_QID="0")
    end = attacked.store.commit_log_max_offset()
    assert attacked.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, msgId=offset_message_id(
        HOST, given_up.physical_offset)) == ResponseCode.SYSTEM_ERROR
    assert attacked.store.commit_log_max_offset() == end


def test_a_record_of_a_deleted_topic_is_shown_and_not_acted_on(attacked: Attacked) -> None:
    message = a_message("T")
    attacked.store.append(message, NOW)
    dispatch(attacked.store)
    assert attacked.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T") == ResponseCode.SUCCESS
    assert attacked.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=message.physical_offset) == ResponseCode.SUCCESS
    assert attacked.ask(RequestCode.CONSUMER_SEND_MSG_BACK, offset=message.physical_offset, group="G",
                        delayLevel=0) == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("offset", [-1, -2**63, 1, 7, 2**31, 2**62, 2**63 - 1])
def test_offsets_that_are_none(attacked: Attacked, offset: int) -> None:
    assert attacked.send("T") == ResponseCode.SUCCESS
    end = attacked.store.commit_log_max_offset()
    assert attacked.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=offset) == ResponseCode.SYSTEM_ERROR
    assert attacked.ask(RequestCode.CONSUMER_SEND_MSG_BACK, offset=offset, group="G",
                        delayLevel=0) == ResponseCode.SYSTEM_ERROR
    assert attacked.ask(RequestCode.END_TRANSACTION, **EndTransactionRequest(
        producer_group="PG", tran_state_table_offset=offset, commit_log_offset=offset,
        commit_or_rollback=8, msg_id="").ext()) == ResponseCode.SYSTEM_ERROR
    assert attacked.ask(RequestCode.READ_COMMIT_LOG, physicalOffset=offset, sizeMax=100) in (
        ResponseCode.PULL_OFFSET_MOVED, ResponseCode.INVALID_PARAMETER)
    assert attacked.ask(RequestCode.BULK_PULL, topic="T", queueId=0, queueOffset=offset, queueOffsetEnd=2**62,
                        sizeMax=100) in (ResponseCode.SUCCESS, ResponseCode.INVALID_PARAMETER)
    assert attacked.ask(RequestCode.PULL_MESSAGE, consumerGroup="G", topic="T", queueId=0, queueOffset=offset,
                        maxMsgNums=1, sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subscription="*",
                        subVersion=0) in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED)
    assert attacked.store.commit_log_max_offset() == end


@pytest.mark.parametrize("topic", HOSTILE)
def test_topics_that_are_none(attacked: Attacked, topic: str) -> None:
    assert attacked.send(topic) == ResponseCode.INVALID_PARAMETER
    assert attacked.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic=topic, defaultTopic="TBW102", readQueueNums=1,
                        writeQueueNums=1, perm=6, topicFilterType="SINGLE_TAG") == ResponseCode.INVALID_PARAMETER
    assert attacked.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic=topic) == ResponseCode.INVALID_PARAMETER
    assert attacked.ask(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="G", topic=topic, queueId=0,
                        commitOffset=0) == ResponseCode.TOPIC_NOT_EXIST
    assert topic not in attacked.broker.topics


@pytest.mark.parametrize("group", HOSTILE)
def test_groups_that_are_none(attacked: Attacked, group: str) -> None:
    before = attacked.broker.topics.names()
    attacked.ask(RequestCode.HEART_BEAT, HeartbeatData(client_id="d", producer_data_set=[], consumer_data_set=[
        ConsumerData(group_name=group, subscription_data_set=[])]).encode())
    assert attacked.ask(RequestCode.CONSUMER_SEND_MSG_BACK, offset=0, group=group,
                        delayLevel=0) == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert attacked.ask(RequestCode.CLONE_GROUP_OFFSET, srcGroup="G", destGroup=group, topic="T",
                        offline=True) == ResponseCode.INVALID_PARAMETER
    assert attacked.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, group=group, topic="T",
                        readable=False) == ResponseCode.INVALID_PARAMETER
    assert attacked.ask(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=group, topic="T", queueId=0,
                        commitOffset=0) == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert attacked.broker.topics.names() == before
    assert group not in attacked.broker.subscription_groups


@pytest.mark.parametrize("queue_id", [-2, 4, 65_536, 2**31 - 1])
def test_queue_ids_that_are_none(attacked: Attacked, queue_id: int) -> None:
    if queue_id != 4:       # a consumer may have consumed a queue that the topic no longer has
        assert attacked.ask(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="G", topic="T", queueId=queue_id,
                            commitOffset=0) == ResponseCode.INVALID_PARAMETER
    if queue_id > 0:        # any number below 0 asks the broker to choose
        assert attacked.send("T", queue_id=queue_id) == ResponseCode.INVALID_PARAMETER
    assert attacked.ask(RequestCode.PULL_MESSAGE, consumerGroup="G", topic="T", queueId=queue_id, queueOffset=0,
                        maxMsgNums=1, sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subscription="*",
                        subVersion=0) != ResponseCode.SUCCESS
    assert attacked.store.queues() == []


@pytest.mark.parametrize("topic", HOSTILE)
def test_the_store_refuses_topics_that_are_none(attacked: Attacked, topic: str) -> None:
    end = attacked.store.commit_log_max_offset()
    attempts: tuple[Callable[[], Appended], ...] = (
        lambda: attacked.store.append(a_message(topic), NOW),
        lambda: attacked.store.append_batch([a_message(topic), a_message(topic)], NOW),
        lambda: attacked.store.append(a_message("T", queue_id=-1), NOW),
    )
    for attempt in attempts:
        appended = attempt()
        assert appended.status is PutStatus.MESSAGE_ILLEGAL
        assert "topic" in appended.remark
    attacked.store.delete_topic(topic)
    assert attacked.store.commit_log_max_offset() == end
    assert attacked.store.queues() == []
    assert attacked.store.append(a_message("T"), NOW).status is PutStatus.PUT_OK


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_copied_log_with_a_topic_that_is_none(attacked: Attacked, is_clean: bool) -> None:
    hostile = b"../../../victim"
    placeholder = "V" * len(hostile)
    for topic in ("T", placeholder, "T", placeholder):
        attacked.store.append(a_message(topic, topic.encode()[:1]), NOW)
    dispatch(attacked.store)
    root = attacked.store.config.root
    attacked.store.close()
    for file in (root / "commitlog").iterdir():
        file.write_bytes(file.read_bytes().replace(placeholder.encode(), hostile))
    for name in ("consumequeue", "index"):
        for path in sorted((root / name).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    for name in ("regulusSynced", "regulusQueues"):     # they do not come along with a log
        (root / name).unlink()
    if not is_clean:
        (root / "abort").touch()
    attacked.store = FileMessageStore(attacked.store.config)
    report = attacked.store.open()
    assert (report.records, report.unplaced_records) == (4, 2)
    assert "../../../victim" in str(report)
    assert bodies(attacked.store, "T") == [b"T", b"T"]
    assert attacked.store.queues() == [("T", 0)]
    attacked.broker.store = attacked.store
    assert attacked.ask(RequestCode.CLEAN_UNUSED_TOPIC) == ResponseCode.SUCCESS


def test_a_folder_that_is_no_topic_is_passed_by(attacked: Attacked) -> None:
    root = attacked.store.config.root
    attacked.store.append(a_message("T"), NOW)
    dispatch(attacked.store)
    attacked.store.close()
    for name in ("lost+found/0", "T/00", "T/\u00b2", "T/-1", "T/99999999999", "T.bak/0"):
        (root / "consumequeue" / name).mkdir(parents=True)
    attacked.broker.store = attacked.store = FileMessageStore(attacked.store.config)
    attacked.store.open()
    assert attacked.store.queues() == [("T", 0)]
    attacked.ask(RequestCode.CLEAN_UNUSED_TOPIC)
    assert (root / "consumequeue" / "lost+found" / "0").is_dir()


@pytest.mark.parametrize(("topic", "queue_id"), [("../../../victim", "0"), ("T", "-1"), ("T", "99999999999"),
                                                 ("T", "\u00b2"), (TRANS_OP_HALF_TOPIC, "0"), ("", "0")])
def test_a_waiting_message_without_a_home_holds_up_no_other(attacked: Attacked, topic: str, queue_id: str) -> None:
    for number, (real, real_id) in enumerate(((topic, queue_id), ("T", "1"))):
        waiting = a_message("SCHEDULE_TOPIC_XXXX", b"%d" % number, REAL_TOPIC=real, REAL_QID=real_id, DELAY="1")
        assert attacked.store.append(waiting, NOW - 10_000).status is PutStatus.PUT_OK
    dispatch(attacked.store)
    attacked.broker.tick(NOW)
    dispatch(attacked.store)
    assert bodies(attacked.store, "T", 1) == [b"1"]
    assert attacked.broker.delay_schedule.offset_table == {1: 2}
    assert set(attacked.store.queues()) == {("SCHEDULE_TOPIC_XXXX", 0), ("T", 1)}


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC])
def test_what_waits_is_not_sent_back(attacked: Attacked, topic: str) -> None:
    """A group would else see a message before its time, or before its producer said so."""
    waiting = a_message(topic, PGROUP="PG", REAL_TOPIC="T", REAL_QID="0")
    attacked.store.append(waiting, NOW)
    dispatch(attacked.store)
    assert attacked.ask(RequestCode.CONSUMER_SEND_MSG_BACK, offset=waiting.physical_offset, group="G",
                        delayLevel=0) == ResponseCode.NO_PERMISSION


def test_a_document_with_topics_that_are_none(attacked: Attacked) -> None:
    text = attacked.broker.documents()["topics"].replace('"T"', '"../../../victim"')
    assert "../../../victim" in text
    attacked.broker.load_documents({"topics": text})
    assert attacked.send("../../../victim") != ResponseCode.SUCCESS
    attacked.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="../../../victim")
    attacked.ask(RequestCode.CLEAN_UNUSED_TOPIC)


def test_paths_are_no_settings_of_a_running_server(attacked: Attacked) -> None:
    for key in ("storePathRootDir", "storePathCommitLog", "brokerConfigPath"):
        assert attacked.ask(RequestCode.UPDATE_BROKER_CONFIG, f"{key}={attacked.victim}".encode()) in (
            ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR)
    state = NameServerState(NamesrvConfig(), NOW)
    for key in ("kvConfigPath", "configStorePath", "rocketmqHome"):
        request = RemotingCommand.request(RequestCode.UPDATE_NAMESRV_CONFIG, {}, f"{key}={attacked.victim}".encode())
        answer = name_server.handle(request, PEER, state, NOW)
        assert answer is not None
        assert answer.code in (ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR)


@pytest.mark.parametrize("name", ["../topics", "", ".hidden", "a/b"])
def test_documents_that_are_none(attacked: Attacked, name: str) -> None:
    with pytest.raises(StoreError):
        attacked.store.save_config(name, [b"{}"])
    with pytest.raises(StoreError):
        attacked.store.load_config(name)


@pytest.mark.parametrize(("topic", "queue_id", "expected"), [
    ("T", 0, True), ("%RETRY%G", 65_535, True), ("a|b_c-D9", 2**31 - 1, True), ("T", -1, False), ("T", 2**31, False),
    ("x" * 255, 0, True), ("x" * 256, 0, False), *((topic, 0, False) for topic in HOSTILE)])
def test_what_may_be_stored(topic: str, queue_id: int, expected: bool) -> None:
    assert is_storable(topic, queue_id) is expected


def test_each_row_of_the_page_has_its_test() -> None:
    page = (Path(__file__).parents[2] / "docs" / "places.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    assert named == {name for name in globals() if name.startswith("test_")} - {
        "test_each_row_of_the_page_has_its_test", "test_what_may_be_stored"}
