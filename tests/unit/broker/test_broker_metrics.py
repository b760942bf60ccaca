"""What RocketMQ's names leave out: all groups, all retries, zeros from the start, and a limit that says what it cut."""

import json

import pytest

from regulus.broker import end_counts, statistics
from regulus.broker.handlers.topic import delete_topic
from regulus.broker.metrics import broker_families, lag, own_families, topic_families
from regulus.broker.metrics.broker_metrics import BrokerMetrics
from regulus.broker.metrics.exporter_families import ExporterFamilies
from regulus.broker.metrics.group_families import POPPED_LATELY_MS
from regulus.broker.metrics.lag import FILTERED_UNITS_MAX
from regulus.broker.metrics.names import is_system, version_name
from regulus.broker.metrics.server_facts import ServerFacts
from regulus.broker.metrics.sheet import Sheet
from regulus.broker.request_latencies import RequestLatencies
from regulus.broker.timers import totals
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.wire.metrics_text import MetricsPage
from tests.unit.broker.metrics_rows import page_of, values

GROUP = ("consumer_group", "topic")


def send(rig, times: int = 1, topic: str = "TopicA", **properties: str) -> None:
    for _ in range(times):
        assert rig.send(topic, properties={"UNIQ_KEY": "K", **properties}).code == 0


def test_a_group_whose_last_consumer_is_gone_is_still_behind(rig):
    rig.heartbeat("G", "TopicA")
    send(rig, 3)
    rig.commit(1, group="G")
    rig.now_ms += 5_000
    behind = {("G", "TopicA"): 2.0}
    assert values(rig, "rocketmq_consumer_lag_messages", *GROUP) == behind
    rig.broker.channel_closed(1, rig.now_ms)
    assert values(rig, "rocketmq_consumer_lag_messages", *GROUP) == {}
    assert values(rig, "regulus_group_lag_messages", *GROUP) == behind
    assert values(rig, "regulus_group_lag_milliseconds", *GROUP) == {("G", "TopicA"): 5_000}
    assert values(rig, "regulus_group_members", "consumer_group") == {("G",): 0}


def test_retries_of_a_group_that_pulls_wait_in_a_series_of_their_own(rig):
    rig.heartbeat("G", "TopicA")
    send(rig)
    (failed,) = rig.stored("TopicA")
    rig.commit(1, group="G")
    assert rig.send_back(failed.physical_offset, group="G", delay_level=1).code == 0
    rig.commit(0, group="G", topic="%RETRY%G")
    assert values(rig, "regulus_group_retries_waiting_messages", *GROUP) == {}
    assert values(rig, "regulus_delay_level_waiting_messages", "level") == {("1",): 1}
    rig.run(2_000)
    assert values(rig, "regulus_delay_level_waiting_messages", "level") == {("1",): 0}
    rig.now_ms += 700
    assert values(rig, "regulus_group_retries_waiting_messages", *GROUP) == {("G", ""): 1}
    assert values(rig, "rocketmq_consumer_lag_messages", *GROUP) == {("G", "TopicA"): 0}


def test_a_level_whose_first_message_is_due_is_late(rig):
    send(rig, DELAY="1")
    rig.now_ms += 61_000
    assert values(rig, "regulus_delay_level_late_milliseconds", "level") == {("1",): 60_000}


def test_a_group_that_never_committed_is_not_behind(rig):
    send(rig, 3)
    rig.heartbeat("G", "TopicA")
    assert values(rig, "rocketmq_consumer_lag_messages", *GROUP) == {("G", "TopicA"): 0}


def test_many_messages_that_a_filter_may_take_are_estimated(rig):
    rig.broker.topics.put(TopicConfig(topic_name="TopicA"), rig.now_ms)
    rig.heartbeat("G", "TopicA", expression="B")
    rig.commit(0, group="G")
    for number in range(FILTERED_UNITS_MAX * 2):
        send(rig, TAGS="B" if number % 4 == 0 else "A")
    assert values(rig, "rocketmq_consumer_lag_messages", *GROUP) == {("G", "TopicA"): FILTERED_UNITS_MAX / 2}


def test_topics_are_there_with_nothing_from_the_start(rig):
    rig.broker.topics.put(TopicConfig(topic_name="New"), rig.now_ms)
    assert values(rig, "regulus_topic_messages_stored_total", "topic")["New",] == 0


def test_open_halves_are_counted_by_topic_and_stay_with_zero(rig):
    metrics = BrokerMetrics(rig.broker, {})
    send(rig, 2, TRAN_MSG="true", PGROUP="PG")
    assert values(rig, "rocketmq_half_messages", "topic", metrics=metrics) == {("TopicA",): 2}
    for half in rig.stored("RMQ_SYS_TRANS_HALF_TOPIC"):
        rig.broker.transactions.roll_back(half, rig.now_ms)
    assert values(rig, "rocketmq_half_messages", "topic", metrics=metrics) == {("TopicA",): 0}


def test_what_is_beyond_the_limit_is_told_and_not_computed(rig):
    for number in range(50):
        group = f"G{number}"
        rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name=group), rig.now_ms)
        rig.broker.consumer_offsets.commit(group, "TopicA", 0, 0)
    send(rig)
    page = page_of(rig, series_max=90)
    told = float(page.families["regulus_metrics_left_out_pairs"].lines[0].split()[-1])
    shown = len(page.families["regulus_group_lag_messages"].lines)
    assert shown + told == 50
    assert told > 0
    assert page.families["regulus_metrics_left_out_series"].lines
    # What tells of the broker itself is never cut.
    assert page.families["regulus_not_durable_bytes"].lines


def test_waiting_timers_are_counted_by_how_soon_they_are_due(rig, monkeypatch):
    metrics = BrokerMetrics(rig.broker, {})
    rig.broker.timers.open(rig.now_ms)
    send(rig, 2, TIMER_DELAY_SEC="30")
    send(rig, 3, TIMER_DELAY_SEC="3000")
    rig.run(1_000)
    bounds = values(rig, "rocketmq_timer_message_snapshot", "timer_bound_s", metrics=metrics)
    assert {bound: count for (bound,), count in bounds.items() if count} == {"60": 2, "3600": 3}
    assert values(rig, "rocketmq_timing_messages", "topic", metrics=metrics) == {("TopicA",): 5}
    looks = []
    monkeypatch.setattr(rig.store.timers, "slot", looks.append)
    values(rig, "rocketmq_timer_message_snapshot", "timer_bound_s", metrics=metrics)
    assert looks == []      # for a while the numbers stand
    assert topic_families.SNAPSHOT_MS > 1_000


def test_a_loss_of_power_would_take_what_is_not_flushed(rig, monkeypatch):
    send(rig, 5)
    rig.now_ms += 250
    monkeypatch.setattr(type(rig.store), "flushed_offset", 0)
    assert values(rig, "regulus_not_durable_messages") == {(): 5}
    assert values(rig, "regulus_not_durable_bytes") == {(): rig.store.commit_log_max_offset()}
    assert values(rig, "regulus_not_durable_milliseconds") == {(): 250}


@pytest.mark.parametrize(("version", "name"), [
    (479, "v5_3_3"), (401, "v4_9_4"), (400, "v4_9_4_snapshot"), (213, "v4_0_0"), (515, "v5_5_1"), (1, "other"),
    (10**9, "other"), (-5, "other")])
def test_versions_have_their_names_and_strangers_numbers_are_one(version, name):
    assert version_name(version) == name


@pytest.mark.parametrize(("topic", "group", "is_so"), [
    ("TBW102", "", "true"), ("rmq_sys_x", "", "true"), ("TopicA", "cid_rmq_sys_x", "true"), ("TopicA", "G", "false"),
    ("%RETRY%G", "G", "false"), ("%DLQ%G", "G", "false"), ("RMQ_SYS_TRANS_HALF_TOPIC", "", "true")])
def test_what_is_a_broker_s_own(topic, group, is_so):
    assert is_system(topic, group) == is_so


def test_a_topic_that_was_deleted_leaves_no_age_to_a_new_one_of_its_name(rig):
    metrics = BrokerMetrics(rig.broker, {}, has_exporter_names=True)
    ages = ("regulus_group_lag_milliseconds", "rocketmq_group_get_latency_by_storetime")
    labels = {ages[0]: GROUP, ages[1]: ("group", "topic")}
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="G"), rig.now_ms)
    send(rig)
    rig.commit(0, group="G")
    rig.now_ms += 5_000
    for name in ages:
        assert values(rig, name, *labels[name], metrics=metrics) == {("G", "TopicA"): 5_000}
    delete_topic(rig.broker, "TopicA", rig.now_ms)
    send(rig)
    rig.commit(0, group="G")
    for name in ages:
        assert values(rig, name, *labels[name], metrics=metrics) == {("G", "TopicA"): 0}


def test_kinds_of_requests_are_written_in_steps(rig, monkeypatch):
    """Strangers choose the codes, so there may be a thousand kinds."""
    monkeypatch.setattr(broker_families, "KINDS_A_STEP", 2)
    rig.broker.latencies = RequestLatencies()
    for code in range(7):
        rig.broker.latencies.note(10_000 + code, 3, 1)
    sheet = Sheet(MetricsPage(1_000), rig.broker.config, {})
    assert len(list(broker_families.requests(rig.broker, sheet))) >= 3
    assert len(values(rig, "rocketmq_rpc_latency_milliseconds_count", "request_code")) == 7


@pytest.mark.parametrize("table", ["commits", "rollbacks", "dead_letters", "entered", "done", "waiting", "halves"])
def test_no_step_of_a_page_grows_with_the_topics(rig, table):
    """The event loop serves nobody else during a step."""
    ends, counts, timers = rig.broker.statistics.ends, rig.broker.timers.counts, rig.broker.timers.totals
    metrics = BrokerMetrics(rig.broker, {})
    topics = [f"T{number}" for number in range(1_000)]
    for topic in topics:
        match table:
            case "commits":
                ends.note_commit(topic, 1)
            case "rollbacks":
                ends.note_rollback(topic)
            case "dead_letters":
                ends.note_dead_letter("G", topic)
            case "entered":
                timers.note_entered(topic, 1)
            case "done":
                timers.note_done(topic)
            case "waiting":
                counts.follow(json.dumps({"timingCount": {topic: {"count": 1, "timeStamp": 1} for topic in topics}}))
                break
            case "halves":
                send(rig, topic=topic, TRAN_MSG="true", PGROUP="PG")
    page = MetricsPage(50_000)
    before, longest = 0, 0
    for _ in metrics.fill(page, ServerFacts(), rig.tell_time()):
        before, longest = page.series, max(longest, page.series - before)
    assert page.series > 1_000
    assert longest < 700


def test_steps_of_the_names_of_the_exporter_are_bounded_by_queues_and_by_groups(rig):
    families = ExporterFamilies(rig.broker, {})

    def steps() -> int:
        return len(list(families.add(MetricsPage(50_000), rig.tell_time())))
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="G"), rig.now_ms)
    before = steps()
    for number in range(10):
        rig.broker.topics.put(TopicConfig(topic_name=f"T{number}", read_queue_nums=1_000), rig.now_ms)
    of_topics = steps()
    assert of_topics >= before + 9
    for number in range(10):
        rig.commit(0, group="G", topic=f"T{number}")
    of_pairs = steps()
    assert of_pairs >= of_topics + 9
    for number in range(1_000):
        rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name=f"G{number}"), rig.now_ms)
    assert steps() >= of_pairs + 9


def test_pops_that_are_forgotten_do_not_become_pulls(rig, monkeypatch):
    """Beyond the limit a pair begins at 0 again, as after a restart."""
    monkeypatch.setattr(statistics, "POPS_MAX", 1)
    counts = rig.broker.statistics
    for group in ("G1", "G2"):
        popped = counts.pops_of(group, "TopicA", 1)
        counts.note_get(group, "TopicA", 5, 500)
        popped.add(5, 500, is_retry=False)
    assert values(rig, "rocketmq_messages_out_total", "consumer_group") == {("G2",): 5}


def test_other_settings_of_a_topic_leave_its_counts(rig):
    send(rig)
    send(rig, DELAY="1")
    rig.run(2_000)
    rig.broker.topics.facts["TopicA"].other_nums += 1       # as the commit of a transaction
    assert values(rig, "regulus_topic_messages_stored_total", "topic")["TopicA",] == 3
    rig.broker.topics.put(TopicConfig(topic_name="TopicA", write_queue_nums=9), rig.now_ms)
    assert values(rig, "regulus_topic_messages_stored_total", "topic")["TopicA",] == 3


def test_the_age_of_what_is_not_consumed_is_that_of_the_first_message_that_is_left(rig, monkeypatch):
    """Retention may have deleted the next message of the group."""
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="G"), rig.now_ms)
    send(rig)
    rig.now_ms += 60_000
    send(rig)
    rig.commit(0, group="G")
    monkeypatch.setattr(rig.store, "min_offset", lambda topic, queue_id: 1)
    rig.now_ms += 5_000
    assert values(rig, "regulus_group_lag_milliseconds", *GROUP) == {("G", "TopicA"): 5_000}


def test_store_times_that_are_kept_are_limited(rig, monkeypatch):
    monkeypatch.setattr(lag, "TIMES_KEPT_MAX", 1)
    send(rig, 2)
    times = lag.StoreTimes(rig.store, rig.broker.topics.epochs)
    asked = []
    found = rig.store.store_timestamp
    monkeypatch.setattr(rig.store, "store_timestamp", lambda *place: asked.append(place) or found(*place))
    for _ in range(3):
        assert times.of("TopicA", 0, 0) == times.of("TopicA", 0, 1) > 0
    assert asked == [("TopicA", 0, 0), *[("TopicA", 0, 1)] * 3]


def test_of_a_long_log_that_is_not_on_disk_a_part_is_counted(rig, monkeypatch):
    monkeypatch.setattr(own_families, "READ_AT_ONCE", 1)
    monkeypatch.setattr(own_families, "UNFLUSHED_READ_MAX", 1)
    monkeypatch.setattr(type(rig.store), "flushed_offset", 0)
    send(rig, 10)
    assert values(rig, "regulus_not_durable_messages") == {(): 10}


def test_a_group_that_has_not_popped_for_ten_minutes_is_not_connected(rig):
    send(rig, 2)
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="G"), rig.now_ms)
    rig.commit(0, group="G")
    rig.tell_time()
    rig.broker.statistics.pops_of("G", "TopicA", rig.broker.steady_ms)
    behind = {("G", "TopicA", "false"): 2, ("G", "TopicA", "true"): 0}
    rig.now_ms += POPPED_LATELY_MS
    assert values(rig, "rocketmq_consumer_lag_messages", *GROUP, "is_retry") == behind
    rig.now_ms += 1
    assert values(rig, "rocketmq_consumer_lag_messages", *GROUP, "is_retry") == {}
    assert values(rig, "regulus_group_lag_messages", *GROUP) == {("G", "TopicA"): 2}


def test_every_pair_that_a_full_page_leaves_out_is_counted(rig):
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="G"), rig.now_ms)
    for number in range(5):
        rig.broker.topics.put(TopicConfig(topic_name=f"T{number}"), rig.now_ms)
        rig.commit(0, group="G", topic=f"T{number}")
    page = page_of(rig, series_max=1)
    assert [line.rpartition(" ")[2] for line in page.families["regulus_metrics_left_out_pairs"].lines] == ["5\n"]


def test_ends_and_timers_of_many_topics_are_limited(rig, monkeypatch):
    """Names come from strangers, and deleted topics stay in these tables."""
    monkeypatch.setattr(end_counts, "KEYS_MAX", 2)
    monkeypatch.setattr(totals, "TOPICS_MAX", 2)
    ends, timers = rig.broker.statistics.ends, rig.broker.timers.totals
    for _ in range(2):
        for number in range(3):
            ends.note_commit(f"T{number}", 1)
            ends.note_popped_end("G", f"T{number}", is_dead_letter=False)
            timers.note_entered(f"T{number}", 1)
            timers.note_done(f"T{number}")
    two = {("T0",): 2, ("T1",): 2}
    for name in ("rocketmq_commit_messages_total", "rocketmq_pop_revive_retry_messages_total",
                 "rocketmq_finish_message_latency_milliseconds_count", "rocketmq_timer_enqueue_total",
                 "rocketmq_timer_dequeue_total", "rocketmq_delay_message_latency_seconds_count"):
        assert values(rig, name, "topic") == two


def test_the_topic_of_an_open_half_is_read_once(rig, monkeypatch):
    metrics = BrokerMetrics(rig.broker, {})
    send(rig, 2, TRAN_MSG="true", PGROUP="PG")
    read = []
    look = rig.store.look_head
    monkeypatch.setattr(rig.store, "look_head", lambda offset: read.append(offset) or look(offset))
    for _ in range(3):
        assert values(rig, "rocketmq_half_messages", "topic", metrics=metrics) == {("TopicA",): 2}
    assert len(read) == 2
