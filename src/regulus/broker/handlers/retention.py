"""CLEAN_EXPIRED_CONSUMEQUEUE, DELETE_EXPIRED_COMMITLOG: files go when their time is over; this asks for it now."""

from regulus.broker.handlers.answer import succeed
from regulus.broker.outcome import Outcome
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.wire.remoting_command import RemotingCommand


def handle_delete_expired_commitlog(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                    now_ms: int) -> Outcome:
    """The answer only says that the work was ordered."""
    broker.is_retention_wanted = True
    return succeed(request)


def handle_clean_expired_consumequeue(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                      now_ms: int) -> Outcome:
    """Likewise for the queues. One that is empty goes as a whole when its topic has no such queue any more; else its
    newest file stays, without which its messages would be numbered from 0 again and consumers miss them."""
    broker.is_queue_cleaning_wanted = True
    return succeed(request)
