"""The messages of a Java batch have one id where RocketMQ stored them, and are as many messages all the same."""

import base64

import pytest

from regulus.client.listener import ConsumeStatus
from regulus.record import message_record
from regulus.reliability import tables
from regulus.reliability.inbox import ApplyOnce
from tests.golden.test_batches import RECORDS

from .deliveries import context, rows
from .shop import book, booked, place_orders
from .test_decision_table import Told
from .test_inbox import KeptClaims

SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER
BODIES = ["order-0", "order-1", "order-2"]


def batch(**properties):
    """As a consumer gets it; `properties` of each by its body."""
    found = [message_record.decode(base64.b64decode(line["record_base64"])) for line in RECORDS]
    for message in found:
        message.properties.update({name: value(message.body.decode()) for name, value in properties.items()})
    return found


@pytest.mark.parametrize("has_inbox", [False, True], ids=["one database", "two"])
@pytest.mark.parametrize("at_once", [True, False], ids=["in one call", "one by one"])
def test_each_of_a_batch_has_its_effect_by_its_business_id(engine, has_inbox, at_once):
    place_orders(engine, *BODIES)
    claims = KeptClaims()
    listener = ApplyOnce(engine, book, claims=claims, confirms=Told() if has_inbox else None)
    for _ in range(2):
        messages = batch(BUSINESS_ID=lambda body: body)
        assert len({message.message_id for message in messages}) == 1
        calls = [messages] if at_once else [[message] for message in messages]
        assert [listener(call, context()) for call in calls] == [SUCCESS] * len(calls)
    assert booked(engine) == BODIES
    assert claims.done == set(BODIES)
    assert rows(engine, tables.message_log, "message_id") == []
    assert rows(engine, tables.attempts, "message_id", "outcome") == [
        (body, outcome) for body in BODIES for outcome in ("APPLIED", "DONE")]


@pytest.mark.parametrize("has_inbox", [False, True], ids=["one database", "two"])
def test_a_batch_without_business_ids_has_no_effect_and_is_not_done(engine, has_inbox):
    listener = ApplyOnce(engine, book, claims=KeptClaims(), confirms=Told() if has_inbox else None)
    assert listener(batch(), context()) is LATER
    assert (booked(engine), rows(engine, tables.inbox, "message_id"), rows(engine, tables.message_log, "message_id"),
            rows(engine, tables.attempts, "message_id")) == ([], [], [], [])
