"""A send passes when it is as one that the rules let in, and its signature is right; all else is left to the rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.access import signed_sends
from regulus.access.signature_check import is_signed
from regulus.access.signed_sends import SignedSends
from regulus.wire import header_json, header_rocketmq
from regulus.wire.acl_signature import sign
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import JSON, ROCKETMQ, RemotingCommand

RULES = object()
CHANNEL = 7
FIELDS = {"a": "PG", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000001", "h": "0",
          "i": "UNIQ_KEY\x01K1\x02TAGS\x01red\x02", "j": "0", "k": "false", "m": "false", "n": "broker-a"}
KINDS = pytest.mark.parametrize("kind", [JSON, ROCKETMQ])


def read(command: RemotingCommand) -> RemotingCommand:
    """As a frame brings it: its fields are left as they came. Interpreted, headers are not scanned."""
    if command.serialize_type == ROCKETMQ:
        header = header_rocketmq.encode(command, command.ext)
        header_rocketmq.decode(command, header, 0, len(header))
    else:
        header = header_json.encode(command)
        assert header_json.scan(command, header, 0, len(header))
    return command


def send(kind: int, fields: dict[str, str] | None = None, body: bytes = b"body", secret: str = "secret-of-billing",
         user: str = "billing", code: int = RequestCode.SEND_MESSAGE_V2) -> RemotingCommand:
    command = RemotingCommand(int(code), dict(FIELDS if fields is None else fields), body, serialize_type=kind)
    sign(command, user, secret)
    return read(command)


@pytest.fixture
def sends() -> SignedSends:
    made = SignedSends()
    made.remember(CHANNEL, RULES, "billing", "secret-of-billing", "orders")
    return made


@KINDS
def test_a_send_alike_passes_and_is_left_as_it_came(sends, kind):
    command = send(kind)
    assert sends.passes(command, CHANNEL, RULES)
    assert command.ext_map is None
    assert command.ext["b"] == "orders"


def test_a_batch_and_a_long_body_pass(sends):
    assert sends.passes(send(JSON, code=RequestCode.SEND_BATCH_MESSAGE), CHANNEL, RULES)
    assert sends.passes(send(JSON, body=b"x" * 100_000), CHANNEL, RULES)


def test_a_body_in_the_midst_of_what_was_read_passes(sends):
    command = send(JSON)
    command.leave_body(bytearray(b"....body...."), 4, 8)
    assert sends.passes(command, CHANNEL, RULES)
    command.leave_body(bytearray(b"....bode...."), 4, 8)
    assert not sends.passes(command, CHANNEL, RULES)


@KINDS
def test_whoever_is_not_remembered_is_left_to_the_rules(sends, kind):
    command = send(kind)
    assert not sends.passes(command, CHANNEL + 1, RULES)
    assert not sends.passes(command, CHANNEL, object())
    assert not sends.passes(send(kind, {**FIELDS, "b": "order"}), CHANNEL, RULES)
    assert not sends.passes(send(kind, user="others"), CHANNEL, RULES)
    assert not sends.passes(send(kind, code=RequestCode.SEND_MESSAGE), CHANNEL, RULES)
    assert not sends.passes(send(kind, code=RequestCode.PULL_MESSAGE), CHANNEL, RULES)


@KINDS
@pytest.mark.parametrize("name", [*FIELDS, "Signature"])
def test_a_field_that_was_changed_does_not_pass(sends, kind, name):
    command = send(kind)
    ext = dict(command.ext)
    ext[name] = ext[name][:-1] + ("x" if ext[name][-1] != "x" else "y")
    changed = read(RemotingCommand(command.code, ext, b"body", serialize_type=kind))
    assert not sends.passes(changed, CHANNEL, RULES)


@KINDS
@pytest.mark.parametrize("name", ["i", "AccessKey", "Signature", "b"])
def test_a_field_that_is_missing_does_not_pass(sends, kind, name):
    command = send(kind)
    ext = {each: value for each, value in command.ext.items() if each != name}
    assert not sends.passes(read(RemotingCommand(command.code, ext, b"body", serialize_type=kind)), CHANNEL, RULES)


@KINDS
def test_another_body_or_secret_does_not_pass(sends, kind):
    assert not sends.passes(send(kind, secret="secret-of-another"), CHANNEL, RULES)
    command = send(kind)
    command.body = b"bodx"
    assert not sends.passes(command, CHANNEL, RULES)


@KINDS
@pytest.mark.parametrize("name", ["o", "topic", "SecurityToken", "B", "`"])
def test_a_field_that_is_not_known_is_left_to_the_rules(sends, kind, name):
    """Whether it was signed or put in on the way."""
    assert not sends.passes(send(kind, {**FIELDS, name: "others"}), CHANNEL, RULES)
    command = send(kind)
    ext = {**command.ext, name: "others"}
    assert not sends.passes(read(RemotingCommand(command.code, ext, b"body", serialize_type=kind)), CHANNEL, RULES)


@pytest.mark.parametrize("value", ['say "so"', "back\\slash", "line\n", "\x03", "a\x00"])
def test_an_escape_beside_the_separators_is_left_to_the_rules(sends, value):
    assert not sends.passes(send(JSON, {**FIELDS, "a": value}), CHANNEL, RULES)


def test_a_number_in_json_is_left_to_the_rules(sends):
    command = send(JSON)
    command.ext_json = command.ext_json.replace(b'"d":"4"', b'"d":4')
    assert not sends.passes(command, CHANNEL, RULES)


def test_a_name_that_comes_twice_is_left_to_the_rules(sends):
    """Whoever reads the first and whoever reads the last would send to another topic than was signed."""
    for form in ('{{"b":"others",{}}}', '{{{},"b":"others"}}'):
        command = send(JSON)
        command.ext_json = form.format(command.ext_json.decode()[1:-1]).encode()
        assert not sends.passes(command, CHANNEL, RULES)
    others = b"\0\1b\0\0\0\6others"
    for before, behind in ((others, b""), (b"", others)):
        command = send(ROCKETMQ)
        command.ext_binary = before + command.ext_binary + behind
        assert not sends.passes(command, CHANNEL, RULES)


def test_new_rules_forget_what_others_let_in(sends):
    rules = object()
    sends.remember(CHANNEL + 1, rules, "billing", "secret-of-billing", "orders")
    assert sends.passes(send(JSON), CHANNEL + 1, rules)
    assert not sends.passes(send(JSON), CHANNEL, rules)


def test_another_account_of_the_connection_takes_nothing_over(sends):
    sends.remember(CHANNEL, RULES, "others", "secret-of-others", "invoices")
    assert not sends.passes(send(JSON, user="others", secret="secret-of-others"), CHANNEL, RULES)
    assert sends.passes(send(JSON, {**FIELDS, "b": "invoices"}, user="others", secret="secret-of-others"), CHANNEL,
                        RULES)


def test_what_is_kept_is_bounded(sends, monkeypatch):
    monkeypatch.setattr(signed_sends, "CHANNELS_MAX", 3)
    monkeypatch.setattr(signed_sends, "TOPICS_MAX", 2)
    for topic in ("one", "two"):
        sends.remember(CHANNEL, RULES, "billing", "secret-of-billing", topic)
    assert not sends.passes(send(JSON), CHANNEL, RULES)
    for channel in range(100, 103):
        sends.remember(channel, RULES, "billing", "secret-of-billing", "orders")
    assert not sends.passes(send(JSON, {**FIELDS, "b": "two"}), CHANNEL, RULES)
    assert sends.passes(send(JSON), 102, RULES)


def test_a_secret_longer_than_a_block_signs(sends):
    secret = "s" * 100
    sends.remember(CHANNEL, RULES, "billing", secret, "orders")
    assert not sends.passes(send(JSON), CHANNEL, RULES)
    assert sends.passes(send(JSON, secret=secret), CHANNEL, RULES)


TEXTS = st.text(alphabet="aB1 \x01\x02中é\"\\", max_size=12)


@given(st.dictionaries(st.sampled_from("acdefghijklmn"), TEXTS), st.binary(max_size=40), st.integers(0, 400),
       st.integers(1, 255), st.sampled_from([JSON, ROCKETMQ]))
def test_what_passes_has_a_signature_that_the_rules_take(fields, body, place, difference, kind):
    """Of any fields, and of any byte that was changed on the way."""
    sends = SignedSends()
    sends.remember(CHANNEL, RULES, "billing", "secret-of-billing", "orders")
    command = RemotingCommand(int(RequestCode.SEND_MESSAGE_V2), {**fields, "b": "orders"}, body, serialize_type=kind)
    sign(command, "billing", "secret-of-billing")
    if kind == ROCKETMQ:
        header = bytearray(header_rocketmq.encode(command, command.ext))
    else:
        header = bytearray(header_json.encode(command))
    if place < len(header):
        header[place] ^= difference
    try:
        if kind == ROCKETMQ:
            header_rocketmq.decode(command, bytes(header), 0, len(header))
        elif not header_json.scan(command, bytes(header), 0, len(header)):
            return
    except (header_json.FrameError, UnicodeDecodeError):
        return
    if sends.passes(command, CHANNEL, RULES):
        assert command.ext["b"] == "orders"
        assert command.ext["AccessKey"] == "billing"
        assert is_signed(command.ext, body, "secret-of-billing")
