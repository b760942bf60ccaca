"""Receipt handles: made of a broker's answer, and read from a client that may have written anything."""

import pytest

from regulus.errors import CallRefused
from regulus.model.receipt_handle import ReceiptHandle
from regulus.proxy.receipt_handle import PlacedReceipt, live, parse

# As the real broker 5.3.3 makes it, with the place in the log behind it.
TEXT = "0 1795744177395 15000 2 0 broker-a 3 1 897"


def test_a_handle_reads_as_it_was_written() -> None:
    handle = parse(TEXT)
    assert handle == PlacedReceipt(ReceiptHandle(0, 1795744177395, 15000, 2, "0", "broker-a", 3, 1), 897)
    assert handle.text() == TEXT
    assert parse("0 1795744177395 15000 2 0 broker-a 3 1").physical_offset == -1


@pytest.mark.parametrize("text", ["", "x", TEXT + " 1", TEXT.replace("3", "-3"), TEXT.replace(" ", "  "),
                                  TEXT.replace("15000", "1" * 20), TEXT.replace("2 0", "2 3"), TEXT.replace("3", "３"),
                                  "0 " * 400, TEXT + "\n", "0 1795744177395 15000 2 0 broker-a 3"])
def test_what_is_no_handle_is_refused_for_good(text: str) -> None:
    with pytest.raises(CallRefused) as refused:
        parse(text)
    assert refused.value.code == 40013


def test_a_handle_lives_until_its_message_is_visible_again() -> None:
    assert live(TEXT, 1795744177395 + 14_999).receipt.queue_id == 3
    with pytest.raises(CallRefused) as refused:
        live(TEXT, 1795744177395 + 15_000)
    told = "org.apache.rocketmq.proxy.common.ProxyException: receipt handle is expired"     # as a 5.3.3 writes it
    assert (refused.value.code, str(refused.value)) == (40013, told)


def test_the_topic_in_which_a_message_lies() -> None:
    assert parse(TEXT).real_topic("Orders", "g") == "Orders"
    assert parse(TEXT.replace("2 0", "2 1")).real_topic("Orders", "g") == "%RETRY%g_Orders"
    assert parse(TEXT.replace("2 0", "2 2")).real_topic("Orders", "g") == "%RETRY%g+Orders"
