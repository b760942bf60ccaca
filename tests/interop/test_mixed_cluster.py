"""Half and half: our broker registers with the real name server, and the real broker with ours."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from clients import JAVA
from conftest import NewRun
from ports import free_broker_port, free_ports
from real_rocketmq import RealRocketMQ, broker_settings, write_properties
from regulus_server import start_our
from remoting_probe import await_broker, await_name_server
from toolchain import JAVA_VERSIONS

COUNT = 12


@pytest.fixture(params=JAVA_VERSIONS)
def our_broker_at_the_real_name_server(request: pytest.FixtureRequest, new_run: NewRun) -> Iterator[str]:
    """Address of the name server."""
    home = new_run(f"our-broker-{request.param}")
    with ExitStack() as stack:
        real = RealRocketMQ(request.param, home / "java")
        stack.callback(real.kill)
        real.start_name_server()
        port = free_broker_port()
        conf = write_properties(home / "broker.conf", broker_settings(real.name_server_address, port, home / "store"))
        process = start_our(stack, home, ["broker", "--config", str(conf)])
        await_broker(f"127.0.0.1:{port}", real.name_server_address, process.check_alive)
        yield real.name_server_address


@pytest.fixture(params=JAVA_VERSIONS)
def the_real_broker_at_our_name_server(request: pytest.FixtureRequest, new_run: NewRun) -> Iterator[str]:
    """Address of the name server."""
    home = new_run(f"our-name-server-{request.param}")
    with ExitStack() as stack:
        port = free_ports(1)[0]
        process = start_our(stack, home, ["nameserver", "--port", str(port), "--kv-config", str(home / "kv.json")])
        await_name_server(f"127.0.0.1:{port}", process.check_alive)
        real = RealRocketMQ(request.param, home / "java", name_server=f"127.0.0.1:{port}")
        stack.callback(real.kill)
        real.start()
        yield real.name_server_address


def send_and_consume(name_server: str, home: Path) -> None:
    """To a topic that the first send makes, so that its route has to travel too."""
    client = JAVA["5.3.3"]
    expected = [f"mixed-{index}" for index in range(COUNT)]
    client.produce(home, namesrv=name_server, topic="Mixed", group="MixedProducer", prefix="mixed", count=COUNT)
    with client.consume(home, namesrv=name_server, topic="Mixed", group="MixedConsumer") as running:
        running.wait_for_bodies(expected)
        running.finish()
        assert Counter(running.bodies()) == Counter(expected)


def test_our_broker_serves_clients_of_the_real_name_server(
        our_broker_at_the_real_name_server: str, new_run: NewRun) -> None:
    send_and_consume(our_broker_at_the_real_name_server, new_run("mixed-client"))


def test_the_real_broker_serves_clients_of_our_name_server(
        the_real_broker_at_our_name_server: str, new_run: NewRun) -> None:
    send_and_consume(the_real_broker_at_our_name_server, new_run("mixed-client"))
