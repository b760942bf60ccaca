"""Who may consume a queue in order: LOCK_BATCH_MQ, UNLOCK_BATCH_MQ."""

from regulus.broker.handlers.answer import succeed
from regulus.broker.outcome import Outcome
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.wire.bodies import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from regulus.wire.remoting_command import RemotingCommand


def handle_lock_batch_mq(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    body = LockBatchRequestBody.decode(request.body)
    held = broker.queue_locks.lock(body.consumer_group, body.client_id, body.mq_set, broker.steady_ms)
    return succeed(request, body=LockBatchResponseBody(lock_ok_mq_set=held).encode())


def handle_unlock_batch_mq(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    body = UnlockBatchRequestBody.decode(request.body)
    broker.queue_locks.unlock(body.consumer_group, body.client_id, body.mq_set)
    return succeed(request)
