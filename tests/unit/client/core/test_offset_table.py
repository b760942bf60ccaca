from regulus.client.core.offset_table import OffsetTable
from regulus.model.message_queue import MessageQueue

QUEUE = MessageQueue("T", "a", 0)
OTHER = MessageQueue("T", "a", 1)


def test_advance_never_goes_back():
    table = OffsetTable()
    table.advance(QUEUE, 5)
    table.advance(QUEUE, 3)
    assert table.get(QUEUE) == 5


def test_a_reset_goes_back():
    table = OffsetTable()
    table.advance(QUEUE, 5)
    table.set(QUEUE, 3)
    assert table.get(QUEUE) == 3


def test_only_changes_are_taken_and_each_once():
    table = OffsetTable({QUEUE: 1})
    assert table.take_changed() == {}
    table.advance(QUEUE, 2)
    table.advance(OTHER, 7)
    assert table.take_changed([OTHER]) == {OTHER: 7}
    assert table.take_changed() == {QUEUE: 2}
    assert table.take_changed() == {}


def test_what_could_not_be_stored_is_taken_again():
    table = OffsetTable()
    table.advance(QUEUE, 2)
    table.take_changed()
    table.mark_changed([QUEUE, OTHER])
    assert table.take_changed() == {QUEUE: 2}


def test_a_forgotten_queue_is_neither_known_nor_changed():
    table = OffsetTable()
    table.advance(QUEUE, 2)
    table.forget(QUEUE)
    assert table.get(QUEUE) is None
    assert table.take_changed() == {}
