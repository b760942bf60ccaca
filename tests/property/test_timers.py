"""Messages that wait, over any times, recalls, clocks and restarts, beside a plain list of what is due."""

from hypothesis import given
from hypothesis import strategies as st

from regulus.broker.config import BrokerConfig
from regulus.broker.state import BrokerState
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes
from regulus.testing.memory_store import MemoryStore

NOW = 1_700_000_000_000
HOST = host_bytes("10.0.0.1", 10911)
SETTINGS = {"listen_port": 10911, "timer_roll_window_slot": 40}

STEPS = st.lists(st.one_of(
    st.tuples(st.just("send"), st.integers(-2_000, 150_000)),
    st.tuples(st.just("copy"), st.integers(0, 9)),          # the same message once more, as a producer sends it again
    st.tuples(st.just("recall"), st.integers(0, 9)),
    st.tuples(st.just("wait"), st.integers(1, 20_000)),
    st.tuples(st.just("tick"), st.integers(1, 3)),
    st.tuples(st.just("clock"), st.integers(-30_000, 30_000)),
    st.tuples(st.just("note"), st.just(0)),
    st.tuples(st.just("kill"), st.just(0)),
    st.tuples(st.just("stop"), st.just(0))), max_size=40)


class Rig:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.now_ms = NOW
        self.sent: list[tuple[str, int]] = []       # key, due
        self.copies: dict[str, int] = {}
        self.recalled: set[str] = set()
        self.begin()

    def begin(self) -> None:
        self.broker = BrokerState(BrokerConfig(**SETTINGS), self.store, now_ms=self.now_ms, seed=1)
        self.broker.timers.open(self.now_ms)

    def store_message(self, key: str, properties: dict[str, str]) -> None:
        message = MessageExt("T", key.encode(), {"UNIQ_KEY": key, **properties}, 0, 0, 0, self.now_ms, HOST, HOST, 0)
        self.broker.storing.store(message, self.now_ms)
        self.store.dispatch(1 << 20)

    def send(self, delay_ms: int) -> None:
        key = f"K{len(self.sent)}"
        self.sent.append((key, self.now_ms + delay_ms))
        self.copies[key] = 1
        self.store_message(key, {"TIMER_DELIVER_MS": str(self.now_ms + delay_ms)})

    def copy(self, index: int) -> None:
        if index < len(self.sent) and self.sent[index][0] not in self.recalled:
            key, due_ms = self.sent[index]
            self.copies[key] += 1
            self.store_message(key, {"TIMER_DELIVER_MS": str(due_ms)})

    def recall(self, index: int) -> None:
        if index >= len(self.sent):
            return
        key, due_ms = self.sent[index]
        out_ms = (due_ms - 1) // 1000 * 1000
        if out_ms + 1 > self.now_ms and key not in [each for each, _ in self.came()]:
            self.recalled.add(key)
            self.store_message(key, {"TIMER_DELIVER_MS": str(out_ms + 1), "TIMER_DEL_UNIQKEY": f"T+{key}"})

    def wait(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        for _ in range(400):
            if self.tick(1):
                return
        raise AssertionError("it is never done")

    def tick(self, count: int) -> int | None:
        wait_ms = None
        for _ in range(count):
            wait_ms = self.broker.timers.tick(self.now_ms)
            self.store.dispatch(1 << 20)
            if wait_ms is None:
                return 1
        return wait_ms

    def clock(self, jump_ms: int) -> None:
        self.now_ms += jump_ms

    def note(self, _: int) -> None:
        self.broker.timers.note(self.now_ms)

    def kill(self, _: int) -> None:
        self.store.timers.check = self.store.timers.taken
        self.begin()

    def stop(self, _: int) -> None:
        self.broker.timers.stop(self.now_ms)
        self.kill(0)

    def came(self) -> list[tuple[str, int]]:
        """With the time at which each was delivered by the timers; 0 for what was stored at once."""
        found = []
        for unit in self.store.queue_units("T", 0, 0, 10_000):
            message = self.store.look_message(unit.physical_offset)
            assert message is not None
            found.append((message.properties["UNIQ_KEY"], int(message.properties.get("TIMER_DEQUEUE_MS", "0"))))
        return found


@given(STEPS)
def test_each_comes_once_for_each_time_it_was_sent_never_early_and_none_that_was_taken_back(steps):
    rig = Rig()
    for name, argument in steps:
        getattr(rig, name)(argument)
    rig.now_ms = max([rig.now_ms, rig.broker.timers.read_ms, *(due for _, due in rig.sent)]) + 1_000
    for _ in range(20):
        rig.wait(30_000)
    came = rig.came()
    assert sorted(key for key, _ in came) == sorted(
        key for key, count in rig.copies.items() if key not in rig.recalled for _ in range(count))
    due = dict(rig.sent)
    assert [(key, at) for key, at in came if at and at < due[key]] == []
