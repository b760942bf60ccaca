"""The commands that talk to a running system, against a real one in this process."""

import json
import re

import pytest
from click.testing import CliRunner

from regulus.cli.bench import bench
from regulus.cli.cluster import cluster
from regulus.cli.connection import Moment
from regulus.cli.group import group
from regulus.cli.message import message
from regulus.cli.topic import topic
from regulus.errors import RegulusError


@pytest.fixture
def run(regulus_server):
    """Runs a command against the server and gives what it prints."""
    def call(command, *arguments, stdin=None, fails=False):
        result = CliRunner().invoke(command, arguments, input=stdin,
                                    env={"NAMESRV_ADDR": regulus_server.name_server_address})
        if fails:
            assert result.exit_code != 0
            return str(result.exception) if isinstance(result.exception, RegulusError) else result.output
        assert result.exit_code == 0, (result.output, result.exception)
        return result.output
    return call


def test_topics_are_created_listed_shown_and_deleted(run):
    assert "8 queues" in run(topic, "create", "Orders", "-q", "8", "--attribute", "message.type=NORMAL")
    assert "Orders" in run(topic, "list").splitlines()
    assert re.search(r"broker-a +DefaultCluster +8 +8 +6 ", run(topic, "route", "Orders"))
    assert json.loads(run(topic, "route", "Orders", "--json"))["queueDatas"][0]["writeQueueNums"] == 8
    assert run(topic, "status", "Orders").endswith("0 messages\n")
    run(topic, "delete", "Orders", "--yes")
    assert "Orders" not in run(topic, "list").splitlines()
    assert "no broker serves topic 'Orders'" in run(topic, "route", "Orders", fails=True)


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


def test_a_body_comes_from_standard_input_too(run):
    run(topic, "create", "Orders")
    run(message, "send", "Orders", stdin="from a pipe", )
    assert "from a pipe" in run(topic, "tail", "Orders", "--from-beginning", "--no-wait")


def test_tail_shows_what_is_there_by_tag_and_count(run):
    run(topic, "create", "Orders")
    run(message, "send", "Orders", "one", "-t", "A", "-c", "5")
    run(message, "send", "Orders", "two", "-t", "B")
    assert len(run(topic, "tail", "Orders", "--from-beginning", "--no-wait").splitlines()) == 6
    assert len(run(topic, "tail", "Orders", "--from-beginning", "--no-wait", "--tag", "A").splitlines()) == 5
    assert len(run(topic, "tail", "Orders", "--from-beginning", "-c", "2").splitlines()) == 2


def test_a_group_shows_progress_and_is_reset_and_deleted(run):
    run(topic, "create", "Orders", "-q", "2")
    run(bench, "producer", "--topic", "Orders", "-c", "19", "-f", "4")
    assert "20 messages" in run(bench, "consumer", "--topic", "Orders", "--group", "billing", "-c", "20")
    assert "lag 0" in run(group, "progress", "billing")
    run(group, "reset", "billing", "Orders", "--to", "earliest")
    progress = json.loads(run(group, "progress", "billing", "--json"))
    assert (progress["lag"], progress["online"]) == (20, False)
    run(group, "reset", "billing", "Orders", "--offset", "3", "--queue", "broker-a/0")
    assert json.loads(run(group, "progress", "billing", "--json"))["lag"] == 17
    run(group, "reset", "billing", "Orders", "--to", "latest")
    assert re.search(r"billing +0 +2 +0 ", run(group, "list"))
    assert "nobody consumes" in run(group, "members", "billing", fails=True)
    run(group, "delete", "billing", "--yes")
    assert "billing" not in run(group, "list")


def test_a_reset_needs_one_place_to_go(run):
    assert "give one of" in run(group, "reset", "billing", "Orders", fails=True)
    assert "BROKER/ID" in run(group, "reset", "billing", "Orders", "--offset", "3", fails=True)


def test_brokers_show_themselves(run, regulus_server):
    assert regulus_server.address in run(cluster, "list")
    (row,) = json.loads(run(cluster, "list", "--json"))
    assert (row["cluster"], row["broker"], row["id"]) == ("DefaultCluster", "broker-a", 0)
    assert "putTps" in json.loads(run(cluster, "status", regulus_server.address, "--json"))
    assert json.loads(run(cluster, "status", regulus_server.address, "--config", "--json"))["brokerName"] == "broker-a"


@pytest.mark.parametrize(("text", "moment"), [("1700000000000", 1700000000000), ("1970-01-01T00:00:01+00:00", 1000)])
def test_times_are_written_as_ms_or_as_dates(text, moment):
    assert Moment().convert(text, None, None) == moment


def test_an_unreadable_time_is_refused_with_examples(run):
    assert "an age such as 30m" in run(group, "reset", "g", "t", "--time", "soon", fails=True)
