"""Half messages: ended once, asked for until they are, given up at last; and all of that over a restart."""

import pytest

from regulus.access.guard import Guard
from regulus.access.user_rules import Switches, User, UserRules
from regulus.broker import transactions
from regulus.broker.config import BrokerConfig
from regulus.broker.state import BrokerState
from regulus.broker.transactions import TRANSACTION_GROUP
from regulus.model.message import MessageExt
from regulus.model.message_id import offset_message_id, parse_offset_message_id
from regulus.record import message_record
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
    ResumeCheckHalfMessageRequest,
    SendMessageResponse,
)

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
COMMIT, ROLLBACK = 8, 12


def send_half(rig, key="U1", topic="T", queue_id=0, **properties):
    """The half as it is stored."""
    answer = rig.send(topic, key.encode(), queue_id=queue_id, sys_flag=4, properties={
        "TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": key, **properties})
    assert answer.code == ResponseCode.SUCCESS
    return rig.store.look_message(parse_offset_message_id(SendMessageResponse.decode(answer).msg_id)[1])


def end(rig, half, how=COMMIT, *, is_check=False, **fields):
    values = {"producer_group": "PG", "tran_state_table_offset": half.queue_offset,
              "commit_log_offset": half.physical_offset, "commit_or_rollback": how, "msg_id": half.message_id,
              "from_transaction_check": is_check, **fields}
    return rig.ask(RequestCode.END_TRANSACTION, EndTransactionRequest(**values).ext())


def checks(rig):
    """What producers were asked since: channel, header, message."""
    asked = [(notice.channel, CheckTransactionStateRequest.decode(notice.reply.answer),
              message_record.decode(notice.reply.answer.body)) for notice in rig.broker.notices
             if notice.reply.answer.code == RequestCode.CHECK_TRANSACTION_STATE]
    assert all(notice.reply.answer.is_oneway for notice in rig.broker.notices)
    rig.broker.notices.clear()
    return asked


def bodies(rig, topic="T", queue_id=0):
    return [message.body for message in rig.stored(topic, queue_id)]


def restarted(rig, make_rig, *, with_documents=True, **settings):
    """Another broker on the same store; without documents as after a kill before any was saved."""
    documents = rig.broker.documents() if with_documents else {}
    again = make_rig(**settings)
    again.store = rig.store
    again.now_ms, again.wall_ahead_ms = rig.now_ms, rig.wall_ahead_ms
    again.broker = BrokerState(BrokerConfig(**settings), rig.store, now_ms=rig.now_ms,
                               steady_ms=rig.now_ms - rig.wall_ahead_ms, seed=2)
    again.broker.load_documents(documents)
    return again


# --- the end ---------------------------------------------------------------------------------------------------------


def test_a_committed_message_is_a_copy_that_names_its_half(rig):
    half = send_half(rig, queue_id=3, KEYS="k", TAGS="t")
    assert bodies(rig, queue_id=3) == []
    assert end(rig, half).code == ResponseCode.SUCCESS
    (message,) = rig.stored("T", 3)
    assert (message.body, message.sys_flag, message.prepared_transaction_offset) == (b"U1", 8, half.physical_offset)
    assert message.properties == half.properties
    assert (message.born_timestamp, message.born_host, message.store_host, message.flag) == (
        half.born_timestamp, half.born_host, half.store_host, half.flag)
    (op,) = rig.stored(OP)
    assert (op.body, op.tags, op.properties) == (b"0", "d", {"WAIT": "true", "TAGS": "d"})


def test_a_rolled_back_message_is_never_seen(rig):
    half = send_half(rig)
    assert end(rig, half, ROLLBACK).code == ResponseCode.SUCCESS
    assert bodies(rig) == []
    assert bodies(rig, OP) == [b"0"]


def test_an_unknown_outcome_changes_nothing(rig):
    half = send_half(rig)
    assert end(rig, half, 0).code == ResponseCode.SUCCESS
    assert (bodies(rig), bodies(rig, OP), rig.broker.transactions.open_count) == ([], [], 1)


def test_a_delay_begins_with_the_commit(rig):
    half = send_half(rig, DELAY="1")
    rig.run(5_000)
    end(rig, half)
    assert bodies(rig) == []
    rig.run(2_000)
    assert bodies(rig) == [b"U1"]


def test_a_transaction_ends_once(rig):
    committed, rolled_back = send_half(rig, "U1"), send_half(rig, "U2")
    end(rig, committed)
    end(rig, rolled_back, ROLLBACK)
    assert end(rig, committed).code == ResponseCode.SUCCESS
    assert end(rig, rolled_back, ROLLBACK).code == ResponseCode.SUCCESS
    assert end(rig, committed, ROLLBACK).code == ResponseCode.ILLEGAL_OPERATION
    assert end(rig, rolled_back, COMMIT).code == ResponseCode.ILLEGAL_OPERATION
    assert bodies(rig) == [b"U1"]
    assert len(bodies(rig, OP)) == 2


def test_what_ended_is_known_after_a_restart_too(rig, make_rig):
    committed, rolled_back = send_half(rig, "U1"), send_half(rig, "U2")
    end(rig, committed)
    end(rig, rolled_back, ROLLBACK)
    again = restarted(rig, make_rig, with_documents=False)
    assert end(again, committed).code == ResponseCode.SUCCESS
    assert end(again, rolled_back).code == ResponseCode.ILLEGAL_OPERATION
    assert bodies(again) == [b"U1"]


@pytest.mark.parametrize(("fields", "remark"), [
    ({"commit_log_offset": 5}, "Find prepared transaction message failed"),
    ({"producer_group": "other"}, "producer group wrong"),
    ({"tran_state_table_offset": 7}, "transaction state table offset wrong")])
def test_a_request_that_names_no_half_of_the_group_is_refused(rig, fields, remark):
    response = end(rig, send_half(rig), **fields)
    assert (response.code, remark in response.remark) == (ResponseCode.SYSTEM_ERROR, True)
    assert bodies(rig) == []


def test_no_other_message_can_be_committed(rig):
    rig.send("T", properties={"UNIQ_KEY": "U", "PGROUP": "PG"})
    (message,) = rig.stored("T")
    assert end(rig, message).code == ResponseCode.SYSTEM_ERROR


def test_a_commit_that_the_store_refuses_leaves_the_transaction_open(rig):
    half = send_half(rig)
    rig.store.refusal = "the disk is full"
    assert end(rig, half).code == ResponseCode.SYSTEM_ERROR
    rig.store.refusal = ""
    assert rig.broker.transactions.open_count == 1
    assert end(rig, half).code == ResponseCode.SUCCESS


def test_an_op_message_that_the_store_refuses_is_written_by_the_next_tick(rig):
    halves = [send_half(rig, f"U{number}") for number in range(3)]
    rig.store.refusal = "the disk is full"
    for half in halves:
        assert end(rig, half, ROLLBACK).code == ResponseCode.SUCCESS
    rig.store.refusal = ""
    rig.run(100)
    assert bodies(rig, OP) == [b"0", b"1", b"2"]


# --- asking ----------------------------------------------------------------------------------------------------------


def test_a_producer_of_the_group_is_asked_for_what_is_open(rig):
    rig.heartbeat(None, producer_group="PG", channel=5)
    half = send_half(rig, queue_id=2)
    rig.run(30_000)
    ((channel, header, message),) = checks(rig)
    copy = rig.stored(HALF)[1]
    assert channel == 5
    assert (header.tran_state_table_offset, header.commit_log_offset) == (1, copy.physical_offset)
    assert (header.msg_id, header.transaction_id, header.topic, header.broker_name) == ("U1", "U1", HALF, "broker-a")
    assert (message.topic, message.queue_id, message.body, message.queue_offset) == ("T", 2, b"U1", 1)
    assert copy.properties == {**half.properties, "TRANSACTION_CHECK_TIMES": "1", "TRAN_PREPARED_QUEUE_OFFSET": "0"}
    assert end(rig, copy, is_check=True).code == ResponseCode.SUCCESS
    rig.run(60_000)
    assert (bodies(rig, queue_id=2), checks(rig), len(rig.stored(HALF))) == ([b"U1"], [], 2)
    assert rig.broker.transactions.open_count == 0


def test_no_one_is_asked_for_what_has_ended(rig):
    rig.heartbeat(None, producer_group="PG")
    for number in range(10):
        end(rig, send_half(rig, f"U{number}"), COMMIT if number % 2 else ROLLBACK)
    rig.run(60_000)
    assert checks(rig) == []
    assert rig.broker.consumer_offsets.query(TRANSACTION_GROUP, HALF, 0) == 10
    assert rig.broker.consumer_offsets.query(TRANSACTION_GROUP, OP, 0) == 10


def test_a_young_half_is_not_asked_for(make_rig):
    rig = make_rig(transaction_check_interval=1_000, transaction_time_out=6_000)
    rig.heartbeat(None, producer_group="PG")
    send_half(rig)
    rig.run(5_900)
    assert checks(rig) == []
    rig.run(1_000)
    assert len(checks(rig)) == 1


def test_the_producers_of_a_group_take_turns(make_rig):
    rig = make_rig(transaction_check_interval=1_000)
    for channel in (5, 6, 7):
        rig.heartbeat(None, producer_group="PG", channel=channel, client_id=f"c{channel}")
    for number in range(6):
        send_half(rig, f"U{number}")
    rig.run(6_500)
    assert sorted(channel for channel, _, _ in checks(rig)) == [5, 5, 6, 6, 7, 7]


def test_nobody_is_asked_who_may_not_send_to_the_topic(make_rig):
    """A producer group is a name that anyone can write; whoever is asked gets the message, and may end it."""
    rig = make_rig(transaction_check_interval=1_000)
    rig.heartbeat(None, producer_group="PG", channel=5, user="mallory")
    rig.heartbeat(None, producer_group="PG", channel=6, client_id="c2", user="alice")
    rig.heartbeat(None, producer_group="PG", channel=7, client_id="c3")
    send_half(rig)
    rig.be_guarded(alice="T=PUB", mallory="Other=PUB,T=SUB")
    for _ in range(3):
        rig.run(1_000)
    rig.run(6_000)
    assert {channel for channel, _, _ in checks(rig)} == {6}


def test_with_none_who_may_be_asked_the_checks_count_and_nothing_is_shown(make_rig):
    rig = make_rig(transaction_check_interval=1_000, transaction_check_max=3)
    rig.heartbeat(None, producer_group="PG", user="mallory")
    send_half(rig)
    rig.be_guarded(mallory="")
    rig.run(15_000)
    assert (checks(rig), len(rig.stored(GIVEN_UP))) == ([], 1)


@pytest.mark.parametrize(("authorizes", "user", "asked"), [
    (False, "", [5]), (False, "alice", [5]), (False, "one who is gone", []), (True, "", []), (True, "alice", [])])
def test_who_was_let_in_unproved_is_asked_where_users_have_no_rights_of_their_own(make_rig, authorizes, user, asked):
    """HEART_BEAT on authenticationWhitelist: nobody's client else had all its transactions given up."""
    rig = make_rig(transaction_check_interval=1_000)
    rules = UserRules(Switches(cluster="DefaultCluster", authorizes=authorizes,
                               unauthenticated_codes=frozenset((RequestCode.HEART_BEAT,))),
                      {"alice": User(name="alice", secret="secret-of-alice")})
    rig.heartbeat(None, producer_group="PG", channel=5, user=user)
    send_half(rig)
    rig.broker.guard = Guard(lambda: rules, lambda request, peer: None, lambda request, peer, denied: None)
    rig.run(6_500)
    assert [channel for channel, _, _ in checks(rig)] == asked


def test_strangers_are_looked_at_in_parts_and_no_check_counts_before_all_were(make_rig, monkeypatch):
    """Else many connections of somebody without rights would make each question dear, or have transactions given up
    that nobody was asked for."""
    monkeypatch.setattr(transactions, "PRODUCERS_LOOKED_MAX", 4)
    rig = make_rig(transaction_check_interval=1_000, transaction_check_max=3)
    for channel in range(1, 31):
        rig.heartbeat(None, producer_group="PG", channel=channel, client_id=f"c{channel}", user="mallory")
    rig.heartbeat(None, producer_group="PG", channel=31, client_id="c31", user="alice")
    rig.be_guarded(mallory="", alice="T=PUB")
    looked = []
    may_end = rig.broker.transactions._may_end
    monkeypatch.setattr(rig.broker.transactions, "_may_end",
                        lambda client, topic: looked.append(client.channel) or may_end(client, topic))
    send_half(rig)
    send_half(rig, "U2")
    rig.now_ms += 7_000
    before = len(rig.stored(HALF))
    for part in range(1, 8):
        assert rig.broker.tick(rig.tell_time()) == 0
        assert (len(looked), len(rig.stored(HALF))) == (4 * part, before)
    rig.run(500)
    assert [(channel, message.message_id) for channel, _, message in checks(rig)] == [(31, "U1"), (31, "U2")]
    assert len(looked) == 31 + 2        # once a run, and who is asked again when it is
    assert [half.properties["TRANSACTION_CHECK_TIMES"] for half in rig.stored(HALF)[before:]] == ["1", "1"]


def test_a_stranger_with_thousands_of_connections_has_nothing_given_up_unasked(make_rig):
    rig = make_rig(transaction_check_interval=1_000, transaction_check_max=15)
    for channel in range(2, 4_200):
        rig.heartbeat(None, producer_group="PG", channel=channel, client_id=f"c{channel}", user="mallory")
    rig.heartbeat(None, producer_group="PG", channel=1, client_id="c1", user="alice")
    rig.be_guarded(mallory="", alice="T=PUB")
    send_half(rig)
    rig.run(6_500)
    assert [channel for channel, _, _ in checks(rig)] == [1]
    rig.run(10_000)
    assert [channel for channel, _, _ in checks(rig)] == [1] * 10
    assert rig.stored(GIVEN_UP) == []


def test_who_is_gone_or_lost_the_right_in_a_run_is_not_asked(make_rig, monkeypatch):
    rig = make_rig(transaction_check_interval=1_000)
    for channel in (5, 6, 7):
        rig.heartbeat(None, producer_group="PG", channel=channel, client_id=f"c{channel}")
    rights = {5, 6, 7}
    monkeypatch.setattr(rig.broker.transactions, "_may_end", lambda client, topic: client.channel in rights)
    monkeypatch.setattr(transactions, "JUDGED_PER_TICK_MAX", 1)
    for number in range(4):
        send_half(rig, f"U{number}")
    rig.now_ms += 7_000
    rig.broker.tick(rig.tell_time())
    rights.discard(6)
    rig.broker.channel_closed(7, rig.now_ms)
    rig.run(100)
    assert [channel for channel, _, _ in checks(rig)] == [5, 5, 5, 5]


def test_producers_that_connect_anew_in_a_run_are_asked_by_the_next_and_no_check_counts(make_rig, monkeypatch):
    """Else a deployment in a long run has all behind it given up, where few checks are made."""
    rig = make_rig(transaction_check_interval=1_000, transaction_check_max=1)
    rig.heartbeat(None, producer_group="PG", channel=1)
    monkeypatch.setattr(transactions, "JUDGED_PER_TICK_MAX", 1)
    for number in range(3):
        send_half(rig, f"U{number}")
    rig.now_ms += 7_000
    rig.broker.tick(rig.tell_time())
    rig.broker.channel_closed(1, rig.now_ms)
    rig.heartbeat(None, producer_group="PG", channel=2)
    rig.run(500)
    assert [(channel, message.message_id) for channel, _, message in checks(rig)] == [(1, "U0")]
    assert [half.properties["TRANSACTION_CHECK_TIMES"] for half in rig.stored(HALF)[3:]] == ["1", "0", "0"]
    rig.run(1_000)
    assert [(channel, message.message_id) for channel, _, message in checks(rig)] == [(2, "U1"), (2, "U2")]
    assert [half.message_id for half in rig.stored(GIVEN_UP)] == ["U0"]


def test_where_all_have_gone_in_a_run_the_checks_count_as_where_nobody_was(make_rig, monkeypatch):
    rig = make_rig(transaction_check_interval=1_000)
    rig.heartbeat(None, producer_group="PG", channel=1)
    monkeypatch.setattr(transactions, "JUDGED_PER_TICK_MAX", 1)
    for number in range(2):
        send_half(rig, f"U{number}")
    rig.now_ms += 7_000
    rig.broker.tick(rig.tell_time())
    rig.broker.channel_closed(1, rig.now_ms)
    rig.run(500)
    assert [half.properties["TRANSACTION_CHECK_TIMES"] for half in rig.stored(HALF)[2:]] == ["1", "1"]


def test_of_very_many_producers_others_have_their_turn_in_the_next_run(make_rig, monkeypatch):
    monkeypatch.setattr(transactions, "PRODUCERS_LOOKED_MAX", 2)
    monkeypatch.setattr(transactions, "PRODUCERS_KNOWN_MAX", 2)
    rig = make_rig(transaction_check_interval=1_000)
    for channel in range(1, 7):
        rig.heartbeat(None, producer_group="PG", channel=channel, client_id=f"c{channel}")
    send_half(rig)
    send_half(rig, "U2")
    rig.run(8_500)
    assert sorted(channel for channel, _, _ in checks(rig)) == [1, 2, 3, 4, 5, 6]


def test_in_one_run_so_many_of_very_many_producers_are_known(make_rig, monkeypatch):
    monkeypatch.setattr(transactions, "PRODUCERS_LOOKED_MAX", 2)
    monkeypatch.setattr(transactions, "PRODUCERS_KNOWN_MAX", 2)
    rig = make_rig(transaction_check_interval=30_000)
    for channel in range(1, 7):
        rig.heartbeat(None, producer_group="PG", channel=channel, client_id=f"c{channel}")
    for number in range(6):
        send_half(rig, f"U{number}")
    rig.run(31_000)
    assert [channel for channel, _, _ in checks(rig)] == [1, 2, 1, 2, 1, 2]


def test_who_was_asked_in_an_earlier_run_lets_nobody_be_asked_faster(make_rig, monkeypatch):
    monkeypatch.setattr(transactions, "ASKED_MAX", 2)
    rig = make_rig(transaction_check_interval=30_000)
    for channel in range(1, 4):
        rig.heartbeat(None, producer_group="PG", channel=channel, client_id=f"c{channel}")
    for number in range(8):
        send_half(rig, f"U{number}")
    rig.run(31_000)
    assert len(checks(rig)) == 2 * 3
    for channel in (2, 3):
        rig.broker.channel_closed(channel, rig.now_ms)
    rig.run(30_000)
    assert len(checks(rig)) == 2


def test_of_what_ended_long_ago_nothing_is_remembered(make_rig, monkeypatch):
    """How it ended is found in the log, and what is open is still counted rightly."""
    monkeypatch.setattr(transactions, "ENDED_MAX", 2)
    rig = make_rig(transaction_check_interval=1_000)
    rig.heartbeat(None, producer_group="PG")
    halves = [send_half(rig, f"U{number}") for number in range(4)]
    rig.run(8_000)      # all have been asked for, so their first copies are passed
    for half in halves[:3]:
        assert end(rig, half, is_check=True).code == ResponseCode.SUCCESS
    assert rig.broker.transactions.open_count == 1
    looks = []
    monkeypatch.setattr(type(rig.store), "query_message_in_steps", lambda *args: looks.append(args) or iter(()))
    assert end(rig, halves[2], is_check=True).code == ResponseCode.SUCCESS
    assert looks == []
    end(rig, halves[0], is_check=True)
    assert len(looks) > 0


def test_the_first_producer_may_end_it_late_and_it_ends_once(make_rig):
    """Its copies have other offsets by then, of which it knows nothing."""
    rig = make_rig(transaction_check_interval=1_000)
    rig.heartbeat(None, producer_group="PG")
    half = send_half(rig)
    rig.run(9_500)
    (*_, (_, header, _)) = checks(rig)
    assert header.tran_state_table_offset == 4
    assert end(rig, half).code == ResponseCode.SUCCESS
    assert end(rig, rig.stored(HALF)[-1], is_check=True).code == ResponseCode.SUCCESS
    rig.run(10_000)
    assert (bodies(rig), checks(rig), bodies(rig, OP)) == ([b"U1"], [], [b"0", b"4"])


def test_a_half_nobody_answers_for_is_given_up(make_rig):
    rig = make_rig(transaction_check_interval=1_000, transaction_check_max=3)
    rig.heartbeat(None, producer_group="PG")
    send_half(rig)
    rig.run(8_500)
    assert len(checks(rig)) == 3
    assert rig.stored(GIVEN_UP) == []       # the last question has its time too
    rig.run(1_000)
    (given_up,) = rig.stored(GIVEN_UP)
    assert given_up.properties["TRANSACTION_CHECK_TIMES"] == "3"
    assert (given_up.body, given_up.sys_flag, rig.broker.transactions.open_count) == (b"U1", 0, 0)
    assert bodies(rig) == []


def test_a_half_is_asked_for_every_half_minute_and_fifteen_times_unless_set_otherwise(rig):
    rig.heartbeat(None, producer_group="PG")
    send_half(rig)
    for _ in range(15):
        rig.run(30_000)
        rig.heartbeat(None, producer_group="PG")
        assert len(checks(rig)) == 1
    assert rig.stored(GIVEN_UP) == []
    rig.run(30_000)
    assert checks(rig) == []
    assert len(rig.stored(GIVEN_UP)) == 1


@pytest.mark.parametrize("restarts", [False, True])
def test_who_comes_late_may_still_end_what_was_given_up(make_rig, restarts):
    settings = {"transaction_check_interval": 1_000, "transaction_check_max": 1}
    rig = make_rig(**settings)
    halves = [send_half(rig, f"U{number}") for number in range(3)]
    end(rig, halves[2], ROLLBACK)
    rig.run(20_000)
    assert len(rig.stored(GIVEN_UP)) == 2
    if restarts:
        rig = restarted(rig, make_rig, **settings)
    for _ in range(2):
        assert end(rig, halves[0]).code == ResponseCode.SUCCESS
        assert end(rig, halves[1], ROLLBACK).code == ResponseCode.SUCCESS
        assert end(rig, halves[2]).code == ResponseCode.ILLEGAL_OPERATION
    assert bodies(rig) == [b"U0"]


def test_producers_are_asked_as_fast_as_they_answer(make_rig, monkeypatch):
    """With a limit of 10 questions: those of another group do not wait behind them."""
    monkeypatch.setattr(transactions, "ASKED_MAX", 10)
    rig = make_rig(transaction_check_interval=30_000, transaction_check_max=2)
    rig.heartbeat(None, producer_group="PG")
    for number in range(25):
        send_half(rig, f"U{number}")
    rig.run(30_000)
    asked = checks(rig)
    assert len(asked) == 10
    for _, header, _ in asked[:4]:
        copy = rig.store.look_message(header.commit_log_offset)
        end(rig, copy, is_check=True)
    rig.run(500)
    assert len(checks(rig)) == 4
    rig.run(1_500)      # no more answers: the others are put again, and no check is counted
    assert checks(rig) == []
    newest = {half.message_id: half for half in rig.stored(HALF)}
    counts = [half.properties["TRANSACTION_CHECK_TIMES"] for half in newest.values() if half.message_id in {
        f"U{number}" for number in range(14, 25)}]
    assert counts == ["0"] * 11
    rig.run(30_000)
    assert len(checks(rig)) == 10
    assert rig.stored(GIVEN_UP) == []


def test_a_half_that_was_given_up_may_be_asked_for_again(make_rig):
    rig = make_rig(transaction_check_interval=1_000, transaction_check_max=2)
    rig.heartbeat(None, producer_group="PG")
    send_half(rig)
    rig.run(20_000)
    checks(rig)
    (given_up,) = rig.stored(GIVEN_UP)
    message_id = offset_message_id(given_up.store_host, given_up.physical_offset)
    header = ResumeCheckHalfMessageRequest(msg_id=message_id)
    assert rig.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, header.ext()).code == ResponseCode.SUCCESS
    rig.run(1_500)
    ((_, header, _),) = checks(rig)
    copy = rig.stored(HALF)[-1]
    assert copy.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert end(rig, copy, is_check=True).code == ResponseCode.SUCCESS
    assert bodies(rig) == [b"U1"]


@pytest.mark.parametrize("message_id", ["", "nonsense", "0A00000100002A9F0000000000000000"])
def test_only_what_was_given_up_is_asked_for_again(rig, message_id):
    send_half(rig)
    response = rig.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessageRequest(msg_id=message_id).ext())
    assert response.code == ResponseCode.SYSTEM_ERROR


def test_a_message_of_another_topic_is_not_made_a_half(rig):
    """It would be shown to a producer, who may then send it once more."""
    rig.send("T", b"seen")
    (message,) = rig.stored("T")
    message_id = offset_message_id(message.store_host, message.physical_offset)
    response = rig.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessageRequest(msg_id=message_id).ext())
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert rig.stored(HALF) == []


def test_without_a_producer_the_checks_count_all_the_same(make_rig):
    rig = make_rig(transaction_check_interval=1_000, transaction_check_max=3)
    send_half(rig)
    rig.run(20_000)
    assert checks(rig) == []
    assert len(rig.stored(GIVEN_UP)) == 1


def test_a_half_older_than_messages_are_kept_is_given_up(make_rig):
    rig = make_rig(transaction_check_interval=1_000, file_reserved_time=1)
    send_half(rig)
    rig.now_ms += 3_700_000
    rig.run(1_000)
    assert len(rig.stored(GIVEN_UP)) == 1


def test_an_immunity_keeps_checks_away_and_they_do_not_count(make_rig):
    rig = make_rig(transaction_check_interval=1_000, transaction_check_max=3)
    rig.heartbeat(None, producer_group="PG")
    half = send_half(rig, CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    late = send_half(rig, "U2", CHECK_IMMUNITY_TIME_IN_SECONDS="5")
    rig.run(4_900)
    assert checks(rig) == []
    rig.run(2_000)
    assert {header.msg_id for _, header, _ in checks(rig)} == {"U2"}
    assert end(rig, half).code == ResponseCode.SUCCESS
    refused = end(rig, late)
    assert (refused.code, "CHECK_IMMUNITY" in refused.remark) == (ResponseCode.ILLEGAL_OPERATION, True)
    assert end(rig, late, is_check=True).code == ResponseCode.SUCCESS
    rig.run(10_000)
    assert (bodies(rig), checks(rig), rig.stored(GIVEN_UP)) == ([b"U1", b"U2"], [], [])


def test_an_unreadable_immunity_is_the_usual_one(make_rig):
    rig = make_rig(transaction_check_interval=1_000)
    rig.heartbeat(None, producer_group="PG")
    send_half(rig, CHECK_IMMUNITY_TIME_IN_SECONDS="soon")
    rig.run(5_500)
    assert checks(rig) == []
    rig.run(2_000)
    assert len(checks(rig)) > 0


def test_many_open_halves_are_asked_for_in_parts(make_rig):
    rig = make_rig(transaction_check_interval=30_000)
    for number in range(600):
        send_half(rig, f"U{number}")
    rig.now_ms += 40_000
    assert rig.broker.tick(rig.tell_time()) == 0
    rig.dispatch()
    assert len(rig.stored(HALF)) == 600 + 256
    rig.run(1_000)
    assert rig.store.max_offset(HALF, 0) == 1200


def test_a_full_disk_ends_the_run_and_loses_no_half(make_rig):
    rig = make_rig(transaction_check_interval=1_000)
    rig.heartbeat(None, producer_group="PG")
    send_half(rig)
    rig.now_ms += 10_000
    rig.store.refusal = "the disk is full"
    rig.run(3_000)
    assert checks(rig) == []
    rig.store.refusal = ""
    rig.run(1_500)
    assert len(checks(rig)) >= 1


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_a_clock_that_is_set_brings_no_storm_of_checks_and_stops_none(make_rig, jump_ms):
    rig = make_rig(transaction_check_interval=30_000)
    rig.heartbeat(None, producer_group="PG")
    for number in range(5):
        send_half(rig, f"U{number}")
    rig.run(10_000)
    rig.set_clock(jump_ms)
    rig.run(81_000)
    asked = [message.message_id for _, _, message in checks(rig)]
    assert sorted(asked) == sorted([f"U{number}" for number in range(5)] * 3)


def test_a_clock_that_is_set_forward_by_weeks_gives_up_what_its_producer_may_still_end(make_rig):
    """It looks older than messages are kept."""
    rig = make_rig(transaction_check_interval=30_000)
    rig.heartbeat(None, producer_group="PG")
    half = send_half(rig)
    rig.set_clock(30 * 24 * 3_600_000)
    rig.run(31_000)
    assert bodies(rig, GIVEN_UP) == [b"U1"]
    assert end(rig, half).code == ResponseCode.SUCCESS
    assert bodies(rig) == [b"U1"]


# --- over a restart --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_documents", [True, False])
def test_what_is_open_is_known_after_a_restart_with_and_without_saved_offsets(make_rig, with_documents):
    settings = {"transaction_check_interval": 1_000}
    rig = make_rig(**settings)
    halves = [send_half(rig, f"U{number}") for number in range(6)]
    end(rig, halves[0])
    end(rig, halves[1], ROLLBACK)
    rig.run(9_000)          # the others were put again three times
    end(rig, halves[2])     # by its first offsets
    end(rig, next(half for half in reversed(rig.stored(HALF)) if half.message_id == "U3"), is_check=True)
    again = restarted(rig, make_rig, with_documents=with_documents, **settings)
    again.heartbeat(None, producer_group="PG")
    assert again.broker.transactions.open_count == 2
    again.run(1_500)
    assert sorted(header.msg_id for _, header, _ in checks(again)) == ["U4", "U5"]
    for half in halves:     # who has known nothing of all that ends each as before, or now
        end(again, half, ROLLBACK if half is halves[1] else COMMIT)
    assert sorted(bodies(again)) == [b"U0", b"U2", b"U3", b"U4", b"U5"]


def test_what_ended_behind_an_open_half_is_known_after_a_restart(make_rig):
    """The saved offset of the op messages stays where the first one lies whose half is not passed."""
    settings = {"transaction_time_out": 3_600_000}
    rig = make_rig(**settings)
    opened, ended = send_half(rig, "U0"), send_half(rig, "U1")
    end(rig, ended)
    rig.run(60_000)         # two runs, which the first half ends: its producer has not had its time
    again = restarted(rig, make_rig, **settings)
    assert again.broker.transactions.open_count == 1
    end(again, ended)
    end(again, opened)
    assert sorted(bodies(again)) == [b"U0", b"U1"]


def test_op_messages_of_both_kinds_are_read(rig, make_rig):
    for number in range(5):
        send_half(rig, f"U{number}")
    for body in (b"0", b"1,3,", b"nonsense"):
        rig.store.append(MessageExt(OP, body, {"TAGS": "d"}), rig.now_ms)
    rig.store.append(MessageExt(OP, b"4", {"TAGS": "other"}), rig.now_ms)
    rig.dispatch()
    again = restarted(rig, make_rig, transaction_check_interval=1_000)
    assert again.broker.transactions.open_count == 2
    again.heartbeat(None, producer_group="PG")
    again.run(7_500)
    assert {header.msg_id for _, header, _ in checks(again)} == {"U2", "U4"}


def test_saved_offsets_behind_a_lost_tail_are_moved_into_the_queue(rig, make_rig):
    rig.broker.consumer_offsets.commit(TRANSACTION_GROUP, HALF, 0, 99)
    again = restarted(rig, make_rig)
    send_half(again)
    assert again.broker.transactions.open_count == 1


def test_a_producer_does_not_say_which_half_its_own_is_a_copy_of(rig):
    copied = {"TRAN_PREPARED_QUEUE_OFFSET": "0", "TRANSACTION_CHECK_TIMES": "15"}
    first, second = send_half(rig, "U1", **copied), send_half(rig, "U2", **copied)
    assert copied.keys().isdisjoint(first.properties)
    assert end(rig, first).code == ResponseCode.SUCCESS
    assert end(rig, second).code == ResponseCode.SUCCESS
    assert bodies(rig) == [b"U1", b"U2"]


def test_a_half_without_room_for_a_question_is_given_up_and_holds_up_nobody(rig):
    full = send_half(rig, "U1", BIG="x" * 32_600)
    send_half(rig, "U2")
    rig.heartbeat(None, producer_group="PG")
    rig.run(45_000)
    assert [message.body for _, _, message in checks(rig)] == [b"U2"]
    assert [message.message_id for message in rig.stored(GIVEN_UP)] == ["U1"]
    assert end(rig, full).code == ResponseCode.SUCCESS
    assert bodies(rig) == [b"U1"]


def test_a_producer_is_asked_no_faster_because_others_give_its_group(rig, monkeypatch):
    monkeypatch.setattr(transactions, "ASKED_MAX", 10)
    rig.be_guarded(alice="T=PUB", mallory="")
    rig.heartbeat(None, producer_group="PG", channel=1, user="alice", client_id="a")
    for channel in range(2, 11):
        rig.heartbeat(None, producer_group="PG", channel=channel, user="mallory", client_id=f"m{channel}")
    for number in range(60):
        rig.send("T", b"x", sys_flag=4, properties={"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": f"U{number}"})
    rig.broker.notices.clear()
    rig.now_ms += 70_000
    for _ in range(5):
        rig.broker.tick(rig.tell_time())
    asked = [notice.channel for notice in rig.broker.notices
             if notice.reply.answer.code == RequestCode.CHECK_TRANSACTION_STATE]
    assert set(asked) == {1}
    assert len(asked) <= 10
