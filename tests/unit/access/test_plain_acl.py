"""The document of accounts: what is read, which line is at fault, and what a change leaves as it was."""

from pathlib import Path

import pytest

from regulus.access.accounts import Grant
from regulus.access.plain_acl import AccountEntry, PlainAcl, dump, parse
from regulus.errors import ConfigError

RELEASED = (Path(__file__).parents[2] / "golden" / "acl" / "plain_acl.before.yml").read_text()
REWRITTEN = (Path(__file__).parents[2] / "golden" / "acl" / "plain_acl.after.yml").read_text()

ROCKETMQ = AccountEntry(
    access_key="RocketMQ", secret_key="12345678", admin=False, default_topic_perm="DENY", default_group_perm="SUB",
    topic_perms=("topicA=DENY", "topicB=PUB|SUB", "topicC=SUB"),
    group_perms=("groupA=DENY", "groupB=PUB|SUB", "groupC=SUB"))
ROCKETMQ_2 = AccountEntry(access_key="rocketmq2", secret_key="12345678", white_remote_address="192.168.1.*", admin=True)


def test_the_file_of_the_release_is_read():
    assert parse(RELEASED, "f") == PlainAcl(white_addresses=("10.10.103.*", "192.168.0.*"),
                                            accounts=(ROCKETMQ, ROCKETMQ_2))


def test_the_file_as_the_real_broker_wrote_it_is_read():
    assert parse(REWRITTEN, "f") == PlainAcl(white_addresses=("10.10.103.*", "192.168.0.*"),
                                             accounts=(ROCKETMQ, ROCKETMQ_2), counter=3, timestamp=1795219694797)


def test_it_is_written_as_the_real_broker_writes_it_but_a_secret_of_digits_stays_a_text():
    assert dump(parse(REWRITTEN, "f")) == REWRITTEN.replace("secretKey: 12345678", "secretKey: '12345678'")


def test_an_account_as_it_counts():
    account = ROCKETMQ.account()
    assert account.topics == {"topicA": Grant.DENY, "topicB": Grant.PUB | Grant.SUB, "topicC": Grant.SUB}
    assert account.groups == {"groupA": Grant.DENY, "groupB": Grant.PUB | Grant.SUB, "groupC": Grant.SUB}
    assert (account.default_topic, account.default_group, account.admin) == (Grant.DENY, Grant.SUB, False)
    left_out = ROCKETMQ_2.account()
    assert (left_out.default_topic, left_out.default_group, left_out.admin) == (Grant.DENY, Grant.DENY, True)


@pytest.mark.parametrize("text", ["", "# only words\n", "null\n", "accounts:\nglobalWhiteRemoteAddresses:\n"])
def test_an_empty_document_has_no_accounts(text):
    assert parse(text, "f") == PlainAcl()


def test_a_secret_with_leading_zeros_keeps_them():
    text = "accounts:\n- accessKey: leading\n  secretKey: 0012345\n"
    assert parse(text, "f").accounts[0].secret_key == "0012345"


@pytest.mark.parametrize(("text", "fault"), [
    ("accounts:\n- accessKey: abcdefg\n  secretKey: hunter\n", "f:2: the secretKey of 'abcdefg' has 6 characters"),
    ("accounts:\n- accessKey: abc\n  secretKey: hunter22\n", "f:2: the accessKey has 3 characters"),
    ("accounts:\n- accessKey: abcdefg\n", "f:2: the secretKey of 'abcdefg' has 0 characters"),
    ("accounts:\n- accessKey: abcdefg\n  secretKey: hunter22\n  topicPerms:\n  - a=PUB\n  - b\n", "f:6: 'b' is no"),
    ("accounts:\n- accessKey: abcdefg\n  secretKey: hunter22\n  groupPerms:\n  - g=ALL\n", "f:5: 'ALL' is no"),
    ("accounts:\n- accessKey: abcdefg\n  secretKey: hunter22\n  defaultTopicPerm: PUP\n", "f:2: 'PUP' is no"),
    ("accounts:\n- accessKey: abcdefg\n  secretKey: hunter22\n  admin: maybe\n", "f:4: admin is true or false"),
    ("accounts:\n- accessKey: abcdefg\n  secretKey: hunter22\n  whiteRemoteAddress: 1.2\n", "f:2: white address"),
    ("accounts:\n- accessKey: abcdefg\n  secretkey: hunter22\n", "f:3: unknown key 'secretkey'"),
    ("accounts:\n  accessKey: abcdefg\n", "f:2: write a list here"),
    ("accounts:\n- abcdefg\n", "f:2: write keys with values here"),
    ("accounts:\n- &a {accessKey: abcdefg, secretKey: hunter22}\n- *a\n", "f:2: the account abcdefg occurs twice"),
    ("globalWhiteRemoteAddresses:\n- 10.0.0.*\n- 10.0.0\n", "f:2: white address '10.0.0'"),
    ("accounts:\naccounts:\n", "f:2: accounts occurs twice"),
    ("dataVersion:\n- counter: x\n", "f:2: counter and timestamp are numbers"),
    ("accounts:\n- accessKey: [\n", "f:3: this is not YAML"),
    ("accounts:\n- accessKey: abcdefg\n  secretKey: *hunter22\n", "f:3: this is not YAML: found undefined alias;"),
    ("accounts:\n- accessKey: abcdefg\n  secretKey: \x00hunter22\n", "f:1: this is not YAML"),
])
def test_a_fault_is_named_with_its_line_and_without_the_secret(text, fault):
    with pytest.raises(ConfigError) as caught:
        parse(text, "f")
    assert str(caught.value).startswith(fault)
    assert "hunter" not in str(caught.value)


def test_a_document_that_refers_to_itself_ends():
    with pytest.raises(ConfigError):
        parse("accounts: &a\n- *a\n", "f")


def test_what_a_change_leaves_out_stays():
    acl = PlainAcl(accounts=(ROCKETMQ, ROCKETMQ_2))
    changed = acl.with_account(AccountEntry(access_key="RocketMQ", secret_key="abcdefgh", topic_perms=("x=SUB",)), 7)
    assert changed.accounts == (ROCKETMQ_2, AccountEntry(
        access_key="RocketMQ", secret_key="abcdefgh", admin=False, default_topic_perm="DENY", default_group_perm="SUB",
        topic_perms=("x=SUB",), group_perms=("groupA=DENY", "groupB=PUB|SUB", "groupC=SUB")))
    assert (changed.counter, changed.timestamp) == (1, 7)


def test_an_empty_white_address_takes_it_away():
    acl = PlainAcl(accounts=(ROCKETMQ_2,))
    changed = acl.with_account(AccountEntry(access_key="rocketmq2", secret_key="12345678", white_remote_address="",
                                            admin=True), 1)
    assert not changed.accounts[0].account().white_addresses


@pytest.mark.parametrize("entry", [
    AccountEntry(access_key="RocketMQ", secret_key="short"),
    AccountEntry(access_key="new_one", secret_key="12345678", topic_perms=("a",)),
    AccountEntry(access_key="new_one", secret_key="12345678", default_group_perm="ALL"),
    AccountEntry(access_key="new_one", secret_key="12345678", white_remote_address="10.0"),
])
def test_a_change_that_cannot_be_is_refused(entry):
    with pytest.raises(ConfigError):
        PlainAcl(accounts=(ROCKETMQ,)).with_account(entry, 1)


def test_a_secret_is_in_no_repr():
    acl = PlainAcl(accounts=(ROCKETMQ,))
    assert "12345678" not in repr(acl) + repr(ROCKETMQ) + repr(ROCKETMQ.account())


def test_a_deny_wins_over_another_entry_of_the_same_name():
    text = "accounts:\n- accessKey: tester7\n  secretKey: secret-7\n  topicPerms: [orders=DENY, orders=PUB]\n"
    (entry,) = parse(text, "f").accounts
    assert entry.account().topics == {"orders": Grant.DENY | Grant.PUB}
