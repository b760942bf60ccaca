"""`regulus why` on a real RocketMQ: what can be found out there, and what is said about the rest."""

import json
import time
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner
from conftest import Server

from regulus.cli.group import group
from regulus.cli.message import message
from regulus.cli.topic import topic
from regulus.cli.why import why
from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.listener import ConsumeStatus
from regulus.client.sync import PushConsumer

WITHIN_S = 90.0


def run(server: Server, command: Any, *arguments: str) -> str:
    result = CliRunner().invoke(command, arguments, env={"NAMESRV_ADDR": server.name_server_address})
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result.output


def comes_to(server: Server, wanted: list[str], *arguments: str) -> dict[str, Any]:
    """The diagnosis with exactly these causes. Brokers index a message, and note offsets, some time after."""
    until = time.monotonic() + WITHIN_S
    while True:
        result = CliRunner().invoke(why, (*arguments, "--output", "json"),
                                    env={"NAMESRV_ADDR": server.name_server_address})
        assert result.output, result.exception
        [found] = json.loads(result.output)
        if [each["cause"] for each in found["findings"] if each["level"] != "note"] == wanted:
            assert result.exit_code == (6 if wanted else 0)
            return found
        assert time.monotonic() < until, found
        time.sleep(0.5)


def consumer(server: Server, name: str, listener: Callable[..., ConsumeStatus], expression: str = "*",
             **settings: Any) -> PushConsumer:
    made = PushConsumer(server.name_server_address, name, listener, PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, persist_consumer_offset_interval=200,
        **settings))
    made.subscribe("Why", expression)
    return made


def test_causes_are_named(server: Server) -> None:
    run(server, topic, "create", "Why", "-q", "1")
    run(server, group, "create", "billing")
    new = run(server, message, "send", "Why", "x", "-t", "new").split()[1]
    delayed = run(server, message, "send", "Why", "x", "-t", "new", "--delay-level", "18").split()[1]
    comes_to(server, ["no_member_online"], "billing", "Why")
    comes_to(server, ["no_route", "no_member_online"], "billing", "why")
    comes_to(server, ["group_unknown"], "biling", "Why")
    assert "biling" not in run(server, group, "list")

    with consumer(server, "billing", lambda messages, context: ConsumeStatus.CONSUME_SUCCESS, "new"):
        found = comes_to(server, [], "billing", "Why")
        assert (found["healthy"], found["unknown"]) == (True, [])
        comes_to(server, ["passed"], "billing", "Why", "--message", new)
        old = run(server, message, "send", "Why", "x", "-t", "old").split()[1]
        comes_to(server, ["filtered_out", "passed"], "billing", "Why", "--message", old)
        comes_to(server, ["message_unknown"], "billing", "Why", "--message", "C0000202000000000000000000000001")
        # All delay levels of these servers are a second.
        comes_to(server, ["passed"], "billing", "Why", "--message", delayed)

    run(server, group, "create", "failing", "--retry-max-times", "0")
    with consumer(server, "failing", lambda messages, context: ConsumeStatus.RECONSUME_LATER):
        comes_to(server, ["dead_letter"], "failing", "Why", "--message", new)
