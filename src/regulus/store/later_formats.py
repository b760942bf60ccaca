"""Detect stores in formats that only later versions of RocketMQ know, by the content of their directory.

Each is refused with a text that says what it is and what can be done, before anything is changed.
"""

import re
from pathlib import Path

from regulus.errors import StoreNewer
from regulus.store import disk
from regulus.store.config import MessageStoreConfig
from regulus.store.rocksdb_parts import rocksdb_parts

_ROCKSDB_FILE = re.compile(r"CURRENT|IDENTITY|MANIFEST-\d+|OPTIONS-\d+|\d+\.(?:sst|log)")
_ROCKSDB_CONFIG = ("topics", "subscriptionGroups", "consumerOffsets")
_REBUILD = "move it away together with index and checkpoint, then the queues are rebuilt from the log"


def refuse_later_formats(config: MessageStoreConfig) -> None:
    """Refuse such a store. Raises StoreNewer, StoreDamaged. What a document says of a topic is not a reason: only files
    hold messages.

    With `take_what_is_readable`, data that RocketMQ 5.5 keeps in RocksDB besides the files is ignored.
    """
    root = config.root
    fault = _queue_fault(root) or _log_fault(root) or _config_fault(root / "config")
    if fault:
        raise StoreNewer(f"{fault} (or keep using RocketMQ 5 for this store)")
    parts = rocksdb_parts(config) if not config.take_what_is_readable else []
    if parts:
        raise StoreNewer(f"RocketMQ 5.5 has kept parts of this store where they are not read here: {'; '.join(parts)}. "
                         "Keep using RocketMQ 5.5 for it until these are consumed or ended, or start with "
                         "takeWhatIsReadable=true (--take-what-is-readable), which continues without them and counts "
                         "them in the log")


def _queue_fault(root: Path) -> str:
    for name in disk.names(root / "consumequeue"):
        if _ROCKSDB_FILE.fullmatch(name):
            return f"{root / 'consumequeue'} is a RocksDB database (storeType=defaultRocksDB): {_REBUILD}"
    if disk.names(root / "consumequeue_ext", directories=True):
        return (f"{root / 'consumequeue_ext'} holds filter data (enableConsumeQueueExt=true), which is not known here: "
                f"take it and consumequeue, and {_REBUILD}")
    return ""


def _log_fault(root: Path) -> str:
    for name in disk.names(root, directories=True):
        if name.startswith("dledger-"):
            return (f"{root / name} holds the log of a DLedger group (enableDLegerCommitLog=true), which is not known "
                    "here: let a consumer copy its messages")
    return ""


def _config_fault(folder: Path) -> str:
    """Whether a folder contains files: a tool of RocketMQ leaves empty folders when it finds none."""
    for name in disk.names(folder, directories=True):
        if name == "rdb" and disk.names(folder / name):
            return (f"{folder / name} keeps topics, groups and offsets in RocksDB (configManagerVersion=v2), and no "
                    "tool of RocketMQ turns these into JSON files: have the running RocketMQ list them (mqadmin "
                    "exportMetadata, consumerProgress), move the folder away, and make them anew here")
        if name in _ROCKSDB_CONFIG and disk.names(folder / name):
            return (f"{folder / name} keeps the configuration in RocksDB: export it to JSON files with mqadmin "
                    "rocksDBConfigToJson and move the folder away")
    return ""
