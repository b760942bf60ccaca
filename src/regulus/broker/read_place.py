"""Decides from which broker of the name a consumer should read next.

A consumer so far behind the end that memory cannot hold the messages in between makes the disk read for each pull, and
displaces pages that senders and other consumers need. It is sent to a slave. The slave applies the same rule, and sends
it back when it has caught up.

Source: DefaultMessageStore.getMessage, PullMessageProcessor.
"""

from regulus.broker.config import BrokerConfig
from regulus.broker.message_store import MessageStore
from regulus.broker.runtime_facts import RuntimeFacts
from regulus.model.topics import SubscriptionGroupConfig

MASTER_ID = 0


def next_broker(config: BrokerConfig, facts: RuntimeFacts, store: MessageStore, group: SubscriptionGroupConfig,
                topic: str, queue_id: int, next_begin_offset: int) -> int:
    """The id of a broker, for a group that has read up to `next_begin_offset`."""
    if not config.slave_read_enable:
        return MASTER_ID
    behind = _behind(store, topic, queue_id, next_begin_offset)
    in_memory = facts.memory_size * config.access_message_in_memory_max_ratio // 100
    is_slow = facts.memory_size > 0 and behind > in_memory
    return group.which_broker_when_consume_slowly if is_slow else group.broker_id


def _behind(store: MessageStore, topic: str, queue_id: int, next_begin_offset: int) -> int:
    """Bytes of the log after the start of the message that was read last; 0 when nothing was read."""
    if next_begin_offset < 1:
        return 0
    units = store.queue_units(topic, queue_id, next_begin_offset - 1, 1)
    return store.commit_log_max_offset() - units[0].physical_offset if units else 0
