"""The store of tests/golden that RocketMQ 5.5.1 kept partly in RocksDB, for tests of several rooms."""

from pathlib import Path
from typing import Any

_GOLDEN = Path(__file__).parents[2] / "golden"
STORE = _GOLDEN / "store-5.5.1-rocksdb"
ONE_RUN = _GOLDEN / "timercheck-5.5.1-one-run"
SIZES: dict[str, Any] = {"mapped_file_size_commit_log": 8192, "mapped_file_size_consume_queue": 400,
                         "mapped_file_size_timer_log": 1 << 20}
