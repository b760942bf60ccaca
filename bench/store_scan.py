"""Measures how fast recovery walks a log in the page cache, with checks of the CRCs, in bytes per second.

    python bench/store_scan.py [--megabytes N] [--size BYTES] [--directory DIR]

`crash` is the walk over the whole log after a crash, if everything was dispatched before it. `rebuild` also writes all
queues and the index again. Run with PYTHONPATH=build/compiled for the compiled form.
"""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

from regulus.model.message import MessageExt
from regulus.store import commit_log
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--directory", type=Path, default=None)
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="regulus-bench-", dir=arguments.directory))
    config = MessageStoreConfig(store_path_root_dir=str(root), mapped_file_size_commit_log=64 << 20)
    try:
        write(config, arguments.megabytes << 20, arguments.size)
        build = "interpreted" if commit_log.__file__.endswith(".py") else "compiled"
        (root / "abort").touch()
        (root / "checkpoint").unlink()
        scan(config, f"{build}, {arguments.size} bytes, crash")
        for name in ("consumequeue", "index"):
            shutil.rmtree(root / name)
        scan(config, f"{build}, {arguments.size} bytes, rebuild")
    finally:
        shutil.rmtree(root)


def write(config: MessageStoreConfig, size: int, body_size: int) -> None:
    store = FileMessageStore(config)
    store.open()
    number = 0
    while store.commit_log_max_offset() < size:
        properties = {"UNIQ_KEY": f"7F0000010A6B4E0E2F2A{number:012X}", "CLUSTER": "DefaultCluster", "TAGS": "TagA"}
        store.append(MessageExt("BenchmarkTest", os.urandom(64) * (body_size // 64), properties, number % 8, 0, 0,
                                1_700_000_000_000, HOST, HOST), 1_700_000_000_000 + number)
        number += 1
    store.close()


def scan(config: MessageStoreConfig, text: str) -> None:
    store = FileMessageStore(config)
    wall, processor = time.perf_counter(), time.process_time()
    report = store.open(time.monotonic)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    megabytes = (report.kept_to - report.scanned_from) / 1e6
    print(f"{text}: {megabytes / processor:.0f} MB/s of CPU, {megabytes / wall:.0f} MB/s elapsed; "
          f"{report.records} records, "
          f"{report.redispatched} redispatched, {processor / max(report.records, 1) * 1e6:.2f} us each")
    store.close()


if __name__ == "__main__":
    main()
