"""`regulus acl explain`: the rule that decides, from the file."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from regulus.cli.acl import acl

ACCOUNTS = """
globalWhiteRemoteAddresses: [10.9.9.9]
accounts:
- accessKey: billing
  secretKey: secret-of-billing
  defaultTopicPerm: DENY
  topicPerms: [orders=SUB]
  groupPerms: [billing=SUB]
"""


@pytest.fixture
def explain(tmp_path: Path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(ACCOUNTS)

    def run(*words: str):
        return CliRunner().invoke(acl, ["explain", *words, "--home", str(tmp_path), "--output", "json"])

    return run


@pytest.mark.parametrize(("words", "verdict", "rule"), [
    (("billing", "orders", "SUB"), "allowed", "topicPerms orders=SUB of billing"),
    (("billing", "orders", "pub"), "denied", "topicPerms orders=SUB of billing"),
    (("billing", "others", "SUB"), "denied", "defaultTopicPerm=DENY of billing"),
    (("billing", "billing", "SUB", "--group"), "allowed", "groupPerms billing=SUB of billing"),
    (("billing", "%RETRY%billing", "SUB"), "allowed", "groupPerms billing=SUB of billing"),
    (("billing", "orders", "DELETE"), "denied", "billing is not admin"),
    (("nobody", "orders", "SUB"), "denied", "nobody has no account"),
    (("nobody", "orders", "SUB", "--source", "10.9.9.9"), "allowed",
     "10.9.9.9 is one of globalWhiteRemoteAddresses"),
])
def test_the_rule_that_decides_is_said(explain, words, verdict, rule):
    result = explain(*words)
    said = json.loads(result.output)
    assert (said["verdict"], said["rule"]) == (verdict, rule)
    assert result.exit_code == (0 if verdict == "allowed" else 1)
    assert "secret" not in result.output


USERS = {"users": [
    {"username": "billing", "password": "secret-of-billing", "userType": "Normal", "userStatus": "enable", "policies": [
        {"policyType": "Custom", "entries": [
            {"resource": "Topic:ord*", "actions": ["Sub"], "sourceIps": ["10.0.0.0/8"], "decision": "Allow"}]}]},
    {"username": "root", "password": "secret-of-root", "userType": "Super", "userStatus": "disable"}]}


@pytest.mark.parametrize(("words", "verdict", "rule"), [
    (("billing", "orders", "SUB", "--source", "10.1.1.1"), "allowed", "Custom policy of billing: Topic:ord* Sub Allow"),
    (("billing", "orders", "SUB"), "denied", "no policy of billing matches"),
    (("root", "orders", "SUB"), "denied", "root is disabled"),
    (("nobody", "orders", "SUB"), "denied", "nobody is no user")])
def test_the_policy_that_decides_is_said(tmp_path, words, verdict, rule):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "regulusAccess.json").write_text(json.dumps(USERS))
    result = CliRunner().invoke(acl, ["explain", *words, "--store", str(tmp_path), "--output", "json"])
    said = json.loads(result.output)
    assert (said["verdict"], said["rule"]) == (verdict, rule)
    assert "secret" not in result.output


def test_what_is_missing_is_named(tmp_path):
    nothing = CliRunner().invoke(acl, ["explain", "a", "b", "SUB"], env={"ROCKETMQ_HOME": None})
    assert "--store" in nothing.output
    empty = CliRunner().invoke(acl, ["explain", "a", "b", "SUB", "--store", str(tmp_path)])
    assert "has no regulusAccess.json" in str(empty.exception or empty.output)
