"""Jobs that look do so over an archive as over the log it was made of."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.archives import archive_store

from .shop import GROUP, TOPIC, send_orders

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
GOLDEN = Path(__file__).parents[2] / "golden" / "store-4.9.8"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that the real RocketMQ wrote into its log, as Parquet."""
    path = tmp_path_factory.mktemp("archives") / "archive"
    archive_store(GOLDEN, path)
    return path


def archived(archive: Path):
    from regulus.pipeline.jobs.log_source import LogSource

    return LogSource({"archivePath": str(archive)})


def test_a_message_is_found_in_an_archive_with_its_copies(spark, archive):
    from regulus.pipeline.jobs.search import SearchRequest, search

    found = search(spark, SearchRequest(source=archived(archive), key="r4"), datetime.now(UTC)).collect()
    topics = [row["topic"] for row in found]
    assert topics[0] == "SRetry"
    assert topics[-1] == "%DLQ%CG_retry"
    assert topics.count("%RETRY%CG_retry") == 2


def test_an_archive_without_losses_passes_its_audit(spark, archive):
    from regulus.pipeline.jobs.audit import AuditRequest, audit

    found = audit(spark, AuditRequest(source=archived(archive), topics=("SNormal", "SRetry"), group="CG_retry"),
                  datetime.now(UTC))
    assert found.passed
    assert (found.messages, found.missing) == (239, 0)
    assert found.verdicts["dead letter"] == 2
    found.close()


def test_the_end_of_retries_is_told_as_far_as_an_archive_knows_it(spark, archive):
    from regulus.pipeline.jobs.retry_report import RetryRequest, retry_report

    report = retry_report(spark, RetryRequest(source=archived(archive), groups=("CG_retry",)))
    assert sorted((row["key"], row["outcome"]) for row in report.outcomes.collect()) == [
        ("r3", "unknown"), ("r4", "dead letter"), ("r5", "dead letter")]
    report.close()


def test_history_and_tail_are_audited_as_one(spark, shop, tmp_path):
    from regulus.pipeline.jobs.audit import AuditRequest, audit
    from regulus.pipeline.jobs.log_source import LogSource

    shutil.copytree(shop.store, tmp_path / "backup")
    archive_store(tmp_path / "backup", tmp_path / "archive")
    send_orders(shop, "o90", "o91")
    source = LogSource({"nameServer": shop.name_server, "archivePath": str(tmp_path / "archive")})
    found = audit(spark, AuditRequest(source=source, topics=(TOPIC,), group=GROUP), datetime.now(UTC))
    assert found.passed
    assert (found.messages, found.missing, found.verdicts) == (10, 0, {"fine": 9, "dead letter": 1})
    found.close()
