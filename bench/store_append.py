"""Measures what the store costs: append, dispatch and read of a message, and the deep check of a MiB of the log.

    python bench/store_append.py [--messages N] [--size BYTES] [--queues N] [--keys N] [--batch N] [--directory DIR]

All figures are CPU time of the calling thread. Run with PYTHONPATH=build/compiled for the compiled form. The store is
made in a new folder of the directory, which is removed afterwards.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from statistics import mean, median

from regulus.model.message import MessageExt
from regulus.model.message_filter import EVERYTHING
from regulus.store import commit_log
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))


def message(number: int, body: bytes, queues: int, keys: int) -> MessageExt:
    properties = {"UNIQ_KEY": f"7F0000010A6B4E0E2F2A{number:012X}", "CLUSTER": "DefaultCluster", "WAIT": "true",
                  "TAGS": "TagA", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    if keys:
        properties["KEYS"] = " ".join(f"key-{number}-{key}" for key in range(keys))
    return MessageExt("BenchmarkTest", body, properties, number % queues, 0, 0, 1_700_000_000_000, HOST, HOST)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--keys", type=int, default=0)
    parser.add_argument("--batch", type=int, default=256, help="appends between two dispatches")
    parser.add_argument("--directory", type=Path, default=None)
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="regulus-bench-", dir=arguments.directory))
    try:
        measure(root, arguments)
    finally:
        shutil.rmtree(root)


def measure(root: Path, arguments: argparse.Namespace) -> None:
    config = MessageStoreConfig(store_path_root_dir=str(root), mapped_file_size_commit_log=256 << 20)
    store = FileMessageStore(config)
    store.open(time.monotonic)
    body = bytes(range(256)) * (arguments.size // 256 + 1)
    body = body[:arguments.size]
    seconds: dict[str, list[float]] = {"append": [], "dispatch": [], "allocate_ahead": []}
    for first in range(0, arguments.messages, arguments.batch):
        messages = [message(number, body, arguments.queues, arguments.keys)
                    for number in range(first, min(first + arguments.batch, arguments.messages))]
        began = time.thread_time()
        if store.wants_allocation:
            store.allocate_ahead()
        allocated = time.thread_time()
        for each in messages:
            store.append(each, 1_700_000_000_000)
        appended = time.thread_time()
        while store.dispatch_behind_bytes():
            store.dispatch(arguments.batch, ())
        seconds["allocate_ahead"].append((allocated - began) / len(messages))
        seconds["append"].append((appended - allocated) / len(messages))
        seconds["dispatch"].append((time.thread_time() - appended) / len(messages))
    build = "interpreted" if commit_log.__file__.endswith(".py") else "compiled"
    print(f"{build}, {arguments.messages} messages of {arguments.size} bytes, {arguments.queues} queues, "
          f"1 unique key and {arguments.keys} keys each")
    for name, values in seconds.items():
        print(f"  {name:15} {mean(values) * 1e6:6.2f} us per message, median batch {median(values) * 1e6:.2f}, "
              f"best {min(values) * 1e6:.2f}")
    read(store, arguments)
    store.close()
    check(config)


def read(store: FileMessageStore, arguments: argparse.Namespace) -> None:
    count = 0
    began = time.thread_time()
    for queue in range(arguments.queues):
        offset = 0
        while True:
            result = store.get_message("BenchmarkTest", queue, offset, 32, 262_144, EVERYTHING)
            if not result.message_count:
                break
            count += result.message_count
            offset = result.next_begin_offset
    elapsed = time.thread_time() - began
    print(f"  {'get_message':15} {elapsed / max(count, 1) * 1e6:6.2f} us per message, {count} read")


def check(config: MessageStoreConfig) -> None:
    """Measure the deep check of the log after a restart."""
    store = FileMessageStore(config)
    store.open()
    began = time.thread_time()
    size = sum(step.size for step in store.deep_check.log_steps())
    elapsed = time.thread_time() - began
    print(f"  {'deep check':15} {elapsed / (size / (1 << 20)) * 1e3:6.2f} ms per MiB of the log, {size >> 20} MiB")
    store.close()


if __name__ == "__main__":
    main()
