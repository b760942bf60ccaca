"""Locks queues for consumption in order: LOCK_BATCH_MQ, UNLOCK_BATCH_MQ."""

from regulus.broker.handlers.named_body import decode_listed
from regulus.broker.handlers.stepped import joined_in_steps
from regulus.broker.long_answers import Steps, client_line
from regulus.broker.outcome import Outcome
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.wire.bodies import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from regulus.wire.codes import ResponseCode
from regulus.wire.json_fields import encode, splice
from regulus.wire.remoting_command import RemotingCommand


def handle_lock_batch_mq(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """All queues are locked at once; many of them are read, and written into the answer, in steps."""
    return broker.long_answers.begin(request, peer, _locked(request, peer, broker), line=client_line(peer))


def _locked(request: RemotingCommand, peer: Peer, broker: BrokerState) -> Steps:
    body = yield from decode_listed(LockBatchRequestBody, request, peer, broker)
    held = broker.queue_locks.lock(body.consumer_group, body.client_id, body.mq_set, broker.steady_ms, peer.channel)
    parts = yield from joined_in_steps(encode(queue) for queue in held)
    return request.response(ResponseCode.SUCCESS, body=splice(LockBatchResponseBody(), "lock_ok_mq_set", parts))


def handle_unlock_batch_mq(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    return broker.long_answers.begin(request, peer, _unlocked(request, peer, broker), line=client_line(peer))


def _unlocked(request: RemotingCommand, peer: Peer, broker: BrokerState) -> Steps:
    body = yield from decode_listed(UnlockBatchRequestBody, request, peer, broker)
    broker.queue_locks.unlock(body.consumer_group, body.client_id, body.mq_set)
    return request.response(ResponseCode.SUCCESS)
