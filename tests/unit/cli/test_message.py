"""`regulus message` against a real server."""

import json
import re

from click.testing import CliRunner

from regulus.cli.message import message
from regulus.cli.topic import topic


def test_a_message_is_sent_found_four_ways_and_shown(run):
    run(topic, "create", "Orders", "-q", "1")
    status, unique_key, queue, *_, offset = run(message, "send", "Orders", "hello \u4e2d", "-t", "New", "-k", "k1 k2",
                                                "-p", "color=red").split()
    assert (status, queue, offset) == ("SEND_OK", "broker-a/0", "0")
    for arguments in (("--key", "k2"), ("--unique-key", unique_key), ("--offset", "0", "--queue", queue)):
        assert unique_key in run(message, "query", "Orders", *arguments)
    shown = run(message, "view", unique_key, "--topic", "Orders")
    assert "hello \u4e2d" in shown
    assert "color = red" in shown
    offset_id = re.search(r"offset id +(\w+)", shown).group(1)
    assert unique_key in run(message, "query", "Orders", "--id", offset_id)
    assert run(message, "view", offset_id, "--body-only") == "hello \u4e2d"
    assert "no message found" in run(message, "query", "Orders", "--key", "other", fails=True)


def test_a_query_finds_more_than_one_answer_takes_and_says_when_it_is_cut(run):
    run(topic, "create", "Orders", "-q", "1")
    run(message, "send", "Orders", "x", "-k", "k", "-c", "70")
    assert len(json.loads(run(message, "query", "Orders", "--key", "k", "--limit", "70", "--json"))) == 70
    result = CliRunner().invoke(message, ("query", "Orders", "--key", "k", "--limit", "65", "--output", "json"),
                                env={"NAMESRV_ADDR": run.name_server})
    assert len(json.loads(result.stdout)) == 65
    assert "the newest 65, and there are older ones" in result.stderr


def test_a_body_comes_from_standard_input_too(run):
    run(topic, "create", "Orders")
    run(message, "send", "Orders", stdin="from a pipe", )
    assert "from a pipe" in run(topic, "tail", "Orders", "--from-beginning", "--no-wait")
