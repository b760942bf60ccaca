"""`regulus why` against a real server: what it prints and how it ends."""

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from regulus.cli.exit_codes import ExitCode, exit_code
from regulus.cli.group import group
from regulus.cli.message import message
from regulus.cli.topic import topic
from regulus.cli.why import why
from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.listener import ConsumeStatus
from regulus.client.sync import PushConsumer
from regulus.diagnosis.findings import MEANINGS

PAGE = Path(__file__).parents[3] / "docs" / "why.md"


def ask(run, *arguments):
    """The exit status and output of the command."""
    result = CliRunner().invoke(why, arguments, env={"NAMESRV_ADDR": run.name_server})
    return result.exit_code, result.output


def test_a_group_without_members_is_explained_and_a_healthy_one_says_so(run):
    run(topic, "create", "Orders", "-q", "1")
    run(group, "create", "billing")
    run(message, "send", "Orders", "x", "-k", "k1")
    status, said = ask(run, "billing", "Orders")
    assert status == ExitCode.CAUSE_FOUND == 6
    assert said.splitlines()[:2] == ["group billing, topic Orders",
                                     "cause no_member_online: No member of group billing is connected."]
    got = threading.Event()

    def listen(messages, context):
        got.set()
        return ConsumeStatus.CONSUME_SUCCESS

    consumer = PushConsumer(run.name_server, "billing", listen, PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, persist_consumer_offset_interval=50))
    consumer.subscribe("Orders")
    with consumer:
        assert got.wait(60)
        for arguments in (("billing", "Orders"), ("billing",), ("-g", "billing", "-t", "Orders"), ("-t", "Orders")):
            assert ask(run, *arguments) == (
                0, ("group billing, topic Orders\n"
                    "Group billing is healthy in topic Orders: 1 member online, 0 messages behind.\n"))
        status, said = ask(run, "billing", "Orders", "--output", "json")
        assert (status, json.loads(said)) == (0, [{
            "group": "billing", "topic": "Orders", "message": None, "healthy": True, "members": 1, "lag": 0,
            "findings": [], "unknown": []}])
        status, said = ask(run, "billing", "Orders", "--key", "k1", "--output", "json")
        [document] = json.loads(said)
        assert (status, [each["cause"] for each in document["findings"]]) == (6, ["passed"])
        assert document["findings"][0]["level"] == "cause"
        assert document["message"] == "with key k1"


def test_a_message_is_named_in_four_ways(run):
    run(topic, "create", "Orders", "-q", "1")
    run(group, "create", "billing")
    unique_key = run(message, "send", "Orders", "x", "-k", "k1", "--delay", "36h").split()[1]
    status, said = ask(run, "billing", "Orders", "--message", unique_key)
    assert status == 6
    assert "waits delivery_waiting: The message is to be delivered " in said
    plain = run(message, "send", "Orders", "x").split()[1]
    offset_id = re.search(r"offset id +(\w+)", run(message, "view", plain, "--topic", "Orders")).group(1)
    for arguments in (("--message", offset_id, "--group", "billing"), ("billing", "Orders", "--message", plain),
                      ("billing", "Orders", "--offset", "0", "--queue", "broker-a/0")):
        status, said = ask(run, *arguments)
        assert status == 6
        assert "no_member_online" in said
        assert "message_unknown" not in said


@pytest.mark.parametrize(("arguments", "said"), [
    ((), "name a group, a topic or a message"),
    (("a", "--group", "b"), "two names of a group are given: a and b"),
    (("a", "--key", "k"), "--key and --offset need the topic"),
    (("a", "t", "--key", "k", "--message", "m"), "give one of --message, --key and --offset"),
    (("a", "t", "--offset", "3"), "write the queue as BROKER/ID"),
])
def test_a_question_that_is_none_is_refused(arguments, said):
    result = CliRunner().invoke(why, arguments, env={"NAMESRV_ADDR": "127.0.0.1:1"})
    assert result.exit_code == ExitCode.USAGE
    assert said in result.output


def test_without_a_name_server_it_fails_as_other_commands_do(unused_tcp_port):
    result = CliRunner().invoke(why, ("billing",), env={"NAMESRV_ADDR": f"127.0.0.1:{unused_tcp_port}"})
    assert exit_code(result.exception) is ExitCode.NOT_REACHABLE


def test_the_shell_gets_the_status(run):
    run(topic, "create", "Orders", "-q", "1")
    run(group, "create", "billing")
    done = subprocess.run([sys.executable, "-m", "regulus", "why", "billing", "Orders", "-n", run.name_server],
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (6, "")


def test_the_page_has_all_causes_in_their_order():
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(cause.value, meaning) for cause, meaning in MEANINGS.items()]
