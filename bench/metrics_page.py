"""How long a page of metrics takes a broker with many topics and groups, and the longest piece of it.

    PYTHONPATH=build/compiled python bench/metrics_page.py [--topics 1000] [--queues 8] [--groups 300] [--of-each 10]

Each group has committed offsets, and a connected consumer, in `--of-each` topics, and is one message behind in each
queue. The first page reads when those messages were stored; later pages know it. A piece is what the server does before
others have a turn: as many steps as fit into 2 ms.
"""

import argparse
import tempfile
import time
from pathlib import Path

from regulus.broker.config import BrokerConfig
from regulus.broker.groups.clients import Client
from regulus.broker.metrics.broker_metrics import BrokerMetrics
from regulus.broker.metrics.server_facts import ServerFacts
from regulus.broker.state import BrokerState
from regulus.model.message import MessageExt
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.server.metrics_page import STEP_S
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.wire.bodies import SubscriptionData
from regulus.wire.metrics_text import MetricsPage

NOW_MS = 1_700_000_000_000
HOST = b"\x7f\0\0\1\0\0\x2a\x9f"
SERIES_MAX = 50_000
PAGES = 5


def fill(broker: BrokerState, options: argparse.Namespace) -> None:
    topics = [f"topic-{number}" for number in range(options.topics)]
    for topic in topics:
        broker.topics.put(TopicConfig(topic_name=topic, read_queue_nums=options.queues,
                                      write_queue_nums=options.queues), NOW_MS)
        for queue_id in range(options.queues):
            broker.storing.append(MessageExt(topic, b"x" * 100, {"UNIQ_KEY": "K"}, queue_id, 0, 0, NOW_MS, HOST, HOST,
                                             0), NOW_MS)
    while broker.store.dispatch_behind_bytes():
        broker.store.dispatch(10_000, ())
    for number in range(options.groups):
        group = f"group-{number}"
        broker.subscription_groups.put(SubscriptionGroupConfig(group_name=group), NOW_MS)
        mine = [topics[(number * options.of_each + each) % len(topics)] for each in range(options.of_each)]
        client = Client(number, f"c{number}", 0, 479, "", NOW_MS, 0)
        broker.clients.register_consumer(group, client, "CONSUME_PASSIVELY", "CLUSTERING", "",
                                         [SubscriptionData.compile(topic, "*", 1) for topic in mine])
        for topic in mine:
            for queue_id in range(options.queues):
                broker.consumer_offsets.commit(group, topic, queue_id, 0)


def make_page(metrics: BrokerMetrics) -> tuple[MetricsPage, float, float, float, int]:
    """The page, seconds of processor time to fill it and to write it, the longest piece, and bytes."""
    page = MetricsPage(SERIES_MAX)
    longest, begin = 0.0, time.process_time()
    piece = begin
    for _ in metrics.fill(page, ServerFacts(), NOW_MS + 1_000):
        now = time.process_time()
        longest = max(longest, now - piece)
        if now - piece > STEP_S:
            piece = now
    filled = time.process_time()
    piece = filled
    size = 0
    for part in page.parts(is_openmetrics=False):
        now = time.process_time()
        longest, piece, size = max(longest, now - piece), now, size + len(part)
    return page, filled - begin, time.process_time() - filled, longest, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--groups", type=int, default=300)
    parser.add_argument("--of-each", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as path:
        store = FileMessageStore(MessageStoreConfig(store_path_root_dir=path, mapped_file_size_commit_log=16 << 20,
                                                    mapped_file_size_consume_queue=20_000, max_hash_slot_num=50_000,
                                                    max_index_num=200_000, mapped_files_max=20_000))
        store.open()
        broker = BrokerState(BrokerConfig(listen_port=10911), store, now_ms=NOW_MS, seed=1)
        fill(broker, options)
        metrics = BrokerMetrics(broker, {})
        for number in range(PAGES):
            page, filled, written, longest, size = make_page(metrics)
            print(f"page {number + 1}: {page.series} series, {size / 1e6:.1f} MB, filled in {filled * 1000:.0f} ms, "
                  f"written in {written * 1000:.0f} ms, longest piece {longest * 1000:.1f} ms, "
                  f"left out {page.families['regulus_metrics_left_out_pairs'].lines[0].split()[-1]} pairs", flush=True)
        store.close()


if __name__ == "__main__":
    main()
