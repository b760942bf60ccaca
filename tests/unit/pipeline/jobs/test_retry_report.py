"""Who failed, how often, and how it ended."""

from pathlib import Path

import pytest

from regulus.errors import JobRefused
from tests.unit.pipeline.shop import GROUP, TOPIC

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
GOLDEN = Path(__file__).parents[3] / "golden"


def test_the_shops_retries_and_their_ends(spark, shop):
    from regulus.pipeline.jobs.retry_report import RetryRequest, retry_report
    from regulus.pipeline.tables.outside import parse_outside_table, read_keys

    effects = read_keys(spark, parse_outside_table(shop.effects_text), "id", "billed_ms", "applied_time")
    report = retry_report(spark, RetryRequest(source=shop.source, groups=(GROUP,), effects=effects))
    assert [(row["topic"], row["tries"], row["applied"], row["dead_letters"]) for row in report.ladder.collect()] == [
        (TOPIC, 1, 1, 0), (TOPIC, 2, 0, 1)]
    assert [(row["cause"], row["dead_letters"]) for row in report.causes.collect()] == [("retries used up", 1)]
    assert [row["messages"] for row in report.success.collect()] == [1]
    report.close()


def test_a_running_brokers_groups_tell_how_far_they_are(spark, shop):
    from regulus.pipeline.jobs.retry_report import RetryRequest, retry_report

    report = retry_report(spark, RetryRequest(source=shop.live_source))
    assert report.groups == (GROUP,)
    outcomes = {row["key"]: row["outcome"] for row in report.outcomes.collect()}
    assert outcomes["o1"] == "dead letter"
    assert outcomes["o2"] in ("passed", "waiting")      # as soon as the consumer's offset is saved, it is the first
    report.close()


def test_retries_of_the_real_rocketmq(spark):
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.retry_report import RetryRequest, retry_report

    source = LogSource({"storePath": str(GOLDEN / "store-4.9.8")})
    report = retry_report(spark, RetryRequest(source=source, groups=("CG_retry",)))
    assert sorted((row["key"], row["tries"], row["outcome"], row["cause"]) for row in report.outcomes.collect()) == [
        # Its consumer's own limit was 2, which nothing tells, and its group's is 16.
        ("r3", 1, "passed", None), ("r4", 2, "dead letter", "given up after retries"), ("r5", 0, "dead letter",
                                                                                        "no retry wanted")]
    with pytest.raises(JobRefused, match="has no retry or dead-letter topic of group 'nobody'; it has those of"):
        retry_report(spark, RetryRequest(source=source, groups=("nobody",)))
    report.close()
