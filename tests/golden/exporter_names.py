"""The names of apache/rocketmq-exporter (commit e1ab2dd5, 2025-06-05), read from its collector: 89, all gauges."""

from pathlib import Path

NAMES = frozenset((Path(__file__).parent / "metrics" / "rocketmq-exporter-names.txt").read_text().split())
NEVER_FILLED = frozenset({"rocketmq_group_dlqdiff", "rocketmq_group_consume_tps",
                          "rocketmq_group_consume_total_offset"})
OF_CLIENTS = frozenset(name for name in NAMES if name.startswith("rocketmq_client_"))
