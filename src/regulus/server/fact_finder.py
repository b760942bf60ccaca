"""Reads the state of the disk for the broker, which does no I/O itself, so that operators can see it."""

import logging
import os

from regulus.broker.runtime_facts import RuntimeFacts
from regulus.broker.state import BrokerState
from regulus.errors import StoreError
from regulus.store import disk
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.wire.config_text import config_values

_log = logging.getLogger(__name__)

LOOK_INTERVAL_MS = 5_000


class FactFinder:
    def __init__(self, broker: BrokerState, store: FileMessageStore, config: MessageStoreConfig) -> None:
        self._broker = broker
        self._store = store
        self._commit_log = config.commit_log_directory
        self._root = config.root
        self._store_config = {**config_values(config), "storePathRootDir": str(self._root),
                              "storePathCommitLog": str(self._commit_log)}
        self._next_ms = 0
        self._is_told = False

    def tick(self, steady_ms: int) -> None:
        """Read the state again when it is LOOK_INTERVAL_MS old."""
        if steady_ms >= self._next_ms:
            self._next_ms = steady_ms + LOOK_INTERVAL_MS
            self._look()

    def _look(self) -> None:
        """Read the state of the disk; if the disk does not answer, the old facts stay."""
        try:
            # The first append makes the directory of the log.
            log_disk = self._commit_log if disk.exists(self._commit_log) else self._root
            log_ratio, queue_ratio = disk.used_ratio(log_disk), disk.used_ratio(self._root)
            size, free = disk.room(log_disk)
        except StoreError as error:
            if not self._is_told:
                _log.error("cannot look at the disk of the store: %s", error)
            self._is_told = True
            return
        self._is_told = False
        self._broker.runtime_facts = RuntimeFacts(
            commit_log_path=str(self._commit_log), disk_size=size, disk_free=free,
            commit_log_disk_ratio=log_ratio, consume_queue_disk_ratio=queue_ratio,
            memory_size=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            unflushed_size=self._store.commit_log_max_offset() - self._store.flushed_offset,
            store_config=self._store_config)
