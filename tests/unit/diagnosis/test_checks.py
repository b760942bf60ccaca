"""Each check alone, on facts that are written out: what finds a cause, and the neighbour that does not."""

from dataclasses import replace
from typing import Any

import pytest

from regulus.diagnosis.checks import CHECKS, diagnose, healthy_text
from regulus.diagnosis.facts import (
    BrokerFacts,
    Facts,
    Flight,
    GroupFacts,
    MemberFacts,
    MessageFacts,
    NameServerFacts,
    QueueFacts,
    TopicFacts,
    Unknown,
)
from regulus.diagnosis.findings import MEANINGS, ORDER, Cause, Level
from regulus.diagnosis.message_checks import takes
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SubscriptionGroupConfig
from regulus.wire.bodies import (
    BrokerData,
    ConsumerRunningInfo,
    ProcessQueueInfo,
    QueueData,
    SubscriptionData,
    TopicRouteData,
)

NOW = 1_900_000_000_000
TOPIC, GROUP, BROKER = "Orders", "billing", "broker-a"
QUEUE = MessageQueue(TOPIC, BROKER, 0)
RETRY = MessageQueue(f"%RETRY%{GROUP}", BROKER, 0)
MASTER = BrokerFacts(name=BROKER, broker_id=0, address="10.0.0.1:10911", knows_groups=True,
                     group=SubscriptionGroupConfig(group_name=GROUP), state={"health": "ok", "diskFull": "false"},
                     settings={"brokerPermission": "6", "messageDelayLevel": "1s 10s 1m"})
SLAVE = replace(MASTER, broker_id=1, address="10.0.0.2:10911")


def route(perm: int = 6, read: int = 1, addresses: dict[int, str] | None = None) -> TopicRouteData:
    return TopicRouteData(
        queue_datas=[QueueData(broker_name=BROKER, read_queue_nums=read, write_queue_nums=2, perm=perm)],
        broker_datas=[BrokerData(broker_name=BROKER, broker_addrs=addresses or {0: "10.0.0.1:10911"})])


def topic(**changes: Any) -> TopicFacts:
    data = changes.pop("data", route())
    queue = QueueFacts(queue=QUEUE, min_offset=5, max_offset=20, consumer_offset=20)
    return replace(TopicFacts(name=TOPIC, name_servers=(NameServerFacts(address="ns:1", route=data),), route=data,
                              queues=(queue,)), **changes)


def member(name: str = "m1", expression: str = "*", *, topics: tuple[str, ...] = (TOPIC,),
           properties: dict[str, str] | None = None, **info: Any) -> MemberFacts:
    table = ProcessQueueInfo(**{"commit_offset": 20, "last_consume_timestamp": NOW, **info})
    return MemberFacts(client_id=name, address="10.0.0.9:1", language="PYTHON", brokers=(BROKER,),
                       info=ConsumerRunningInfo(
        properties={"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMEORDERLY": "false", **(properties or {})},
        subscription_set=[SubscriptionData.compile(each, expression) for each in topics], mq_table={QUEUE: table}))


def facts(**changes: Any) -> Facts:
    members = changes.pop("members", (member(),))
    group = changes.pop("group", GroupFacts(name=GROUP, is_known=True, are_members_known=True, members=members))
    return replace(Facts(now_ms=NOW, brokers=(MASTER,), group=group, topic=topic()), **changes)


def record(topic_name: str = TOPIC, offset: int = 10, *, position: int = 1000, stored: int = NOW - 5_000,
           retries: int = 0, queue_id: int = 0, tags: str = "", **properties: str) -> MessageExt:
    named = {"UNIQ_KEY": "KEY", **({"TAGS": tags} if tags else {}), **properties}
    return MessageExt(topic_name, b"x", named, queue_id, queue_offset=offset, physical_offset=position,
                      store_timestamp=stored, reconsume_times=retries)


def message(*copies: MessageExt, **changes: Any) -> MessageFacts:
    originals = [each for each in copies if each.topic == TOPIC]
    retries = {each.physical_offset: RETRY for each in copies if each.topic == RETRY.topic}
    return replace(MessageFacts(text="KEY", original=originals[0] if originals else None,
                                queue=QUEUE if originals else QUEUE._replace(queue_id=-1), copies=copies,
                                searched=(TOPIC,), retry_queues=retries), **changes)


def parked(home: str = TOPIC, *, stored: int = NOW - 5_000, level: int = 2, **more: Any) -> MessageExt:
    return record("SCHEDULE_TOPIC_XXXX", stored=stored, queue_id=level - 1, position=2000, REAL_TOPIC=home, **more)


WAITING = (QueueFacts(queue=QUEUE, min_offset=5, max_offset=20, consumer_offset=8, waiting_ms=60_000),)
BEHIND = {"members": (member(commit_offset=8),), "topic": topic(queues=WAITING)}

CASES: list[tuple[str, dict[str, Any], list[tuple[Cause, Level]]]] = [
    ("healthy", {}, []),
    ("name servers differ",
     {"topic": topic(name_servers=(NameServerFacts(address="a", route=route()), NameServerFacts(address="b")))},
     [(Cause.NAME_SERVERS_DIFFER, Level.CAUSE)]),
    ("name servers differ in permission alone",
     {"topic": topic(name_servers=(NameServerFacts(address="a", route=route()),
                                   NameServerFacts(address="b", route=route(4))))},
     [(Cause.NAME_SERVERS_DIFFER, Level.CAUSE)]),
    ("a silent name server does not disagree",
     {"topic": topic(name_servers=(NameServerFacts(address="a", route=route()),
                                   NameServerFacts(address="b", failure="no answer")))},
     [(Cause.NAME_SERVER_SILENT, Level.NOTE)]),
    ("no route", {"members": (), "group": GroupFacts(name=GROUP, is_known=True),
                  "topic": TopicFacts(name=TOPIC, name_servers=(NameServerFacts(address="a"),))},
     [(Cause.NO_ROUTE, Level.CAUSE)]),
    ("a broker is silent", {"brokers": (replace(MASTER, failure="timed out"),)},
     [(Cause.BROKER_SILENT, Level.CAUSE)]),
    ("a silent slave is a note", {"brokers": (MASTER, replace(SLAVE, failure="timed out"))},
     [(Cause.BROKER_SILENT, Level.NOTE)]),
    ("a silent broker without queues of the topic is nothing",
     {"brokers": (MASTER, replace(MASTER, name="broker-z", failure="timed out"))}, []),
    ("the master is away", {"brokers": (SLAVE,), "topic": topic(data=route(addresses={1: "10.0.0.2:10911"}))},
     [(Cause.MASTER_AWAY, Level.CAUSE)]),
    ("no reads", {"topic": topic(data=route(2))}, [(Cause.TOPIC_NOT_READABLE, Level.CAUSE)]),
    ("no sends", {"topic": topic(data=route(4))}, [(Cause.TOPIC_NOT_WRITABLE, Level.CAUSE)]),
    ("a broker that may do nothing", {"brokers": (replace(MASTER, settings={"brokerPermission": "0"}),)},
     [(Cause.TOPIC_NOT_READABLE, Level.CAUSE), (Cause.TOPIC_NOT_WRITABLE, Level.CAUSE)]),
    ("denied", {"unknown": (Unknown("the state", "No accessKey", True), Unknown("other", "why"))},
     [(Cause.ACCESS_DENIED, Level.CAUSE)]),
    ("a group that is unknown", {"group": GroupFacts(name=GROUP, is_known=False, are_members_known=True)},
     [(Cause.GROUP_UNKNOWN, Level.CAUSE)]),
    ("disabled", {"brokers": (replace(MASTER, group=SubscriptionGroupConfig(group_name=GROUP, consume_enable=False)),)},
     [(Cause.CONSUMPTION_DISABLED, Level.CAUSE)]),
    ("no broadcasts", {
        "brokers": (replace(MASTER, group=SubscriptionGroupConfig(group_name=GROUP, consume_broadcast_enable=False)),),
        "group": GroupFacts(name=GROUP, is_known=True, are_members_known=True, members=(member(),), is_broadcast=True)},
     [(Cause.CONSUMPTION_DISABLED, Level.CAUSE)]),
    ("no member, and access is on", {"members": (), "brokers": (replace(MASTER, settings={"aclEnable": "true"}),)},
     [(Cause.NO_MEMBER_ONLINE, Level.CAUSE), (Cause.ACCESS_MAY_REFUSE, Level.NOTE)]),
    ("no member, but the group receives", {"members": (), "topic": topic(consume_tps=2.0)},
     [(Cause.NO_MEMBER_ONLINE, Level.NOTE)]),
    ("members that no broker reported are not absent", {"group": GroupFacts(name=GROUP, is_known=True)}, []),
    ("not subscribed", {"members": (member(topics=("Refunds",)),)}, [(Cause.NOT_SUBSCRIBED, Level.CAUSE)]),
    ("subscribed over gRPC, by the broker's word", {"group": GroupFacts(
        name=GROUP, is_known=True, are_members_known=True, subscriptions={TOPIC: SubscriptionData.compile(TOPIC, "*")},
        members=(MemberFacts(client_id="g", address="", language="GO", brokers=()),))}, []),
    ("different expressions", {"members": (member("m1", "a"), member("m2", "b"))},
     [(Cause.SUBSCRIPTIONS_DIFFER, Level.CAUSE)]),
    ("the same expression, written in two ways", {"members": (member("m1", "a || b"), member("m2", "b||a"))}, []),
    ("different topics", {"members": (member("m1"), member("m2", topics=(TOPIC, "Refunds")))},
     [(Cause.GROUP_SHARED, Level.CAUSE)]),
    ("its own retry topic is not another one", {"members": (member("m1"), member("m2", topics=(TOPIC, RETRY.topic)))},
     []),
    ("a queue without owner", {"members": (member(droped=True),)}, [(Cause.QUEUE_NOT_OWNED, Level.CAUSE)]),
    ("in order, without owner",
     {"members": (member(droped=True, properties={"PROP_CONSUMEORDERLY": "true"}),)},
     [(Cause.QUEUE_NOT_LOCKED, Level.CAUSE)]),
    ("in order, without the lock", {"members": (member(properties={"PROP_CONSUMEORDERLY": "true"}),)},
     [(Cause.QUEUE_NOT_LOCKED, Level.CAUSE)]),
    ("in order, with the lock", {"members": (member(locked=True, properties={"PROP_CONSUMEORDERLY": "true"}),)}, []),
    ("members that pop own no queues", {"members": (replace(member(), info=ConsumerRunningInfo(
        properties={"PROP_CONSUME_TYPE": "CONSUME_POP"}, subscription_set=[SubscriptionData.compile(TOPIC, "*")])),)},
     []),
    ("a cache of a thousand is at the limit", {"members": (member(cached_msg_count=1000),)}, []),
    ("a cache above the limit", {"members": (member(cached_msg_count=1001),)}, [(Cause.FLOW_CONTROL, Level.CAUSE)]),
    ("a cache of many bytes", {"members": (member(cached_msg_count=1, cached_msg_size_in_mib=101),)},
     [(Cause.FLOW_CONTROL, Level.CAUSE)]),
    ("a limit of its own", {"members": (member(cached_msg_count=11, properties={"pullThresholdForQueue": "10"}),)},
     [(Cause.FLOW_CONTROL, Level.CAUSE)]),
    ("stuck", {"members": (member(cached_msg_count=1, last_consume_timestamp=NOW - 60_000),)},
     [(Cause.LISTENER_STUCK, Level.CAUSE)]),
    ("idle is not stuck", {"members": (member(cached_msg_count=0, last_consume_timestamp=NOW - 60_000),)}, []),
    ("blocked", {**BEHIND, "topic": topic(queues=(replace(WAITING[0], waiting_ms=0),)),
                 "members": (member(commit_offset=8, properties={"PROP_BLOCKED_QUEUES": "1"}),)},
     [(Cause.QUEUE_BLOCKED, Level.CAUSE)]),
    ("lag", BEHIND, [(Cause.LAG, Level.WAITS)]),
    ("no lag where the member is further than its stored offset", {"topic": topic(queues=WAITING)}, []),
    ("a new message is no lag", {**BEHIND, "topic": topic(queues=(replace(WAITING[0], waiting_ms=9_999),))}, []),
    ("no offset", {"members": (member(commit_offset=0),),
                   "topic": topic(queues=(replace(WAITING[0], consumer_offset=None, waiting_ms=0),))},
     [(Cause.NO_OFFSET, Level.NOTE)]),
    ("unread message", {**BEHIND, "message": message(record())}, [(Cause.LAG, Level.WAITS)]),
    ("passed", {"message": message(record())}, [(Cause.PASSED, Level.CAUSE)]),
    ("passed, and no member now", {"message": message(record()), "members": ()},
     [(Cause.PASSED, Level.CAUSE), (Cause.NO_MEMBER_ONLINE, Level.NOTE)]),
    ("in a cache", {"members": (member(commit_offset=8, cached_msg_count=3, cached_msg_min_offset=8,
                                       cached_msg_max_offset=10),),
                    "topic": topic(queues=WAITING), "message": message(record())},
     [(Cause.IN_FLIGHT, Level.WAITS), (Cause.LAG, Level.WAITS)]),
    ("popped", {"message": message(record(), flight=Flight(popped_ms=NOW - 5, visible_ms=NOW + 5))},
     [(Cause.IN_FLIGHT, Level.WAITS)]),
    ("filtered", {"message": message(record(tags="new")), "members": (member("m1", "paid"),)},
     [(Cause.FILTERED_OUT, Level.CAUSE), (Cause.PASSED, Level.CAUSE)]),
    ("filtered, and not reached yet",
     {"topic": topic(queues=WAITING), "members": (member("m1", "paid", commit_offset=8),),
      "message": message(record(tags="new"))},
     [(Cause.FILTERED_OUT, Level.CAUSE), (Cause.LAG, Level.NOTE)]),
    ("unknown", {"message": message()}, [(Cause.MESSAGE_UNKNOWN, Level.CAUSE)]),
    ("expired", {"message": message(gone="the queue begins at 5")}, [(Cause.MESSAGE_EXPIRED, Level.CAUSE)]),
    ("a queue that is not read", {
        "message": message(record(queue_id=1), queue=QUEUE._replace(queue_id=1)), "topic": topic()},
     [(Cause.QUEUE_NOT_READ, Level.CAUSE)]),
    ("delayed", {"message": message(parked())}, [(Cause.DELIVERY_WAITING, Level.WAITS)]),
    ("delayed and overdue", {"message": message(parked(stored=NOW - 20_000))},
     [(Cause.DELIVERY_OVERDUE, Level.CAUSE)]),
    ("late by less than the broker may take", {"message": message(parked(stored=NOW - 19_999))},
     [(Cause.DELIVERY_WAITING, Level.WAITS)]),
    ("timed", {"message": message(record("rmq_sys_wheel_timer", REAL_TOPIC=TOPIC, TIMER_OUT_MS=str(NOW + 5)))},
     [(Cause.DELIVERY_WAITING, Level.WAITS)]),
    ("waits for a retry", {"message": message(record(), parked(RETRY.topic, retries=1, RETRY_TOPIC=TOPIC))},
     [(Cause.RETRY_WAITING, Level.WAITS)]),
    ("a retry that is overdue",
     {"message": message(record(), parked(RETRY.topic, stored=NOW - 30_000, RETRY_TOPIC=TOPIC))},
     [(Cause.DELIVERY_OVERDUE, Level.CAUSE)]),
    ("a retry to consume", {"message": message(record(), record(RETRY.topic, 3, position=3000, retries=1),
                                               retry_offsets={RETRY: 3})}, [(Cause.RETRY_WAITING, Level.WAITS)]),
    ("consumed at a retry", {"message": message(record(), record(RETRY.topic, 3, position=3000, retries=1),
                                                retry_offsets={RETRY: 4})}, [(Cause.PASSED, Level.CAUSE)]),
    ("dead", {"message": message(record(), record(f"%DLQ%{GROUP}", position=3000, retries=16))},
     [(Cause.DEAD_LETTER, Level.CAUSE)]),
    ("a half", {"message": message(record("RMQ_SYS_TRANS_HALF_TOPIC", REAL_TOPIC=TOPIC), half_ended=False)},
     [(Cause.TRANSACTION_OPEN, Level.CAUSE)]),
    ("a half of which nothing is known", {"message": message(record("RMQ_SYS_TRANS_HALF_TOPIC", REAL_TOPIC=TOPIC))},
     [(Cause.TRANSACTION_OPEN, Level.CAUSE)]),
    ("rolled back", {"message": message(record("RMQ_SYS_TRANS_HALF_TOPIC", REAL_TOPIC=TOPIC), half_ended=True)},
     [(Cause.TRANSACTION_ROLLED_BACK, Level.CAUSE)]),
    ("given up", {"message": message(record("TRANS_CHECK_MAX_TIME_TOPIC", REAL_TOPIC=TOPIC))},
     [(Cause.TRANSACTION_GIVEN_UP, Level.CAUSE)]),
    ("a slave that is read", {
        **BEHIND, "message": message(record()), "topic": topic(queues=WAITING),
        "brokers": (replace(MASTER, settings={"slaveReadEnable": "true"}),
                    replace(SLAVE, state={"commitLogMaxOffset": "1000"}))},
     [(Cause.SLAVE_BEHIND, Level.WAITS), (Cause.LAG, Level.WAITS)]),
    ("a slave that has the message", {
        **BEHIND, "message": message(record()), "topic": topic(queues=WAITING),
        "brokers": (replace(MASTER, settings={"slaveReadEnable": "true"}),
                    replace(SLAVE, state={"commitLogMaxOffset": "1001"}))}, [(Cause.LAG, Level.WAITS)]),
    ("a full disk", {"brokers": (replace(MASTER, state={"diskFull": "true", "commitLogDiskRatio": "0.95"}),)},
     [(Cause.DISK_FULL, Level.CAUSE)]),
    ("a full disk does not explain a message that was stored",
     {"brokers": (replace(MASTER, state={"diskFull": "true"}),), "message": message(record())},
     [(Cause.PASSED, Level.CAUSE), (Cause.DISK_FULL, Level.NOTE)]),
    ("a full disk of RocketMQ", {"brokers": (replace(MASTER, state={"commitLogDiskRatio": "0.9"}),)},
     [(Cause.DISK_FULL, Level.CAUSE)]),
    ("a limit of RocketMQ's", {"brokers": (replace(MASTER, state={"commitLogDiskRatio": "0.92"},
                                                   settings={"diskSpaceWarningLevelRatio": "0.95"}),)}, []),
    ("ill", {"brokers": (replace(MASTER, state={"health": "the flush loop got nowhere"}),)},
     [(Cause.STORE_ILL, Level.CAUSE)]),
    ("a slave is ill", {"brokers": (MASTER, replace(SLAVE, state={"health": "the link got nowhere"}))},
     [(Cause.STORE_ILL, Level.NOTE)]),
    ("gate", {"brokers": (replace(MASTER, state={"archiveGateReport": "files wait"}),)},
     [(Cause.ARCHIVE_GATE, Level.CAUSE)]),
]


@pytest.mark.parametrize(("changes", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_facts_give_their_causes(changes: dict[str, Any], wanted: list[tuple[Cause, Level]]) -> None:
    found = diagnose(facts(**changes))
    assert [(each.cause, each.level) for each in found.findings] == wanted
    assert found.is_healthy is all(level is Level.NOTE for _, level in wanted)


def test_each_cause_has_a_case_a_meaning_and_words() -> None:
    covered = {cause for *_, wanted in CASES for cause, _ in wanted}
    assert covered == set(Cause) == set(MEANINGS)
    for _, changes, _ in CASES:
        for finding in diagnose(facts(**changes)).findings:
            assert finding.sentence.endswith((".", "?"))
            assert finding.remedy.endswith(".")
            assert all(line.endswith(".") for line in finding.evidence), finding


def test_checks_run_in_the_order_of_causes() -> None:
    places = []
    for check in CHECKS:
        places.append(min(ORDER[finding.cause] for _, changes, _ in CASES for finding in check(facts(**changes))))
    assert places == sorted(places)


@pytest.mark.parametrize(("expression", "kind", "tags", "properties", "wanted"), [
    ("*", "TAG", "", {}, True), ("a", "TAG", "a", {}, True), ("a", "TAG", "b", {}, False), ("a", "TAG", "", {}, False),
    ("a || b", "TAG", "b", {}, True), ("BB", "TAG", "Aa", {}, False),   # two tags of one Java hash
    ("n > 3", "SQL92", "", {"n": "4"}, True), ("n > 3", "SQL92", "", {"n": "3"}, False),
    ("n > 3", "SQL92", "", {}, False), ("TAGS = 'a'", "SQL92", "a", {}, True), ("n >", "SQL92", "", {}, True),
])
def test_a_subscription_takes_what_broker_and_consumer_would_pass(
        expression: str, kind: str, tags: str, properties: dict[str, str], wanted: bool) -> None:
    subscription = SubscriptionData.compile(TOPIC, expression, 0, kind)
    assert takes(subscription, record(tags=tags, **properties)) is wanted


def test_recorded_causes_of_a_dead_letter_are_shown_the_newest_first() -> None:
    dead = record(f"%DLQ%{GROUP}", position=3000, CAUSE_2="ValueError: b", CAUSE_10="KeyError: c", CAUSE_1="a")
    [finding] = diagnose(facts(message=message(record(), dead))).findings
    assert finding.evidence[1:] == ("Failure 10: KeyError: c.", "Failure 2: ValueError: b.", "Failure 1: a.")


def test_the_time_to_catch_up_follows_from_the_rates() -> None:
    for put, consumed, last in ((1.0, 2.0, "catches up in 12 s."), (2.0, 1.0, "does not catch up.")):
        found = diagnose(facts(members=(member(commit_offset=8),),
                               topic=topic(queues=WAITING, put_tps=put, consume_tps=consumed)))
        assert found.findings[0].evidence[-1].endswith(last)


def test_what_is_not_known_is_listed_and_denials_are_a_finding() -> None:
    found = diagnose(facts(unknown=(Unknown("a", "b"), Unknown("c", "denied", True))))
    assert found.unknown == (Unknown("a", "b"),)
    assert found.findings[0].evidence == ("c: denied.",)


def test_a_healthy_group_says_how_many_members_it_has() -> None:
    assert healthy_text(facts()) == "Group billing is healthy in topic Orders: 1 member online, 0 messages behind."
