"""Measures how long a store takes to start, by the number of its queues, after a clean stop and after a kill.

    python bench/restart.py [DIRECTORY] [--topics 10000 50000 100000]

A store with one message in each topic is built, and then opened by a process of its own. That process prints the time
from `open` to the first message read, the memory that it uses, and how long the deep check takes. DIRECTORY needs room
for 8 KiB and one file a topic. The time to build the store is not measured.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from regulus.model.message import MessageExt
from regulus.model.message_filter import EVERYTHING
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
NOW = 1_700_000_000_000


def build(root: Path, topics: int, is_killed: bool) -> None:
    store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(root)))
    store.open()
    for number in range(topics):
        properties = {"UNIQ_KEY": f"U{number}"}
        store.append(MessageExt(f"topic-{number:06d}", b"x" * 100, properties, 0, 0, 0, NOW, HOST, HOST), NOW + number)
        store.dispatch(1000, ())
    if not is_killed:
        store.close()
        return
    store.flush_commit_log()
    store.flush_queue_table()
    store.flush_checkpoint()
    store.flush_mark()


def measure(root: Path) -> None:
    began, worked = time.perf_counter(), time.process_time()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(root)))
    report = store.open(time.monotonic)
    found = store.get_message("topic-000007", 0, 0, 32, 1 << 20, EVERYTHING)
    serving, worked = time.perf_counter(), time.process_time() - worked
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    assert found.buffers
    faults = store.look_at_queues(store.resting_queues())
    checked = time.perf_counter()
    print(f"{report.queues:>8} queues  {'clean' if report.is_clean_stop else 'killed':<7} serving after "
          f"{serving - began:6.2f} s ({worked:.2f} s of a processor)  +{memory / 1024:6.1f} MiB  "
          f"deep check {checked - serving:6.2f} s, {len(faults)} faults", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--topics", nargs="+", type=int, default=[10_000, 50_000, 100_000])
    parser.add_argument("--build", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--killed", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--open", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build is not None:
        build(options.directory, options.build, options.killed)
        return
    if options.open:
        measure(options.directory)
        return
    for topics in options.topics:
        for is_killed in (False, True):
            root = Path(tempfile.mkdtemp(prefix="regulus-restart-", dir=options.directory))
            stop = ["--killed"] if is_killed else []
            try:
                subprocess.run([sys.executable, __file__, str(root), "--build", str(topics), *stop], check=True)
                subprocess.run([sys.executable, __file__, str(root), "--open"], check=True)
            finally:
                shutil.rmtree(root)


if __name__ == "__main__":
    main()
