"""What a writer of a sink sends again appends nothing; what it never sent is never taken for sent."""

import json

import pytest

from regulus.broker import sink_marks
from regulus.broker.sink_marks import DIGEST_UNKNOWN, DOCUMENT_LAG_MAX, Run, Sequence, SinkMarks, run_of, sequence_of
from regulus.errors import HeaderError, MessageIllegal
from regulus.model.message import MessageExt
from regulus.testing.memory_store import MemoryStore
from regulus.wire import encoded_table
from regulus.wire.row_digest import digest_of


def message(sequence: str = "1/0", sink: str = "S/0", topic: str = "T", body: bytes = b"x",
            **properties: str) -> MessageExt:
    return MessageExt(topic, body, {"SINK": sink, "SEQ": sequence, **properties})


def rows(*bodies: bytes, batch: int = 1, first: int = 0, sink: str = "S/0") -> list[MessageExt]:
    return [message(f"{batch}/{row}", sink, body=body) for row, body in enumerate(bodies, first)]


def run(batch: int, row: int, *before: bytes, sink: str = "S/0") -> Run:
    """One that begins there, behind rows with these bodies."""
    return Run(sink, Sequence(batch, row), digest_of(rows(*before)))


def put(marks: SinkMarks, store: MemoryStore, *bodies: bytes, batch: int = 1, sink: str = "S/0") -> None:
    """Store these rows of a batch, behind those that are there."""
    mark = marks.mark_of(sink)
    goes_on = mark is not None and mark.sequence.batch == batch
    first, digest = (mark.sequence.row + 1, mark.digest) if mark is not None and goes_on else (0, 0)
    stored = rows(*bodies, batch=batch, first=first, sink=sink)
    for each in stored:
        store.append(each, 1)
    marks.run_stored(Run(sink, Sequence(batch, first), digest), stored)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def marks(store: MemoryStore) -> SinkMarks:
    return SinkMarks(store, 3)


def test_a_mark_says_what_was_stored_last_and_where(marks: SinkMarks, store: MemoryStore) -> None:
    assert marks.mark_of("S/0") is None
    put(marks, store, b"a")
    put(marks, store, b"b", b"c")
    assert marks.mark_of("S/0") == ((1, 2), "T", 0, 2, store.commit_log_max_offset() // 3 * 2,
                                    digest_of(rows(b"a", b"b", b"c")))


@pytest.mark.parametrize(("first", "count", "known"), [
    (run(1, 0), 2, 2), (run(1, 1), 5, 2), (run(1, 2), 1, 1), (run(1, 3), 4, 0), (run(2, 0), 4, 0), (run(1, 0), 9, 3),
    (run(1, 0, sink="S/1"), 1, 0)])
def test_of_a_run_those_rows_are_known_that_the_mark_stands_for(
        marks: SinkMarks, store: MemoryStore, first: Run, count: int, known: int) -> None:
    put(marks, store, b"a", b"b", b"c")
    assert marks.rows_known(first, count) == known


def test_a_run_follows_the_mark_without_a_gap(marks: SinkMarks, store: MemoryStore) -> None:
    assert "rows from 1/0 on have not come" in marks.gap_before(run(1, 1))
    put(marks, store, b"a", b"b")
    assert [marks.gap_before(run(1, row)) for row in range(3)] == [""] * 3
    assert "begins with row 1/3, and rows from 1/2 on have not come" in marks.gap_before(run(1, 3))
    assert marks.gap_before(run(2, 0)) == ""
    assert "rows from 2/0 on" in marks.gap_before(run(2, 1))


def test_an_earlier_batch_is_not_taken_for_stored(marks: SinkMarks, store: MemoryStore) -> None:
    put(marks, store, b"a", batch=1)
    put(marks, store, b"a", b"b", batch=4)
    for earlier in (run(3, 0), run(1, 0), run(1, 1, b"a")):
        told = marks.later_batch(earlier)
        assert "S/0 has come to batch 4, of which 2 rows are stored" in told
        assert f"this is row {earlier.first.row} of batch {earlier.first.batch}" in told
    assert [marks.later_batch(each) for each in (run(4, 0), run(5, 0), run(0, 0, sink="S/1"))] == [""] * 3


def test_rows_that_come_again_are_held_against_the_mark_when_they_reach_it(
        marks: SinkMarks, store: MemoryStore) -> None:
    put(marks, store, b"a", b"b", b"c", b"d")
    assert marks.difference(run(1, 0), rows(b"other", b"rows")) == "", "as long as they may still be the same"
    assert marks.difference(run(1, 0), rows(b"a", b"b", b"c", b"d")) == ""
    assert marks.difference(run(1, 2, b"a", b"b"), rows(b"c", b"d")) == ""
    told = marks.difference(run(1, 0), rows(b"a", b"c", b"b", b"d"))
    assert f"S/0 has 4 rows of batch 1 stored, with the digest {digest_of(rows(b'a', b'b', b'c', b'd')):016x}" in told
    assert f"in another order: {digest_of(rows(b'a', b'c', b'b', b'd')):016x}" in told
    for before, known in ((b"ba", b"cd"), (b"ab", b"dc"), (b"ax", b"cd"), (b"abc", b"x")):
        split = [bytes((byte,)) for byte in before]
        again = rows(*(bytes((byte,)) for byte in known))
        assert marks.difference(run(1, len(before), *split), again) != ""


def test_what_is_new_goes_on_only_from_the_rows_of_the_mark(marks: SinkMarks, store: MemoryStore) -> None:
    assert marks.goes_on(run(0, 0))
    put(marks, store, b"a", b"b")
    assert marks.goes_on(run(1, 2, b"a", b"b"))
    assert marks.difference(run(1, 2, b"a", b"b"), []) == ""
    assert not marks.goes_on(run(1, 2, b"b", b"a"))
    assert "other rows" in marks.difference(run(1, 2, b"b", b"a"), [])
    assert marks.goes_on(run(2, 0))
    assert not any(map(marks.goes_on, (run(1, 0), run(1, 1, b"a"), run(1, 3, b"a", b"b"), run(0, 0), run(2, 1))))


def test_rows_that_differ_beside_their_bodies_are_others(marks: SinkMarks, store: MemoryStore) -> None:
    stored = message(KEYS="k1", TAGS="t", UNIQ_KEY="1")
    store.append(stored, 1)
    marks.run_stored(run(1, 0), [stored])
    assert marks.difference(run(1, 0), [message(TAGS="t", KEYS="k1")]) != "", "in another order of their properties"
    for same in (message(KEYS="k1", TAGS="t", UNIQ_KEY="2"), message(KEYS="k1", TAGS="t", MSG_REGION="R", DELAY="1")):
        assert marks.difference(run(1, 0), [same]) == ""
    flagged = message(KEYS="k1", TAGS="t")
    flagged.flag = 1
    for other in (message(KEYS="k2", TAGS="t"), message(KEYS="k1"), message(KEYS="k1", TAGS="t", own="x"), flagged):
        assert "other rows" in marks.difference(run(1, 0), [other])


def test_the_writer_that_has_been_silent_longest_is_forgotten_first(marks: SinkMarks, store: MemoryStore) -> None:
    for sink in ("S/0", "S/1", "S/2"):
        put(marks, store, b"a", sink=sink)
    assert marks.rows_known(run(1, 0), 1) == 1
    put(marks, store, b"a", sink="S/3")
    assert len(marks) == 3
    assert [marks.mark_of(f"S/{number}") is not None for number in range(4)] == [True, False, True, True]


def test_a_sink_that_is_done_is_forgotten_first_but_not_before_there_is_need(marks: SinkMarks,
                                                                            store: MemoryStore) -> None:
    """A task of it that was given up for another may still be sending."""
    for sink in ("S/0", "run/0", "run/1"):
        put(marks, store, b"a", sink=sink)
    marks.release("run")
    marks.release("unknown")
    assert marks.rows_known(run(1, 0, sink="run/1"), 1) == 1
    put(marks, store, b"a", sink="S/1")
    assert [sink for sink in ("S/0", "S/1", "run/0", "run/1") if marks.mark_of(sink)] == ["S/0", "S/1", "run/1"]
    marks.release("run")
    put(marks, store, b"a", sink="S/2")
    assert set(marks.of_sink("S")) == {"S/0", "S/1", "S/2"}
    [(kind, sinks)] = marks.encoded.happenings.take().items()
    assert (kind, sinks.names) == ("writers of sinks forgotten for others (sinkMarksMax)", ["run/0", "run/1"])


def test_marks_are_told_by_sink_and_batch(marks: SinkMarks, store: MemoryStore) -> None:
    put(marks, store, b"a", sink="S/0")
    put(marks, store, b"a", b"b", batch=2, sink="S/1")
    put(marks, store, b"a", batch=9, sink="S2/0")
    assert {sink: str(mark.sequence) for sink, mark in marks.of_sink("S").items()} == {"S/0": "1/0", "S/1": "2/1"}
    assert [list(marks.of_sink("S", batch)) for batch in (1, 2, 3)] == [["S/0", "S/1"], ["S/1"], []]


def test_a_sink_may_tell_its_writers_apart_by_more_than_a_number(marks: SinkMarks, store: MemoryStore) -> None:
    put(marks, store, b"a", sink="S/Orders.3/1")
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


@pytest.mark.parametrize("digest", ["", "-1", "x", "9223372036854775808"])
def test_a_run_says_what_came_before_it(digest: str) -> None:
    place = {"SINK": "S/0", "SEQ": "1/5"}
    assert run_of({**place, "SINK_DIGEST": "7"}) == ("S/0", (1, 5), 7)
    assert run_of({"SINK": "S/0", "SEQ": "1/0"}) == run_of({"SINK": "S/0", "SEQ": "1/0", "SINK_DIGEST": "0"})
    for properties in (place, {**place, "SINK_DIGEST": digest}, {"SINK": "S/0", "SEQ": "1/0", "SINK_DIGEST": "7"}):
        with pytest.raises(MessageIllegal, match="SINK_DIGEST"):
            run_of(properties)
    assert run_of({"SINK": "kitchen"}) is None


def test_what_was_saved_is_taken_over_and_the_log_behind_it_is_walked(marks: SinkMarks, store: MemoryStore) -> None:
    put(marks, store, b"a", b"b")
    text = encoded_table.text(marks.document())
    put(marks, store, b"c", b"d")
    put(marks, store, b"a", batch=4, sink="S/1")
    store.append(MessageExt("T", b"SINK without a mark", {}), 1)
    store.append(message("8/0", topic="%RETRY%G"), 1)
    store.append(message("8/0", ORIGIN_MESSAGE_ID="X"), 1)
    store.append(message("misspelt"), 1)
    store.append(message("1/1"), 1)
    again = SinkMarks(store, 3)
    again.load(text)
    assert {sink: str(mark.sequence) for sink, mark in again.of_sink("S").items()} == {"S/0": "1/3", "S/1": "4/0"}
    assert again.of_sink("S") == marks.of_sink("S")


def test_a_mark_whose_message_is_gone_is_no_mark(marks: SinkMarks, store: MemoryStore) -> None:
    put(marks, store, b"a")
    again = SinkMarks(MemoryStore(), 3)
    again.load(encoded_table.text(marks.document()))
    assert len(again) == 0


def test_of_a_log_that_lost_its_end_the_rows_that_are_left_are_known() -> None:
    """Its disk had confirmed what it lost. The document speaks of that, and not of where the batch began."""
    def begun(store: MemoryStore) -> SinkMarks:
        marks = SinkMarks(store, 3)
        put(marks, store, b"a", sink="forgotten/0")
        put(marks, store, b"a", b"b", batch=3)
        put(marks, store, b"a", batch=3, sink="S/1")
        put(marks, store, b"a", b"b", batch=4)
        return marks

    left, store = MemoryStore(), MemoryStore()
    kept, marks = begun(left).of_sink("S"), begun(store)
    put(marks, store, b"c", b"d", batch=4)
    put(marks, store, b"a", batch=4, sink="S/1")
    put(marks, store, b"a", batch=4, sink="S/2")
    again = SinkMarks(left, 3)
    again.load(encoded_table.text(marks.document()))
    assert again.of_sink("S") == kept
    assert again.goes_on(run(4, 2, b"a", b"b"))
    assert len(again) == 2


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


def test_of_rows_with_a_gap_before_them_in_the_log_nothing_is_known(marks: SinkMarks, store: MemoryStore) -> None:
    """The mark of the rows before was pushed out of a document, say."""
    store.append(message("1/5", body=b"f"), 1)
    marks.load('{"logOffset":0,"marks":{}}')
    mark = marks.mark_of("S/0")
    assert mark is not None
    assert (mark.sequence, mark.digest) == ((1, 5), DIGEST_UNKNOWN)


def without_digest(marks: SinkMarks, store: MemoryStore) -> SinkMarks:
    """Marks as of rows with a gap before them in the log."""
    put(marks, store, b"a", b"b")
    document = json.loads(encoded_table.text(marks.document()))
    document["marks"]["S/0"]["rowDigest"] = DIGEST_UNKNOWN
    found = SinkMarks(store, 3)
    found.load(json.dumps(document))
    return found


def test_a_mark_without_digest_knows_how_many_rows_there_are_and_the_last(
        marks: SinkMarks, store: MemoryStore) -> None:
    found = without_digest(marks, store)
    assert found.rows_known(run(1, 0), 9) == 2
    assert found.difference(run(1, 0), rows(b"a", b"b")) == ""
    assert "with the digest unknown" in found.difference(run(1, 0), rows(b"a", b"other"))
    assert found.goes_on(run(1, 2, b"a", b"b"))
    put(found, store, b"c")


def test_a_mark_without_digest_whose_row_is_gone_stands_for_nothing(marks: SinkMarks, store: MemoryStore,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    found = without_digest(marks, store)
    monkeypatch.setattr(store, "look_message", lambda offset: None)
    assert "with the digest unknown" in found.difference(run(1, 0), rows(b"a", b"b"))


# --- at a slave ------------------------------------------------------------------------------------------------------


@pytest.fixture
def copied(marks: SinkMarks, store: MemoryStore) -> tuple[SinkMarks, MemoryStore]:
    """A slave's marks, whose log ends before the third row of S/0."""
    put(marks, store, b"a", b"b")
    log = MemoryStore()
    for each in rows(b"a", b"b"):
        log.append(each, 1)
    slave = SinkMarks(log, 3)
    slave.be_copy()
    return slave, log


def test_a_slave_takes_marks_when_it_has_what_they_speak_of(marks: SinkMarks, store: MemoryStore,
                                                           copied: tuple[SinkMarks, MemoryStore]) -> None:
    slave, log = copied
    put(marks, store, b"c")
    slave.follow(encoded_table.text(marks.document()), is_marked=True)
    assert slave.mark_of("S/0") is None
    for each in rows(b"c", first=2):
        log.append(each, 1)
    slave.follow(None, is_marked=True)
    assert slave.mark_of("S/0") == marks.mark_of("S/0")


def test_a_slave_that_becomes_the_master_looks_at_what_it_copied_behind_the_marks(
        marks: SinkMarks, copied: tuple[SinkMarks, MemoryStore]) -> None:
    slave, log = copied
    slave.follow(encoded_table.text(marks.document()), is_marked=True)
    for each in rows(b"c", first=2):
        log.append(each, 1)
    promoted = SinkMarks(log, 3)
    promoted.load(encoded_table.text(slave.document()))
    assert promoted.mark_of("S/0") == ((1, 2), "T", 0, 2, log.commit_log_max_offset() // 3 * 2,
                                       digest_of(rows(b"a", b"b", b"c")))


def test_behind_a_master_without_marks_there_is_nothing_to_look_at(copied: tuple[SinkMarks, MemoryStore]) -> None:
    slave, log = copied
    for each in rows(b"c", first=2):
        log.append(each, 1)
    slave.follow(None, is_marked=False)
    assert json.loads(encoded_table.text(slave.document())) == {"logOffset": log.commit_log_max_offset(), "marks": {}}
