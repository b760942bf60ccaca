"""RocketMQ's ladder of retries, step by step and to the millisecond, over each store, by a clock that the test moves.

What a consumer can see is looked at one millisecond before each step is due, and when it is. The times are RocketMQ's
own, written out: nothing here is computed by the code that it judges.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stores import small_config
from tests.unit.broker.conftest import START_MS, Rig

from regulus.broker.config import BrokerConfig
from regulus.broker.state import BrokerState
from regulus.model.message import MessageExt
from regulus.record import message_record
from regulus.store.file_message_store import FileMessageStore
from regulus.testing.memory_store import MemoryStore
from regulus.wire.codes import ResponseCode

RETRY_WAITS_MS = (10_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000, 420_000, 480_000, 540_000,
                  600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000)
"""How long a message waits after it failed for the first time, the second time, and so on: sixteen waits."""

LEVEL_WAITS_MS = {1: 1_000, 2: 5_000, 3: 10_000, 4: 30_000, 5: 60_000, 6: 120_000, 7: 180_000, 8: 240_000, 9: 300_000,
                  10: 360_000, 11: 420_000, 12: 480_000, 13: 540_000, 14: 600_000, 15: 1_200_000, 16: 1_800_000,
                  17: 3_600_000, 18: 7_200_000, 19: 7_200_000, 1000: 7_200_000}
"""How long it waits when the consumer names a level; levels above the last one count as the last."""

A_DAY_MS = 86_400_000
TICKS = 3       # the first delivers; two more at the same millisecond must deliver nothing again


class FailingConsumer:
    """Consumes one message of TopicA again and again, as the clients do, and always sends it back."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        rig.heartbeat("CG", "TopicA", "%RETRY%CG")
        rig.send(body=b"work", properties={"UNIQ_KEY": "K1"})
        self.message = self.arrived("TopicA", 0)
        self.retries_seen = 0

    def send_back(self, delay_level: int = 0, max_reconsume_times: int | None = None) -> None:
        answer = self.rig.send_back(self.message.physical_offset, delay_level=delay_level,
                                    max_reconsume_times=max_reconsume_times)
        assert answer.code == ResponseCode.SUCCESS

    def comes_again_after(self, wait_ms: int) -> None:
        """The message is seen when so much time has passed since now, and not a millisecond earlier."""
        self.wait(wait_ms - 1)
        assert self.nothing_comes()
        self.wait(1)
        self.message = self.arrived("%RETRY%CG", self.retries_seen)
        self.retries_seen += 1
        assert self.nothing_comes()
        assert (self.message.body, self.message.properties["RETRY_TOPIC"]) == (b"work", "TopicA")

    def wait(self, elapsed_ms: int) -> None:
        """Time passes all at once; then the broker does what is due."""
        self.rig.now_ms += elapsed_ms
        for _ in range(TICKS):
            self.rig.broker.tick(self.rig.tell_time())
            self.rig.dispatch()
        self.rig.heartbeat("CG", "TopicA", "%RETRY%CG")

    def nothing_comes(self) -> bool:
        return self.rig.pull("%RETRY%CG", 0, self.retries_seen, sys_flag=0).code == ResponseCode.PULL_NOT_FOUND

    def arrived(self, topic: str, queue_offset: int) -> MessageExt:
        answer = self.rig.pull(topic, 0, queue_offset, sys_flag=0)
        assert answer.code == ResponseCode.SUCCESS, f"nothing came at {self.rig.now_ms - START_MS} ms"
        (message,) = message_record.decode_all(answer.body)
        return message

    def dead_letters(self) -> list[bytes]:
        return [letter.body for letter in self.rig.stored("%DLQ%CG")]


@pytest.fixture(params=["file", "memory"])
def consumer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FailingConsumer]:
    config = BrokerConfig()
    if request.param == "memory":
        store = MemoryStore(config)
        yield FailingConsumer(Rig(BrokerState(config, store, now_ms=START_MS, seed=1), store))
        return
    file_store = FileMessageStore(small_config(tmp_path, mapped_file_size_commit_log=1 << 20), config)
    file_store.open()
    yield FailingConsumer(Rig(BrokerState(config, file_store, now_ms=START_MS, seed=1), file_store))
    file_store.close()


def test_each_failure_waits_one_step_longer_and_the_seventeenth_is_the_last(consumer: FailingConsumer) -> None:
    for failures, wait_ms in enumerate(RETRY_WAITS_MS, 1):
        consumer.send_back()
        assert consumer.dead_letters() == []
        consumer.comes_again_after(wait_ms)
        assert consumer.message.reconsume_times == failures
    assert consumer.rig.now_ms - START_MS == 17_140_000
    consumer.send_back()
    assert consumer.dead_letters() == [b"work"]
    consumer.wait(A_DAY_MS)
    assert consumer.nothing_comes()
    assert consumer.dead_letters() == [b"work"]


@pytest.mark.parametrize("level", LEVEL_WAITS_MS)
def test_a_level_that_the_consumer_names_is_the_wait(consumer: FailingConsumer, level: int) -> None:
    consumer.send_back(level)
    consumer.comes_again_after(LEVEL_WAITS_MS[level])


def test_a_named_level_counts_as_a_try_and_moves_no_other_step(consumer: FailingConsumer) -> None:
    consumer.send_back(1)
    consumer.comes_again_after(1_000)
    consumer.send_back()
    consumer.comes_again_after(30_000)
    consumer.send_back(5)
    consumer.comes_again_after(60_000)
    consumer.send_back()
    consumer.comes_again_after(120_000)
    for _ in range(12):
        consumer.send_back(2)
        consumer.comes_again_after(5_000)
    assert consumer.message.reconsume_times == 16
    consumer.send_back(2)
    assert consumer.dead_letters() == [b"work"]
    consumer.wait(A_DAY_MS)
    assert consumer.nothing_comes()


def test_a_consumer_s_own_limit_ends_the_ladder_early(consumer: FailingConsumer) -> None:
    for wait_ms in (10_000, 30_000, 60_000):
        consumer.send_back(max_reconsume_times=3)
        consumer.comes_again_after(wait_ms)
    assert consumer.dead_letters() == []
    consumer.send_back(max_reconsume_times=3)
    assert consumer.dead_letters() == [b"work"]


def test_tries_beyond_the_sixteenth_wait_two_hours_each(consumer: FailingConsumer) -> None:
    for wait_ms in (*RETRY_WAITS_MS, *(4 * (7_200_000,))):
        consumer.send_back(max_reconsume_times=20)
        consumer.comes_again_after(wait_ms)
    assert consumer.dead_letters() == []
    consumer.send_back(max_reconsume_times=20)
    assert consumer.dead_letters() == [b"work"]


def test_a_message_that_waits_for_its_next_try_waits_on_when_the_clock_stands_still(consumer: FailingConsumer) -> None:
    consumer.send_back()
    for _ in range(100):
        consumer.wait(0)
    assert consumer.nothing_comes()
    consumer.comes_again_after(10_000)
