"""Whatever brokers do, the routes hold together."""

from hypothesis import given
from hypothesis import strategies as st

from regulus.model.topics import DataVersion, TopicConfig
from regulus.nameserver.route_table import Registration, RouteTable

CLUSTER = "C"
TOPICS = ("TopicA", "TopicB", "TopicC")


@st.composite
def registrations(draw) -> Registration:
    number = draw(st.integers(0, 2))
    broker_id = draw(st.integers(0, 2))
    topics = draw(st.sets(st.sampled_from(TOPICS)))
    return Registration(
        cluster_name=CLUSTER, broker_name=f"broker-{number}", broker_id=broker_id, ha_server_addr="",
        broker_addr=f"10.0.{number}.{draw(st.integers(0, 2))}:10911", channel=draw(st.integers(1, 4)),
        data_version=DataVersion(counter=draw(st.integers(0, 2)), state_version=draw(st.integers(0, 1))),
        topics=draw(st.one_of(st.none(), st.just({name: TopicConfig(topic_name=name) for name in topics}))),
        enable_acting_master=draw(st.sampled_from([None, False, True])), timeout_ms=draw(st.sampled_from([None, 10])))


STEPS = st.lists(st.one_of(
    registrations(),
    st.tuples(st.just("close"), st.integers(1, 4)),
    st.tuples(st.just("expire"), st.integers(0, 30)),
    st.tuples(st.just("delete"), st.sampled_from(TOPICS)),
    st.tuples(st.just("wipe"), st.integers(0, 2))), max_size=40)


def take(table: RouteTable, step: "Registration | tuple[str, object]", now_ms: int) -> int:
    if isinstance(step, Registration):
        table.register(step, now_ms)
        return now_ms
    deed, argument = step
    if deed == "close":
        table.channel_closed(argument)
    elif deed == "expire":
        now_ms += argument
        table.expire(now_ms)
    elif deed == "delete":
        table.delete_topic(argument)
    else:
        table.wipe_write_perm(f"broker-{argument}")
    return now_ms


@given(STEPS)
def test_routes_name_only_brokers_that_are_there(steps):
    table = RouteTable()
    now_ms = 0
    for step in steps:
        now_ms = take(table, step, now_ms)
        for rows in table.topics.values():
            assert rows
            assert set(rows) <= set(table.brokers)
        assert all(row.broker_addrs for row in table.brokers.values())
        assert table.clusters == ({CLUSTER: set(table.brokers)} if table.brokers else {})
        for row in table.brokers.values():
            assert len(set(row.broker_addrs.values())) == len(row.broker_addrs)


@given(STEPS)
def test_nothing_is_left_when_all_are_gone(steps):
    table = RouteTable()
    now_ms = 0
    for step in steps:
        now_ms = take(table, step, now_ms)
    for channel in range(1, 5):
        table.channel_closed(channel)
    assert (table.topics, table.brokers, table.clusters) == ({}, {}, {})
