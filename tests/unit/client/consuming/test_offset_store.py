import asyncio
import json
import threading
from types import SimpleNamespace

import pytest

from regulus.client.config import ClientConfig
from regulus.client.connecting import client_instance
from regulus.client.consuming.offset_store import AT_ONCE_MAX, BrokerOffsets, LocalOffsets
from regulus.client.core.owned_queue import OwnedQueue
from regulus.errors import BrokerRefused
from regulus.model.message_queue import MessageQueue
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.client.scripted_servers import refused, scripted_cluster

QUEUE, OTHER = MessageQueue("SBroad", "broker-a", 0), MessageQueue("SBroad", "broker-a", 1)
OF_JAVA = """{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"SBroad"
\t\t}:4
\t}
}"""


def owned_at(offset, queue=QUEUE):
    """A taking that got so far."""
    owned = OwnedQueue(queue, 0, 0)
    owned.pulled((), offset)
    return owned


async def test_a_file_of_the_java_client_is_read_and_written_with_the_one_before_kept(tmp_path):
    path = tmp_path / "192.0.2.10@bc0" / "CG_broad" / "offsets.json"
    path.parent.mkdir(parents=True)
    path.write_text(OF_JAVA)
    store = LocalOffsets(tmp_path, "192.0.2.10@bc0", "CG_broad")
    assert await store.load(QUEUE) == 4
    assert await store.load(OTHER) is None
    await store.store([owned_at(5)])
    assert await LocalOffsets(tmp_path, "192.0.2.10@bc0", "CG_broad").load(QUEUE) == 5
    assert path.with_suffix(".json.bak").read_text() == OF_JAVA


async def test_a_damaged_file_is_replaced_by_the_one_before(tmp_path, caplog):
    folder = tmp_path / "id" / "G"
    folder.mkdir(parents=True)
    (folder / "offsets.json").write_text('{"offsetTab')
    (folder / "offsets.json.bak").write_text(OF_JAVA)
    assert await LocalOffsets(tmp_path, "id", "G").load(QUEUE) == 4
    [told] = warnings_of(caplog)
    assert "is gone or damaged; going on at the offsets of the store before" in told


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize(("main", "before"), [(None, None), ("{", None), (None, "{"), ("{", "{")])
async def test_offsets_that_are_lost_are_told_once(tmp_path, caplog, main, before):
    folder = tmp_path / "id" / "G"
    folder.mkdir(parents=True)
    for name, text in (("offsets.json", main), ("offsets.json.bak", before)):
        if text is not None:
            (folder / name).write_text(text)
    assert await LocalOffsets(tmp_path, "id", "G").load(QUEUE) is None
    [told] = warnings_of(caplog)
    assert told.startswith("the offsets of this member are lost")
    assert str(folder / "offsets.json") in told


async def test_a_member_that_is_new_has_lost_nothing(tmp_path, caplog):
    assert await LocalOffsets(tmp_path, "id", "G").load(QUEUE) is None
    assert warnings_of(caplog) == []


async def test_what_cannot_be_written_stays_to_be_written(tmp_path, caplog):
    (tmp_path / "id").write_text("a file where a folder should be")
    store = LocalOffsets(tmp_path, "id", "G")
    owned = owned_at(1)
    await store.store([owned])
    assert "not stored" in caplog.text
    assert owned.to_store(0) == 1


async def test_what_is_kept_in_the_file_outlives_the_taking_of_its_queue(tmp_path):
    store = LocalOffsets(tmp_path, "id", "G")
    owned = owned_at(5)
    await store.store([owned])
    owned.give_up()
    await store.store([owned_at(7, OTHER)])
    for each in (store, LocalOffsets(tmp_path, "id", "G")):
        assert (await each.load(QUEUE), await each.load(OTHER)) == (5, 7)


async def test_two_writes_never_meet_even_when_the_first_one_is_cancelled(tmp_path, monkeypatch):
    store = LocalOffsets(tmp_path, "id", "G")
    may_go_on, begun, at_the_same_time, most = threading.Event(), threading.Event(), [], []
    write = LocalOffsets._write

    def slow(self, text):
        at_the_same_time.append(1)
        most.append(len(at_the_same_time))
        begun.set()
        may_go_on.wait(60)
        write(self, text)
        at_the_same_time.pop()
    monkeypatch.setattr(LocalOffsets, "_write", slow)
    owned = owned_at(1)
    first = asyncio.create_task(store.store([owned]))
    await asyncio.to_thread(begun.wait, 10)
    first.cancel()
    await asyncio.wait([first])
    owned.pulled((), 2)
    second = asyncio.create_task(store.store([owned]))
    await asyncio.sleep(0)
    may_go_on.set()
    await second
    assert most == [1, 1]
    assert await LocalOffsets(tmp_path, "id", "G").load(QUEUE) == 2


@pytest.fixture
async def cluster():
    async with scripted_cluster() as made:
        yield made


async def broker_offsets(cluster, answer, has_none=True):
    """With `has_none` the broker says so of every queue, and `answer` hears of stores only."""
    def others(command):
        if has_none and command.code == RequestCode.QUERY_CONSUMER_OFFSET:
            return refused(command, ResponseCode.QUERY_NOT_FOUND)
        return answer(command)
    broker = await cluster.add_broker("broker-a", others=others)
    instance = client_instance.acquire(cluster.name_server.address, ClientConfig())
    return broker, instance, BrokerOffsets(instance, "G")


async def test_brokers_tell_the_stored_offset_or_that_there_is_none(cluster):
    def answer(command):
        if command.ext["queueId"] == "0":
            return command.response(ResponseCode.SUCCESS, ext={"offset": "17"})
        return refused(command, ResponseCode.QUERY_NOT_FOUND)
    _, instance, store = await broker_offsets(cluster, answer, has_none=False)
    assert await store.load(QUEUE) == 17
    assert await store.load(OTHER) is None
    await client_instance.release(instance)


async def test_any_other_answer_is_no_offset(cluster):
    _, instance, store = await broker_offsets(cluster, lambda command: refused(command, ResponseCode.SYSTEM_ERROR),
                                              has_none=False)
    with pytest.raises(BrokerRefused):
        await store.load(QUEUE)
    await client_instance.release(instance)


async def test_changed_offsets_are_stored_once_and_again_after_a_failure(cluster):
    fails = True

    def answer(command):
        return refused(command, ResponseCode.SYSTEM_ERROR) if fails else command.response(ResponseCode.SUCCESS)
    broker, instance, store = await broker_offsets(cluster, answer)
    owned = owned_at(3)
    await store.store([owned])
    fails = False
    await store.store([owned])
    await store.store([owned])
    requests = broker.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET)
    assert [json.loads(json.dumps(request.ext)) for request in requests] == [
        {"consumerGroup": "G", "topic": "SBroad", "queueId": "0", "commitOffset": "3", "bname": "broker-a"}] * 2
    await client_instance.release(instance)


async def test_behind_a_store_that_is_cancelled_no_other_is_sent_before_that_is_answered(cluster):
    """A broker may work off two that come one behind the other side by side: the older one could come last."""
    answering = Answering()
    broker, instance, store = await broker_offsets(cluster, answering)
    owned = owned_at(3)
    cancelled = asyncio.create_task(store.store([owned]))
    await answering.arrived(1)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    owned.pulled((), 8)
    following = asyncio.create_task(store.store([owned]))
    assert await answering.together(1) == [("SBroad", 0)]
    assert await answering.together(1) == [("SBroad", 0)]
    await following
    offsets = [request.ext["commitOffset"] for request in broker.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET)]
    assert offsets == ["3", "8"]
    await client_instance.release(instance)


async def test_what_a_cancelled_store_has_not_begun_is_stored_all_the_same(cluster):
    answering = Answering()
    _, instance, store = await broker_offsets(cluster, answering)
    owned = four_queues(1)
    cancelled = asyncio.create_task(store.store(owned))
    await answering.arrived(1)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert await answering.together(1) == [("SBroad", 0)]
    assert await answering.together(3) == [("SBroad", 1), ("SBroad", 2), ("SBroad", 3)]
    await store.store(owned)
    assert [each.to_store(0) for each in owned] == [None] * 4
    await client_instance.release(instance)


def four_queues(offset):
    return [owned_at(offset, MessageQueue("SBroad", "broker-a", queue_id)) for queue_id in range(4)]


async def test_an_offset_is_read_when_its_turn_comes_and_not_before(cluster):
    """A pull carries offsets too: what was read before the queue before was answered, would undo that."""
    first, second = owned_at(3), owned_at(10, OTHER)

    def answer(command):
        if command.ext["queueId"] == "0":
            second.pulled((), 500)
        return command.response(ResponseCode.SUCCESS)
    broker, instance, store = await broker_offsets(cluster, answer)
    await store.store([first, second])
    offsets = [request.ext["commitOffset"] for request in broker.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET)]
    assert offsets == ["3", "500"]
    await client_instance.release(instance)


async def test_nothing_is_stored_of_a_queue_that_was_given_up_meanwhile(cluster):
    first, second = owned_at(3), owned_at(10, OTHER)

    def answer(command):
        second.give_up()
        return command.response(ResponseCode.SUCCESS)
    broker, instance, store = await broker_offsets(cluster, answer)
    await store.store([first, second])
    assert [request.ext["queueId"] for request in broker.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET)] == ["0"]
    await client_instance.release(instance)


class Answering:
    """Answers when the test says so, and keeps what waits for that."""

    def __init__(self):
        self.waiting = []
        self._arrived = asyncio.Event()

    async def __call__(self, command):
        may_answer = asyncio.Event()
        self.waiting.append((command.ext["topic"], int(command.ext["queueId"]), may_answer))
        self._arrived.set()
        await may_answer.wait()
        return command.response(ResponseCode.SUCCESS)

    async def arrived(self, count):
        async with asyncio.timeout(10):
            while len(self.waiting) < count:
                self._arrived.clear()
                await self._arrived.wait()

    async def together(self, count):
        """Those that came side by side; they are answered now."""
        await self.arrived(count)
        for _ in range(20):
            await asyncio.sleep(0)      # were there more, they would come now
        came, self.waiting = self.waiting, []
        for *_, may_answer in came:
            may_answer.set()
        return sorted((topic, queue_id) for topic, queue_id, _ in came)


async def test_one_offset_of_each_topic_goes_first_and_then_the_others_side_by_side(cluster):
    """The real one may forget one of two that come at the same time, when they are the first of a group and topic."""
    answering = Answering()
    _, instance, store = await broker_offsets(cluster, answering)
    owned = [owned_at(1, MessageQueue(topic, "broker-a", queue_id)) for topic in "ST" for queue_id in range(3)]
    storing = asyncio.gather(store.store(owned))
    assert await answering.together(2) == [("S", 0), ("T", 0)]
    assert await answering.together(4) == [("S", 1), ("S", 2), ("T", 1), ("T", 2)]
    await storing
    assert [each.to_store(0) for each in owned] == [None] * 6
    await client_instance.release(instance)


async def test_no_more_than_so_many_offsets_are_on_their_way_to_a_broker(cluster):
    answering = Answering()
    _, instance, store = await broker_offsets(cluster, answering)
    owned = [owned_at(1, MessageQueue("S", "broker-a", queue_id)) for queue_id in range(AT_ONCE_MAX + 3)]
    storing = asyncio.gather(store.store(owned))
    assert [len(await answering.together(count)) for count in (1, AT_ONCE_MAX, 2)] == [1, AT_ONCE_MAX, 2]
    await storing
    await client_instance.release(instance)


async def test_who_waits_is_served_by_one_round_also_when_the_one_who_began_it_is_cancelled(cluster):
    answering = Answering()
    _, instance, store = await broker_offsets(cluster, answering)
    owned = four_queues(1)
    first = asyncio.create_task(store.store(owned[:1]))
    assert await answering.together(1) == [("SBroad", 0)]
    second, third = (asyncio.create_task(store.store(each)) for each in (owned[1:3], owned[3:]))
    await first
    await answering.arrived(1)
    second.cancel()
    assert await answering.together(1) == [("SBroad", 1)]
    assert await answering.together(2) == [("SBroad", 2), ("SBroad", 3)]
    await third
    assert [each.to_store(0) for each in owned] == [None] * 4
    await client_instance.release(instance)


async def test_a_refused_offset_holds_back_no_other(cluster, caplog):
    answers = [ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR]

    def answer(command):
        code = answers.pop(0) if answers else ResponseCode.SUCCESS
        return command.response(code) if code == ResponseCode.SUCCESS else refused(command, code)
    broker, instance, store = await broker_offsets(cluster, answer)
    owned = four_queues(7)
    await store.store(owned)
    requests = broker.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET)
    assert len(requests) == 4
    assert "offset 7 of" in caplog.text
    await store.store(owned)
    assert [request.ext["queueId"] for request in broker.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET)[4:]] == [
        requests[1].ext["queueId"]]
    await client_instance.release(instance)


async def test_a_broker_that_is_away_is_asked_for_one_queue_and_for_all_the_next_time(cluster, caplog):
    broker, instance, store = await broker_offsets(cluster, lambda command: command.response(ResponseCode.SUCCESS))
    owned = four_queues(7)
    await broker.stop()
    for _ in range(2):
        await store.store(owned)
    [told] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told.startswith("offsets of 4 queues of broker-a not stored: ")
    assert [each.to_store(0) for each in owned] == [7] * 4
    await client_instance.release(instance)


# --- a connection that was lost --------------------------------------------------------------------------------------


class Keeps:
    """A broker's offset, as tests and requests change it."""

    def __init__(self, offset):
        self.offset = offset

    def __call__(self, command):
        if command.code == RequestCode.QUERY_CONSUMER_OFFSET:
            return command.response(ResponseCode.SUCCESS, ext={"offset": str(self.offset)})
        self.offset = int(command.ext["commitOffset"])
        return command.response(ResponseCode.SUCCESS)


async def lose_connection(broker, instance):
    broker.connections[-1].close()
    async with asyncio.timeout(10):
        while broker.address in instance.connections.open_addresses():
            await asyncio.sleep(0)


@pytest.fixture
async def lost(cluster):
    """The queue was taken at 3, and then the connection was lost."""
    keeps = Keeps(3)
    broker, instance, store = await broker_offsets(cluster, keeps, has_none=False)
    await store.load(QUEUE)
    await lose_connection(broker, instance)
    yield keeps, broker, store
    await client_instance.release(instance)


async def test_behind_a_lost_connection_no_offset_takes_back_what_another_member_stored(lost):
    keeps, broker, store = lost
    keeps.offset = 11
    owned = owned_at(5)
    seen = []

    async def store_it():
        await store.store([owned])
        seen.append((keeps.offset, len(broker.requests_of(RequestCode.QUERY_CONSUMER_OFFSET))))
    await store_it()
    await store_it()
    owned.pulled((), 12)
    await store_it()
    owned.pulled((), 13)
    await store_it()
    assert seen == [(11, 2), (11, 3), (12, 4), (13, 4)], "it asks until its own offset is the one that counts"


async def test_behind_a_lost_connection_what_the_broker_forgot_is_stored_again(lost):
    keeps, _, store = lost
    keeps.offset = 1
    await store.store([owned_at(5)])
    assert keeps.offset == 5


async def test_what_was_stored_is_stored_again_where_the_broker_forgot_it_though_nothing_came_since(lost):
    """A broker that is killed forgets what came since it last saved its offsets: members with nothing to do know it."""
    keeps, broker, store = lost
    owned = owned_at(5)
    await store.store([owned])
    await lose_connection(broker, store._instance)
    keeps.offset = 3
    await store.store([owned])
    assert keeps.offset == 5
    count = len(broker.requests)
    await store.store([owned])
    assert len(broker.requests) == count, "once is enough"


async def test_what_is_given_up_while_the_broker_is_asked_is_not_stored(cluster):
    keeps, owned = Keeps(3), owned_at(5)

    def answer(command):
        owned.give_up()
        return keeps(command)
    broker, instance, store = await broker_offsets(cluster, answer, has_none=False)
    await store.store([owned])
    assert [request.code for request in broker.requests] == [RequestCode.QUERY_CONSUMER_OFFSET]
    assert keeps.offset == 3
    await client_instance.release(instance)


async def test_a_reset_is_stored_whatever_the_broker_has(lost):
    keeps, _, store = lost
    keeps.offset = 11
    taken_anew = OwnedQueue(QUEUE, 2, 0, is_reset=True)
    await store.store([taken_anew])
    assert keeps.offset == 2
    keeps.offset = 11
    settling = owned_at(5)
    settling.settle(1000)
    settling.reset(4)
    await store.store([settling])
    assert keeps.offset == 4


async def test_a_connection_that_is_lost_right_behind_an_answer_ends_no_store():
    answers = [b"", b""]

    async def request(address, command):
        answers.pop()
        return command.response(ResponseCode.SUCCESS, ext={"offset": "11"})

    async def route(topic):
        return SimpleNamespace(any_address=lambda broker_name: "192.0.2.1:10911")
    instance = SimpleNamespace(request=request, route=route, known_route=lambda topic: None,
                               connections=SimpleNamespace(current=lambda address: None))
    store = BrokerOffsets(instance, "G")
    owned = owned_at(5)
    await store.store([owned])
    assert (owned.to_store(0), answers) == (5, [b""])


async def test_a_reset_that_comes_while_an_offset_is_on_its_way_is_stored_whatever_the_broker_has(cluster):
    """The connection is lost behind the first, so that the broker is asked before the next one."""
    keeps, owned = Keeps(3), owned_at(9)

    def answer(command):
        if command.code == RequestCode.UPDATE_CONSUMER_OFFSET and not owned.is_reset and keeps.offset == 3:
            owned.settle(1000)
            owned.reset(4)
        return keeps(command)
    broker, instance, store = await broker_offsets(cluster, answer, has_none=False)
    await store.load(QUEUE)
    await store.store([owned])
    assert keeps.offset == 9
    await lose_connection(broker, instance)
    await store.store([owned])
    assert (keeps.offset, owned.to_store(0)) == (4, None)
    await client_instance.release(instance)
