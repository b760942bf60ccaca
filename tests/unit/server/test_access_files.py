"""Accounts in files: read anew when they change, and never by half."""

import logging
import os
from pathlib import Path

import pytest

from regulus.access.accounts import Grant
from regulus.access.credentials import Credentials
from regulus.access.decision import Action, Allowed, Need, ResourceKind
from regulus.access.plain_acl import AccountEntry, parse
from regulus.errors import ConfigError
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


def test_a_change_is_seen_at_the_next_look(main, tmp_path):
    files = AccessFiles(str(tmp_path), None)
    files.tick(0)
    write(main, account("another"))
    files.tick(LOOK_INTERVAL_MS - 1)
    assert may(files, "tester7")
    files.tick(LOOK_INTERVAL_MS)
    assert (may(files, "tester7"), may(files, "another")) == (False, True)


def test_a_broken_file_keeps_all_accounts_and_is_told_once(main, tmp_path, caplog):
    files = AccessFiles(str(tmp_path), None)
    write(main, "accounts:\n- accessKey: tester7\n  secretKey: @secret-of-somebody\n")
    with caplog.at_level(logging.INFO):
        for now_ms in range(0, 5 * LOOK_INTERVAL_MS, LOOK_INTERVAL_MS):
            files.tick(now_ms)
    assert may(files, "tester7")
    assert len(caplog.records) == 1
    assert f"accounts stay as they were: {main}:3: this is no YAML" in caplog.text
    assert "secret-of-somebody" not in caplog.text
    write(main, account("another"))
    files.tick(9 * LOOK_INTERVAL_MS)
    assert (may(files, "tester7"), may(files, "another")) == (False, True)


def test_a_file_that_is_gone_takes_its_accounts_along(main, tmp_path):
    more = tmp_path / "conf" / "acl" / "team" / "more.yaml"
    write(more, account("another"))
    files = AccessFiles(str(tmp_path), None)
    assert may(files, "another")
    more.unlink()
    files.tick(0)
    assert (may(files, "another"), may(files, "tester7")) == (False, True)


def test_an_account_of_two_files_counts_in_the_first(main, tmp_path, caplog):
    write(tmp_path / "conf" / "acl" / "b.yml", account("tester7", "orders=SUB"))
    write(tmp_path / "conf" / "acl" / "a.yml", account("another"))
    files = AccessFiles(str(tmp_path), None)
    assert not may(files, "tester7")
    assert "the account tester7 stands in a file before this one" in caplog.text


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
    files.tick(0)
    files.update_account(AccountEntry(access_key="newcomer", secret_key="new-secret"), 8)
    assert [entry.access_key for entry in parse(main.read_text(), "f").accounts] == ["by-hand", "newcomer"]


def test_the_brokers_own_account_cannot_be_changed_by_a_request(main, tmp_path):
    files = AccessFiles(str(tmp_path), Credentials("brokers", "secret-of-brokers"))
    with pytest.raises(ConfigError, match="is how brokers sign"):
        files.update_account(AccountEntry(access_key="brokers", secret_key="new-secret"), 7)
    with pytest.raises(ConfigError, match="there is no account brokers"):
        files.delete_account("brokers", 7)
