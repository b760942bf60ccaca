from dataclasses import replace
from pathlib import Path

import pytest

from regulus.errors import ArchiveFailed, ArchiveLocked
from regulus.pipeline.archive import files as archive_files
from regulus.pipeline.archive.files import ArchiveLock, remove, sweep, verify
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive.manifest import Range, manifest_path
from tests.archives import archive_store, files_of, nothing


@pytest.fixture
def archive(store: Path, tmp_path: Path) -> Path:
    archive_store(store, tmp_path / "archive", range_size=4096)
    return tmp_path / "archive"


def test_a_lock_is_free_again_when_its_holder_is_done(tmp_path):
    with ArchiveLock(tmp_path, "first"):
        assert (tmp_path / "_lock").read_text() == "first\n"
        with pytest.raises(ArchiveLocked, match="by first"), ArchiveLock(tmp_path, "second"):
            pass
    with ArchiveLock(tmp_path, "second"):
        pass


@pytest.mark.parametrize("damaged", ["", "\n", "0" * 31, "0" * 33, "prod\n"])
def test_an_identity_that_is_damaged_is_not_made_anew(tmp_path, damaged):
    """The broker trusts the one that it was."""
    assert archive_files.identity_of(tmp_path) == ""
    identity = archive_files.make_identity(tmp_path, "run")
    assert archive_files.identity_of(tmp_path) == identity
    (tmp_path / "_identity").write_text(damaged)
    with pytest.raises(ArchiveFailed, match="bring it back from a backup"):
        archive_files.identity_of(tmp_path)


def test_only_what_no_manifest_names_is_swept(archive):
    before = files_of(archive)
    for name in ("messages/dt=2020-01-01/0-1@b@x.parquet", "_rejects/b-0-1.jsonl", "_staging/run/0/1/0.parquet"):
        (archive / name).parent.mkdir(parents=True, exist_ok=True)
        (archive / name).touch()
    assert sweep(archive) == ["_staging/run", "_rejects/b-0-1.jsonl", "messages/dt=2020-01-01/0-1@b@x.parquet"]
    assert files_of(archive) == before
    assert sweep(archive) == []


@pytest.mark.parametrize("lost", ["all", "the last two", "the second"])
def test_files_whose_manifests_are_lost_are_kept(archive, store, lost):
    """They are the only copy, where the log is gone."""
    paths = sorted((archive / "_manifest").glob("*/*.json"))
    for path in {"all": paths, "the last two": paths[-2:], "the second": paths[1:2]}[lost]:
        path.unlink()
    before = files_of(archive)
    with pytest.raises(ArchiveFailed, match="no manifest names it, as one did: bring back the folder _manifest"):
        archive_store(store, archive, range_size=4096)
    assert files_of(archive) == before


def test_what_a_killed_job_left_is_swept_wherever_it_was_killed(archive):
    """Behind all, before all, and over what others have."""
    first, *_, last = archive_manifest.load(archive)
    extra = [Range("broker-a", last.range.end, last.range.end + 10), Range("broker-a", 0, last.range.end)]
    names = [archive_manifest.data_path(part, "TopicA", "2020-01-01") for part in extra]
    names += [archive_manifest.rejects_path(part) for part in extra]
    for name in names:
        (archive / name).parent.mkdir(parents=True, exist_ok=True)
        (archive / name).touch()
    assert sorted(sweep(archive)) == sorted(names)
    (archive / manifest_path(first.range)).unlink()
    assert sorted(sweep(archive)) == sorted(archive_files.names_of(first))


@pytest.mark.parametrize("broker", ["broker-a", "b-1-2", "a b%", "x" * 100])
def test_whose_a_file_is_its_name_tells(broker):
    part = Range(broker, 5, 17)
    for path in (archive_manifest.data_path(part, "TopicA", "2020-01-01"), archive_manifest.rejects_path(part),
                 f"data/topic=x/dt=2020-01-01/{part.name}.parquet"):
        assert archive_manifest.parts_of_name(path) == (archive_manifest.broker_part(broker), 5, 17)
    assert archive_manifest.parts_of_name("_rejects/notes.jsonl") == ("", 0, 0)


def test_what_is_removed_goes_with_its_manifest_and_nothing_else(archive):
    manifests = archive_manifest.load(archive)
    removed = remove(archive, [manifests[0].range], nothing)
    assert sorted(removed) == sorted(archive_files.names_of(manifests[0]))
    assert not any((archive / name).exists() for name in removed)
    assert archive_manifest.load(archive) == manifests[1:]
    assert verify(archive, manifests[1:]) == []


def test_files_that_two_manifests_name_stay_with_the_other(archive):
    first, second = archive_manifest.load(archive)[:2]
    both = replace(second, files=(*second.files, *first.files))
    (archive / manifest_path(second.range)).write_bytes(archive_manifest.encode(both))
    assert remove(archive, [first.range], nothing) == []
    assert verify(archive, [both]) == []
    assert remove(archive, [second.range], nothing) == sorted(archive_files.names_of(both))


def test_a_manifest_goes_before_its_files(archive):
    """Whenever a job is killed, no manifest names a file that is gone."""
    looks = []

    def look(step: str) -> None:
        looks.append(step)
        assert verify(archive, archive_manifest.load(archive)) == []

    remove(archive, archive_manifest.ranges(archive)[:2], look)
    assert looks[:2] == ["unlink manifest"] * 2
    assert looks[2:] == ["unlink file"] * len(looks[2:])
    assert looks[2:]


def test_changed_and_missing_files_are_found(archive):
    manifests = archive_manifest.load(archive)
    assert verify(archive, manifests) == []
    first, second = manifests[0].files[0].path, manifests[1].files[0].path
    data = bytearray((archive / first).read_bytes())
    data[100] ^= 1
    (archive / first).write_bytes(data)
    (archive / second).unlink()
    assert verify(archive, manifests) == [f"{first} has other bytes than its manifest says", f"{second} is missing"]
