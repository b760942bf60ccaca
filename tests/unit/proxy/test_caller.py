"""What the headers of a call say of who calls."""

import pytest

from regulus.errors import CallRefused
from regulus.proxy.caller import Caller, caller_of, check_client_id


def test_the_first_of_each_header_counts_and_others_are_passed_over() -> None:
    made = caller_of([("x-mq-client-id", "a"), ("x-mq-client-id", "b"), ("x-other", "c"), ("x-mq-namespace", "ns"),
                      ("authorization", "signed"), ("x-mq-date-time", "today")], "[::1]:80", "queue:8081", 5)
    assert (made.client_id, made.namespace, made.authorization, made.date_time, made.authority, made.deadline_ms) == (
        "a", "ns", "signed", "today", "queue:8081", 5)
    assert (made.host, Caller(peer="10.0.0.1:5").host) == ("::1", "10.0.0.1")


@pytest.mark.parametrize(("client_id", "code"), [("", 40017), (" \t", 40017), ("c" * 256, 43100)])
def test_a_client_has_a_name(client_id: str, code: int) -> None:
    with pytest.raises(CallRefused) as refused:
        check_client_id(Caller(client_id=client_id))
    assert refused.value.code == code


def test_names_that_clients_make_pass() -> None:
    for client_id in ("host@1234@0@abc", "c" * 255, "h\u00fcgel@1#2"):
        check_client_id(Caller(client_id=client_id))
