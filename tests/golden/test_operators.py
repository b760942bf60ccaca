"""Operators get from us what they got from RocketMQ 4.9.8: the whole recorded session, asked of us once more."""

from collections import defaultdict

import pytest
from recorded_session import Exchange, replay, scenarios

from regulus.wire import fastjson
from regulus.wire.codes import RequestCode as Code
from regulus.wire.config_text import parse_lines

NOT_RECORDED = "Reb"
"""Left out of the recordings that we keep; tools asked for its topic and group all the same."""

NOT_SERVED_ALIKE = {("mqadmin-statsAll", 315), ("mqadmin-exportMetrics", 315)}
"""Counts of transactions, replies, SQL filters and of what is not recorded: they happened there and not here."""

MAPS = {"topicConfigTable", "subscriptionGroupTable", "offsetTable", "table", "data", "subscriptionTable",
        "brokerAddrTable", "clusterAddrTable", "brokerAddrs", "consumerTable", "messageQueueTable", "consumeStatsList",
        "forbiddenTable"}
"""Objects whose keys are data; in all others the keys are members."""

ADDED_SINCE = {"attributes", "stateVersion", "enableActingMaster", "consumeMessageOrderly", "consumeTimeoutMinute",
               "groupSysFlag", "forbiddenTable", "pullOffset", "topicPutTps", "totalInflightDiff", "brokerAddr"}
"""Members that RocketMQ 5 has and 4.9.8 did not."""

CODES = [Code.UPDATE_AND_CREATE_TOPIC, Code.GET_ALL_TOPIC_CONFIG, Code.UPDATE_BROKER_CONFIG, Code.GET_BROKER_CONFIG,
         Code.GET_BROKER_RUNTIME_INFO, Code.PUT_KV_CONFIG, Code.GET_KV_CONFIG, Code.DELETE_KV_CONFIG,
         Code.REGISTER_BROKER, Code.UNREGISTER_BROKER, Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_BROKER_CLUSTER_INFO,
         Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_TOPIC_STATS_INFO,
         Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_PRODUCER_CONNECTION_LIST, Code.WIPE_WRITE_PERM_OF_BROKER,
         Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.DELETE_SUBSCRIPTIONGROUP, Code.GET_CONSUME_STATS,
         Code.DELETE_TOPIC_IN_BROKER, Code.DELETE_TOPIC_IN_NAMESRV, Code.INVOKE_BROKER_TO_RESET_OFFSET,
         Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, Code.QUERY_TOPIC_CONSUME_BY_WHO,
         Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.GET_CONSUMER_RUNNING_INFO,
         Code.CONSUME_MESSAGE_DIRECTLY, Code.VIEW_BROKER_STATS_DATA, Code.CLEAN_UNUSED_TOPIC,
         Code.GET_BROKER_CONSUME_STATS, Code.UPDATE_NAMESRV_CONFIG, Code.GET_NAMESRV_CONFIG, Code.QUERY_CONSUME_QUEUE,
         Code.ADD_WRITE_PERM_OF_BROKER, Code.GET_ALL_PRODUCER_INFO, Code.DELETE_EXPIRED_COMMITLOG]

SCENARIOS = [name for name in scenarios() if name.startswith(("mqadmin-", "broker-"))]


@pytest.fixture(scope="module")
def exchanges(tmp_path_factory):
    return [exchange for exchange in replay(tmp_path_factory.mktemp("session") / "store")
            if exchange.request.code in CODES]


@pytest.fixture(scope="module")
def by_code(exchanges):
    table = defaultdict(list)
    for exchange in exchanges:
        table[exchange.request.code].append(exchange)
    return table


def is_of_what_is_left_out(exchange: Exchange) -> bool:
    return any(NOT_RECORDED in value for value in exchange.request.ext.values())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_request_is_answered_as_it_was(exchanges, scenario):
    for exchange in exchanges:
        if exchange.scenario != scenario or (scenario, exchange.request.code) in NOT_SERVED_ALIKE:
            continue
        assert exchange.ours is not None
        assert exchange.ours.code == exchange.recorded.code, exchange.request
        assert set(exchange.ours.ext) == set(exchange.recorded.ext)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_bodies_have_the_recorded_members(by_code, code):
    assert by_code[code], "the session has such a request"
    found = set()
    for exchange in by_code[code]:
        if exchange.ours.code != exchange.recorded.code or is_of_what_is_left_out(exchange):
            continue
        then, now = exchange.recorded.body, exchange.ours.body
        assert bool(then) == bool(now)
        if then and code not in (Code.GET_BROKER_CONFIG, Code.GET_NAMESRV_CONFIG):
            found |= set(differences(fastjson.loads(then), fastjson.loads(now)))
    assert not found


def test_offsets_are_the_recorded_ones(by_code):
    compared = 0
    for exchange in by_code[Code.GET_CONSUME_STATS]:
        then, now = (fastjson.loads(answer.body)["offsetTable"] for answer in (exchange.recorded, exchange.ours))
        for queue, row in then.items():
            if is_of_what_is_left_out(exchange) or "%RETRY%CG_retry" in queue:
                continue
            assert [now[queue][key] for key in ("brokerOffset", "consumerOffset")] == [
                row[key] for key in ("brokerOffset", "consumerOffset")], queue
            assert abs(now[queue]["lastTimestamp"] - row["lastTimestamp"]) < 500
            compared += 1
    assert compared > 100


def test_ends_of_queues_are_the_recorded_ones(by_code):
    [exchange] = by_code[Code.GET_TOPIC_STATS_INFO]
    then, now = (fastjson.loads(answer.body)["offsetTable"] for answer in (exchange.recorded, exchange.ours))
    assert {queue: (row["minOffset"], row["maxOffset"]) for queue, row in now.items()} == {
        queue: (row["minOffset"], row["maxOffset"]) for queue, row in then.items()}


def test_reset_offsets_are_the_recorded_ones(by_code):
    """Of a time 4.9.8 took the nearest message, where we, as 5.x, take the first one not before it."""
    for exchange in by_code[Code.INVOKE_BROKER_TO_RESET_OFFSET]:
        if exchange.recorded.code != 0:
            assert exchange.ours.remark == exchange.recorded.remark
        elif exchange.request.ext["timestamp"] == "-1":
            assert fastjson.loads(exchange.ours.body) == fastjson.loads(exchange.recorded.body)


def test_routes_are_the_recorded_ones(by_code):
    """At one moment two connections raced: the route was asked while the permission was being wiped."""
    different = [exchange.scenario for exchange in by_code[Code.GET_ROUTEINFO_BY_TOPIC]
                 if exchange.recorded.code == 0 and not is_of_what_is_left_out(exchange)
                 and fastjson.loads(exchange.ours.body)["queueDatas"]
                 != fastjson.loads(exchange.recorded.body)["queueDatas"]]
    assert different in ([], ["mqadmin-wipeWritePerm"])


def test_topic_lists_are_the_recorded_ones(by_code):
    for exchange in by_code[Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER]:
        then, now = (set(fastjson.loads(answer.body)["topicList"]) for answer in (exchange.recorded, exchange.ours))
        assert now == then


def test_the_runtime_table_has_all_recorded_keys(by_code):
    for exchange in by_code[Code.GET_BROKER_RUNTIME_INFO]:
        then, now = (fastjson.loads(answer.body)["table"] for answer in (exchange.recorded, exchange.ours))
        missing = {key for key in then if key not in now and not key.startswith("commitLogDiskRatio_")}
        assert not missing
        for key in ("scheduleMessageOffset_1", "scheduleMessageOffset_2"):
            assert key in now


def test_settings_that_tools_export_are_there(by_code):
    exported = {"brokerId", "traceOn", "flushDiskType", "msgTraceTopicName", "traceTopicEnable", "messageDelayLevel",
                "autoCreateTopicEnable", "brokerRole", "slaveReadEnable", "brokerClusterName", "brokerName",
                "filterServerNums", "maxMessageSize", "useTLS", "autoCreateSubscriptionGroup", "fileReservedTime"}
    for exchange in by_code[Code.GET_BROKER_CONFIG]:
        then, now = (parse_lines(answer.body.decode()) for answer in (exchange.recorded, exchange.ours))
        assert exported <= set(now)
        assert all(now[key] == then[key] for key in ("brokerName", "brokerIP1", "listenPort", "messageDelayLevel"))


def differences(then, now, path=""):
    """Where the shape of a JSON value differs: other type, lacking or unknown member."""
    name = path.rsplit(".", 1)[-1].removesuffix("[]")
    if kind(then) != kind(now):
        yield f"{path}: {kind(then)} became {kind(now)}"
    elif isinstance(then, dict) and name in MAPS:
        # The values of this one map are maps again.
        inner = ".offsetTable" if name == "consumerTable" else f"{path}.{name}{{}}"
        for value in now.values():
            for before in list(then.values())[:1]:
                yield from differences(before, value, inner)
    elif isinstance(then, dict):
        yield from (f"{path} lacks {key}" for key in then.keys() - now.keys())
        yield from (f"{path} has {key}" for key in now.keys() - then.keys() - ADDED_SINCE)
        for key in then.keys() & now.keys():
            yield from differences(then[key], now[key], f"{path}.{key}")
    elif isinstance(then, list) and then:
        for value in now:
            yield from differences(then[0], value, f"{path}[]")


def kind(value) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return type(value).__name__
