"""Facts about the running broker that only the server knows: the disk, the store's settings, the backlog.

The server puts a new value into `BrokerState.runtime_facts` at intervals; operators read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    commit_log_path: str = ""
    disk_size: int = 0
    """Bytes of the file system that holds the commit log; 0 when unknown."""
    disk_free: int = 0
    commit_log_disk_ratio: float = 0.0
    """Used share of that file system, 0 to 1."""
    consume_queue_disk_ratio: float = 0.0
    memory_size: int = 0
    """Bytes of memory of the machine; 0 when unknown."""
    unflushed_size: int = 0
    """Bytes of the commit log that a power failure would lose."""
    store_config: Mapping[str, str] = field(default_factory=dict)
    """The settings of the store under RocketMQ's keys."""
