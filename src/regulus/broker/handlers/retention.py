"""CLEAN_EXPIRED_CONSUMEQUEUE, DELETE_EXPIRED_COMMITLOG: delete expired files now, and not at the usual time."""

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
    """Order the cleaning of queues.

    An empty queue is deleted if its topic no longer has it. Otherwise its newest file stays: without it messages would
    be numbered from 0 again, and consumers would miss them.
    """
    broker.is_queue_cleaning_wanted = True
    return succeed(request)
