"""Recall handles, beside those that RecallMessageHandle.HandleV1 of RocketMQ 5.3.3 makes and takes."""

from base64 import urlsafe_b64encode

import pytest

from regulus.errors import HeaderError
from regulus.wire import recall_handle
from regulus.wire.recall_handle import HANDLE_SIZE_MAX, RecallHandle

ORIGINALS = [
    (RecallHandle("Orders", "broker-a", 1794700800001, "0A000001000018B4AAC2000000000001"),
     "djEgT3JkZXJzIGJyb2tlci1hIDE3OTQ3MDA4MDAwMDEgMEEwMDAwMDEwMDAwMThCNEFBQzIwMDAwMDAwMDAwMDE="),
    (RecallHandle("reminders_~x", "b?>~", 1, "K??>>~~k"), "djEgcmVtaW5kZXJzX354IGI_Pn4gMSBLPz8-Pn5-aw=="),
]
"""What `HandleV1.buildHandle` of rocketmq-common-5.3.3.jar returned for these."""


@pytest.mark.parametrize(("handle", "text"), ORIGINALS)
def test_a_handle_is_what_rocketmq_makes(handle, text):
    assert recall_handle.encode(handle) == text
    assert recall_handle.decode(text) == handle


def test_what_rocketmq_takes_is_taken():
    """Without the filling at its end, and with a word more."""
    assert recall_handle.decode("djEgVCBiIDEgSw") == RecallHandle("T", "b", 1, "K")
    assert recall_handle.decode("djEgVCBiIDEgSyBleHRyYQ==") == RecallHandle("T", "b", 1, "K")


def encoded(text):
    return urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize("text", [
    "", "!!", "\u4e2d", encoded("v2 T b 1 K"), encoded("v1 T b 1"), encoded("v1 T b \u00b2 K"),
    encoded("v1 T b \u0663 K"), encoded("v1 T b -1 K"), encoded("v1 T b  K"), encoded(f"v1 T b {'9' * 19} K"),
    "_w==", encoded(f"v1 T b 1 {'K' * HANDLE_SIZE_MAX}"), encoded("v1 T b 1 K") + "\n",
], ids=["empty", "no base64", "no ASCII", "version", "a part too few", "a digit that is no number", "a foreign digit",
        "before 1970", "no time", "a time too long", "no UTF-8", "too long", "a line's end"])
def test_what_is_none_is_refused_and_never_followed(text):
    with pytest.raises(HeaderError, match="recall handle is invalid"):
        recall_handle.decode(text)


def test_the_longest_time_is_taken():
    assert recall_handle.decode(encoded(f"v1 T b {'9' * 18} K")).timestamp == 10 ** 18 - 1
