"""Topics over two groups of brokers, one of which is killed: sends go on at the other."""

import json
import time
from contextlib import ExitStack

import pytest
from clients import JAVA, OURS, Client
from conftest import NewRun
from ports import free_broker_port, free_ports
from real_rocketmq import broker_settings, write_properties
from regulus_server import start_our
from remoting_probe import ask, await_broker, await_name_server

pytestmark = pytest.mark.long

TOPIC = "TwoGroups"
UPDATE_AND_CREATE_TOPIC = 17
POURED_BEFORE = 300
SECONDS_AFTER = 35
"""A client asks for new routes every 30 s."""


@pytest.mark.parametrize("client", [JAVA["4.9.8"], JAVA["5.3.3"], OURS], ids=lambda client: client.name)
def test_sends_go_on_at_the_other_group_when_a_broker_is_killed(client: Client, new_run: NewRun) -> None:
    home = new_run(f"groups-{client.name}")
    with ExitStack() as stack:
        port = free_ports(1)[0]
        name_server = f"127.0.0.1:{port}"
        await_name_server(name_server, start_our(stack, home / "names", [
            "nameserver", "--port", str(port), "--kv-config", str(home / "kv.json")]).check_alive)
        brokers = {}
        for name in ("broker-a", "broker-b"):
            broker_port = free_broker_port()
            conf = write_properties(home / f"{name}.conf", broker_settings(
                name_server, broker_port, home / name / "store", brokerName=name))
            brokers[name] = start_our(stack, home / name, ["broker", "--config", str(conf)])
            await_broker(f"127.0.0.1:{broker_port}", name_server, brokers[name].check_alive)
            answer = ask(f"127.0.0.1:{broker_port}", UPDATE_AND_CREATE_TOPIC, {
                "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
                "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"})
            assert answer["code"] == 0, answer

        def poured() -> list[dict[str, str]]:
            return [event for event in running.events if event["event"] == "poured"]

        options = {"namesrv": name_server, "topic": TOPIC, "group": "Pourer", "prefix": "p"}
        with client.pour(home, **options) as running:
            running.wait_until(lambda: len(poured()) >= POURED_BEFORE, "its first sends")
            killed_at = time.time() * 1000
            brokers["broker-b"].kill()
            end = time.monotonic() + SECONDS_AFTER
            running.wait_until(lambda: time.monotonic() > end, "its later sends")
            running.finish()
        before = [each for each in poured() if int(each["at"]) < killed_at]
        after = [each for each in poured() if int(each["at"]) >= killed_at]
        failed = [each for each in after if not each["broker"]]
        figures = {
            "sent before": len(before), "sent after": len(after), "failed": len(failed),
            "last failure, ms after the kill": max([int(each["at"]) - killed_at for each in failed], default=0),
            "longest send, ms": max(int(each["took"]) for each in after),
            "sends over 100 ms": sum(int(each["took"]) > 100 for each in after),
            "longest send before, ms": max(int(each["took"]) for each in before)}
        (home / "figures.json").write_text(json.dumps(figures, indent=1))
        print(client.name, figures)
        assert {each["broker"] for each in before} == {"broker-a", "broker-b"}
        assert len(after) > POURED_BEFORE
        assert not failed, figures
        assert {each["broker"] for each in after[-POURED_BEFORE:]} == {"broker-a"}
