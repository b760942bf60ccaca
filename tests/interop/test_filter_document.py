"""consumerFilter.json goes from one broker to another, and each goes on with what the other wrote."""

import time
from pathlib import Path
from typing import Any

import pytest
from clients import JAVA, RunningClient
from conftest import NewRun, Server
from handover import Handover
from ports import free_broker_port
from tests.interop.remoting_probe import ask

from regulus.wire import fastjson

TOPIC, GROUP, CONDITION = "Filtered", "FilterGroup", "index > 2 AND index < 5"
QUERY_CONSUME_QUEUE = 321
PAIRS = [("regulus", "java-5.3.3"), ("java-5.3.3", "regulus"), ("regulus", "java-4.9.8"), ("java-4.9.8", "regulus")]
SAID_TIMEOUT_S = 60


def consume(server: Server, home: Path, prefix: str) -> dict[str, Any]:
    """Messages go through the group's condition; what the broker then says of its filter."""
    client = JAVA["5.3.3"]
    options = {"namesrv": server.name_server_address, "topic": TOPIC}
    client.produce(home, **options, group="P", prefix=prefix, count=6)
    with RunningClient(client, home, "consume", {**options, "group": GROUP, "sql": CONDITION}) as running:
        running.wait_for_bodies([f"{prefix}-3", f"{prefix}-4"])
        said = filter_data(server)
        running.finish()
        return said


def filter_data(server: Server) -> dict[str, Any]:
    """RocketMQ makes it a step after the heartbeat that brings the subscription."""
    deadline = time.monotonic() + SAID_TIMEOUT_S
    while True:
        answer = ask(server.broker_address, QUERY_CONSUME_QUEUE,
                     {"topic": TOPIC, "queueId": "0", "index": "0", "count": "1", "consumerGroup": GROUP})
        assert answer["code"] == 0, answer
        said = fastjson.loads(fastjson.loads(answer["body"])["filterData"])
        if said is not None and said["deadTime"] == 0:
            return said
        assert time.monotonic() < deadline, said
        time.sleep(0.2)


@pytest.mark.parametrize("pair", PAIRS, ids="-to-".join)
def test_a_broker_goes_on_with_the_filters_of_another(pair: tuple[str, str], new_run: NewRun, tmp_path: Path) -> None:
    home = new_run("filters")
    handover = Handover(home / "store", free_broker_port(), new_run, {"enablePropertyFilter": "true"})
    said = []
    for name, prefix in zip(pair, ("first", "second"), strict=True):
        server = handover.open(name)
        try:
            said.append(consume(server, home / "client", prefix))
            server.stop()
        finally:
            server.kill()
        (home / f"{name}.json").write_bytes((handover.store / "config" / "consumerFilter.json").read_bytes())
    first, second = said
    assert (first["expression"], first["expressionType"], first["topic"], first["consumerGroup"]) == (
        CONDITION, "SQL92", TOPIC, GROUP)
    # One that had not read the document would have been told of the filter only now.
    assert second["bornTime"] == first["bornTime"]
    assert second["clientVersion"] > first["clientVersion"]
    assert second["bloomFilterData"] == first["bloomFilterData"]
