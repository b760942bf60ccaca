"""Clients get from us what they got from RocketMQ 4.9.8: the whole recorded session, asked of us once more."""

import pytest
from recorded_session import replay, scenarios

from regulus.record import message_record
from regulus.wire.codes import RequestCode as Code
from regulus.wire.codes import ResponseCode

SENDS = [Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE]
PULLS = [Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE]
CODES = [*SENDS, *PULLS, Code.QUERY_MESSAGE, Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET,
         Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET, Code.GET_EARLIEST_MSG_STORETIME,
         Code.VIEW_MESSAGE_BY_ID, Code.HEART_BEAT, Code.UNREGISTER_CLIENT, Code.CONSUMER_SEND_MSG_BACK,
         Code.GET_CONSUMER_LIST_BY_GROUP, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ, Code.CHECK_CLIENT_CONFIG]

NOT_COMPARED = {"transactional", "sql-filter"}
"""Offsets in the half queue depend on when checks came; filters by SQL are not served yet."""
SAID_BY_CLIENTS_OF_4_9 = {("mqadmin-cloneGroupOffset", Code.UPDATE_CONSUMER_OFFSET)}
"""RocketMQ 5 and we refuse a commit for a group that does not exist; 4.9 took it."""

DIFFERS_BY_RUN = {"msgId", "indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
ADDED_SINCE = {"transactionId", "topicSysFlag", "groupSysFlag", "IS_SUPPORT_HEART_BEAT_V2", "IS_SUB_CHANGE"}
"""Fields that RocketMQ 5 answers with and 4.9.8 did not."""


@pytest.fixture(scope="module")
def exchanges(tmp_path_factory):
    found = [exchange for exchange in replay(tmp_path_factory.mktemp("session") / "store")
             if exchange.request.code in CODES and exchange.server != "namesrv"
             and exchange.scenario not in NOT_COMPARED]
    assert {exchange.request.code for exchange in found} >= set(CODES) - {Code.LITE_PULL_MESSAGE,
                                                                          Code.CHECK_CLIENT_CONFIG}
    return found


def settled(exchange) -> bool:
    """Whether timing played no part: neither held nor decided by which heartbeat came first."""
    if exchange.ours is None:
        assert exchange.request.code in PULLS
        assert exchange.recorded.code in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND,
                                          ResponseCode.SUBSCRIPTION_NOT_LATEST)
        return False
    return exchange.recorded.code != ResponseCode.SUBSCRIPTION_NOT_LATEST and not is_second_failure(exchange)


def is_second_failure(exchange) -> bool:
    """It names the place of a retried copy, which no send told us; what follows from it does not happen here."""
    return exchange.scenario == "push-consumer-concurrent" and (
        exchange.request.code == Code.CONSUMER_SEND_MSG_BACK
        or exchange.request.ext.get("topic", "").startswith("%RETRY%"))


@pytest.mark.parametrize("scenario", [name for name in scenarios() if name not in NOT_COMPARED])
def test_each_request_is_answered_as_it_was(exchanges, scenario):
    for exchange in exchanges:
        if exchange.scenario != scenario or not settled(exchange) \
                or (scenario, exchange.request.code) in SAID_BY_CLIENTS_OF_4_9:
            continue
        then, now = exchange.recorded, exchange.ours
        assert now.code == then.code, exchange.request
        assert (now.remark or None) == (then.remark or None)
        assert set(now.ext) - ADDED_SINCE == set(then.ext)
        fixed = set(then.ext) - DIFFERS_BY_RUN
        assert {name: now.ext[name] for name in fixed} == {name: then.ext[name] for name in fixed}


def test_pulls_bring_the_recorded_messages(exchanges):
    compared = 0
    for exchange in exchanges:
        if exchange.request.code in PULLS and settled(exchange) and exchange.recorded.code == ResponseCode.SUCCESS:
            assert messages(exchange.ours.body) == messages(exchange.recorded.body)
            compared += 1
    assert compared > 40


def messages(body: bytes) -> list[tuple]:
    return [(m.topic, m.queue_id, m.queue_offset, m.body, m.flag, m.sys_flag, m.born_timestamp, m.reconsume_times,
             m.tags, m.keys) for m in message_record.decode_all(body)]
