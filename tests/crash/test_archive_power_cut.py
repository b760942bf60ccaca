"""An archive after a power cut: what counts is whole, what its broker was told of is there, the next run goes on."""

from pathlib import Path

import pytest
from tests.archives import archive_store, files_of
from tests.stores import fill, open_store

from regulus.pipeline.archive import files as archive_files
from regulus.pipeline.archive import parquet as archive_parquet
from regulus.pipeline.archive.compact import CompactConfig, compact
from regulus.pipeline.archive.config import ArchiveConfig
from regulus.pipeline.archive.run import run_archive
from regulus.pipeline.range_tasks import LocalTasks
from regulus.spark.archive import manifest as archive_manifest
from regulus.testing.forgetful_disk import EVERYTHING, SURE_ONLY, ForgetfulDisk

RANGE_SIZE = 4096
SEEDS = (SURE_ONLY, EVERYTHING, 7)
LATER = 4_000_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Of two topics, so that a range has two files; with a damaged record, which is kept among the rejects."""
    opened = open_store(tmp_path / "store")
    fill(opened, 40, queues=2)
    fill(opened, 20, topic="TopicB", first=100)
    opened.close()
    log = tmp_path / "store" / "commitlog" / f"{0:020d}"
    log.write_bytes(log.read_bytes().replace(b"00000007.", b"00000007!"))
    return tmp_path / "store"


class Broker:
    """Takes from its log what is archived, or so it was told, by the archive that told its identity."""

    message_delay_level = "1s 5s"

    def __init__(self, flushed_offset: int) -> None:
        self.flushed_offset = flushed_offset
        self.archived_offset = 0
        self.identity = ""

    def begin(self, identity: str) -> None:
        self.identity = identity

    def archived(self, physical_offset: int, identity: str) -> None:
        self.archived_offset = physical_offset


def checked(archive: Path, told: int, identity: str) -> None:
    """`told`: up to where the broker was told that its log is archived, and in which archive."""
    assert identity in ("", archive_files.identity_of(archive))
    if not (archive / archive_manifest.MANIFESTS).is_dir():
        assert told == 0
        return
    manifests = archive_manifest.load(archive)
    assert archive_files.verify(archive, manifests) == []
    assert (manifests[-1].range.end if manifests else 0) >= told


def test_a_power_cut_at_any_step_takes_nothing_that_counts(store: Path, tmp_path: Path) -> None:
    end = archive_store(store, tmp_path / "undisturbed", range_size=RANGE_SIZE).end
    undisturbed = files_of(tmp_path / "undisturbed")
    config = ArchiveConfig(store_path=str(store), archive_path=str(tmp_path / "disk" / "kept" / "archive"),
                           range_size=RANGE_SIZE)
    broker = Broker(end)
    left: list[Path] = []
    with ForgetfulDisk(tmp_path / "disk", archive_files, archive_parquet) as power:
        def cut(step: str) -> None:
            for seed in SEEDS:
                copy = power.crash(seed, tmp_path / f"after-{len(left)}")
                checked(copy / "kept" / "archive", broker.archived_offset, broker.identity)
                left.append(copy)

        run_archive(LocalTasks(), config, "run", broker, None, cut)
        cut("done")
    assert broker.archived_offset == end
    assert len(left) > 30
    for copy in left:
        archive_store(store, copy / "kept" / "archive", range_size=RANGE_SIZE)
        assert files_of(copy / "kept" / "archive") == undisturbed


def test_a_power_cut_while_small_ranges_are_put_together_takes_nothing(store: Path, tmp_path: Path) -> None:
    archive = tmp_path / "disk" / "archive"
    end = archive_store(store, archive, range_size=RANGE_SIZE).end
    identity = archive_files.identity_of(archive)
    config = CompactConfig(archive_path=str(archive), range_size=1 << 20, keep_superseded_ms=0)
    cuts = 0
    with ForgetfulDisk(tmp_path / "disk", archive_files, archive_parquet) as power:
        def cut(step: str) -> None:
            nonlocal cuts
            for seed in SEEDS:
                checked(power.crash(seed, tmp_path / f"after-{cuts}") / "archive", end, identity)
                cuts += 1

        for _ in range(2):
            compact(LocalTasks(), config, "run", LATER, None, cut)
        cut("done")
    assert cuts > 30
    assert len(archive_manifest.ranges(archive)) == 1
