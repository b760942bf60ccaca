"""Every request has a handler or a named refusal."""

from regulus.broker.request_table import HANDLERS
from regulus.wire.codes import RequestCode

FOR_CLIENTS = {10, 11, 12, 14, 15, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 46, 310, 320, 324, 325, 361}


def test_what_clients_ask_is_answered():
    assert set(HANDLERS) >= FOR_CLIENTS


def test_only_known_codes_are_in_the_table():
    assert set(HANDLERS) <= {int(code) for code in RequestCode}
    assert all(type(code) in (int, RequestCode) for code in HANDLERS)
