"""END_TRANSACTION ends a transaction for its producer. RESUME_CHECK_HALF_MESSAGE puts back a half that was given up.

Source: EndTransactionProcessor, AdminBrokerProcessor.resumeCheckHalfMessage.
"""

from regulus.access.needs import ending_needs
from regulus.broker.handlers.answer import succeed
from regulus.broker.outcome import Outcome, Reply, refuse
from regulus.broker.state import BrokerState
from regulus.broker.storing import refusal_of
from regulus.broker.transactions import TransactionOutcome
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.message_id import parse_offset_message_id
from regulus.model.peer import Peer
from regulus.model.store_result import PutStatus
from regulus.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from regulus.model.topics import TRANS_CHECK_MAX_TIME_TOPIC
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import EndTransactionRequest, ResumeCheckHalfMessageRequest
from regulus.wire.remoting_command import RemotingCommand


def handle_end_transaction(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """A transaction ends once. Ending it again in the same way succeeds, and appends nothing."""
    header = EndTransactionRequest.decode(request)
    if header.commit_or_rollback not in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
        return succeed(request)     # not known yet: a later check asks the producer
    half = broker.transactions.half_at(header.commit_log_offset)
    if half is None:
        return refuse(request, ResponseCode.SYSTEM_ERROR,
                      f"Find prepared transaction message failed: no half message at {header.commit_log_offset}")
    # Checked for the half message's topic, whatever topic the request names.
    denied = broker.denial(peer, ending_needs(half.properties.get(names.REAL_TOPIC, "")))
    if denied is not None:
        return refuse(request, denied.code, denied.remark)
    immunity_ms = broker.transactions.immunity_ms(half)
    if immunity_ms is not None and not header.from_transaction_check and now_ms - half.born_timestamp > immunity_ms:
        return refuse(request, ResponseCode.ILLEGAL_OPERATION,
                      f"the message is older than its {names.CHECK_IMMUNITY_TIME}, so only the answer to a check ends "
                      "its transaction")
    fault = _fault(header, half, is_guarded=broker.guard is not None)
    if fault is not None:
        return refuse(request, ResponseCode.SYSTEM_ERROR, fault)
    is_commit = header.commit_or_rollback == TRANSACTION_COMMIT
    outcome = broker.transactions.outcome(half)
    if outcome is TransactionOutcome.UNKNOWN:
        return refuse(request, ResponseCode.SYSTEM_ERROR,
                      f"the transaction {outcome.value}: too many messages have its unique key {half.message_id}")
    if outcome in (TransactionOutcome.COMMITTED, TransactionOutcome.ROLLED_BACK):
        is_same = (outcome is TransactionOutcome.COMMITTED) is is_commit
        return succeed(request) if is_same else refuse(request, ResponseCode.ILLEGAL_OPERATION,
                                                       f"the transaction was {outcome.value} before")
    topic = half.properties.get(names.REAL_TOPIC, "")
    if is_commit:
        return _commit(request, half, topic, broker, now_ms)
    return _roll_back(request, half, topic, broker, now_ms)


def _fault(header: EndTransactionRequest, half: MessageExt, *, is_guarded: bool) -> str | None:
    """What the request says wrongly about the half message; None when it is right."""
    group = half.properties.get(names.PRODUCER_GROUP)
    if group != header.producer_group:
        return f"The producer group wrong: the half message is of {group}"
    if half.queue_offset != header.tran_state_table_offset:
        return f"The transaction state table offset wrong: the half message has {half.queue_offset}"
    return _foreign(header, half) if is_guarded else None


def _foreign(header: EndTransactionRequest, half: MessageExt) -> str | None:
    """Why the sender may not end this half message; None if he may.

    He could name a permitted topic, and guess the place in the log of another sender's message. The unique key cannot
    be guessed. Clients of 4.9 name no topic.
    """
    topic = header.real_topic
    if topic is not None and topic != half.properties.get(names.REAL_TOPIC):
        return f"The topic wrong: the half message is not of {topic}"
    if half.message_id not in (header.msg_id, header.transaction_id):
        return "The message id wrong: a transaction is ended by the unique key of its half message"
    return None


def _commit(request: RemotingCommand, half: MessageExt, topic: str, broker: BrokerState, now_ms: int) -> Outcome:
    appended = broker.transactions.commit(half, now_ms)
    if appended.status != PutStatus.PUT_OK:
        return refuse(request, ResponseCode.SYSTEM_ERROR, refusal_of(appended))
    broker.statistics.ends.note_commit(topic, max(0, now_ms - half.born_timestamp) // 1000)
    return Reply(request.response(ResponseCode.SUCCESS), broker.storing.durable_at())


def _roll_back(request: RemotingCommand, half: MessageExt, topic: str, broker: BrokerState, now_ms: int) -> Outcome:
    broker.transactions.roll_back(half, now_ms)
    broker.statistics.ends.note_rollback(topic)
    return succeed(request)


def handle_resume_check_half_message(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                     now_ms: int) -> Outcome:
    message_id = ResumeCheckHalfMessageRequest.decode(request).msg_id or ""
    try:
        _, physical_offset = parse_offset_message_id(message_id)
    except ValueError as error:
        return refuse(request, ResponseCode.SYSTEM_ERROR, str(error))
    message = broker.store.look_message(physical_offset)
    if message is None or message.topic != TRANS_CHECK_MAX_TIME_TOPIC:
        return refuse(request, ResponseCode.SYSTEM_ERROR,
                      f"{message_id} is not a message of {TRANS_CHECK_MAX_TIME_TOPIC}, which has the halves that were "
                      "given up")
    appended = broker.transactions.resume(message, now_ms)
    if appended.status != PutStatus.PUT_OK:
        return refuse(request, ResponseCode.SYSTEM_ERROR, refusal_of(appended))
    return succeed(request)
