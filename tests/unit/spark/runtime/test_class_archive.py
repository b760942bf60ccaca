"""Where Java's archive of Spark's classes is looked for, and what a JVM is told of it."""

import os
from pathlib import Path

import pytest

from regulus.spark.runtime.class_archive import archive_of, used, written


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "java" / "bin" / "java").touch()
    return tmp_path / "java"


def test_another_java_and_another_spark_have_another_archive(home, tmp_path, monkeypatch):
    first = archive_of(home, tmp_path)
    assert first.parent == tmp_path
    assert archive_of(home, tmp_path) == first
    os.utime(home / "bin" / "java", ns=(1, 1))
    updated = archive_of(home, tmp_path)
    monkeypatch.setattr("regulus.spark.runtime.class_archive.version", lambda package: f"{package}-9")
    assert len({first, updated, archive_of(home, tmp_path)}) == 3


def test_a_path_with_a_space_is_one_option():
    for options in (used(Path("/a b/x.jsa")), written(Path("/a b/x.jsa"))):
        assert options.count('"') == 2
        assert '/a b/x.jsa" ' in options
