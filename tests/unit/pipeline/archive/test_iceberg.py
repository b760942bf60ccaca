"""A real table of pyiceberg, its catalog in SQLite: it has what the archive has, whatever was killed in between."""

from dataclasses import replace
from pathlib import Path

import pytest

from regulus.errors import ArchiveFailed, OptionError
from regulus.pipeline.archive.compact import CompactConfig, compact
from regulus.pipeline.archive.config import ArchiveConfig, IcebergTable
from regulus.pipeline.archive.iceberg import RANGE_PROPERTY, IcebergCatalog
from regulus.pipeline.archive.run import run_archive
from regulus.pipeline.range_tasks import LocalTasks
from regulus.spark.archive import manifest as archive_manifest
from tests.archives import archived_rows, nothing

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore")]
LATER = 4_000_000_000_000


@pytest.fixture
def target(tmp_path: Path) -> IcebergTable:
    (tmp_path / "warehouse").mkdir()
    return IcebergTable(table="history.messages", properties=(
        ("type", "sql"), ("uri", f"sqlite:///{tmp_path}/catalog.db"), ("warehouse", f"file://{tmp_path}/warehouse")))


def archive_into(store: Path, archive: Path, target: IcebergTable, step=nothing):
    config = ArchiveConfig(store_path=str(store), archive_path=str(archive), range_size=2048)
    return run_archive(LocalTasks(), config, "run", None, IcebergCatalog(target, archive), step)


def table_of(target: IcebergTable):
    from pyiceberg.catalog import load_catalog

    return load_catalog(target.catalog, **dict(target.properties)).load_table(target.table)


def places(rows) -> list[int]:
    return sorted(row["physical_offset"] for row in rows)


def test_the_table_has_the_rows_of_the_archive(store, tmp_path, target):
    archive = tmp_path / "archive"
    report = archive_into(store, archive, target)
    table = table_of(target)
    assert places(table.scan().to_arrow().to_pylist()) == places(archived_rows(archive, subscribePattern=".*"))
    assert table.scan(row_filter="topic = 'TopicB'").to_arrow().num_rows == 20
    assert [snapshot.summary[RANGE_PROPERTY] for snapshot in table.snapshots()] == [
        part.name for part in report.ranges]
    archive_into(store, archive, target)
    assert len(table_of(target).snapshots()) == len(report.ranges)


def test_a_run_killed_before_the_table_knew_is_made_up_for(store, tmp_path, target):
    class Killed(BaseException):
        pass

    def step(name: str) -> None:
        if name == "catalog":
            raise Killed

    archive = tmp_path / "archive"
    with pytest.raises(Killed):
        archive_into(store, archive, target, step)
    assert table_of(target).current_snapshot() is None
    assert len(archived_rows(archive, subscribePattern=".*")) > 0
    archive_into(store, archive, target)
    assert places(table_of(target).scan().to_arrow().to_pylist()) == places(
        archived_rows(archive, subscribePattern=".*"))


def test_compaction_replaces_files_in_one_snapshot(store, tmp_path, target):
    archive = tmp_path / "archive"
    archive_into(store, archive, target)
    before = places(table_of(target).scan().to_arrow().to_pylist())
    catalog = IcebergCatalog(target, archive)
    config = CompactConfig(archive_path=str(archive), range_size=4096)
    compact(LocalTasks(), config, "run", LATER, catalog, nothing)
    assert places(table_of(target).scan().to_arrow().to_pylist()) == before
    named = {f"file://{archive.resolve()}/{file.path}" for manifest in archive_manifest.load(archive)
             for file in manifest.files}
    assert catalog.files() == named
    compact(LocalTasks(), config, "run", LATER, catalog, nothing)
    assert places(table_of(target).scan().to_arrow().to_pylist()) == before


def test_what_was_compacted_without_the_table_is_made_up_for(store, tmp_path, target):
    archive = tmp_path / "archive"
    archive_into(store, archive, target)
    compact(LocalTasks(), CompactConfig(archive_path=str(archive), range_size=4096, keep_superseded_ms=0), "run", LATER,
            None, nothing)
    archive_into(store, archive, target)
    table = table_of(target)
    assert places(table.scan().to_arrow().to_pylist()) == places(archived_rows(archive, subscribePattern=".*"))


def test_days_that_expire_leave_the_table(store, tmp_path, target):
    archive = tmp_path / "archive"
    archive_into(store, archive, target)
    report = compact(LocalTasks(), CompactConfig(archive_path=str(archive), range_size=1, expire_after_days=1), "run",
                     LATER, IcebergCatalog(target, archive), nothing)
    assert report.expired
    left = places(archived_rows(archive, subscribePattern=".*"))
    assert 0 < len(left) < 80
    assert places(table_of(target).scan().to_arrow().to_pylist()) == left


def test_a_catalog_that_cannot_be_opened_is_one_sentence(tmp_path, target):
    wrong = replace(target, properties=(("type", "sql"), ("uri", f"sqlite:///{tmp_path}/none/catalog.db")))
    with pytest.raises(ArchiveFailed, match="the Iceberg catalog refused"):
        IcebergCatalog(wrong, tmp_path)


def test_a_name_without_a_namespace_is_refused(tmp_path, target):
    with pytest.raises(OptionError, match=r"write namespace\.name"):
        IcebergCatalog(IcebergTable(table="messages", properties=target.properties), tmp_path)
