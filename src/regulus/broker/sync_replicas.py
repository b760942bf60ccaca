"""Computes up to which offset enough brokers have the log of a SYNC_MASTER.

`inSyncReplicas` counts the master, too: 2 waits for one slave. With `enableAutoInSyncReplicas` the slaves that are
connected are enough, down to `minInSyncReplicas`. With `allAckInSyncStateSet` all slaves that are not too far behind
must have it.

Source: CommitLog.handleDiskFlushAndHA, CommitLog.calcNeedAckNums.
"""

from collections.abc import Sequence

from regulus.broker.config import BrokerConfig


def replicated_to(slaves: Sequence[int], log_end: int, config: BrokerConfig) -> int | None:
    """The offset that enough brokers have; None when there are too few slaves. `slaves` are the offsets of slaves that
    are not too far behind."""
    needed = config.in_sync_replicas - 1
    if config.enable_auto_in_sync_replicas:
        needed = min(needed, max(len(slaves), config.min_in_sync_replicas - 1))
    if len(slaves) < needed:
        return None
    if config.all_ack_in_sync_state_set:
        return min(slaves, default=log_end)
    return sorted(slaves, reverse=True)[needed - 1] if needed else log_end
