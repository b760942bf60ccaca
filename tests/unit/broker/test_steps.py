"""No request stalls the others: each is walked beside 5,000 topics, groups and clients, and no step of it is long.

A step is a request decided, or a tick; while it runs nobody else is served. What it does is counted, in calls of Python
functions and of those of C, which are as many on a slow machine as on a fast one. What is compiled calls unseen; the
interpreted run is the stricter one.
"""

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import FrameType
from typing import TypeVar

import pytest

from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.outcome import Hold, Outcome, Reply
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.model.topics import TopicConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.testing.running_server import small_store
from regulus.wire.bodies import (
    ConsumerData,
    CreateTopicListRequestBody,
    HeartbeatData,
    LockBatchRequestBody,
    ProducerData,
    SubscriptionData,
)
from regulus.wire.codes import RequestCode as Code
from regulus.wire.headers import SendMessageRequest
from regulus.wire.remoting_command import RemotingCommand

T = TypeVar("T")
COUNT = 5_000
CALLS_MAX = 12 * COUNT
"""Of one step: some 10 ms. What looks each of them up in a table takes less; what reads or makes each, more."""
LISTED_CALLS_MAX = 6 * COUNT
"""Of one step of a request that makes each of them."""
NOW_MS, STEADY_MS = 1_700_000_000_000, 1_000
HOST = b"\x0a\0\0\x05\0\0\x9c\x40"

CODES = (
    "ACK_MESSAGE", "AUTH_CREATE_ACL", "AUTH_CREATE_USER", "AUTH_DELETE_ACL", "AUTH_DELETE_USER", "AUTH_GET_ACL",
    "AUTH_GET_USER", "AUTH_LIST_ACL", "AUTH_LIST_USER", "AUTH_UPDATE_ACL", "AUTH_UPDATE_USER", "BATCH_ACK_MESSAGE",
    "BULK_PULL", "CHANGE_MESSAGE_INVISIBLETIME", "CHECK_CLIENT_CONFIG", "CLEAN_EXPIRED_CONSUMEQUEUE",
    "CLEAN_UNUSED_TOPIC", "CLONE_GROUP_OFFSET", "CONSUMER_SEND_MSG_BACK", "CONSUME_MESSAGE_DIRECTLY",
    "DELETE_ACL_CONFIG", "DELETE_EXPIRED_COMMITLOG", "DELETE_SUBSCRIPTIONGROUP", "DELETE_TOPIC_IN_BROKER",
    "END_TRANSACTION", "GET_ALL_CONSUMER_OFFSET", "GET_ALL_DELAY_OFFSET", "GET_ALL_MESSAGE_REQUEST_MODE",
    "GET_ALL_PRODUCER_INFO", "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", "GET_ALL_TOPIC_CONFIG",
    "GET_BROKER_CLUSTER_ACL_INFO", "GET_BROKER_CONFIG", "GET_BROKER_CONSUME_STATS", "GET_BROKER_HA_STATUS",
    "GET_BROKER_RUNTIME_INFO", "GET_CONSUMER_CONNECTION_LIST", "GET_CONSUMER_LIST_BY_GROUP",
    "GET_CONSUMER_RUNNING_INFO", "GET_CONSUME_STATS", "GET_DOCUMENT", "GET_EARLIEST_MSG_STORETIME", "GET_LOG_STATE",
    "GET_MAX_OFFSET", "GET_MIN_OFFSET", "GET_PRODUCER_CONNECTION_LIST", "GET_SINK_MARKS",
    "GET_SUBSCRIPTIONGROUP_CONFIG", "GET_SYSTEM_TOPIC_LIST_FROM_BROKER", "GET_TIMER_CHECK_POINT",
    "GET_TIMER_METRICS", "GET_TOPIC_CONFIG", "GET_TOPIC_STATS_INFO", "HEART_BEAT",
    "INVOKE_BROKER_TO_GET_CONSUMER_STATUS", "INVOKE_BROKER_TO_RESET_OFFSET", "LITE_PULL_MESSAGE", "LOCK_BATCH_MQ",
    "NOTIFICATION", "PEEK_MESSAGE", "POLLING_INFO", "POP_MESSAGE", "PULL_MESSAGE", "QUERY_ASSIGNMENT",
    "QUERY_CONSUMER_OFFSET", "QUERY_CONSUME_QUEUE", "QUERY_CONSUME_TIME_SPAN", "QUERY_CORRECTION_OFFSET",
    "QUERY_MESSAGE", "QUERY_SUBSCRIPTION_BY_CONSUMER", "QUERY_TOPICS_BY_CONSUMER", "QUERY_TOPIC_CONSUME_BY_WHO",
    "READ_COMMIT_LOG", "RECALL_MESSAGE", "RELEASE_SINK_MARKS", "RESUME_CHECK_HALF_MESSAGE",
    "SEARCH_OFFSET_BY_TIMESTAMP", "SEND_BATCH_MESSAGE", "SEND_MESSAGE", "SEND_MESSAGE_V2", "SEND_REPLY_MESSAGE",
    "SEND_REPLY_MESSAGE_V2", "SET_MESSAGE_REQUEST_MODE", "UNLOCK_BATCH_MQ", "UNREGISTER_CLIENT",
    "UPDATE_AND_CREATE_ACL_CONFIG", "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP",
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", "UPDATE_AND_CREATE_TOPIC", "UPDATE_AND_CREATE_TOPIC_LIST",
    "UPDATE_AND_GET_GROUP_FORBIDDEN", "UPDATE_ARCHIVED_OFFSET", "UPDATE_BROKER_CONFIG", "UPDATE_CONSUMER_OFFSET",
    "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG", "VIEW_BROKER_STATS_DATA", "VIEW_MESSAGE_BY_ID")

FIELDS = {
    "topic": "T1", "consumerGroup": "G1", "group": "G1", "groupName": "G1", "producerGroup": "PG", "clientID": "c1",
    "clientId": "c1", "queueId": "0", "offset": "0", "timestamp": "0", "msgId": "", "key": "k", "maxNum": "32",
    "beginTimestamp": "0", "endTimestamp": str(2 * NOW_MS), "commitOffset": "1", "queueOffset": "0", "maxMsgNums": "32",
    "sysFlag": "4", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*", "invisibleTime": "10000",
    "pollTime": "0", "bornTime": str(NOW_MS), "initMode": "0", "extraInfo": f"0 {NOW_MS} 10000 0 0 broker-a 0 0",
    "srcGroup": "G1", "destGroup": "G2", "offline": "true", "statsName": "TOPIC_PUT_NUMS", "statsKey": "T1",
    "isOrder": "false", "isForce": "true", "readable": "true", "count": "32", "index": "0", "compareGroup": "G2",
    "name": "regulusSinkMarks", "physicalOffset": "0", "sizeMax": "4194304", "archivedPhysicalOffset": "1",
    "queueOffsetEnd": "10", "defaultTopic": "TBW102", "readQueueNums": "8", "writeQueueNums": "8", "perm": "6",
    "topicFilterType": "SINGLE_TAG", "commitLogOffset": "0", "tranStateTableOffset": "0", "commitOrRollback": "8",
    "delayLevel": "0", "originTopic": "T1", "recallHandle": "x", "accessKey": "ak", "username": "u",
    "subject": "User:u", "topicList": ";".join(f"T{number}" for number in range(COUNT)), "timeStamp": "0"}
SENDS = ("SEND_MESSAGE", "SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE", "SEND_REPLY_MESSAGE", "SEND_REPLY_MESSAGE_V2")


def _queues() -> str:
    return json.dumps({"consumerGroup": "G1", "clientId": "c1", "mqSet": [
        {"topic": f"T{number}", "brokerName": "broker-a", "queueId": 0} for number in range(COUNT)]})


def _many_subscriptions() -> HeartbeatData:
    return HeartbeatData(
        client_id="x", producer_data_set=[ProducerData(group_name=f"T{number}") for number in range(COUNT)],
        consumer_data_set=[ConsumerData(group_name="G1", subscription_data_set=[
            SubscriptionData.compile(f"T{number}", "a || b", 1) for number in range(COUNT)])])


BODIES = {
    "HEART_BEAT": lambda: _many_subscriptions().encode(),
    "UPDATE_AND_CREATE_TOPIC_LIST": lambda: json.dumps({"topicConfigList": [
        {"topicName": f"N{number}", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
        for number in range(COUNT)]}).encode(),
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP": lambda: b'{"groupName":"NEW"}',
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST": lambda: json.dumps({"groupConfigList": [
        {"groupName": f"N{number}"} for number in range(COUNT)]}).encode(),
    "LOCK_BATCH_MQ": lambda: _queues().encode(), "UNLOCK_BATCH_MQ": lambda: _queues().encode(),
    "CHECK_CLIENT_CONFIG": lambda: json.dumps({"clientId": "c1", "group": "G1", "subscriptionData": {
        "topic": "T1", "expressionType": "TAG", "subString": " || ".join(map(str, range(COUNT)))}}).encode(),
    "QUERY_ASSIGNMENT": lambda: b'{"topic":"T1","consumerGroup":"G1","clientId":"c1","strategyName":"AVG",'
                                b'"messageModel":"CLUSTERING"}',
    "SET_MESSAGE_REQUEST_MODE": lambda: b'{"topic":"T1","consumerGroup":"G1","mode":"POP","popShareQueueNum":0}',
    "UPDATE_BROKER_CONFIG": lambda: b"brokerPermission=6"}


class World:
    def __init__(self, store: FileMessageStore) -> None:
        self.store = store
        self.broker = BrokerState(BrokerConfig(broker_name="broker-a"), store, now_ms=NOW_MS, steady_ms=STEADY_MS)
        self.calls_most = 0

    def ask(self, code: str, ext: dict[str, str], body: bytes = b"", channel: int = 1) -> Outcome:
        request = RemotingCommand.request(int(Code[code]), dict(ext), body)
        return self.counted(lambda: self.decided(request, channel))

    def decided(self, request: RemotingCommand, channel: int) -> Outcome:
        peer = Peer(channel, HOST, HOST, f"10.0.0.5:{channel}")
        outcome = request_table.handle(request, peer, self.broker, NOW_MS)
        if isinstance(outcome, Reply):
            outcome.encode_parts()
        return outcome

    def counted(self, step: Callable[[], T]) -> T:
        calls = 0

        def note(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            outcome = step()
        finally:
            sys.setprofile(before)
        self.calls_most = max(self.calls_most, calls)
        return outcome

    def settle(self) -> None:
        """Ticks until nothing is left; between two of them a send is answered."""
        while self.counted(lambda: self.broker.tick(NOW_MS)) == 0 and self.broker.wants_tick:
            self.broker.notices.clear()
        self.broker.notices.clear()

    def send(self, topic: str) -> Outcome:
        header = SendMessageRequest("PG", topic, queue_id=0, properties={"UNIQ_KEY": "U", "KEYS": "k"},
                                    born_timestamp=NOW_MS)
        return self.ask("SEND_MESSAGE_V2", header.ext(), b"hello")

    def fill(self) -> None:
        broker = self.broker
        broker.topics.put_all([TopicConfig(topic_name=f"T{number}", read_queue_nums=1, write_queue_nums=1)
                               for number in range(COUNT)], NOW_MS)
        subscriptions = [SubscriptionData.compile("T1", "*", 1)]
        for number in range(COUNT):
            broker.subscription_groups.find(f"G{number}", NOW_MS)
            broker.consumer_offsets.commit(f"G{number}", "T1", 0, 1, NOW_MS)
            broker.consumer_offsets.commit("G1", f"T{number}", 0, 1, NOW_MS)
            self.send(f"T{number}")
            for group, client_id, channel in (("G1", f"c{number}", 10 + number),
                                              (f"G{number}", f"d{number}", 20_000 + number)):
                heard = HeartbeatData(
                    client_id=client_id, producer_data_set=[ProducerData(group_name="PG")],
                    consumer_data_set=[ConsumerData(group_name=group, subscription_data_set=subscriptions)])
                self.ask("HEART_BEAT", {}, heard.encode(), channel)
        while self.store.dispatch(1_000):
            pass
        self.settle()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    store = FileMessageStore(small_store(tmp_path_factory.mktemp("steps") / "store"), BrokerConfig())
    store.open(time.monotonic)
    world = World(store)
    world.fill()
    gc.collect()
    gc.disable()        # what others left is not collected within a step
    yield world
    gc.enable()
    store.close()


def test_each_request_is_walked():
    assert sorted(CODES) == sorted(Code(code).name for code in request_table.HANDLERS)


@pytest.mark.parametrize("code", [code for code in CODES if not code.startswith(("DELETE_TOPIC", "CLEAN_UNUSED"))])
def test_no_step_of_a_request_is_long(world: World, code: str) -> None:
    world.calls_most = 0
    ext = FIELDS
    if code in SENDS:
        topic = "DefaultCluster_REPLY_TOPIC" if "REPLY" in code else "T1"
        ext = SendMessageRequest("PG", topic, queue_id=0, properties={"UNIQ_KEY": "U"}, born_timestamp=NOW_MS).ext()
    world.ask(code, ext, BODIES.get(code, lambda: b"")())
    assert isinstance(world.send("T2"), Reply)
    world.settle()
    assert 0 < world.calls_most < (LISTED_CALLS_MAX if code.endswith("_LIST") and code in BODIES else CALLS_MAX)


@pytest.mark.parametrize("code", ["UPDATE_AND_CREATE_TOPIC_LIST", "HEART_BEAT", "LOCK_BATCH_MQ"])
def test_what_reads_all_that_a_request_names_at_once_is_seen(world: World, code: str) -> None:
    world.calls_most = 0
    body = {"UPDATE_AND_CREATE_TOPIC_LIST": CreateTopicListRequestBody, "HEART_BEAT": HeartbeatData,
            "LOCK_BATCH_MQ": LockBatchRequestBody}[code]
    text = BODIES[code]()
    world.counted(lambda: body.decode(text))
    assert world.calls_most > CALLS_MAX


def test_the_end_of_a_connection_that_is_in_many_groups_is_no_long_step(world: World) -> None:
    world.ask("HEART_BEAT", {}, _many_subscriptions().encode(), channel=7)
    world.settle()
    world.calls_most = 0
    world.counted(lambda: world.broker.channel_closed(7, NOW_MS))
    world.settle()
    assert 0 < world.calls_most < CALLS_MAX


def test_what_goes_from_the_disk_goes_a_topic_a_step(world: World) -> None:
    """To remove one takes as long as the disk likes, and beside 5,000 of them a send waited for 20 s."""
    def kept() -> set[str]:
        return {topic for topic, _ in world.store.queues()}

    broker, before = world.broker, kept()
    for number in range(3, 103):
        broker.topics.delete(f"T{number}", NOW_MS)
    assert isinstance(world.decided(RemotingCommand.request(int(Code.CLEAN_UNUSED_TOPIC)), 1), Hold)
    broker.topics.put(TopicConfig(topic_name="T50"), NOW_MS)       # made anew before its turn has come
    counts = [len(before)]
    while broker.tick(NOW_MS) == 0 and broker.wants_tick:
        counts.append(len(kept()))
    assert before - kept() == {f"T{number}" for number in range(3, 103) if number != 50}
    assert all(earlier - later <= 1 for earlier, later in pairwise(counts))
    assert [notice.reply.answer.code for notice in broker.notices if notice.reply.answer.is_response] == [0]


def test_a_topic_of_many_groups_is_deleted_in_steps(world: World) -> None:
    world.calls_most = 0
    world.ask("DELETE_TOPIC_IN_BROKER", {"topic": "T1"})
    world.settle()
    assert "T1" not in world.broker.topics
    assert 0 < world.calls_most < CALLS_MAX


def test_a_group_of_many_topics_is_deleted_with_its_offsets_in_steps(world: World) -> None:
    world.calls_most = 0
    assert len(world.broker.consumer_offsets.topics_of("G1")) > COUNT - 1_000
    world.ask("DELETE_SUBSCRIPTIONGROUP", {"groupName": "G1", "cleanOffset": "true"})
    world.settle()
    assert world.broker.consumer_offsets.topics_of("G1") == []
    assert 0 < world.calls_most < CALLS_MAX
