"""A broker's timers on a store of files, with a clock that a test moves: what it sends, runs, notes and finds."""

from pathlib import Path

from regulus.broker.config import BrokerConfig
from regulus.broker.state import BrokerState
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes
from regulus.model.store_result import PutStatus
from regulus.model.topics import TopicConfig
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

NOW = 1_700_000_000_000
TOPIC, QUEUE = "T", 1
ROUNDS_MAX = 10_000
"""Of ticks until nothing is due."""
_HOST = host_bytes("10.0.0.1", 10911)


class TimedStore:
    """It begins where the files are; to kill it, take a copy of them. What waits longer than `window` ticks is put
    back on the way."""

    def __init__(self, root: Path, now_ms: int = NOW, window: int = 60) -> None:
        self.now_ms = now_ms
        self.store = FileMessageStore(MessageStoreConfig(
            store_path_root_dir=str(root), mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=2000,
            mapped_file_size_timer_log=4096, max_hash_slot_num=16, max_index_num=1024))
        self.store.open()
        config = BrokerConfig(listen_port=10911, timer_roll_window_slot=window)
        self.broker = BrokerState(config, self.store, now_ms=now_ms, seed=1)
        self.broker.load_documents({kept.name: text for kept in self.broker.kept_parts
                                    if (text := self.store.load_config(kept.name)) is not None})
        self.broker.topics.put(TopicConfig(topic_name=TOPIC), now_ms)
        self.broker.timers.open(now_ms)

    def send(self, key: str, delay_ms: int) -> None:
        properties = {names.UNIQUE_KEY: key, names.TIMER_DELAY_MS: str(delay_ms)}
        message = MessageExt(TOPIC, key.encode(), properties, QUEUE, 0, 0, self.now_ms, _HOST, _HOST, 0)
        assert self.broker.storing.store(message, self.now_ms).status is PutStatus.PUT_OK

    def dispatch(self) -> None:
        while self.store.dispatch_behind_bytes():
            self.store.dispatch(1000)

    def run(self, duration_ms: int) -> None:
        """Let so much time go by, and do all that is due then."""
        self.now_ms += duration_ms
        for _ in range(ROUNDS_MAX):
            self.dispatch()
            if self.broker.timers.tick(self.now_ms) != 0:
                self.dispatch()
                return
        raise AssertionError("it is never done")

    def flush(self) -> None:
        """Bring to disk what was noted, and what is known now."""
        self.store.flush_commit_log()
        self.flush_note()
        self.broker.timers.note(self.now_ms)
        self.flush_note()

    def flush_note(self) -> None:
        """The note that is taken, if the log is on disk so far."""
        deed = self.store.begin_timers()
        if deed is not None:
            deed()
            self.store.timers.end_flush(is_done=True)

    def save_documents(self) -> None:
        for kept in self.broker.kept_parts:
            if kept.part.changes != kept.saved:
                self.store.save_config(kept.name, [piece for late in kept.part.document() for piece in late])

    def stop(self) -> None:
        self.save_documents()
        self.broker.timers.stop(self.now_ms)
        self.store.close()

    def waiting(self) -> int:
        """As it is counted."""
        metric = self.broker.timers.counts.wrapper().timing_count.get(TOPIC)
        return metric.count if metric is not None else 0

    def came(self) -> list[str]:
        """The keys of all that was delivered, in their order."""
        found = []
        for unit in self.store.queue_units(TOPIC, QUEUE, 0, 100_000):
            message = self.store.look_message(unit.physical_offset)
            assert message is not None
            found.append(message.properties[names.UNIQUE_KEY])
        return found
