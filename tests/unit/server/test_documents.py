"""What is saved, when, and what happens when it cannot be."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import pairwise

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.groups.consumer_offsets import ConsumerOffsets
from regulus.broker.state import BrokerState
from regulus.errors import StoreNotWritable
from regulus.model.topics import TopicConfig
from regulus.server import documents
from regulus.server.documents import DocumentKeeper
from regulus.server.workers import Line, ThreadWorkers
from regulus.testing.memory_store import MemoryStore


class Shelf:
    """Keeps documents and the order of deeds. A closed one lets nobody write before it is opened; `refused` is the name
    of one that finds no room."""

    def __init__(self) -> None:
        self.documents: dict[str, str] = {}
        self.deeds: list[str] = []
        self.is_full = False
        self.refused = ""
        self.log_fails = False
        self.opened = threading.Event()
        self.opened.set()

    def save_config(self, name: str, pieces: Iterable[bytes]) -> None:
        self.opened.wait(60)
        self.deeds.append(name)
        if self.is_full or name == self.refused:
            raise StoreNotWritable("the disk is full")
        self.documents[name] = b"".join(pieces).decode()

    def flush_commit_log(self) -> int:
        if self.log_fails:
            raise StoreNotWritable("broken")
        self.deeds.append("flush")
        return 0


class Bench:
    """`answers` is what became of each answer that waited."""

    def __init__(self, workers: ThreadWorkers, interval_ms: int = 600_000) -> None:
        self.shelf = Shelf()
        self.store = MemoryStore()
        self.broker = BrokerState(BrokerConfig(), self.store, now_ms=1, seed=1)
        self.keeper = DocumentKeeper(self.shelf, self.broker, workers.line(Line.FLUSH), workers.line(Line.DOCUMENTS),
                                     lambda: interval_ms)
        self.answers: list[str] = []

    async def start(self) -> None:
        await self.keeper.start()
        self.shelf.deeds.clear()

    def put(self, name: str) -> None:
        self.broker.topics.put(TopicConfig(topic_name=name), 1)
        self.keeper.when_saved(self.broker.settings.count, self.answers.append)

    async def until(self, answers: int) -> None:
        async with asyncio.timeout(60):
            while len(self.answers) < answers:
                await asyncio.sleep(0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    workers = ThreadWorkers()
    bench = Bench(workers)
    await bench.start()
    yield bench
    bench.shelf.opened.set()
    await bench.keeper.stop()
    workers.shutdown()


async def test_the_start_saves_settings_and_the_first_sink_marks() -> None:
    workers = ThreadWorkers()
    bench = Bench(workers)
    await bench.keeper.start()
    assert bench.shelf.deeds == ["topics", "subscriptionGroup", "regulusPops", "regulusSinkMarks"]
    assert '"logOffset":0' in bench.shelf.documents["regulusSinkMarks"]
    await bench.keeper.stop()
    workers.shutdown()


async def test_an_answer_comes_when_the_change_is_on_the_shelf(bench: Bench) -> None:
    bench.shelf.opened.clear()
    bench.put("Fresh")
    for _ in range(100):
        await asyncio.sleep(0)
    assert bench.answers == []
    bench.shelf.opened.set()
    await bench.until(1)
    assert bench.answers == [""]
    assert bench.shelf.deeds == ["topics", "regulusTopicEpochs"]
    assert '"Fresh":{' in bench.shelf.documents["topics"]
    assert bench.broker.topics.unsaved == {}


async def test_what_changes_during_a_write_shares_the_next(bench: Bench) -> None:
    bench.shelf.opened.clear()
    for number in range(50):
        bench.put(f"T{number}")
        await asyncio.sleep(0)
    bench.shelf.opened.set()
    await bench.until(50)
    assert bench.answers == [""] * 50
    assert bench.shelf.deeds.count("topics") <= 3
    assert all(f'"T{number}":' in bench.shelf.documents["topics"] for number in range(50))


async def test_an_answer_to_what_is_saved_does_not_wait(bench: Bench) -> None:
    bench.put("Fresh")
    await bench.until(1)
    bench.keeper.when_saved(bench.broker.settings.count, bench.answers.append)
    assert bench.answers == ["", ""]


async def test_what_cannot_be_saved_is_refused_and_tried_again(
        bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    bench.shelf.is_full = True
    bench.put("Fresh")
    await bench.until(1)
    assert bench.answers == ["the disk is full"]
    assert "Fresh" in bench.broker.topics.unsaved
    bench.put("Other")
    assert bench.answers[1:] == ["the disk is full"], "nobody waits for a disk that was full just now"
    monkeypatch.setattr(documents, "FAULT_RETRY_S", 0.01)
    bench.shelf.is_full = False
    async with asyncio.timeout(60):
        while bench.broker.topics.unsaved:
            await asyncio.sleep(0.01)
    assert '"Fresh":{' in bench.shelf.documents["topics"]
    assert bench.broker.settings.fault == ""
    assert caplog.text.count("the document topics was not saved") == 1
    assert caplog.text.count("the document topics is saved again") == 1


async def test_one_that_cannot_be_saved_does_not_take_the_others_along(bench: Bench) -> None:
    bench.shelf.refused = "topics"
    bench.broker.topics.put(TopicConfig(topic_name="Fresh"), 1)
    bench.broker.subscription_groups.find("Fresh", 1)
    await bench.keeper.save_all()
    assert '"Fresh":{' not in bench.shelf.documents["topics"]
    assert '"Fresh":{' in bench.shelf.documents["subscriptionGroup"]


async def test_a_stop_saves_and_answers_what_waits(bench: Bench) -> None:
    bench.put("Fresh")
    await bench.keeper.stop()
    assert bench.answers == [""]
    assert '"Fresh":{' in bench.shelf.documents["topics"]


async def test_more_answers_than_may_wait_are_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "WAITING_MAX", 1)
    bench.shelf.opened.clear()
    bench.put("A")
    bench.put("B")
    assert len(bench.answers) == 1
    assert "more than 1 answers wait" in bench.answers[0]
    bench.shelf.opened.set()
    await bench.until(2)


async def test_offsets_are_saved_behind_the_log(bench: Bench) -> None:
    bench.broker.consumer_offsets.commit("G", "T", 0, 7)
    await bench.keeper.save_all()
    assert bench.shelf.deeds == ["flush", "consumerOffset", "delayOffset"]


async def test_offsets_are_not_saved_without_the_log(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.broker.consumer_offsets.commit("G", "T", 0, 7)
    bench.shelf.log_fails = True
    await bench.keeper.save_all()
    assert "consumerOffset" not in bench.shelf.documents
    assert "the log is not on disk" in caplog.text
    bench.put("Fresh")
    await bench.until(1)
    assert bench.answers == [""], "settings do not speak of the log"
    bench.shelf.log_fails = False
    await bench.keeper.save_all()
    assert '"T@G":{' in bench.shelf.documents["consumerOffset"]


@pytest.mark.parametrize(("remove", "documents"), [
    (lambda offsets: offsets.remove_topic("T"), ["consumerOffset"]),
    (lambda offsets: offsets.remove_group("G"), ["regulusOffsetSetBacks", "consumerOffset"])])
async def test_who_is_told_that_offsets_are_gone_does_not_find_them_after_a_crash(
        bench: Bench, remove: Callable[[ConsumerOffsets], None], documents: list[str]) -> None:
    offsets = bench.broker.consumer_offsets
    offsets.commit("G", "T", 0, 7)
    await bench.keeper.save_all()
    bench.shelf.deeds.clear()
    remove(offsets)
    bench.keeper.when_saved(bench.broker.settings.count, bench.answers.append)
    await bench.until(1)
    assert bench.answers == [""]
    assert bench.shelf.deeds == ["flush", *documents]
    assert "T@G" not in bench.shelf.documents["consumerOffset"]
    offsets.commit("G", "T", 0, 1)
    bench.put("Other")
    await bench.until(2)
    assert bench.shelf.deeds[1 + len(documents):] == ["topics", "regulusTopicEpochs"], "a commit alone has time"


@pytest.mark.parametrize("forget", [
    lambda broker: broker.forget_topic("T"), lambda broker: broker.forget_group("G", 1)])
async def test_nothing_of_what_is_gone_is_out_in_order_after_a_crash(
        bench: Bench, forget: Callable[[BrokerState], None]) -> None:
    """Else what is made anew under the name would have it out: receipts of the old one would acknowledge its messages,
    which nobody had."""
    bench.broker.consumer_offsets.commit("G", "T", 0, 0)
    bench.broker.pop_orders.begin("T", "G", 0, [0, 1], None, 60_000, 1)
    await bench.keeper.save_all()
    assert "T@G" in bench.shelf.documents["consumerOrderInfo"]
    forget(bench.broker)
    bench.keeper.when_saved(bench.broker.settings.count, bench.answers.append)
    await bench.until(1)
    assert "T@G" not in bench.shelf.documents["consumerOrderInfo"]


async def test_a_removal_that_could_not_be_saved_is_refused(bench: Bench) -> None:
    bench.broker.consumer_offsets.commit("G", "T", 0, 7)
    await bench.keeper.save_all()
    bench.shelf.log_fails = True
    bench.broker.consumer_offsets.remove_topic("T")
    bench.keeper.when_saved(bench.broker.settings.count, bench.answers.append)
    await bench.until(1)
    assert "the log is not on disk" in bench.answers[0]


@pytest.mark.parametrize("is_urgent", [False, True])
async def test_no_place_of_pops_is_saved_without_the_offsets_that_go_with_it(bench: Bench, is_urgent: bool) -> None:
    """A kill would hand out once more what was popped before the place and behind the offsets that are saved."""
    def note(log_end: int) -> None:
        bench.store._log.extend(bytes(log_end - len(bench.store._log)))
        bench.broker.consumer_offsets.commit("G", "T", 0, log_end)
        bench.broker.pop_places.note()

    def place() -> object:
        return json.loads(bench.shelf.documents["regulusPops"])["logPosition"]

    note(1_000)
    await bench.keeper.save_all()
    bench.shelf.refused = "consumerOffset"
    if is_urgent:
        bench.broker.consumer_offsets.commit("G", "Gone", 0, 7)
        bench.broker.consumer_offsets.remove_topic("Gone")
    for log_end in (2_000, 3_000, 4_000):
        note(log_end)
        await bench.keeper.save_all()
        assert place() == 0
    bench.shelf.refused = ""
    note(5_000)
    await bench.keeper.save_all()
    assert place() == 1_000, "a crash may leave the offsets of the save before"
    note(6_000)
    await bench.keeper.save_all()
    assert place() == 5_000


async def test_what_is_popped_while_a_place_is_saved_lies_behind_it(bench: Bench) -> None:
    """The offsets that are saved with it do not know of that."""
    def pop(log_end: int) -> None:
        bench.store._log.extend(bytes(log_end - len(bench.store._log)))
        bench.broker.consumer_offsets.commit("G", "T", 0, log_end)
        bench.broker.pop_places.note()

    pop(1_000)
    bench.shelf.opened.clear()
    saving = asyncio.create_task(bench.keeper.save_all())
    async with asyncio.timeout(5):
        while "flush" not in bench.shelf.deeds:
            await asyncio.sleep(0)
    pop(2_000)
    bench.shelf.opened.set()
    await saving
    pop(3_000)
    await bench.keeper.save_all()
    assert json.loads(bench.shelf.documents["regulusPops"])["logPosition"] == 1_000


async def test_no_offset_that_was_set_back_is_saved_without_its_number(bench: Bench) -> None:
    """A kill would leave it with the number of the larger one: the pops of before move it on again, and so does a
    slave that knew that."""
    offsets = bench.broker.consumer_offsets
    offsets.commit("G", "T", 0, 700, 1)
    await bench.keeper.save_all()
    bench.shelf.refused = "regulusOffsetSetBacks"
    offsets.commit("G", "T", 0, 5, 2)
    await bench.keeper.save_all()
    saved = ConsumerOffsets()
    saved.load(bench.shelf.documents["consumerOffset"])
    assert saved.query("G", "T", 0) == 700
    bench.shelf.refused = ""
    await bench.keeper.save_all()
    saved.load(bench.shelf.documents["consumerOffset"])
    saved.set_backs.load(bench.shelf.documents["regulusOffsetSetBacks"])
    assert (saved.query("G", "T", 0), saved.set_back_number("G", "T", 0)) == (5, 2)


async def test_many_entries_are_encoded_in_steps(bench: Bench) -> None:
    """While the others go on; one of them keeps changing what is being encoded."""
    offsets = bench.broker.consumer_offsets
    for number in range(2000):
        offsets.commit("G", f"T{number}", 0, number)
    saving = asyncio.create_task(bench.keeper.save_all())
    steps = []
    while not saving.done():
        steps.append(len(offsets.encoded.changed))
        offsets.commit("G", "T0", 0, 4711)
        await asyncio.sleep(0)
    falls = [before - after for before, after in pairwise(steps)]
    assert max(falls) <= 2 * documents.ENCODED_PER_STEP
    assert bench.shelf.documents["consumerOffset"].count("@G") == 2000


async def test_what_changes_while_others_are_encoded_is_not_called_saved_without_being_so(bench: Bench) -> None:
    topics, groups = bench.broker.topics, bench.broker.subscription_groups
    topics.put_all([TopicConfig(topic_name=f"T{number}") for number in range(2000)], 1)
    bench.keeper.settings_changed()
    while len(topics.encoded.changed) > 1000:
        await asyncio.sleep(0)
    groups.find("Late", 1)
    saved_when_answered: list[bool] = []
    bench.keeper.when_saved(bench.broker.settings.count, lambda fault: saved_when_answered.append(
        '"Late":{' in bench.shelf.documents["subscriptionGroup"]))
    async with asyncio.timeout(60):
        while not saved_when_answered:
            await asyncio.sleep(0)
    assert saved_when_answered == [True]


async def test_the_interval_saves_and_may_change_meanwhile() -> None:
    workers = ThreadWorkers()
    bench = Bench(workers, interval_ms=5)
    await bench.start()
    bench.broker.consumer_offsets.commit("G", "T", 0, 7)
    async with asyncio.timeout(60):
        while "consumerOffset" not in bench.shelf.documents:
            await asyncio.sleep(0.001)
    await bench.keeper.stop()
    workers.shutdown()


async def test_a_fault_of_our_own_does_not_end_the_saving(
        bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(BrokerState, "settings_saved", lambda self, count: 1 // 0)
        bench.put("Fresh")
        async with asyncio.timeout(60):
            while "was interrupted" not in caplog.text:
                await asyncio.sleep(0.001)
    bench.put("Other")
    await bench.until(2)
    assert bench.answers == ["", ""]


async def test_what_was_made_is_told_when_it_is_saved(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bench.keeper.happenings.take() == {}, "what a start finds is not told"
    monkeypatch.setattr(documents, "FAULT_RETRY_S", 0.01)
    bench.shelf.is_full = True
    bench.put("Fresh")
    await bench.until(1)
    assert bench.keeper.happenings.take() == {}
    bench.shelf.is_full = False
    async with asyncio.timeout(60):
        while bench.broker.topics.unsaved:
            await asyncio.sleep(0.01)
    assert {kind: str(names) for kind, names in bench.keeper.happenings.take().items()} == {"topics made": "Fresh"}
