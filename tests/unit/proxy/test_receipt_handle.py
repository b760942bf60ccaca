"""Receipt handles: made of a broker's answer, and read from a client that may have written anything."""

import pytest

from regulus.errors import CallRefused
from regulus.proxy.receipt_handle import live, parse, with_place
from regulus.wire import receipt_handle

# As the real broker 5.3.3 makes it, with the place in the log behind it.
TEXT = "0 1795744177395 15000 2 0 broker-a 3 1 897"


def test_a_handle_reads_as_it_was_written() -> None:
    handle = parse(TEXT)
    assert (handle.pop_time, handle.invisible_time, handle.revive_queue_id) == (1795744177395, 15000, 2)
    assert (handle.broker, handle.queue_id, handle.queue_offset, handle.physical_offset) == ("broker-a", 3, 1, 897)
    assert handle.text() == TEXT
    assert handle.receipt() == "0 1795744177395 15000 2 0 broker-a 3 1"
    assert parse(handle.receipt()).physical_offset == -1


@pytest.mark.parametrize("text", ["", "x", TEXT + " 1", TEXT.replace("3", "-3"), TEXT.replace(" ", "  "),
                                  TEXT.replace("15000", "1" * 20), TEXT.replace("2 0", "2 3"), TEXT.replace("3", "３"),
                                  "0 " * 400, TEXT + "\n"])
def test_what_is_no_handle_is_refused_for_good(text: str) -> None:
    with pytest.raises(CallRefused) as refused:
        parse(text)
    assert refused.value.code == 40013


def test_a_handle_lives_until_its_message_is_visible_again() -> None:
    assert live(TEXT, 1795744177395 + 14_999).queue_id == 3
    with pytest.raises(CallRefused) as refused:
        live(TEXT, 1795744177395 + 15_000)
    told = "org.apache.rocketmq.proxy.common.ProxyException: receipt handle is expired"     # as a 5.3.3 writes it
    assert (refused.value.code, str(refused.value)) == (40013, told)


def test_the_topic_in_which_a_message_lies() -> None:
    assert parse(TEXT).real_topic("Orders", "g") == "Orders"
    assert parse(TEXT.replace("2 0", "2 1")).real_topic("Orders", "g") == "%RETRY%g_Orders"
    assert parse(TEXT.replace("2 0", "2 2")).real_topic("Orders", "g") == "%RETRY%g+Orders"


def test_a_brokers_receipt_gets_the_place_of_its_message() -> None:
    handle = with_place(receipt_handle.decode("7 1 2 3 2 a 0 8"), 900)
    assert handle == parse("7 1 2 3 2 a 0 8 900")
