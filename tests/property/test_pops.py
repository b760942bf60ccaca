"""Pops, acks, other times, a store that refuses, and restarts, beside a plain table of who has which message."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.broker.test_pops import NOW, Rig

from regulus.model.receipt_handle import ReceiptHandle
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import PopMessageRequest

STEPS = st.lists(st.one_of(
    st.tuples(st.just("send"), st.integers(1, 5)),
    st.tuples(st.just("pop"), st.integers(1, 40)),
    st.tuples(st.just("pop"), st.integers(1, 40)),
    st.tuples(st.just("ack"), st.integers(0, 60)),
    st.tuples(st.just("ack"), st.integers(0, 60)),
    st.tuples(st.just("change"), st.integers(0, 60)),
    st.tuples(st.just("wait"), st.integers(1, 15_000)),
    st.tuples(st.just("refuse"), st.integers(1, 3_000)),
    st.tuples(st.just("set_back"), st.just(0)),
    st.tuples(st.just("kill"), st.just(0)),
    st.tuples(st.just("stop"), st.just(0))), max_size=30)


class Table:
    def __init__(self) -> None:
        self.rig = Rig()
        self.rig.broker.steady_ms = NOW
        self.sent: list[str] = []
        self.hidden_until: dict[str, int] = {}
        self.acked: dict[str, int] = {}             # when
        self.handles: list[tuple[str, ReceiptHandle]] = []
        self.saved = self.rig.broker.documents()
        self.may_be_gone: set[str] = set()          # acknowledged once, whatever was killed then
        self.is_set_back = False
        """Then what was popped before comes from both places."""

    def send(self, count: int) -> None:
        for _ in range(count):
            self.sent.append(f"m{len(self.sent)}")
            self.rig.send(self.sent[-1], queue_id=len(self.sent) % 2)

    def pop(self, number: int) -> None:
        rig = self.rig
        header = PopMessageRequest(consumer_group="G", topic="T", queue_id=-1, max_msg_nums=number % 8 + 1,
                                   invisible_time=number * 250, poll_time=0, born_time=rig.now_ms, init_mode=0)
        answer = rig.ask(RequestCode.POP_MESSAGE, header.ext())
        if answer.code == ResponseCode.SYSTEM_ERROR and rig.store.refusal:
            return
        for message, handle in rig.taken(answer):
            key = message.body.decode()
            if not self.is_set_back:
                assert rig.now_ms >= self.hidden_until.get(key, 0), f"{key} is handed out before its time"
                assert key not in self.acked, f"{key} was acknowledged and is handed out"
            self.hidden_until[key] = rig.now_ms + handle.invisible_time
            self.handles.append((key, handle))

    def ack(self, number: int) -> None:
        if number >= len(self.handles):
            return
        key, handle = self.handles[number]
        is_latest = [each for each in self.handles if each[0] == key][-1][1] == handle
        is_in_time = self.rig.now_ms < handle.pop_time + handle.invisible_time
        answer = self.rig.ack(handle)
        if answer.code == 0 and is_latest and is_in_time:
            self.acked.setdefault(key, self.rig.now_ms)
            self.may_be_gone.add(key)

    def change(self, number: int) -> None:
        if number >= len(self.handles):
            return
        key, handle = self.handles[number]
        answer = self.rig.change(handle, number * 500)
        if answer.code == 0:
            self.hidden_until[key] = self.rig.now_ms + number * 500
            self.handles.append((key, handle._replace(
                start_offset=handle.queue_offset, pop_time=int(answer.ext["popTime"]),
                invisible_time=number * 500, revive_queue_id=int(answer.ext["reviveQid"]))))

    def wait(self, duration_ms: int) -> None:
        self.rig.run_to(self.rig.now_ms + duration_ms, step=100)
        self.saved = self.rig.broker.documents()

    def refuse(self, duration_ms: int) -> None:
        """The store takes nothing for a while."""
        self.rig.store.refusal = "the disk is full"
        self.rig.run_to(self.rig.now_ms + duration_ms, step=100)
        self.rig.store.refusal = ""

    def set_back(self, _: int) -> None:
        """An operator has the group consume all again."""
        for queue_id in range(2):
            self.rig.broker.consumer_offsets.commit("G", "T", queue_id, 0, self.rig.now_ms)
        self.saved = self.rig.broker.documents()
        self.acked.clear()
        self.handles.clear()
        self.is_set_back = True

    def kill(self, _: int) -> None:
        """What was acknowledged within the last second may come again."""
        self.acked = {key: at for key, at in self.acked.items() if at < self.rig.now_ms - 1_500}
        # Topics and groups are saved before anything that uses them is answered.
        now = self.rig.broker.documents()
        saved = self.saved | {name: now[name] for name in ("topics", "regulusTopicEpochs", "subscriptionGroup")}
        self.rig.broker.documents = lambda: saved
        self.rig.now_ms += 1        # a start takes longer than a ms
        self.rig = self.rig.restarted(is_killed=True)
        self.rig.broker.steady_ms = self.rig.now_ms

    def stop(self, _: int) -> None:
        self.rig.now_ms += 1
        self.rig = self.rig.restarted()
        self.rig.broker.steady_ms = self.rig.now_ms
        self.saved = self.rig.broker.documents()


@given(STEPS)
def test_none_is_lost_none_is_handed_out_before_its_time_and_none_after_its_ack(steps):
    table = Table()
    for name, argument in steps:
        getattr(table, name)(argument)
    came = set(table.may_be_gone)
    table.hidden_until = {}
    for _ in range(4):
        table.rig.run_to(table.rig.now_ms + 40_000, step=500)
        for _ in range(20):
            before = len(table.handles)
            table.pop(7)
            came |= {key for key, _ in table.handles[before:]}
    assert came == set(table.sent)
