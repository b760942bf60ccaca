"""`regulus message` against a real server."""

import json
import re
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from click.testing import CliRunner

from regulus.broker.config import BrokerConfig
from regulus.cli.exit_codes import exit_code
from regulus.cli.message import message
from regulus.cli.topic import topic
from regulus.testing.running_server import ServerThread, small_store
from regulus.wire import recall_handle

HOUR_MS = 3_600_000


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
    assert len(json.loads(run(message, "query", "Orders", "--key", "k", "--limit", "70", "--output", "json"))) == 70
    result = CliRunner().invoke(message, ("query", "Orders", "--key", "k", "--limit", "65", "--output", "json"),
                                env={"NAMESRV_ADDR": run.name_server})
    assert len(json.loads(result.stdout)) == 65
    assert "the newest 65, and there are older ones" in result.stderr


def test_a_body_comes_from_standard_input_too(run):
    run(topic, "create", "Orders")
    run(message, "send", "Orders", stdin="from a pipe", )
    assert "from a pipe" in run(topic, "tail", "Orders", "--from-beginning", "--no-wait")


@pytest.mark.parametrize(("damaged", "found", "told"), [
    ((0, 1, 2), [], "3 index entries point at records that cannot be read"),
    ((0, 2), [1], "this is not all: 2 index entries point at records that cannot be read"),
])
def test_a_query_tells_of_messages_that_are_damaged(tmp_path, damaged, found, told):
    """One by one, newest first or not, each is counted once."""
    config = replace(small_store(tmp_path), mapped_file_size_commit_log=1 << 16)

    def call(server, command, *arguments):
        return CliRunner().invoke(command, arguments, env={"NAMESRV_ADDR": server.name_server_address})

    with ServerThread(tmp_path, store_config=config) as server:
        assert call(server, topic, "create", "Orders", "-q", "1").exit_code == 0
        for number in range(3):
            assert call(server, message, "send", "Orders", f"body-{number}", "-k", "k").exit_code == 0
        # A start checks the newest file itself.
        assert call(server, message, "send", "Orders", "x" * 3000, "-c", "60").exit_code == 0
    first = tmp_path / "commitlog" / f"{0:020d}"
    data = first.read_bytes()
    for number in damaged:
        data = data.replace(b"body-%d" % number, b"rot!-%d" % number)
    first.write_bytes(data)
    with ServerThread(tmp_path, store_config=config) as server:
        deadline = time.monotonic() + 60
        while True:     # until the deep check came by
            result = call(server, message, "query", "Orders", "--key", "k", "--output", "json")
            if told in str(result.exception) or time.monotonic() > deadline:
                break
        assert told in str(result.exception)
        assert exit_code(result.exception) == 1
        assert [row["offset"] for row in (json.loads(result.stdout) if result.stdout else [])] == found
        shown = call(server, message, "query", "Orders", "--key", "other")
        assert str(shown.exception) == "no message found"


def test_a_message_that_waits_shows_its_recall_handle_and_is_taken_back_where_the_broker_allows_it(tmp_path):
    def call(server, *arguments):
        return CliRunner().invoke(message, arguments, env={"NAMESRV_ADDR": server.name_server_address})

    with ServerThread(tmp_path, broker_config=BrokerConfig(recall_message_enable=True)) as server:
        CliRunner().invoke(topic, ("create", "Orders", "-q", "1"), env={"NAMESRV_ADDR": server.name_server_address})
        sent = call(server, "send", "Orders", "hello", "--delay", "36h").output
        unique_key, handle = re.fullmatch(r"SEND_OK  (\w+)  \S+ offset 0  recall handle (\S+)\n", sent).groups()
        waits = recall_handle.decode(handle)
        assert (waits.topic, waits.unique_key) == ("Orders", unique_key)
        assert 35.9 * HOUR_MS < waits.timestamp - time.time() * 1000 < 36.1 * HOUR_MS
        assert call(server, "recall", "Orders", handle).output == f"{unique_key} will not be delivered\n"
        assert "is not a recall handle" in str(call(server, "recall", "Orders", unique_key).exception)
        assert "recall handle" not in call(server, "send", "Orders", "at once").output


def test_a_recall_that_is_not_allowed_says_by_what_it_would_be(run):
    run(topic, "create", "Orders", "-q", "1")
    sent = run(message, "send", "Orders", "hello", "--deliver-at", str(round(time.time() * 1000) + HOUR_MS))
    refusal = run(message, "recall", "Orders", sent.split()[-1], fails=True)
    assert "recallMessageEnable=false" in refusal


def test_a_priority_chooses_the_queue(run):
    run(topic, "create", "Orders", "-q", "8", "--attribute", "message.type=PRIORITY")
    for priority, queue_id in (("0", 0), ("3", 3), ("9", 7)):
        sent = run(message, "send", "Orders", "hello", "--priority", priority)
        assert f"/{queue_id} offset 0" in sent
        assert f"_SYS_MSG_PRIORITY_ = {priority}" in run(message, "view", sent.split()[1], "--topic", "Orders")


@pytest.mark.parametrize(("options", "told"), [
    (("--priority", "3", "--delay", "5s"), "give --priority or a delay, not both"),
    (("--priority", "0", "--delay-level", "1"), "give --priority or a delay, not both"),
    (("--priority", "3", "--queue", "broker-a/1"), "give --priority or --queue, not both"),
    (("--priority", "-1"), "is not in the range 0<=x<=2147483647"),
    (("--delay", "5s", "--deliver-at", "2090-01-01"), "give one of --delay, --deliver-at and --delay-level"),
    (("--delay", "5s", "--delay-level", "1"), "give one of --delay, --deliver-at and --delay-level"),
    (("--deliver-at", "30m"), "write 2027-01-31T09:00 or ms since 1970 here, or --delay 30m"),
    (("--deliver-at", "-2h"), "--delay 2h"),
    (("--deliver-at", "1794700800"), "write ms, not seconds"),
    (("--deliver-at", "tomorrow"),
     "'tomorrow' is not a time; write 2027-01-31T09:00 or ms since 1970, or how long to wait with --delay"),
    (("--delay", "5"), "'5' is not a duration"),
    (("--delay", "-5s"), "is not a duration"),
])
def test_times_that_are_none_or_two_are_refused(options, told):
    result = CliRunner().invoke(message, ("send", "Orders", "x", *options), env={"NAMESRV_ADDR": "127.0.0.1:1"})
    assert result.exit_code == 2
    assert told in " ".join(result.output.replace("\u2502", " ").split())


ACCOUNTS = """accounts:
- accessKey: billing
  secretKey: secret-of-billing
"""


@pytest.mark.parametrize(("signs", "told"), [
    ((), "No accessKey is configured"),
    (("--access-key", "billing", "--secret-key", "another-secret"), "Check signature failed for accessKey=billing")])
def test_a_send_of_who_is_not_let_in_fails_in_one_line(make_guarded_server, signs, told):
    server = make_guarded_server(ACCOUNTS)
    done = subprocess.run([sys.executable, "-m", "regulus", "message", "send", "Orders", "x", *signs,
                           "-n", server.name_server_address], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 5
    said = rf"regulus: 127\.0\.0\.1:\d+ answered 1: org\.apache\.rocketmq\.acl\.common\.AclException: {told}\n"
    assert re.fullmatch(said, done.stderr), done.stderr
