"""What one message costs where many wait for it, and that everybody gets what is there for him nevertheless."""

import pytest

from regulus.broker.held_requests import ANY_QUEUE
from regulus.model.store_result import Arrival
from regulus.model.topics import TopicConfig
from regulus.wire.codes import RequestCode as Code
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import PopMessageRequest
from tests.unit.broker.pop_rig import NOW, Rig, bodies

QUEUES = 8


class Waiting(Rig):
    """With a topic of several queues. `looks` counts those at a queue."""

    def __init__(self) -> None:
        super().__init__()
        self.broker.steady_ms = NOW
        self.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=QUEUES, write_queue_nums=QUEUES), NOW)
        self.looks = 0
        get_message = self.store.get_message

        def counted(*values, **fields):
            self.looks += 1
            return get_message(*values, **fields)

        self.store.get_message = counted

    def wait(self, group: str = "G", **fields: object) -> None:
        header = PopMessageRequest(**{
            "consumer_group": group, "topic": "T", "queue_id": -1, "max_msg_nums": 1, "invisible_time": 30_000,
            "poll_time": 20_000, "born_time": NOW, "init_mode": 0, **fields})
        assert self.ask(Code.POP_MESSAGE, header.ext()) is None

    def arrive(self, *bodies: str, queue_id: int = 0, tags: str = "") -> None:
        offset = self.store.max_offset("T", queue_id)
        self.send(*bodies, queue_id=queue_id, tags=tags)
        self.broker.message_arrived([Arrival("T", queue_id, offset + number, 0, NOW) for number in range(len(bodies))],
                                    NOW)

    def answered(self) -> list[str]:
        """The messages that those who waited have got, in all."""
        while self.broker.held_requests.has_ready:
            self.broker.tick(self.now_ms)
        got = [body for notice in self.broker.notices if notice.reply.answer.code == ResponseCode.SUCCESS
               for body in bodies(self.taken(notice.reply.answer))]
        self.broker.notices.clear()
        return got


@pytest.mark.parametrize("order", [False, True])
def test_a_message_costs_few_looks_though_many_wait_for_it(order):
    rig = Waiting()
    for number in range(100):
        rig.wait(order=order, attempt_id=f"attempt-{number}")
    rig.looks = 0
    rig.arrive("a")
    assert rig.answered() == ["a"]
    assert rig.looks <= 2 * (QUEUES + 1)
    assert len(rig.broker.held_requests) == 99


def test_many_who_wait_get_a_message_each():
    rig = Waiting()
    for _ in range(10):
        rig.wait()
    rig.arrive("a", "b", "c")
    assert sorted(rig.answered()) == ["a", "b", "c"]
    for number, body in enumerate("defg"):
        rig.arrive(body, queue_id=number)
        assert rig.answered() == [body]
    assert len(rig.broker.held_requests) == 3


def test_what_one_does_not_find_is_for_others_who_look_elsewhere():
    rig = Waiting()
    rig.wait("G", queue_id=1)
    rig.wait("G")
    rig.send("a", queue_id=7, tags="blue")
    rig.broker.queue_changed("T", 1)
    rig.broker.queue_changed("T", ANY_QUEUE)
    assert rig.answered() == ["a"]
    rig.arrive("b", queue_id=1)
    assert rig.answered() == ["b"]


def test_what_was_sent_back_to_the_beginning_is_found_though_nothing_was_before():
    """An offset that moves ends what was known, within a step, too."""
    rig = Waiting()
    rig.arrive("a")
    rig.pop(count=1)
    for _ in range(2):
        rig.wait()
    resumed = []
    rig.broker.held_requests.wake_queue("T", ANY_QUEUE)
    held = rig.broker.held_requests.take_ready(2)
    rig.broker.vain_pops.begin_step()
    resumed.append(held[0].answer(NOW))
    rig.broker.consumer_offsets.commit("G", "T", 0, 0, NOW)
    resumed.append(held[1].answer(NOW))
    assert resumed[0] is None
    assert bodies(rig.taken(resumed[1])) == ["a"]


def test_who_repeats_his_attempt_gets_what_is_out_by_it_though_others_find_nothing():
    """His first request is still there, of a connection that he has given up."""
    rig = Waiting()
    for attempt in ("mine", "other", "mine"):
        rig.wait(order=True, attempt_id=attempt)
    rig.arrive("a")
    assert rig.answered() == ["a", "a"]
    assert len(rig.broker.held_requests) == 1
