"""Whatever a store went through, a rotten field of a record and damaged queue files cost that record and no other."""

import shutil
import tempfile
from pathlib import Path
from random import Random

from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.stores import NOW, a_message, crashed_copy, dispatch, open_store, small_config

from regulus.errors import StoreDamaged
from regulus.model.message_filter import EVERYTHING
from regulus.record import message_record
from regulus.record.layout import QUEUE_ID, QUEUE_OFFSET
from regulus.store.file_message_store import FileMessageStore

TOPICS = ("T1", "T2", "T3")
QUEUES = 2
STEPS_MAX = 14
FIELDS = ("queue offset", "queue id", "topic")

Name = tuple[str, int]


class History:
    """`live`: of each queue, which message lies at which queue offset, and where in the log."""

    def __init__(self, root: Path, random: Random) -> None:
        self.random = random
        self.root = root / "0"
        self.starts = 0
        self.store = open_store(self.root)
        self.live: dict[Name, dict[int, tuple[bytes, int]]] = {}
        self.count = 0
        self.send_one("First", 0)
        dispatch(self.store)
        self.restart()              # only from then on there is a table
        for _ in range(random.randint(3, STEPS_MAX)):
            random.choice((self.send, self.send, self.send, self.delete, self.cut, self.restart, self.kill))()
        self.send_one("Last", 0)    # the record that the table is bound to is another
        dispatch(self.store)
        start = self.store.commit_log_min_offset()
        self.store.close()
        self.live = {name: {offset: (body, place) for offset, (body, place) in messages.items() if place >= start}
                     for name, messages in self.live.items()}

    def send_one(self, topic: str, queue_id: int) -> None:
        self.count += 1
        body = f"{self.count:08d}".encode().ljust(self.random.choice((20, 200)), b".")
        message = a_message(topic, body, queue_id)
        self.store.append(message, NOW + self.count)
        self.live.setdefault((topic, queue_id), {})[message.queue_offset] = body, message.physical_offset

    def send(self) -> None:
        for _ in range(self.random.randint(1, 14)):
            self.send_one(self.random.choice(TOPICS), self.random.randrange(QUEUES))
        dispatch(self.store)

    def delete(self) -> None:
        topic = self.random.choice(TOPICS)
        self.store.delete_topic(topic)
        for queue_id in range(QUEUES):
            self.live.pop((topic, queue_id), None)
        for _ in range(self.random.randint(0, 4)):
            self.send_one(topic, self.random.randrange(QUEUES))
        dispatch(self.store)

    def cut(self) -> None:
        start = self.store.commit_log_min_offset()
        if start + 8192 < self.store.commit_log_max_offset():
            # A broker does so each second and each minute, and files go after hours: no table speaks of one that went.
            self.store.flush_commit_log()
            self.store.flush_queue_table()
            self.store.old_files.take_log_file(start, NOW)
            self.store.old_files.delete_hanging(NOW, 0)

    def restart(self) -> None:
        self.store.close()
        self.store = open_store(self.root)

    def kill(self) -> None:
        if self.random.random() < 0.5:
            self.store.flush_queue_table()
        self.starts += 1
        old, self.root = self.root, crashed_copy(self.root, self.root.parent / str(self.starts))
        self.store.close()
        shutil.rmtree(old)
        self.store = open_store(self.root)

    def rot(self) -> tuple[Name, int, Name]:
        """Have one field of one record rot; of which queue it is message what, and whose it says to be now."""
        name, offset, place = self.random.choice([(name, offset, place) for name, messages in self.live.items()
                                                  for offset, (_, place) in messages.items() if name[0] in TOPICS])
        field = self.random.choice(FIELDS)
        said = name
        if field == "queue offset":
            bit = 1 << self.random.choice((*range(8), 40, 63))
            wrong = self.random.choice((0, offset + 1, offset - 1, offset ^ bit)) & 0xFFFFFFFFFFFFFFFF
            self._overwrite(place + QUEUE_OFFSET, (wrong if wrong != offset else offset + 7).to_bytes(8, "big"))
        elif field == "queue id":
            said = name[0], name[1] ^ 1
            self._overwrite(place + QUEUE_ID, said[1].to_bytes(4, "big"))
        else:
            said = self.random.choice([topic for topic in TOPICS if topic != name[0]]), name[1]
            topic = name[0].encode()
            data = (self.root / "commitlog" / f"{place - place % 4096:020d}").read_bytes()
            size = int.from_bytes(data[place % 4096:place % 4096 + 4], "big")
            at = data.rindex(bytes((len(topic),)) + topic, place % 4096, place % 4096 + size)
            self._overwrite(place - place % 4096 + at + 1, said[0].encode().ljust(len(topic), b"x"))
        return name, offset, said

    def _overwrite(self, place: int, data: bytes) -> None:
        with (self.root / "commitlog" / f"{place - place % 4096:020d}").open("r+b") as file:
            file.seek(place % 4096)
            file.write(data)

    def damage(self) -> set[Name]:
        """Queues whose files are not what they were."""
        damaged = set()
        for name in sorted(self.live):
            directory = self.root / "consumequeue" / name[0] / str(name[1])
            harm = self.random.choice(("none", "noise", "gone"))
            if harm == "none" or not directory.exists():
                continue
            damaged.add(name)
            if harm == "gone":
                shutil.rmtree(directory)
            else:
                with min(directory.iterdir()).open("r+b") as file:
                    file.write(b"\1" * 20)
        return damaged


def served(store: FileMessageStore, name: Name) -> dict[int, bytes | None]:
    """The body at each place; None where a message is refused."""
    found: dict[int, bytes | None] = {}
    offset = store.min_offset(*name)
    while offset < store.max_offset(*name):
        try:
            result = store.get_message(*name, offset, 1, 1 << 20, EVERYTHING)
        except StoreDamaged:
            found[offset] = None
            offset += 1
            continue
        if result.buffers:
            (message,) = message_record.decode_all(result.buffers[0])
            found[message.queue_offset] = message.body
        offset = max(result.next_begin_offset, offset + 1)
    return found


def state(store: FileMessageStore) -> dict[Name, object]:
    return {name: (store.min_offset(*name), store.max_offset(*name), store.queue_units(*name, 0, 1000))
            for name in store.queues()}


@given(seed=st.integers(0, 1 << 32), has_whole_queues=st.booleans())
@example(seed=0, has_whole_queues=True)
@example(seed=91, has_whole_queues=False)   # the first two records of a cut log say the same number
@example(seed=776808, has_whole_queues=False)   # of two records of a cut log the last one says to be another queue's
def test_rot_in_one_record_costs_no_other(seed: int, has_whole_queues: bool) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        history = History(folder, Random(seed))
        assume(any(history.live.get((topic, queue_id)) for topic in TOPICS for queue_id in range(QUEUES)))
        before = open_store(history.root)
        whole = state(before)
        before.close()
        victim, at, said = history.rot()
        damaged = set() if has_whole_queues else history.damage()
        states = []
        for _ in range(3):
            store = FileMessageStore(small_config(history.root))
            store.open()
            states.append(state(store))
            check(store, history, victim, at, said)
            store.close()
        assert states[0] == states[1] == states[2]
        if said != victim and len(history.live[victim]) == 1:
            damaged.add(victim)     # nothing tells it from a foreign queue; the message is passed over or refused
        assert {name: queue for name, queue in states[0].items() if name not in damaged} == \
            {name: queue for name, queue in whole.items() if name not in damaged}
        store = open_store(history.root)
        history.live.pop(("First", 0), None)
        for name, messages in history.live.items():
            message = a_message(name[0], b"next", name[1])
            store.append(message, NOW)
            # What says to be of another queue may lie behind its end.
            assert message.queue_offset in {max(messages, default=-1) + 1, at + 1 if name == said else -1} \
                or not messages
        store.close()
    finally:
        shutil.rmtree(folder)


def check(store: FileMessageStore, history: History, victim: Name, at: int, said: Name) -> None:
    """A record that says to be of another queue may take the place of that one's own message, where it lies before."""
    living = {body for messages in history.live.values() for body, _ in messages.values()}
    for name, messages in history.live.items():
        found = served(store, name)
        assert {body for body in found.values() if body is not None} <= living
        for offset, (body, _) in messages.items():
            if (name, offset) not in {(victim, at), (said, at)}:
                assert found.get(offset) == body, (name, offset)
