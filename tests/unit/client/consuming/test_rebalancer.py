"""Taking and giving up queues, against scripted brokers where a fault is needed."""

import asyncio
from contextlib import asynccontextmanager

from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.consuming import rebalancer
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeStatus
from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies import ConsumerRunningInfo, GetConsumerListByGroupResponseBody, GetConsumerStatusBody
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.client.scripted_servers import refused, scripted_cluster


async def listen(messages, context):
    return ConsumeStatus.CONSUME_SUCCESS


class GroupScript:
    """A broker's part in a group's life: member list, offsets, pulls that are held for ever."""

    def __init__(self, stored="22"):
        self.members = []
        self.stored = stored
        self.positions = {"GET_MAX_OFFSET": "90", "SEARCH_OFFSET_BY_TIMESTAMP": "40"}

    def __call__(self, command):
        code = RequestCode(command.code)
        if code is RequestCode.HEART_BEAT:
            return command.response(ResponseCode.SUCCESS)
        if code is RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            body = GetConsumerListByGroupResponseBody(consumer_id_list=self.members).encode()
            return command.response(ResponseCode.SUCCESS, body=body)
        if code is RequestCode.QUERY_CONSUMER_OFFSET:
            if isinstance(self.stored, int):
                return refused(command, self.stored)
            return command.response(ResponseCode.SUCCESS, ext={"offset": self.stored})
        if code.name in self.positions:
            return command.response(ResponseCode.SUCCESS, ext={"offset": self.positions[code.name]})
        if code is RequestCode.PULL_MESSAGE:
            return None
        return command.response(ResponseCode.SUCCESS)


@asynccontextmanager
async def consuming(script, **settings):
    """A consumer of one queue of topic T whose group has it as the only member, and the broker."""
    async with scripted_cluster(queue_count=1) as cluster:
        broker = await cluster.add_broker("a", others=script)
        consumer = PushConsumer(cluster.name_server.address, "CG", listen,
                                PushConsumerConfig(client_ip="10.0.0.5", instance_name="me", **settings))
        consumer.subscribe("T")
        script.members = ["10.0.0.5@me"]
        async with consumer:
            yield consumer, broker


async def first_pull(broker, topic="T"):
    async with asyncio.timeout(10):
        while True:
            for request in broker.requests_of(RequestCode.PULL_MESSAGE):
                if request.ext["topic"] == topic:
                    return request
            await asyncio.sleep(0.001)


async def test_a_stored_offset_is_where_it_goes_on():
    async with consuming(GroupScript(stored="22")) as (consumer, broker):
        assert (await first_pull(broker)).ext["queueOffset"] == "22"
        assert MessageQueue("T", "a", 0) in consumer.assigned_queues()


async def test_without_one_it_starts_by_the_policy_and_retry_topics_at_their_beginning():
    starts = {ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET: "90", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET: "0",
              ConsumeFromWhere.CONSUME_FROM_TIMESTAMP: "40"}
    for policy, start in starts.items():
        script = GroupScript(stored=ResponseCode.QUERY_NOT_FOUND)
        async with consuming(script, consume_from_where=policy) as (_, broker):
            assert (await first_pull(broker)).ext["queueOffset"] == start
            assert (await first_pull(broker, "%RETRY%CG")).ext["queueOffset"] == "0"


async def test_a_queue_whose_offset_is_not_known_is_not_consumed_until_it_is():
    script = GroupScript(stored=ResponseCode.SYSTEM_ERROR)
    async with consuming(script) as (consumer, broker):
        async with asyncio.timeout(10):
            while not broker.requests_of(RequestCode.QUERY_CONSUMER_OFFSET):
                await asyncio.sleep(0.001)
        assert consumer.assigned_queues() == []
        assert not broker.requests_of(RequestCode.PULL_MESSAGE)
        script.stored = "5"
        assert (await first_pull(broker)).ext["queueOffset"] == "5"


async def test_a_member_that_the_broker_does_not_list_owns_nothing():
    script = GroupScript()
    async with consuming(script) as (consumer, broker):
        await first_pull(broker)
        script.members = ["10.0.0.5@other"]
        broker.connections[-1].send(RemotingCommand.request(
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "CG"}, oneway=True))
        async with asyncio.timeout(10):
            while consumer.assigned_queues():
                await asyncio.sleep(0.001)


async def test_a_broker_that_knows_no_members_is_no_reason_to_give_queues_up():
    script = GroupScript()
    async with consuming(script, rebalance_interval=5) as (consumer, broker):
        await first_pull(broker)
        script.members = []
        asked = len(broker.requests_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
        async with asyncio.timeout(10):
            while len(broker.requests_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) < asked + 3:
                await asyncio.sleep(0.001)
        assert MessageQueue("T", "a", 0) in consumer.assigned_queues()


async def test_a_member_that_is_not_listed_says_so_and_asks_again_soon(monkeypatch):
    monkeypatch.setattr(rebalancer, "INCOMPLETE_INTERVAL_MS", 10)
    script = GroupScript()
    async with consuming(script, rebalance_interval=60_000) as (consumer, broker):
        await first_pull(broker)
        script.members = ["10.0.0.5@other"]
        consumer.routes_changed()
        async with asyncio.timeout(10):
            while consumer.assigned_queues():
                await asyncio.sleep(0.001)
            beats = len(broker.requests_of(RequestCode.HEART_BEAT))
            while len(broker.requests_of(RequestCode.HEART_BEAT)) == beats:
                await asyncio.sleep(0.001)
            script.members = ["10.0.0.5@me"]
            while len(consumer.assigned_queues()) < 2:
                await asyncio.sleep(0.001)


async def test_the_heartbeat_with_the_new_version_comes_before_the_first_pull():
    async with consuming(GroupScript()) as (_, broker):
        pull = await first_pull(broker)
        before = broker.requests[:broker.requests.index(pull)]
        beats = [request for request in before if request.code == RequestCode.HEART_BEAT]
        assert f'"subVersion":{pull.ext["subVersion"]}' in beats[-1].body.decode()


async def test_leaving_stores_offsets_and_says_goodbye():
    class NothingThere(GroupScript):
        def __call__(self, command):
            if command.code == RequestCode.PULL_MESSAGE and command.ext.get("queueOffset") == "22":
                return command.response(ResponseCode.PULL_NOT_FOUND, ext={
                    "nextBeginOffset": "30", "minOffset": "0", "maxOffset": "30", "suggestWhichBrokerId": "0"})
            return super().__call__(command)

    async with consuming(NothingThere(), persist_consumer_offset_interval=60_000) as (_, broker):
        async with asyncio.timeout(10):
            while not any((pull.ext["topic"], pull.ext["queueOffset"]) == ("T", "30")
                          for pull in broker.requests_of(RequestCode.PULL_MESSAGE)):
                await asyncio.sleep(0.001)
        assert not broker.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET)
    stored = [(request.ext["topic"], request.ext["commitOffset"])
              for request in broker.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET)]
    assert ("T", "30") in stored
    assert broker.requests[-1].code == RequestCode.UNREGISTER_CLIENT
    (goodbye,) = broker.requests_of(RequestCode.UNREGISTER_CLIENT)
    assert goodbye.ext == {"clientID": "10.0.0.5@me", "consumerGroup": "CG"}


async def ask_client(broker, code, ext, body=b""):
    return await broker.connections[-1].request(RemotingCommand.request(code, ext, body), 5000)


async def test_a_reset_pushed_by_a_4_9_broker_is_stored_and_consumed_from():
    script = GroupScript(stored="22")
    async with consuming(script) as (_, broker):
        await first_pull(broker)
        script.stored = "5"
        # As recorded: object keys, one way.
        body = (b'{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:5,'
                b'{"brokerName":"a","queueId":0,"topic":"U"}:7,{"brokerName":"a","queueId":0,"topic":"%RETRY%CG"}:8}}')
        broker.connections[-1].send(RemotingCommand.request(
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
            {"topic": "T", "isForce": "false", "group": "CG", "timestamp": "0"}, body, oneway=True))
        async with asyncio.timeout(10):
            while not any(pull.ext["queueOffset"] == "5" for pull in broker.requests_of(RequestCode.PULL_MESSAGE)):
                await asyncio.sleep(0.001)
    commits = [(request.ext["topic"], request.ext["commitOffset"])
               for request in broker.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET)]
    assert ("T", "5") in commits
    assert {topic for topic, _ in commits} == {"T"}, "neither another's nor one that the request does not name"


async def test_a_member_tells_its_offsets_and_its_state():
    async with consuming(GroupScript(stored="22")) as (consumer, broker):
        await first_pull(broker)
        answer = await ask_client(broker, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "CG"})
        assert GetConsumerStatusBody.decode(answer.body).message_queue_table == {}
        consumer._consumption.owned[MessageQueue("T", "a", 0)].pulled((), 30)
        answer = await ask_client(broker, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "CG"})
        assert GetConsumerStatusBody.decode(answer.body).message_queue_table == {MessageQueue("T", "a", 0): 30}
        answer = await ask_client(broker, RequestCode.GET_CONSUMER_RUNNING_INFO,
                                  {"consumerGroup": "CG", "clientId": "10.0.0.5@me", "jstackEnable": "false"})
        info = ConsumerRunningInfo.decode(answer.body)
        assert info.mq_table[MessageQueue("T", "a", 0)].commit_offset == 30
        assert info.properties["PROP_CONSUMEORDERLY"] == "false"
        assert info.properties["pullThresholdForQueue"] == "1000"
        assert info.properties["pullThresholdSizeForQueue"] == "100"


async def test_a_queue_goes_on_where_the_broker_says_when_the_offset_moved():
    class MovesOnce(GroupScript):
        def __call__(self, command):
            if command.code == RequestCode.PULL_MESSAGE and command.ext["topic"] == "T" and self.stored == "100":
                self.stored = "3"
                return command.response(ResponseCode.PULL_OFFSET_MOVED, ext={
                    "nextBeginOffset": "3", "minOffset": "0", "maxOffset": "3", "suggestWhichBrokerId": "0"})
            return super().__call__(command)

    async with consuming(MovesOnce(stored="100")) as (_, broker):
        async with asyncio.timeout(10):
            while not any(pull.ext["queueOffset"] == "3" for pull in broker.requests_of(RequestCode.PULL_MESSAGE)):
                await asyncio.sleep(0.001)
    assert "3" in {request.ext["commitOffset"] for request in broker.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET)}
