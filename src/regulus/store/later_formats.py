"""Stores of formats that only later versions of RocketMQ know, told by what lies in their directory.

Each is refused with what it is and what can be done, before anything is changed.
"""

import re
from pathlib import Path

from regulus.errors import StoreNewer
from regulus.store import disk

_ROCKSDB_FILE = re.compile(r"CURRENT|IDENTITY|MANIFEST-\d+|OPTIONS-\d+|\d+\.(?:sst|log)")
_ROCKSDB_CONFIG = ("rdb", "topics", "subscriptionGroups", "consumerOffsets")
_REBUILD = "move it away together with index and checkpoint, then the queues are rebuilt from the log"


def refuse_later_formats(root: Path) -> None:
    """Raises StoreNewer. What a document says of a topic stops no start: only files hold messages."""
    fault = _queue_fault(root) or _log_fault(root) or _config_fault(root / "config") or _batch_fault(root)
    if fault:
        raise StoreNewer(f"{fault} (or keep using RocketMQ 5 for this store)")


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
    for name in disk.names(folder, directories=True):
        if name in _ROCKSDB_CONFIG:
            return (f"{folder / name} keeps the configuration in RocksDB: export it to JSON files with mqadmin "
                    "rocksDBConfigToJson and move the folder away")
    return ""


def _batch_fault(root: Path) -> str:
    folder = root / "batchconsumequeue"
    if disk.names(folder, directories=True):
        return (f"{folder} has the queues of topics of queue.type BatchCQ, which are not known here: let RocketMQ 5 "
                "delete those topics, or move the folder away to go on without their messages")
    return ""
