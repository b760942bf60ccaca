"""What a writer of a sink sends again appends nothing; what it never sent is never taken for sent."""

import json

import pytest

from regulus.broker import sink_marks
from regulus.broker.sink_marks import DOCUMENT_LAG_MAX, Sequence, SinkMarks, sequence_of
from regulus.errors import HeaderError, MessageIllegal
from regulus.model.message import MessageExt
from regulus.testing.memory_store import MemoryStore
from regulus.wire import encoded_table


def message(sequence: str = "1/0", sink: str = "S/0", topic: str = "T", **properties: str) -> MessageExt:
    return MessageExt(topic, b"x", {"SINK": sink, "SEQ": sequence, **properties})


def put(marks: SinkMarks, store: MemoryStore, *sequences: str, sink: str = "S/0") -> None:
    for sequence in sequences:
        each = message(sequence, sink)
        store.append(each, 1)
        marks.stored(each)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def marks(store: MemoryStore) -> SinkMarks:
    return SinkMarks(store, 3)


def test_what_is_not_above_the_mark_was_seen(marks: SinkMarks, store: MemoryStore) -> None:
    assert marks.seen("S/0", Sequence(0, 0)) is None
    put(marks, store, "1/0", "1/7")
    mark = marks.seen("S/0", Sequence(1, 7))
    assert mark is not None
    assert mark[:5] == ((1, 7), "T", 0, 1, store.commit_log_max_offset() // 2)
    assert marks.seen("S/0", Sequence(1, 3)) is not None
    assert marks.seen("S/0", Sequence(0, 999)) is not None
    assert marks.seen("S/0", Sequence(1, 8)) is None
    assert marks.seen("S/0", Sequence(2, 0)) is None
    assert marks.seen("S/1", Sequence(1, 0)) is None


def test_behind_a_refused_row_nothing_is_taken_until_it_came(marks: SinkMarks, store: MemoryStore) -> None:
    put(marks, store, "1/4")
    marks.refused({"SINK": "S/0", "SEQ": "1/5"})
    marks.refused({"SINK": "S/0", "SEQ": "1/6"})
    assert "1/5 of S/0" in marks.missing([("S/0", Sequence(1, 6))])
    assert "1/5 of S/0" in marks.missing([("S/0", Sequence(2, 0))])
    assert marks.missing([("S/0", Sequence(1, 5))]) == ""
    assert marks.missing([("S/0", Sequence(1, 5)), ("S/0", Sequence(1, 6))]) == ""
    assert marks.missing([("S/1", Sequence(1, 6))]) == ""
    put(marks, store, "1/5")
    assert marks.missing([("S/0", Sequence(1, 6))]) == ""


def test_a_row_before_a_refused_one_does_not_stand_for_it(marks: SinkMarks, store: MemoryStore) -> None:
    marks.refused({"SINK": "S/0", "SEQ": "1/5"})
    put(marks, store, "1/4")
    assert "1/5 of S/0" in marks.missing([("S/0", Sequence(1, 6))])


def test_a_refusal_of_what_was_stored_holds_nothing_up(marks: SinkMarks, store: MemoryStore) -> None:
    put(marks, store, "1/4")
    marks.refused({"SINK": "S/0", "SEQ": "1/4"})
    marks.refused({"KEYS": "k"})
    marks.refused({"SINK": "S/0", "SEQ": "nonsense"})
    assert marks.missing([("S/0", Sequence(1, 5))]) == ""


def test_the_writer_that_has_been_silent_longest_is_forgotten_first(marks: SinkMarks, store: MemoryStore) -> None:
    for sink in ("S/0", "S/1", "S/2"):
        put(marks, store, "1/0", sink=sink)
    marks.seen("S/0", Sequence(1, 0))
    put(marks, store, "1/0", sink="S/3")
    assert len(marks) == 3
    assert [marks.seen(f"S/{number}", Sequence(1, 0)) is not None for number in range(4)] == [True, False, True, True]
    for number in range(9):
        marks.refused({"SINK": f"R/{number}", "SEQ": "1/0"})
    assert marks.missing([("R/0", Sequence(1, 1))]) == ""
    assert marks.missing([("R/8", Sequence(1, 1))]) != ""


def test_marks_are_told_by_sink(marks: SinkMarks, store: MemoryStore) -> None:
    put(marks, store, "1/0", sink="S/0")
    put(marks, store, "1/5", sink="S/1")
    put(marks, store, "9/9", sink="S2/0")
    assert {sink: str(mark.sequence) for sink, mark in marks.of_sink("S").items()} == {"S/0": "1/0", "S/1": "1/5"}


def test_a_sink_may_tell_its_writers_apart_by_more_than_a_number(marks: SinkMarks, store: MemoryStore) -> None:
    put(marks, store, "9/9", sink="S/Orders.3/1")
    assert list(marks.of_sink("S")) == list(marks.of_sink("S/Orders.3")) == ["S/Orders.3/1"]


@pytest.mark.parametrize(("sink", "sequence"), [
    ("S", "1/0"), ("S/", "1/0"), ("/1", "1/0"), ("S/x", "1/0"), ("S/0", "1"), ("S/0", "1/"), ("S/0", "1/-1"),
    ("S/0", "1/9223372036854775808"), ("S/0", "1/٣"), ("S" * 300 + "/0", "1/0")])
def test_a_misspelt_mark_is_refused(sink: str, sequence: str) -> None:
    with pytest.raises(MessageIllegal):
        sequence_of({"SINK": sink, "SEQ": sequence})


@pytest.mark.parametrize("properties", [
    {}, {"SINK": "kitchen"}, {"SEQ": "first"}, {"SINK": "S/0", "SEQ": "1/0", "ORIGIN_MESSAGE_ID": "X"},
    {"SINK": "S/0", "SEQ": "1/0", "DLQ_ORIGIN_MESSAGE_ID": "X"}])
def test_other_messages_and_copies_have_no_mark(properties: dict[str, str]) -> None:
    assert sequence_of(properties) is None


def test_what_was_saved_is_taken_over_and_the_log_behind_it_is_walked(marks: SinkMarks, store: MemoryStore) -> None:
    put(marks, store, "1/0", "1/1")
    text = encoded_table.text(marks.document())
    put(marks, store, "1/2")
    put(marks, store, "4/0", sink="S/1")
    store.append(MessageExt("T", b"SINK without a mark", {}), 1)
    store.append(message("8/0", topic="%RETRY%G"), 1)
    store.append(message("8/0", ORIGIN_MESSAGE_ID="X"), 1)
    store.append(message("misspelt"), 1)
    again = SinkMarks(store, 3)
    again.load(text)
    assert {sink: str(mark.sequence) for sink, mark in again.of_sink("S").items()} == {"S/0": "1/2", "S/1": "4/0"}
    assert again.of_sink("S") == marks.of_sink("S")


def test_a_mark_whose_message_is_gone_is_no_mark(marks: SinkMarks, store: MemoryStore) -> None:
    put(marks, store, "1/0")
    again = SinkMarks(MemoryStore(), 3)
    again.load(encoded_table.text(marks.document()))
    assert len(again) == 0


@pytest.mark.parametrize("text", ["[]", "{}", '{"logOffset":0,"marks":[]}', '{"logOffset":"x","marks":{}}',
                                  '{"logOffset":0,"marks":{"S/0":{"seq":"1"}}}'])
def test_a_damaged_document_is_told(marks: SinkMarks, text: str) -> None:
    with pytest.raises(HeaderError, match="sink marks"):
        marks.load(text)


def test_the_document_is_saved_again_when_the_log_has_gone_on(marks: SinkMarks, store: MemoryStore,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    assert DOCUMENT_LAG_MAX >= 1 << 20
    monkeypatch.setattr(sink_marks, "DOCUMENT_LAG_MAX", 1000)
    before = marks.changes
    store.append(MessageExt("T", b"x", {}), 1)
    assert marks.changes == before
    store.append(MessageExt("T", b"x" * 1000, {}), 1)
    assert marks.changes > before


def put_bodies(marks: SinkMarks, store: MemoryStore, first: int, *bodies: bytes) -> list[int]:
    """Store these rows of batch 1 one by one; the sums of their bodies."""
    rows = [MessageExt("T", body, {"SINK": "S/0", "SEQ": f"1/{row}"}) for row, body in enumerate(bodies, first)]
    for each in rows:
        store.append(each, 1)
        marks.stored(each)
    return [each.body_crc for each in rows]


def test_rows_that_come_again_are_told_from_others_when_the_one_at_the_mark_comes(
        marks: SinkMarks, store: MemoryStore) -> None:
    a, b, c, d = put_bodies(marks, store, 0, b"a", b"b", b"c", b"d")
    for cuts, same in [([[a, b, c, d]], True), ([[a], [b, c], [d]], True), ([[b, a, c, d]], False),
                       ([[a, c], [b, d]], False), ([[a, b], [c, c]], False)]:
        row = 0
        told = []
        for sums in cuts:
            told.append(marks.repeats("S/0", Sequence(1, row), sums))
            row += len(sums)
        assert told == [True] * (len(cuts) - 1) + [same]


def test_a_repetition_with_a_gap_or_a_step_back_cannot_be_told(marks: SinkMarks, store: MemoryStore) -> None:
    a, b, c = put_bodies(marks, store, 0, b"a", b"b", b"c")
    assert marks.repeats("S/0", Sequence(1, 0), [b, a])
    assert marks.repeats("S/0", Sequence(1, 1), [a])
    assert marks.repeats("S/0", Sequence(1, 2), [c])
    assert marks.repeats("S/0", Sequence(0, 0), [c]), "of an earlier batch nothing is known"
    put_bodies(marks, store, 5, b"f")
    assert marks.repeats("S/0", Sequence(1, 0), [a] * 6), "what was stored with gaps has no digest"


def test_a_digest_outlives_the_broker(marks: SinkMarks, store: MemoryStore) -> None:
    sums = put_bodies(marks, store, 0, b"a", b"b")
    saved = encoded_table.text(marks.document())
    sums += put_bodies(marks, store, 2, b"c", b"d")
    found = SinkMarks(store, 3)
    found.load(saved)
    assert found.mark_of("S/0") == marks.mark_of("S/0")
    assert found.repeats("S/0", Sequence(1, 0), sums)
    assert not found.repeats("S/0", Sequence(1, 0), [sums[1], sums[0], *sums[2:]])


def test_a_document_without_digests_is_taken_up(marks: SinkMarks, store: MemoryStore) -> None:
    sums = put_bodies(marks, store, 0, b"a", b"b")
    document = json.loads(encoded_table.text(marks.document()))
    del document["marks"]["S/0"]["digest"]
    found = SinkMarks(store, 3)
    found.load(json.dumps(document))
    assert found.repeats("S/0", Sequence(1, 0), sums[::-1])


def test_only_so_many_repetitions_are_remembered(marks: SinkMarks, store: MemoryStore) -> None:
    for number in range(3):
        put(marks, store, "1/0", "1/1", "1/2", sink=f"S/{number}")
    marks.marks_max = 2
    for number in range(3):
        assert marks.repeats(f"S/{number}", Sequence(1, 0), [1])
    assert [marks.repeats(f"S/{number}", Sequence(1, 1), [1, 1]) for number in range(3)] == [True, False, False]
