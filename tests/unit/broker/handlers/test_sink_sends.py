"""A writer's rows are stored once, whatever is sent again."""

from collections.abc import Iterable

import pytest

from regulus.broker.outcome import NO_REPLY
from regulus.broker.sink_marks import SinkMarks
from regulus.model.message import Message
from regulus.model.topics import TopicConfig
from regulus.wire import encoded_table, message_batch
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import DeleteTopicInBrokerRequest, SendMessageRequest, SendMessageResponse
from regulus.wire.row_digest import digest_of

BODY = b"hello"


def row(sequence: str, sink: str = "S/0", before: int = 0, **properties: str) -> dict[str, str]:
    """A single row, behind so many others like it in its batch."""
    digest = digest_of([Message("TopicA", BODY, properties=properties)] * before)
    return {"UNIQ_KEY": f"U{sequence}", "SINK": sink, "SEQ": sequence, "SINK_DIGEST": str(digest), **properties}


def test_a_row_that_was_stored_is_answered_with_its_place_and_not_stored_again(rig):
    first = rig.send(properties=row("1/0"))
    again = rig.send(properties=row("1/0"))
    assert "duplicate" not in first.ext
    assert again.ext == {**first.ext, "duplicate": "true", "mark": "1/0"}
    assert SendMessageResponse.decode(again).queue_offset == 0
    assert len(rig.stored("TopicA")) == 1


def test_a_row_below_the_mark_is_answered_with_the_mark(rig):
    rig.send(properties=row("1/0"), queue_id=0)
    last = rig.send(properties=row("1/1", before=1), queue_id=2)
    answer = rig.send(properties=row("1/0"), queue_id=1)
    again = SendMessageResponse.decode(answer)
    assert (again.queue_id, again.queue_offset, again.msg_id) == (2, 0, SendMessageResponse.decode(last).msg_id)
    assert answer.ext["mark"] == "1/1"


def test_rows_of_other_writers_and_later_rows_are_stored(rig):
    for properties in (row("1/0"), row("1/0", "S/1"), row("1/1", before=1), row("2/0"), row("1/0", "R/0")):
        assert "duplicate" not in rig.send(properties=properties).ext
    assert len(rig.stored("TopicA")) == 5
    assert rig.broker.topics.facts["TopicA"].put_nums == 5
    assert not any("SINK_DIGEST" in message.properties for message in rig.stored("TopicA"))


def test_another_row_under_the_number_of_a_stored_one_is_refused(rig):
    rig.send(properties=row("1/0", KEYS="k1"))
    answer = rig.send(properties=row("1/0", KEYS="k2"))
    assert (answer.code, "S/0 has 1 rows of batch 1 stored" in answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, True)
    assert [message.keys for message in rig.stored("TopicA")] == ["k1"]


def test_a_delayed_row_waits_and_is_not_stored_again(rig):
    rig.send(properties=row("1/0", DELAY="1"))
    assert rig.send(properties=row("1/0", DELAY="1")).ext["duplicate"] == "true"
    rig.run(2_000)
    assert len(rig.stored("TopicA")) == 1


def test_behind_a_refused_row_none_is_taken_until_it_came(rig):
    rig.send(properties=row("1/0"))
    rig.store.refusal = "the disk is full"
    assert rig.send(properties=row("1/1", before=1)).code == ResponseCode.SERVICE_NOT_AVAILABLE
    rig.store.refusal = ""
    late = rig.send(properties=row("1/2", before=2))
    assert (late.code, "rows from 1/1 on have not come" in late.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, True)
    for number in range(3):
        assert rig.send(properties=row(f"1/{number}", before=number)).code == ResponseCode.SUCCESS
    assert [message.properties["SEQ"] for message in rig.stored("TopicA")] == ["1/0", "1/1", "1/2"]


ROW_PROPERTIES: dict[str, str] = {}


@pytest.fixture(params=[True, False], ids=["straight", "ordinary"], autouse=True)
def goes_straight(request, monkeypatch) -> bool:
    """Rows with a unique key go the straight way where they can, others do not."""
    if request.param:
        monkeypatch.setitem(ROW_PROPERTIES, "UNIQ_KEY", "K")
    return request.param


def run(rig, sequence: str, *bodies: str, sink: str = "S/0", before: str = ""):
    """A run behind rows with these bodies of one letter each."""
    header = SendMessageRequest("PG", "TopicA", queue_id=0, batch=True, properties={
        "SINK": sink, "SEQ": sequence, "SINK_DIGEST": str(digest_of(some(before)))})
    return rig.ask(RequestCode.SEND_BATCH_MESSAGE, header.ext(), message_batch.encode(some(bodies)))


def some(bodies: Iterable[str]) -> list[Message]:
    return [Message("TopicA", body.encode(), properties=ROW_PROPERTIES) for body in bodies]


def rows_stored(rig) -> list[tuple[str, bytes]]:
    return [(message.properties["SEQ"], message.body) for message in rig.stored("TopicA")]


def test_rows_of_a_run_are_numbered_from_its_first_on(rig):
    answer = run(rig, "7/0", "a", "b")
    assert (answer.code, "duplicate" in answer.ext) == (ResponseCode.SUCCESS, False)
    assert SendMessageResponse.decode(run(rig, "7/2", "c", before="ab")).queue_offset == 2
    assert rows_stored(rig) == [("7/0", b"a"), ("7/1", b"b"), ("7/2", b"c")]
    assert {message.properties["SINK"] for message in rig.stored("TopicA")} == {"S/0"}
    assert rig.broker.topics.facts["TopicA"].put_nums == 3


def test_a_run_that_was_stored_is_answered_with_the_mark(rig):
    run(rig, "7/0", "a", "b")
    again = run(rig, "7/0", "a", "b")
    assert (again.code, again.ext["duplicate"], again.ext["mark"]) == (ResponseCode.SUCCESS, "true", "7/1")
    assert SendMessageResponse.decode(again).queue_offset == 1
    assert len(rows_stored(rig)) == 2


@pytest.mark.parametrize("bodies", [("a", "b"), ("others", "of", "those"), ("a",)])
def test_an_earlier_batch_is_refused_and_not_taken_for_stored(rig, bodies):
    run(rig, "7/0", "a", "b")
    for answer in (run(rig, "6/0", *bodies), rig.send(properties=row("6/0"))):
        assert (answer.code, "duplicate" in answer.ext) == (ResponseCode.MESSAGE_ILLEGAL, False)
        assert "S/0 has come to batch 7, of which 2 rows are stored, and this is row 0 of batch 6" in answer.remark
    assert len(rows_stored(rig)) == 2


def test_of_a_run_that_overlaps_the_mark_the_rest_is_stored(rig):
    run(rig, "7/0", "a", "b")
    answer = run(rig, "7/1", "b", "c", "d", before="a")
    assert ("duplicate" in answer.ext, SendMessageResponse.decode(answer).queue_offset) == (False, 2)
    assert rows_stored(rig) == [("7/0", b"a"), ("7/1", b"b"), ("7/2", b"c"), ("7/3", b"d")]


def test_a_run_that_leaves_a_gap_is_refused(rig):
    assert run(rig, "7/1", "b").code == ResponseCode.SERVICE_NOT_AVAILABLE
    run(rig, "7/0", "a")
    late = run(rig, "7/2", "c", before="ab")
    assert (late.code, "rows from 7/1 on have not come" in late.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, True)
    assert run(rig, "8/3", "x").code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert run(rig, "8/0", "x").code == ResponseCode.SUCCESS
    assert rows_stored(rig) == [("7/0", b"a"), ("8/0", b"x")]


def is_refused(answer) -> bool:
    return answer.code == ResponseCode.MESSAGE_ILLEGAL and "are other rows, or in another order" in answer.remark


def test_rows_in_another_order_than_before_are_refused(rig):
    run(rig, "7/0", "a", "b")
    answer = run(rig, "7/0", "b", "a", "c")
    assert is_refused(answer)
    assert "S/0 has 2 rows of batch 7 stored" in answer.remark
    assert len(rows_stored(rig)) == 2


def test_rows_that_changed_places_below_the_mark_are_refused(rig):
    run(rig, "7/0", "a", "b", "c")
    run(rig, "7/3", "d", "e", before="abc")
    for cuts in (("acbde",), ("bac", "de"), ("bac", "d", "e"), ("bac", "den"), ("bacde", "n"), ("abcde", "n")):
        sent = ""
        for bodies in cuts:
            answer = run(rig, f"7/{len(sent)}", *bodies, before=sent)
            sent += bodies
        assert is_refused(answer) == (cuts[0] != "abcde"), cuts
    assert run(rig, "7/0", "a", "b").ext["duplicate"] == "true"
    assert run(rig, "7/2", *"cdenx", before="ab").code == ResponseCode.SUCCESS
    assert [body for _, body in rows_stored(rig)] == [b"a", b"b", b"c", b"d", b"e", b"n", b"x"]
    assert is_refused(run(rig, "7/0", *"bacdenx"))


def test_rows_before_those_that_come_again_count_whoever_has_seen_them(rig):
    """An answer was lost, or the broker started anew, in the middle of a repetition."""
    run(rig, "7/0", *"abcd")
    assert is_refused(run(rig, "7/2", *"cd", before="ba"))
    assert is_refused(run(rig, "7/4", "e", before="bacd"))
    assert run(rig, "7/2", *"cd", before="ab").ext["duplicate"] == "true"
    assert "".join(body.decode() for _, body in rows_stored(rig)) == "abcd"


def test_rows_that_differ_in_their_properties_alone_are_refused(rig, monkeypatch):
    monkeypatch.setitem(ROW_PROPERTIES, "KEYS", "k1")
    run(rig, "7/0", "a", "b")
    monkeypatch.setitem(ROW_PROPERTIES, "KEYS", "k2")
    assert is_refused(run(rig, "7/0", "a", "b"))


def test_a_run_that_does_not_say_what_came_before_is_refused(rig):
    run(rig, "7/0", "a")
    header = SendMessageRequest("PG", "TopicA", queue_id=0, properties={"SINK": "S/0", "SEQ": "7/1"}, batch=True)
    answer = rig.ask(RequestCode.SEND_BATCH_MESSAGE, header.ext(), message_batch.encode(some("b")))
    assert (answer.code, "SINK_DIGEST" in answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, True)


def test_a_run_that_the_store_refuses_moves_no_mark(rig):
    rig.store.refusal = "the disk is full"
    assert run(rig, "7/0", "a").code == ResponseCode.SERVICE_NOT_AVAILABLE
    rig.store.refusal = ""
    assert run(rig, "7/1", "b", before="a").code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert run(rig, "7/0", "a", "b").code == ResponseCode.SUCCESS
    assert rows_stored(rig) == [("7/0", b"a"), ("7/1", b"b")]


@pytest.mark.parametrize("sequence", ["7", "x/0", ""])
def test_a_run_needs_the_place_of_its_first_row(rig, sequence):
    assert run(rig, sequence, "a").code == ResponseCode.MESSAGE_ILLEGAL


def test_no_mark_is_forgotten_that_its_own_sink_still_needs(make_rig):
    rig = make_rig(sink_marks_max=2)
    run(rig, "7/0", "a", sink="S/t.0/0")
    run(rig, "7/0", "b", sink="S/t.1/0")
    for answer in (run(rig, "7/0", "c", sink="S/t.2/0"), rig.send(properties=row("7/0", "S/t.2/0"))):
        assert (answer.code, "in more than 2 lanes" in answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, True)
    assert run(rig, "7/0", "a", sink="S/t.0/0").ext["duplicate"] == "true"
    assert run(rig, "7/1", "b2", sink="S/t.1/0", before="b").code == ResponseCode.SUCCESS
    assert len(rows_stored(rig)) == 3


@pytest.mark.parametrize(("sink", "sequence"), [("S/t.2/0", "8/0"), ("R/t.0/0", "0/0")])
def test_marks_of_earlier_batches_and_of_other_sinks_make_room(make_rig, sink, sequence):
    rig = make_rig(sink_marks_max=2)
    run(rig, "7/0", "a", sink="S/t.0/0")
    run(rig, "7/0", "b", sink="S/t.1/0")
    assert run(rig, sequence, "c", sink=sink).code == ResponseCode.SUCCESS
    marks = rig.broker.sink_marks
    assert (len(marks), marks.mark_of("S/t.0/0"), marks.mark_of(sink) is None) == (2, None, False)


def test_what_was_stored_in_a_topic_that_is_deleted_is_stored_no_more(rig):
    run(rig, "7/0", "a", "b")
    rig.send("TopicB", properties=row("7/0", "S/1"))
    rig.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequest("TopicA").ext())
    again = SinkMarks(rig.store, 9)
    again.load(encoded_table.text(rig.broker.sink_marks.document()))
    assert list(again.of_sink("S")) == list(rig.broker.sink_marks.of_sink("S")) == ["S/1"]
    rig.broker.topics.put(TopicConfig(topic_name="TopicA"), rig.now_ms)
    assert "duplicate" not in run(rig, "7/0", "a", "b").ext


def test_a_run_takes_no_copy_of_a_message(rig):
    header = SendMessageRequest("PG", "TopicA", queue_id=0, properties={"SINK": "S/0", "SEQ": "7/0"}, batch=True)
    copy = Message("TopicA", b"x", properties={"UNIQ_KEY": "K", "ORIGIN_MESSAGE_ID": "M"})
    answer = rig.ask(RequestCode.SEND_BATCH_MESSAGE, header.ext(), message_batch.encode([copy]))
    assert (answer.code, "a sink does not count copies" in answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, True)
    assert rows_stored(rig) == []


def test_a_misspelt_mark_is_told(rig):
    response = rig.send(properties=row("first"))
    assert (response.code, "write <batch>/<row>" in response.remark) == (ResponseCode.MESSAGE_ILLEGAL, True)


def test_a_property_of_that_name_alone_is_the_applications(rig):
    assert rig.send(properties={"SINK": "kitchen", "UNIQ_KEY": "U"}).code == ResponseCode.SUCCESS


def test_a_retry_of_a_row_is_no_row(rig):
    rig.broker.subscription_groups.find("CG", 0)
    rig.send(properties=row("1/0"))
    answer = rig.send("%RETRY%CG", properties=row("1/0", ORIGIN_MESSAGE_ID="X"), reconsume_times=1)
    assert "duplicate" not in answer.ext
    assert len(rig.stored("%RETRY%CG")) == 1


def test_the_answer_to_a_repeated_row_waits_for_the_disk_too(make_rig):
    rig = make_rig(flush_disk_type="SYNC_FLUSH")
    for _ in range(2):
        header = SendMessageRequest("PG", "TopicA", queue_id=0, properties=row("1/0"))
        outcome = rig.handle(RequestCode.SEND_MESSAGE_V2, header.ext_for(RequestCode.SEND_MESSAGE_V2), b"x")
        assert outcome.durable_at == rig.store.commit_log_max_offset()


def test_a_batch_whose_messages_carry_the_mark_is_refused(rig):
    refused = rig.send_batch([Message("TopicA", b"x", properties=row("1/0"))])
    assert (refused.code, "SINK in the request" in refused.remark) == (ResponseCode.MESSAGE_ILLEGAL, True)
    assert not rig.stored("TopicA")


def test_a_refused_run_appends_nothing_and_holds_up_its_writer(rig):
    rig.store.refusal = "the disk is full"
    assert run(rig, "1/0", "a", "b", "c").code == ResponseCode.SERVICE_NOT_AVAILABLE
    rig.store.refusal = ""
    assert run(rig, "1/3", "d", before="abc").code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert run(rig, "1/0", "a", "b", "c").code == ResponseCode.SUCCESS
    assert len(rig.stored("TopicA")) == 3


def test_a_one_way_row_moves_the_mark_unanswered(rig):
    header = SendMessageRequest("PG", "TopicA", queue_id=0, properties=row("1/0"))
    for _ in range(2):
        assert rig.handle(RequestCode.SEND_MESSAGE_V2, header.ext_for(310), b"x", oneway=True) is NO_REPLY
    assert len(rig.stored("TopicA")) == 1


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_run_is_answered_with_the_place_of_its_first_row(make_rig, flush, goes_straight):
    rig = make_rig(flush_disk_type=flush)
    run(rig, "7/0", "a", "b")
    header = SendMessageRequest("PG", "TopicA", queue_id=0, batch=True, properties={
        "SINK": "S/0", "SEQ": "7/2", "SINK_DIGEST": str(digest_of(some("ab")))})
    body = message_batch.encode(some("cd"))
    outcome = rig.handle(RequestCode.SEND_BATCH_MESSAGE, header.ext(), body)
    answer = SendMessageResponse.decode(outcome.answer)
    assert (answer.queue_offset, answer.msg_id[-16:]) == (2, f"{rig.stored('TopicA')[2].physical_offset:016X}")
    assert answer.transaction_id == ("K" if goes_straight else rig.stored("TopicA")[2].message_id)
    if flush == "SYNC_FLUSH":
        assert outcome.durable_at == rig.store.commit_log_max_offset()


def test_a_one_way_run_is_stored_unanswered(rig):
    header = SendMessageRequest("PG", "TopicA", queue_id=0, properties={"SINK": "S/0", "SEQ": "7/0"}, batch=True)
    body = message_batch.encode([Message("TopicA", b"a", properties=ROW_PROPERTIES)])
    assert rig.handle(RequestCode.SEND_BATCH_MESSAGE, header.ext(), body, oneway=True) is NO_REPLY
    assert rows_stored(rig) == [("7/0", b"a")]
