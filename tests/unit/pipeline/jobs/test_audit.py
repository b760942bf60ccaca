"""The audit says what happened in a shop, and cries no wolf over the stores of the real RocketMQ."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from regulus.errors import JobRefused
from tests import store_ends as broken
from tests.frames import small_table
from tests.stores import fill, open_store
from tests.unit.pipeline.shop import GROUP, TOPIC

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
GOLDEN = Path(__file__).parents[3] / "golden"


@pytest.fixture
def closed_store(tmp_path: Path) -> Path:
    """Messages of two queues by turns."""
    opened = open_store(tmp_path)
    fill(opened, 40, topic=broken.TOPIC, queues=2)
    opened.close()
    broken.name_topics(tmp_path, broken.TOPIC)
    return tmp_path


def later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def counts(found) -> dict[str, int]:
    return {result.rule.name: result.count for result in found.results if result.count}


def test_a_shop_without_losses_passes_with_its_dead_letter_named(spark, shop):
    from regulus.pipeline.jobs.audit import AuditRequest, audit
    from regulus.pipeline.tables.outside import parse_outside_table, read_keys

    effects = read_keys(spark, parse_outside_table(shop.effects_text), "id", "billed_ms", "applied_time")
    found = audit(spark, AuditRequest(source=shop.source, topics=(TOPIC,), group=GROUP, effects=effects), later())
    assert found.passed
    assert counts(found) == {"dead_letters": 1}
    assert found.verdicts == {"fine": 7, "dead letter": 1}
    assert found.sentence() == ("passed: 8 messages in 4 queues, 0 missing, 0 stored repeatedly, 0 out of order, "
                                "0 without effect")
    legs = {row["leg"]: row for row in found.latencies}
    assert legs["born_to_stored"]["messages"] == 8
    assert legs["born_to_applied"]["messages"] == 7
    assert 0 <= legs["born_to_applied"]["p50_ms"] <= legs["born_to_applied"]["max_ms"] < 60_000
    found.close()


def test_a_bill_that_was_not_written_and_one_written_twice_fail_the_audit(spark, shop):
    from regulus.pipeline.jobs.audit import AuditRequest, audit
    from regulus.pipeline.tables.outside import parse_outside_table, read_keys

    effects = read_keys(spark, parse_outside_table(shop.effects_text), "id", "billed_ms", "applied_time")
    effects = effects.where("key <> 'o3'").unionByName(effects.where("key = 'o4'"))
    found = audit(spark, AuditRequest(source=shop.live_source, topics=(TOPIC,), group=GROUP, effects=effects), later())
    assert not found.passed
    assert counts(found) == {"dead_letters": 1, "messages_without_effect": 1, "effects_repeated": 1}
    assert found.sentence().startswith("FAILED by messages_without_effect (1), effects_repeated (1): ")
    assert [row["key"] for row in spark.table("broken_messages_without_effect").collect()] == ["o3"]
    assert [row["key"] for row in spark.table("broken_effects_repeated").collect()] == ["o4"]
    found.close()


def test_what_comes_or_goes_while_the_audit_reads_is_not_asked_for(spark):
    from regulus.pipeline.jobs.audit import _bounds
    from regulus.pipeline.jobs.log_source import BOUNDS

    before, after = (small_table(spark, [(TOPIC, "broker-a", 0, *ends, None, None)], BOUNDS)
                     for ends in ((0, 5), (2, 9)))
    assert [tuple(row)[3:5] for row in _bounds(before, after).collect()] == [(2, 5)]


@pytest.mark.parametrize("store", ["store-4.9.8", "store-4.9.8-killed"])
def test_a_store_of_the_real_rocketmq_has_no_holes(spark, store):
    from regulus.pipeline.jobs.audit import AuditRequest, audit
    from regulus.pipeline.jobs.log_source import LogSource

    source = LogSource({"storePath": str(GOLDEN / store)})
    topics = sorted(topic for topic in source.topics(spark) if topic in ("SNormal", "SOrder", "SRetry", "SDelay",
                                                                         "STrans", "KBurst", "KNormal"))
    found = audit(spark, AuditRequest(source=source, topics=tuple(topics)), later())
    assert found.missing == 0
    assert found.messages > 100
    assert found.passed
    found.close()


def test_a_record_that_is_damaged_is_a_hole(spark, tmp_path):
    from regulus.pipeline.jobs.audit import AuditRequest, audit
    from regulus.pipeline.jobs.log_source import LogSource

    shutil.copytree(GOLDEN / "store-4.9.8", tmp_path / "store")
    source = LogSource({"storePath": str(tmp_path / "store")})
    row = source.messages(spark, ["SNormal"], ("queue_id", "queue_offset", "physical_offset")).where(
        "queue_id = 1 AND queue_offset = 40").first()
    logs = sorted((tmp_path / "store" / "commitlog").iterdir())
    log = max(path for path in logs if int(path.name) <= row["physical_offset"])
    with log.open("r+b") as file:
        file.seek(row["physical_offset"] - int(log.name) + 4)       # the record's magic number
        file.write(b"\0\0\0\0")
    found = audit(spark, AuditRequest(source=source, topics=("SNormal",)), later())
    assert not found.passed
    assert [(hole["queue_id"], hole["start_offset"], hole["missing"], hole["cause"])
            for hole in found.views["holes"].collect()] == [(1, 40, 1, "lost")]
    found.close()


def test_a_topic_that_is_not_there_is_refused_with_the_nearest(spark, shop):
    from regulus.pipeline.jobs.audit import AuditRequest, audit

    for source in (shop.source, shop.live_source):
        with pytest.raises(JobRefused, match="has no topic 'order': did you mean 'orders'"):
            audit(spark, AuditRequest(source=source, topics=("order",)), later())


def test_a_source_that_is_nowhere_is_refused():
    from regulus.pipeline.jobs.log_source import LogSource

    with pytest.raises(JobRefused, match="it is not said where the messages are"):
        LogSource({})


@pytest.mark.parametrize("kind", broken.DAMAGES)
def test_what_is_lost_at_the_end_of_a_queue_fails_the_audit(spark, closed_store, kind):
    from regulus.pipeline.jobs.audit import AuditRequest, audit
    from regulus.pipeline.jobs.log_source import LogSource

    lost = broken.damage(closed_store, kind, 40)
    found = audit(spark, AuditRequest(source=LogSource({"storePath": str(closed_store)}), topics=(broken.TOPIC,)),
                  later())
    assert not found.passed
    assert found.missing == lost
    assert f"{lost} missing" in found.sentence()
    assert counts(found)["queue_ends_lost"] == len(
        [row for row in spark.table("broken_queue_ends_lost").collect() if row["missing_behind"]])
    found.close()


def test_a_store_that_was_copied_from_a_running_broker_passes_the_audit_and_is_told_of(spark, closed_store):
    from regulus.pipeline.jobs.audit import AuditRequest, audit
    from regulus.pipeline.jobs.log_source import LogSource

    (closed_store / "abort").touch()
    broken.damage(closed_store, "cut log", 40)
    found = audit(spark, AuditRequest(source=LogSource({"storePath": str(closed_store)}), topics=(broken.TOPIC,)),
                  later())
    assert found.passed
    assert found.missing == 0
    assert counts(found)["queue_ends_ahead"] == 2
    found.close()
