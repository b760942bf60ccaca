"""Accounts in files: read anew when they change, and never by half."""

import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from regulus.access.accounts import Grant
from regulus.access.credentials import Credentials
from regulus.access.decision import Action, Allowed, Need, ResourceKind
from regulus.access.plain_acl import DOCUMENT_SIZE_MAX, AccountEntry, PlainAcl, parse
from regulus.errors import ConfigError
from regulus.server import access_files
from regulus.server.access_files import FILES_MAX, LOOK_INTERVAL_MS, AccessFiles

PUB = (Need(ResourceKind.TOPIC, "orders", (Action.PUB,)),)


def account(name: str, perm: str = "orders=PUB") -> str:
    return f"accounts:\n- accessKey: {name}\n  secretKey: secret-{name}\n  topicPerms: [{perm}]\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    if path.stat().st_mtime_ns == before:       # a clock of a file system may be coarse
        os.utime(path, ns=(before + 1, before + 1))


@pytest.fixture
def main(tmp_path: Path) -> Path:
    path = tmp_path / "conf" / "plain_acl.yml"
    write(path, account("tester7"))
    return path


def may(files: AccessFiles, name: str) -> bool:
    return isinstance(files.rules.permit(name, "10.0.0.5", PUB), Allowed)


def test_a_change_is_seen_when_two_looks_have_found_it(main, tmp_path):
    files = AccessFiles(str(tmp_path), None)
    files.tick(0)
    write(main, account("another"))
    files.tick(LOOK_INTERVAL_MS)
    files.tick(2 * LOOK_INTERVAL_MS - 1)
    assert may(files, "tester7")
    files.tick(2 * LOOK_INTERVAL_MS)
    assert (may(files, "tester7"), may(files, "another")) == (False, True)


def test_the_first_half_of_a_file_does_not_hold(main, tmp_path):
    """It lacks the DENY that comes behind, and is good YAML all the same."""
    half = "accounts:\n- accessKey: another\n  secretKey: secret-of-another\n  defaultTopicPerm: PUB\n"
    files = AccessFiles(str(tmp_path), None)
    write(main, half)
    files.tick(0)
    assert not may(files, "another")
    write(main, half + "  topicPerms: [orders=DENY]\n")
    for looks in (1, 2):
        files.tick(looks * LOOK_INTERVAL_MS)
    assert not may(files, "another")
    invoices = (Need(ResourceKind.TOPIC, "invoices", (Action.PUB,)),)
    assert isinstance(files.rules.permit("another", "10.0.0.5", invoices), Allowed)


def test_what_changes_while_it_is_read_does_not_hold(main, tmp_path, monkeypatch):
    files = AccessFiles(str(tmp_path), None)
    write(main, account("another"))
    files.tick(0)
    read = access_files._read

    def read_and_change(path: Path) -> PlainAcl:
        found = read(path)
        write(main, account("another", "orders=DENY"))
        return found

    monkeypatch.setattr(access_files, "_read", read_and_change)
    files.tick(LOOK_INTERVAL_MS)
    assert not may(files, "another")
    monkeypatch.undo()
    for looks in (2, 3):
        files.tick(looks * LOOK_INTERVAL_MS)
    assert (may(files, "another"), may(files, "tester7")) == (False, False)


class Later(Executor):
    """Does what it is given when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def work(self) -> None:
        for future, deed in self.waiting:
            future.set_result(deed())
        self.waiting.clear()


def test_files_are_looked_at_by_somebody_else_and_by_one_at_a_time(main, tmp_path):
    reader = Later()
    files = AccessFiles(str(tmp_path), None, reader)
    write(main, account("another"))
    for looks in range(5):
        files.tick(looks * LOOK_INTERVAL_MS)
    assert len(reader.waiting) == 1
    reader.work()
    files.tick(5 * LOOK_INTERVAL_MS)        # takes it
    files.tick(6 * LOOK_INTERVAL_MS)
    assert may(files, "tester7")
    reader.work()
    files.tick(7 * LOOK_INTERVAL_MS)
    assert (may(files, "tester7"), may(files, "another")) == (False, True)


def test_what_was_read_before_a_change_of_ours_does_not_take_it_back(main, tmp_path):
    reader = Later()
    files = AccessFiles(str(tmp_path), None, reader)
    files.tick(0)
    stale = Future()
    stale.set_result((files._looked, files._contents))      # as of a reader that ended just now
    files._reading = stale
    files.update_account(AccountEntry(access_key="newcomer", secret_key="new-secret", topic_perms=("orders=PUB",)), 7)
    files.tick(1)
    assert may(files, "newcomer")


def test_files_that_did_not_change_are_not_read_again(main, tmp_path, monkeypatch):
    more = tmp_path / "conf" / "acl" / "more.yml"
    write(more, account("another"))
    files = AccessFiles(str(tmp_path), None)
    read, paths = access_files._read, []
    monkeypatch.setattr(access_files, "_read", lambda path: paths.append(path) or read(path))
    write(main, account("tester8"))
    for looks in (0, 1):
        files.tick(looks * LOOK_INTERVAL_MS)
    assert paths == [main]
    assert (may(files, "another"), may(files, "tester8")) == (True, True)


def test_a_broken_file_keeps_all_accounts_and_is_told_once(main, tmp_path, caplog):
    files = AccessFiles(str(tmp_path), None)
    write(main, "accounts:\n- accessKey: tester7\n  secretKey: @secret-of-somebody\n")
    with caplog.at_level(logging.INFO):
        for now_ms in range(0, 5 * LOOK_INTERVAL_MS, LOOK_INTERVAL_MS):
            files.tick(now_ms)
    assert may(files, "tester7")
    assert len(caplog.records) == 1
    assert f"accounts stay as they were: {main}:3: this is not YAML" in caplog.text
    assert "secret-of-somebody" not in caplog.text
    write(main, account("another"))
    for looks in (9, 10):
        files.tick(looks * LOOK_INTERVAL_MS)
    assert (may(files, "tester7"), may(files, "another")) == (False, True)


def test_a_file_that_is_gone_takes_its_accounts_along(main, tmp_path):
    more = tmp_path / "conf" / "acl" / "team" / "more.yaml"
    write(more, account("another"))
    files = AccessFiles(str(tmp_path), None)
    assert may(files, "another")
    more.unlink()
    for looks in (0, 1):
        files.tick(looks * LOOK_INTERVAL_MS)
    assert (may(files, "another"), may(files, "tester7")) == (False, True)


def test_an_account_of_two_files_counts_in_the_first(main, tmp_path, caplog):
    write(tmp_path / "conf" / "acl" / "b.yml", account("tester7", "orders=SUB"))
    write(tmp_path / "conf" / "acl" / "a.yml", account("another"))
    files = AccessFiles(str(tmp_path), None)
    assert not may(files, "tester7")
    assert "the account tester7 is in an earlier file" in caplog.text


def test_there_is_a_limit_of_files(main, tmp_path):
    for number in range(FILES_MAX):
        write(tmp_path / "conf" / "acl" / f"{number}.yml", "")
    with pytest.raises(ConfigError, match="more than 64 files"):
        AccessFiles(str(tmp_path), None)


def test_without_files_there_is_only_the_brokers_account(tmp_path, caplog):
    files = AccessFiles(str(tmp_path), Credentials("brokers", "secret-of-brokers"))
    assert may(files, "brokers")
    assert "there is no account" not in caplog.text
    AccessFiles(str(tmp_path), None)
    assert "there is no account" in caplog.text


def test_a_changed_account_stays_in_its_file_and_a_new_one_goes_to_the_main_one(main, tmp_path):
    more = tmp_path / "conf" / "acl" / "more.yml"
    write(more, account("another"))
    files = AccessFiles(str(tmp_path), None)
    files.update_account(AccountEntry(access_key="another", secret_key="new-secret", topic_perms=("orders=SUB",)), 7)
    files.update_account(AccountEntry(access_key="newcomer", secret_key="new-secret"), 8)
    assert [entry.access_key for entry in parse(main.read_text(), "f").accounts] == ["tester7", "newcomer"]
    (changed,) = parse(more.read_text(), "f").accounts
    assert changed.account().topics == {"orders": Grant.SUB}
    assert [path.stat().st_mode & 0o777 for path in (main, more)] == [0o600, 0o600]
    version, versions = files.versions()
    assert (version.counter, version.timestamp) == (1, 8)
    assert {path: each.timestamp for path, each in versions.items()} == {str(more): 7, str(main): 8}


def test_a_change_by_hand_is_not_overwritten(main, tmp_path):
    files = AccessFiles(str(tmp_path), None)
    write(main, account("by-hand"))
    with pytest.raises(ConfigError, match="just been changed by somebody else"):
        files.update_account(AccountEntry(access_key="newcomer", secret_key="new-secret"), 7)
    for looks in (0, 1):
        files.tick(looks * LOOK_INTERVAL_MS)
    files.update_account(AccountEntry(access_key="newcomer", secret_key="new-secret"), 8)
    assert [entry.access_key for entry in parse(main.read_text(), "f").accounts] == ["by-hand", "newcomer"]


def test_the_brokers_own_account_cannot_be_changed_by_a_request(main, tmp_path):
    files = AccessFiles(str(tmp_path), Credentials("brokers", "secret-of-brokers"))
    with pytest.raises(ConfigError, match="is how brokers sign"):
        files.update_account(AccountEntry(access_key="brokers", secret_key="new-secret"), 7)
    with pytest.raises(ConfigError, match="there is no account brokers"):
        files.delete_account("brokers", 7)


def test_no_file_gives_itself_the_account_of_the_brokers(main, tmp_path):
    write(main, account("brokers"))
    files = AccessFiles(str(tmp_path), Credentials("brokers", "the-real-secret"))
    assert files.rules.secret_of("brokers") == "the-real-secret"


def test_an_endless_file_is_not_read(main, tmp_path):
    write(main, account("tester7") + "#" * DOCUMENT_SIZE_MAX)
    with pytest.raises(ConfigError, match="1048576 are the most"):
        AccessFiles(str(tmp_path), None)
