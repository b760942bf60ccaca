"""The table that tools and the metrics exporter read."""

import json

import pytest

from regulus.broker.handlers.broker_runtime_info import runtime_text, size_text
from regulus.broker.runtime_facts import RuntimeFacts
from regulus.wire.codes import RequestCode

ZEROS = (
    "putMessageEntireTimeMax", "putMessageFailedTimes", "dispatchMaxBuffer", "getMessageEntireTimeMax",
    "commitLogMinOffset", "msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgGetTotalYesterdayMorning",
    "msgGetTotalTodayMorning", "dispatchBehindBytes", "pageCacheLockTimeMills", "startAcceptSendRequestTimeStamp",
    "timerReadBehind", "timerOffsetBehind", "timerCongestNum", "EndTransactionQueueSize",
    *(f"{pool}ThreadPoolQueue{what}" for pool in ("send", "pull", "query", "litePull", "ack")
      for what in ("Size", "HeadWaitTimeMills")))

TWO_RECORDS = 350       # with their bodies of 3 and 5 bytes

NUMBERS = {
    **dict.fromkeys(ZEROS, "0"),
    "bootTimestamp": "1700000000000", "earliestMessageTimeStamp": "1700000000000", "brokerVersion": "479",
    "putMessageTimesTotal": "2", "msgPutTotalTodayNow": "2", "msgGetTotalTodayNow": "2",
    "putMessageSizeTotal": f"{TWO_RECORDS}", "commitLogMaxOffset": f"{TWO_RECORDS}", "putMessageAverageSize": "175.0",
    "putLatency99": "0.00", "putLatency999": "0.00", "commitLogDiskRatio": "0.00", "consumeQueueDiskRatio": "0.00",
    "timerEnqueueTps": "0.0", "timerDequeueTps": "0.0", "remainTransientStoreBufferNumbs": "2147483647",
    "archiveBehindBytes": "-1", "archivedPhysicalOffset": "-1", "fileReservedTime": "72",
    "EndTransactionThreadPoolQueueCapacity": "100000", "sendThreadPoolQueueCapacity": "10000",
    "pullThreadPoolQueueCapacity": "100000", "queryThreadPoolQueueCapacity": "20000",
    "litePullThreadPoolQueueCapacity": "100000", "ackThreadPoolQueueCapacity": "100000",
}
"""What the exporter and mqadmin read as numbers: of a broker that took two messages, and gave both, ten seconds ago."""

RATES = {
    "putTps": "0.2 0.2 0.2", "getFoundTps": "0.1 0.1 0.1", "getMissTps": "0.2 0.2 0.2", "getTotalTps": "0.3 0.3 0.3",
    "getTransferredTps": "0.2 0.2 0.2", "getTransferedTps": "0.2 0.2 0.2",
}
"""Over ten seconds, a minute and ten minutes, of which only ten seconds have passed."""


def table_of(rig):
    return json.loads(rig.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]


def test_what_is_read_as_a_number_is_the_right_one(rig):
    rig.broker.tick(rig.tell_time())
    for body in (b"one", b"three"):
        rig.send(body=body)
    rig.heartbeat("CG", "TopicA")
    rig.pull()
    for _ in range(2):
        rig.pull(queue_offset=2, sys_flag=0)
    rig.now_ms += 10_000
    rig.broker.tick(rig.tell_time())
    table = table_of(rig)
    assert {key: table.get(key) for key in NUMBERS} == NUMBERS
    assert {key: table.get(key) for key in RATES} == RATES
    assert {key for key, value in table.items() if not isinstance(value, str)} == set()


def test_counts_follow_the_messages(rig):
    for body in (b"one", b"two"):
        rig.send(body=body)
    rig.heartbeat("CG", "TopicA")
    rig.pull()
    rig.now_ms += 93_784_000
    table = table_of(rig)
    assert table["putMessageTimesTotal"] == "2"
    assert table["msgPutTotalTodayNow"] == "2"
    assert table["msgGetTotalTodayNow"] == "2"
    assert table["runtime"] == "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"
    assert int(table["commitLogMaxOffset"]) == rig.store.commit_log_max_offset()


def test_each_level_of_delay_in_use_has_its_progress(rig):
    rig.send(properties={"DELAY": "3", "UNIQ_KEY": "K"})
    assert {key: value for key, value in table_of(rig).items() if key.startswith("scheduleMessageOffset")} == {
        "scheduleMessageOffset_3": "0,1"}


def test_the_disk_is_told_as_the_server_saw_it(rig):
    rig.broker.runtime_facts = RuntimeFacts(
        commit_log_path="/data/commitlog", disk_size=252 << 30, disk_free=72 << 30, commit_log_disk_ratio=0.714,
        consume_queue_disk_ratio=0.5, unflushed_size=1536)
    table = table_of(rig)
    assert table["commitLogDirCapacity"] == "Total : 252.0 GiB, Free : 72.0 GiB."
    assert table["commitLogDiskRatio"] == table["commitLogDiskRatio_/data/commitlog"] == "0.71"
    assert table["consumeQueueDiskRatio"] == "0.50"
    assert table["remainHowManyDataToFlush"] == "1.5 KiB"


def test_the_lag_of_the_archive_is_told_once_there_is_one(rig):
    rig.send(body=b"one")
    archived = rig.store.commit_log_max_offset()
    assert table_of(rig)["archiveBehindBytes"] == "-1"
    rig.broker.archived_offset.advance(archived, archived)
    assert table_of(rig)["archiveBehindBytes"] == "0"
    rig.send(body=b"two")
    assert table_of(rig)["archiveBehindBytes"] == str(rig.store.commit_log_max_offset() - archived) != "0"


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1 << 20, "1.0 MiB"),
                                            (5 << 40, "5.0 TiB"), (1 << 60, "1.0 EiB")])
def test_sizes_have_units(size, text):
    assert size_text(size) == text


def test_a_clock_that_went_back_shows_no_nonsense():
    assert runtime_text(0) == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"
