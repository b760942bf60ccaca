import errno
import json
import os
from pathlib import Path

import pytest

from regulus.errors import StoreDamaged, StoreError
from regulus.store.json_file import JsonFiles

JAVA = '{\n\t"offsetTable":{\n\t\t"TopicA@g{1":{0:12,1:9\n\t\t}\n\t}\n}'


def test_a_document_comes_back_and_leaves_its_last_state_beside_it(tmp_path: Path) -> None:
    files = JsonFiles(tmp_path / "config")
    assert files.load("topics") is None
    files.save("topics", [b'{"a":1}'])
    files.save("topics", [JAVA.encode()])
    assert files.load("topics") == JAVA
    assert (tmp_path / "config/topics.json.bak").read_text() == '{"a":1}'
    assert sorted(path.name for path in (tmp_path / "config").iterdir()) == ["topics.json", "topics.json.bak"]
    assert files.warnings == []


@pytest.mark.parametrize("damaged", [
    b"", b"{", b'{"a":{"b":1}', b'{"a":"\xff"}', b'"text"', b'{"a":[1}', b'{"a":"x}', b"nonsense"])
def test_a_damaged_document_is_read_from_its_backup(tmp_path: Path, damaged: bytes) -> None:
    files = JsonFiles(tmp_path)
    files.save("topics", [b'{"a":1}'])
    files.save("topics", [b'{"a":2}'])
    (tmp_path / "topics.json").write_bytes(damaged)
    assert files.load("topics") == '{"a":1}'
    assert "topics.json" in files.warnings[0]


def test_a_missing_document_is_read_from_its_backup(tmp_path: Path) -> None:
    (tmp_path / "topics.json.bak").write_text(JAVA)
    assert JsonFiles(tmp_path).load("topics") == JAVA


@pytest.mark.parametrize(("text", "backup"), [("{", ""), ("{", None), ("", "{"), (None, "{"), ("{", "[")])
def test_what_was_saved_is_not_passed_over(tmp_path: Path, text: str | None, backup: str | None) -> None:
    """To start without topics, and to save that over them, would be worse than not to start."""
    for name, content in (("topics.json", text), ("topics.json.bak", backup)):
        if content is not None:
            (tmp_path / name).write_text(content)
    with pytest.raises(StoreDamaged, match=r"topics\.json is not a whole JSON document.*move both away"):
        JsonFiles(tmp_path).load("topics")


@pytest.mark.parametrize("backup", ["", None])
def test_an_empty_document_was_never_saved(tmp_path: Path, backup: str | None) -> None:
    (tmp_path / "topics.json").touch()
    if backup is not None:
        (tmp_path / "topics.json.bak").write_text(backup)
    assert JsonFiles(tmp_path).load("topics") is None


def test_a_damaged_document_does_not_become_the_backup(tmp_path: Path) -> None:
    files = JsonFiles(tmp_path)
    files.save("topics", [b"{}"])
    files.save("topics", [b'{"a":1}'])
    (tmp_path / "topics.json").write_text('{"a":')
    files = JsonFiles(tmp_path)
    assert files.load("topics") == "{}"
    files.save("topics", [b'{"a":3}'])
    assert files.load("topics") == '{"a":3}'
    assert (tmp_path / "topics.json.bak").read_text() == "{}"


def test_brackets_in_strings_do_not_count(tmp_path: Path) -> None:
    text = '{"expression":"a > \\"}{[\\\\"}'
    files = JsonFiles(tmp_path)
    files.save("consumerFilter", [text.encode()])
    assert files.load("consumerFilter") == text


@pytest.mark.parametrize(("text", "read"), [
    ('\ufeff{"a":1}', {"a": 1}),
    ('{"a":1, // the "old" one\n "b":[1,2,],\n}', {"a": 1, "b": [1, 2]}),
    ('/* by hand: } */ {"a":"// no comment, }", "b":",]" /* none */ , }', {"a": "// no comment, }", "b": ",]"}),
    ('{"a":"a \\" // b ,}",}', {"a": 'a " // b ,}'}),
])
def test_what_an_editor_or_a_hand_leaves_in_a_document_is_read_over(tmp_path: Path, text: str,
                                                                    read: dict[str, object]) -> None:
    (tmp_path / "topics.json").write_text(text, encoding="utf-8")
    files = JsonFiles(tmp_path)
    assert json.loads(files.load("topics") or "") == read
    assert files.warnings == []


@pytest.mark.parametrize("name", ["", "../topics", ".hidden"])
def test_a_name_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError):
        JsonFiles(tmp_path).load(name)


@pytest.mark.parametrize("has_links", [True, False])
def test_a_save_that_fails_leaves_document_and_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                      has_links: bool) -> None:
    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    files = JsonFiles(tmp_path)
    files.save("topics", [b'{"a":1}'])
    files.save("topics", [b'{"a":2}'])
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StoreError):
        files.save("topics", [b'{"a":3}'])
    assert files.load("topics") == '{"a":2}'
    assert (tmp_path / "topics.json.bak").read_text() == '{"a":1}'
    assert sorted(path.name for path in tmp_path.iterdir()) == ["topics.json", "topics.json.bak"]


def test_the_document_is_there_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for whoever reads it meanwhile, such as a Spark job."""
    files = JsonFiles(tmp_path)
    files.save("topics", [b'{"a":1}'])
    seen = []
    replace = Path.replace

    def look(path: Path, target: Path) -> Path:
        seen.append((tmp_path / "topics.json").read_text())
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", look)
    files.save("topics", [b'{"a":2}'])
    assert seen == ['{"a":1}', '{"a":1}']


def test_brackets_nested_beyond_all_use_are_damage(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(StoreDamaged):
        JsonFiles(tmp_path).load("topics")


def refuse(*arguments: object) -> None:
    raise OSError(errno.EPERM, "not here")


def test_the_counts_of_timers_have_no_suffix_as_with_rocketmq(tmp_path):
    files = JsonFiles(tmp_path)
    for text in (b'{"dataVersion":{}}', b"{}"):
        files.save("timermetrics", [text])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["timermetrics", "timermetrics.bak"]
    assert files.load("timermetrics") == "{}"
