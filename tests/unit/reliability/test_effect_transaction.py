"""An effect that ends its transaction by itself: nothing is done then, and the message comes again."""

import pytest
from sqlalchemy import insert
from sqlalchemy.exc import InvalidRequestError

from regulus.errors import ReliabilityRefused
from regulus.model.message import Message
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.outbox import Outbox

from .deliveries import context, message
from .shop import book, booked, bookings, count_stubs, place_orders, stub

ENDED = "ended the transaction by itself"


class Unheard:
    """Confirmations that nobody needs."""

    def confirm(self, message_id, consumer_group):
        pass


def write(connection, text):
    connection.execute(insert(bookings).values(order_id=text))


def commits(connection):
    connection.commit()


def swallows_its_refusal(connection):
    with pytest.raises(ReliabilityRefused, match=ENDED):
        connection.commit()


def commits_in_words(connection):
    connection.exec_driver_sql("COMMIT")


def rolls_back(connection):
    connection.rollback()


def rolls_back_in_words(connection):
    connection.exec_driver_sql("ROLLBACK")


def rolls_back_by_the_driver(connection):
    connection.connection.rollback()


def ends(engine, deed, **options):
    """What is raised, of an effect that does it between its two halves."""
    def effect(connection, message):
        write(connection, "half")
        deed(connection)
        write(connection, "other half")

    with pytest.raises((ReliabilityRefused, InvalidRequestError)) as raised:
        ApplyOnce(engine, effect, **options)([message("1")], context())
    return raised.value


@pytest.mark.parametrize("deed", [commits, rolls_back, rolls_back_in_words, rolls_back_by_the_driver])
def test_nothing_is_done_and_the_message_comes_again(engine, deed):
    place_orders(engine, "1")
    ends(engine, deed)
    assert (booked(engine), stub(engine, "1").status) == ([], "UNCONFIRMED")
    ApplyOnce(engine, book)([message("1")], context())
    assert (booked(engine), stub(engine, "1").status) == (["1"], "CONFIRMED")


@pytest.mark.parametrize("deed", [commits, commits_in_words, rolls_back_in_words, rolls_back_by_the_driver])
def test_it_is_told_so(engine, deed):
    place_orders(engine, "1")
    assert ENDED in str(ends(engine, deed))


def test_a_refusal_that_the_effect_swallows_lets_nothing_through(engine):
    place_orders(engine, "1")
    ends(engine, swallows_its_refusal)
    assert (booked(engine), stub(engine, "1").status) == ([], "UNCONFIRMED")


def test_where_the_inbox_judges(engine):
    assert ENDED in str(ends(engine, rolls_back_in_words, confirms=Unheard()))
    assert booked(engine) == []


def test_where_a_group_is_one_of_several(engine):
    with engine.begin() as connection:
        write(connection, "order")
        Outbox(groups=("billing", "stock")).add(connection, Message("orders", b"1"), message_id="1")
    assert ENDED in str(ends(engine, rolls_back_in_words))
    assert booked(engine) == ["order"]


def test_what_the_effect_commits_in_a_transaction_of_its_own_making_is_no_confirmation(engine):
    """Another stub, which the rest of the effect writes, does not stand for the one that was rolled back."""
    place_orders(engine, "1")

    def rolls_back_and_goes_on(connection):
        connection.connection.rollback()
        Outbox().add(connection, Message("orders", b"2"), message_id="2")

    assert ENDED in str(ends(engine, rolls_back_and_goes_on))
    assert (booked(engine), count_stubs(engine)) == ([], 1)


def test_what_the_effect_undoes_within_it_is_its_own_affair(engine):
    place_orders(engine, "1")

    def effect(connection, message):
        attempt = connection.begin_nested()
        write(connection, "a try")
        attempt.rollback()
        book(connection, message)

    ApplyOnce(engine, effect)([message("1")], context())
    assert booked(engine) == ["1"]
