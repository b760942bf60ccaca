"""Small stores and messages for tests."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from regulus.model.message import MessageExt
from regulus.model.message_filter import EVERYTHING
from regulus.model.store_result import PutStatus
from regulus.model.store_rules import StoreRules
from regulus.record import message_record
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
NOW = 1_700_000_000_000
RULES = StoreRules()


def small_config(root: Path, **settings: Any) -> MessageStoreConfig:
    """Files small enough that a test fills several."""
    values: dict[str, Any] = {"mapped_file_size_commit_log": 4096, "mapped_file_size_consume_queue": 200,
                              "max_hash_slot_num": 16, "max_index_num": 32}
    return MessageStoreConfig(store_path_root_dir=str(root), **{**values, **settings})


def open_store(root: Path, rules: StoreRules = RULES, **settings: Any) -> FileMessageStore:
    store = FileMessageStore(small_config(root, **settings), rules)
    store.open()
    return store


def a_message(topic: str = "TopicA", body: bytes = b"hello", queue_id: int = 0, sys_flag: int = 0,
              **properties: str) -> MessageExt:
    return MessageExt(topic, body, dict(properties), queue_id, 0, sys_flag, NOW - 5, HOST, HOST)


def fill(store: FileMessageStore, count: int, *, topic: str = "TopicA", queues: int = 1, size: int = 100,
         first: int = 0) -> list[MessageExt]:
    """Append and dispatch messages that tell themselves apart."""
    messages = []
    for number in range(first, first + count):
        body = f"{number:08d}".encode().ljust(size, b".")
        message = a_message(topic, body, number % queues, UNIQ_KEY=f"U{number:08d}", KEYS=f"k{number} all",
                            TAGS=f"T{number % 3}")
        assert store.append(message, NOW + number).status is PutStatus.PUT_OK
        messages.append(message)
    dispatch(store)
    return messages


def dispatch(store: FileMessageStore) -> None:
    while store.dispatch_behind_bytes() and not store.fault:
        store.dispatch(1000)


def bodies(store: FileMessageStore, topic: str = "TopicA", queue_id: int = 0) -> list[bytes]:
    """All bodies of a queue, by way of its units."""
    found = []
    offset = store.min_offset(topic, queue_id)
    while True:
        result = store.get_message(topic, queue_id, offset, 32, 1 << 20, EVERYTHING)
        if not result.buffers and result.next_begin_offset <= offset:
            return found
        for buffer in result.buffers:
            found += [message.body for message in message_record.decode_all(buffer)]
        offset = result.next_begin_offset


def open_files(directory: Path) -> list[str]:
    """The files below a directory that this process has open, each as often as it has."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):       # the one that reads the list is gone
            found.append(str(descriptor.readlink()))
    return sorted(path for path in found if path.startswith(str(directory)))


def crashed_copy(root: Path, target: Path) -> Path:
    """What a crash would leave of the open store in `root`: its files as they are now."""
    shutil.copytree(root, target)
    return target
