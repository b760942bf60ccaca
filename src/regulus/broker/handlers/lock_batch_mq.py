"""Who may consume a queue in order: LOCK_BATCH_MQ, UNLOCK_BATCH_MQ."""

from regulus.broker.handlers.answer import succeed
from regulus.broker.handlers.named_body import decode_named
from regulus.broker.handlers.stepped import joined_in_steps
from regulus.broker.long_answers import Steps
from regulus.broker.outcome import Outcome
from regulus.broker.state import BrokerState
from regulus.model.message_queue import MessageQueue
from regulus.model.peer import Peer
from regulus.wire.bodies import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from regulus.wire.codes import ResponseCode
from regulus.wire.json_fields import encode, splice
from regulus.wire.remoting_command import RemotingCommand


def handle_lock_batch_mq(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """All queues at once; only the answer is made in steps when they are many."""
    body = decode_named(LockBatchRequestBody, request)
    held = broker.queue_locks.lock(body.consumer_group, body.client_id, body.mq_set, broker.steady_ms)
    return broker.long_answers.begin(request, peer, _answer(request, held))


def _answer(request: RemotingCommand, held: list[MessageQueue]) -> Steps:
    parts = yield from joined_in_steps(encode(queue) for queue in held)
    return request.response(ResponseCode.SUCCESS, body=splice(LockBatchResponseBody(), "lock_ok_mq_set", parts))


def handle_unlock_batch_mq(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    body = decode_named(UnlockBatchRequestBody, request)
    broker.queue_locks.unlock(body.consumer_group, body.client_id, body.mq_set)
    return succeed(request)
