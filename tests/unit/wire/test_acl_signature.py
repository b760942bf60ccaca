"""The signature of a request, as Java's clients make it."""

import hmac
from base64 import b64encode

import pytest

from regulus.wire.acl_signature import sign, signature, signed_content
from regulus.wire.remoting_command import RemotingCommand

RECORDED = (
    ({"topic": "topicB", "AccessKey": "rocketmq2"}, "dOtZhW/5r3IV6xiQeIapU8g+MpY="),
    ({"AccessKey": "rocketmq2"}, "Ou1T58RIcyZWaTIwzkhJZWn/Zvs="),
    ({"accessKey": "newuser", "AccessKey": "rocketmq2"}, "kcLk73plvlceY/TsBmxhfDgXNjs="),
    ({"globalWhiteAddrs": "10.10.103.*,192.168.0.*", "AccessKey": "rocketmq2"}, "0pf+cFgjjcFx7H9t4DPVDt6zEtQ="),
)
"""Of a Java client of 4.9.8 with the secret 12345678."""


@pytest.mark.parametrize(("ext", "expected"), RECORDED)
def test_it_is_the_recorded_one(ext, expected):
    assert signature(ext, b"", "12345678") == expected
    assert signature({**ext, "Signature": "whatever"}, b"", "12345678") == expected


def test_names_are_ordered_as_java_orders_them():
    """By units of UTF-16: what stands in two of them comes before the last letters that stand in one."""
    assert signed_content({"\uff21": "2", "\U0001f600": "1", "a": "0"}) == b"012"
    assert signed_content({"b": "2", "B": "1", "A": "0"}) == b"012"


def test_a_lone_surrogate_is_written_as_java_writes_it():
    assert signed_content({"a": "x\ud800y", "\udc00": "z"}) == b"x?yz"


def test_a_field_is_left_out():
    assert signed_content({"a": "0", "b": "1", "c": "2"}, "b") == b"02"


def test_the_body_follows_the_fields_and_the_access_key_is_one():
    request = RemotingCommand.request(310, {"b": "orders", "z": "9"}, b"body")
    sign(request, "billing", "secret")
    expected = b64encode(hmac.digest(b"secret", b"billing" + b"orders" + b"9" + b"body", "sha1")).decode()
    assert request.ext == {"b": "orders", "z": "9", "AccessKey": "billing", "Signature": expected}
