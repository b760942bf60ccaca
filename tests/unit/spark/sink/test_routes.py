import pytest

from regulus.errors import BrokerRefused, SinkRefused
from regulus.model.message_queue import MessageQueue
from regulus.spark.sink.routes import NAMESPACE, SinkRoutes, grew
from regulus.wire.codes import ResponseCode


class Table:
    """The name servers' table in memory."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], str] = {}

    def get_kv(self, namespace: str, key: str) -> str | None:
        if (namespace, key) not in self.values:
            raise BrokerRefused(ResponseCode.QUERY_NOT_FOUND, "none", "name server")
        return self.values[namespace, key]

    def put_kv(self, namespace: str, key: str, value: str) -> None:
        self.values[namespace, key] = value

    def delete_kv(self, namespace: str, key: str) -> None:
        del self.values[namespace, key]

    def kv_namespace(self, namespace: str) -> dict[str, str]:
        if not self.values:
            raise BrokerRefused(ResponseCode.QUERY_NOT_FOUND, "none", "name server")
        return {key: value for (of, key), value in self.values.items() if of == namespace}


def queues(*brokers: str, count: int = 2) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue("T", broker, number) for broker in brokers for number in range(count))


def test_the_first_route_stays_whatever_the_topic_has_later():
    routes = SinkRoutes(Table(), "S")
    assert routes.queues("T", 5, queues("a", "b")) == queues("a", "b")
    assert routes.queues("T", 5, queues("b")) == queues("a", "b")
    assert routes.queues("T", 9, queues("a", "b", "c")) == queues("a", "b")
    assert SinkRoutes(Table(), "other").queues("T", 5, queues("b")) == queues("b")


def test_of_two_tasks_that_begin_at_once_both_go_by_what_is_kept():
    """The other one has seen another route, and was the last to write."""
    class Shared(Table):
        def put_kv(self, namespace: str, key: str, value: str) -> None:
            super().put_kv(namespace, key, '[{"from":0,"queues":{"b":[0,1]}}]')

    assert SinkRoutes(Shared(), "S").queues("T", 5, queues("a")) == queues("b")


def test_after_a_batch_the_next_one_may_go_elsewhere_and_the_one_before_stays():
    table = Table()
    routes = SinkRoutes(table, "S")
    routes.queues("T", 0, queues("a"))
    routes.renew("T", 8, queues("a", "b"))
    assert routes.queues("T", 7, queues("c")) == queues("a")
    assert routes.queues("T", 8, queues("c")) == queues("a", "b")
    routes.renew("T", 8, queues("a", "c"))
    assert routes.queues("T", 8, ()) == queues("a", "c")
    routes.renew("T", 12, queues("d"))
    assert [routes.queues("T", batch, ())[0].broker_name for batch in (7, 11, 12)] == ["a", "a", "d"]
    assert table.values[NAMESPACE, "S@T"] == (
        '[{"from":8,"queues":{"a":[0,1],"c":[0,1]}},{"from":12,"queues":{"d":[0,1]}}]')


@pytest.mark.parametrize("text", ["nonsense", "[1]", '[{"queues":{}}]'])
def test_what_is_no_route_is_not_overwritten(text):
    table = Table()
    table.put_kv(NAMESPACE, "S@T", text)
    with pytest.raises(SinkRefused, match="delete that entry"):
        SinkRoutes(table, "S").queues("T", 0, queues("a"))


def test_other_failures_are_told():
    class Down(Table):
        def get_kv(self, namespace: str, key: str) -> str | None:
            raise BrokerRefused(ResponseCode.SYSTEM_ERROR, "down", "name server")

    with pytest.raises(BrokerRefused, match="down"):
        SinkRoutes(Down(), "S").queues("T", 0, queues("a"))


def test_a_topic_grows_by_queues_that_come_in():
    assert grew(queues("a"), queues("a", "b"))
    assert not grew(queues("a"), queues("a"))
    assert not grew(queues("a", "b"), queues("a", "c"))


def test_what_is_kept_can_be_asked_for_without_keeping_more():
    table = Table()
    routes = SinkRoutes(table, "S")
    assert routes.kept("T", 0) == ()
    assert table.values == {}
    routes.queues("T", 0, queues("a"))
    assert routes.kept("T", 3) == queues("a")


def test_a_sink_that_never_comes_again_is_forgotten_and_no_other():
    table = Table()
    SinkRoutes(table, "S").forget()
    for sink_id in ("S", "S2", "T@S"):
        for topic in ("T", "U"):
            SinkRoutes(table, sink_id).queues(topic, 0, queues("a"))
    SinkRoutes(table, "S").forget()
    assert sorted(key for _, key in table.values) == ["S2@T", "S2@U", "T@S@T", "T@S@U"]
