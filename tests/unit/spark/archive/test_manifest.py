import os
from dataclasses import replace
from pathlib import Path

import pytest

from regulus.errors import OptionError, StoreDamaged, StoreNewer
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive.manifest import (
    ArchivedFile,
    Manifest,
    QueueFacts,
    Range,
    RejectFile,
    Stretch,
    data_path,
    decode,
    effective,
    encode,
    manifest_path,
)

PART = Range("broker-a", 0, 4096)


def a_manifest(part: Range = PART) -> Manifest:
    file = ArchivedFile(path=data_path(part, "%RETRY%g", "2026-01-31"), topic="%RETRY%g", day="2026-01-31", rows=3,
                        size=900, sha256="ab" * 32, log_bytes=600, queues={0: QueueFacts(5, 8, 3, 100, 200)})
    return Manifest(range=part, records=5, rows=3, hidden=1, rejected=1, unplaced=1,
                    queues={("%RETRY%g", 0): (Stretch(5, 8, 100), Stretch(8, 9, 700, is_rejected=True))},
                    files=(file,), rejects=RejectFile(path="_rejects/x.jsonl", size=10, sha256="cd" * 32))


def test_a_manifest_survives_its_bytes():
    manifest = a_manifest()
    assert decode(encode(manifest), "here") == manifest
    assert decode(encode(replace(manifest, rejects=None)), "here").rejects is None
    assert encode(decode(encode(manifest), "here")) == encode(manifest)


def test_names_tell_broker_and_range_and_keep_what_paths_cannot():
    assert manifest_path(PART) == "_manifest/broker-a/00000000000000000000-00000000000000004096.json"
    path = data_path(PART._replace(broker_name="b/1"), "%RETRY%a|b", "2026-01-31")
    assert path == ("messages/dt=2026-01-31/00000000000000000000-00000000000000004096@b%2F1@%25RETRY%25a%7Cb.parquet")


def test_long_names_are_cut_short_and_stay_apart():
    """No file's name may have more than 255 bytes."""
    part = PART._replace(broker_name="b" * 200)
    paths = {data_path(part, "%" * 100 + last, "2026-01-31") for last in "ab"}
    assert len(paths) == 2
    assert max(len(path.rpartition("/")[2]) for path in paths) <= 255


def test_names_of_two_topics_and_brokers_never_meet():
    one, other = PART._replace(broker_name="eu-x"), PART._replace(broker_name="x")
    assert data_path(one, "orders", "2026-01-31") != data_path(other, "orders-eu", "2026-01-31")
    one, other = PART._replace(broker_name="a@b"), PART._replace(broker_name="a")
    assert data_path(one, "c", "2026-01-31") != data_path(other, "b@c", "2026-01-31")


def test_damage_and_later_versions_are_named():
    with pytest.raises(StoreDamaged, match="here is not a manifest"):
        decode(b'{"v":1}', "here")
    with pytest.raises(StoreDamaged, match="here is not a manifest"):
        decode(b"\0\0", "here")
    with pytest.raises(StoreNewer, match="version 2"):
        decode(b'{"v":2}', "here")


def test_a_range_within_another_does_not_count():
    small = [Range("a", 0, 10), Range("a", 10, 20), Range("a", 20, 30), Range("b", 0, 5)]
    assert effective(small) == small
    assert effective([*small, Range("a", 0, 20)]) == [Range("a", 0, 20), Range("a", 20, 30), Range("b", 0, 5)]
    assert effective([*small, Range("a", 0, 20), Range("a", 0, 30)]) == [Range("a", 0, 30), Range("b", 0, 5)]


def put(archive: Path, part: Range) -> Path:
    path = archive / manifest_path(part)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(a_manifest(part)))
    return path


def test_only_what_counts_is_loaded(tmp_path: Path):
    with pytest.raises(OptionError, match="no directory '_manifest'"):
        archive_manifest.load(tmp_path)
    for part in (PART, Range("broker-a", 4096, 5000), Range("broker-a", 0, 5000), Range("c", 0, 7)):
        put(tmp_path, part)
    (tmp_path / "_manifest" / "c" / "notes.json").write_text("{}")
    assert [manifest.range for manifest in archive_manifest.load(tmp_path)] == [
        Range("broker-a", 0, 5000), Range("c", 0, 7)]


def test_what_is_replaced_while_it_is_looked_for_is_found_under_its_new_name(tmp_path: Path, monkeypatch):
    path = put(tmp_path, PART)

    def compacted_meanwhile(found):
        kept = effective(found)
        if path.exists():
            put(tmp_path, Range("broker-a", 0, 5000))
            path.unlink()
        return kept

    monkeypatch.setattr(archive_manifest, "effective", compacted_meanwhile)
    assert [manifest.range for manifest in archive_manifest.load(tmp_path)] == [Range("broker-a", 0, 5000)]


@pytest.mark.parametrize("place", ["_manifest", "_manifest/broker-a"])
def test_manifests_that_cannot_be_listed_are_not_none(tmp_path: Path, monkeypatch, place):
    (tmp_path / "_manifest" / "broker-a").mkdir(parents=True)
    assert archive_manifest.load(tmp_path) == []
    listed, scanned = os.listdir, os.scandir

    def refusing(look):
        def refuse(path):
            if os.fspath(path) == str(tmp_path / place):
                raise PermissionError(13, "Permission denied", os.fspath(path))
            return look(path)
        return refuse

    # By name, for whoever runs the tests may have all rights.
    monkeypatch.setattr(os, "listdir", refusing(listed))
    monkeypatch.setattr(os, "scandir", refusing(scanned))
    with pytest.raises(PermissionError):
        archive_manifest.load(tmp_path)
