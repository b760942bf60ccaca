"""Addresses are no paths."""

from pathlib import Path

import pytest

from regulus.errors import ConfigError, OptionError
from regulus.model.local_path import address_fault
from regulus.pipeline.archive.compact import CompactConfig, compact
from regulus.pipeline.archive.config import ArchiveConfig
from regulus.pipeline.index.rebuild import RebuildConfig
from regulus.pipeline.range_tasks import LocalTasks
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive import plan as archive_plan
from regulus.spark.options import parse_options
from regulus.store.config import MessageStoreConfig

ADDRESSES = ["s3://bucket/prod", "s3:/bucket/prod", "file:///var/lib/archive", "hdfs://host/a", "abfss://c@h/p", "S3A://b",
             "gs:x", "c+d.e-f://x"]


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_told(text: str) -> None:
    assert address_fault(text).startswith(f"{text!r} is an address")
    assert address_fault(Path(text))


@pytest.mark.parametrize("text", ["", "/var/lib/archive", "archive", "./s3:", "a/b:c", "2026-11-29T10:00", "~/x:y",
                                  "..", ":x"])
def test_a_path_may_be_one(text: str) -> None:
    assert address_fault(text) == ""


@pytest.mark.parametrize("text", ADDRESSES)
def test_nothing_reads_or_writes_an_address(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a path it is a folder where the program was started, whoever gives it: the command line, a program, Spark."""
    monkeypatch.chdir(tmp_path)
    for fields in ({"store_path": "/s", "archive_path": text}, {"store_path": text, "archive_path": "/a"}):
        with pytest.raises(ConfigError, match="is an address"):
            ArchiveConfig(**fields)
    for fields in ({"store_path": "/s", "output": text}, {"store_path": text, "output": "/o"}):
        with pytest.raises(ConfigError, match="is an address"):
            RebuildConfig(**fields)
    for fields in ({"store_path_root_dir": text}, {"store_path_commit_log": text}):
        with pytest.raises(ConfigError, match="is an address"):
            MessageStoreConfig(**fields)
    for option in ("archivePath", "storePath"):
        with pytest.raises(OptionError, match=f"option '{option}': .* is an address"):
            parse_options({option: text, "topic": "orders"})
    with pytest.raises(OptionError, match="is an address"):
        compact(LocalTasks(), CompactConfig(archive_path=text), "run", 0, None, lambda step: None)
    with pytest.raises(OptionError, match="is an address"):
        archive_manifest.place(text)
    with pytest.raises(OptionError, match="is an address"):
        archive_plan.ends(text)
    assert list(tmp_path.iterdir()) == []


def test_an_address_behind_a_blank_is_one():
    assert address_fault(" s3://bucket/prod")
    assert address_fault("\ts3://bucket/prod")
