"""`regulus message kept` against a real server and a real file."""

import json
import re
from contextlib import closing

import pytest
from click.testing import CliRunner

from regulus.cli.message import message
from regulus.cli.topic import topic
from regulus.client.config import KeptSendsConfig
from regulus.client.connecting.client_instance import now_ms
from regulus.client.sending.file_claim import FileClaim
from regulus.client.sending.kept_file import KeptFile, NewSend, encode
from regulus.model.message import Message

KEPT_TIME = now_ms() - 60_000


@pytest.fixture
def path(tmp_path):
    """A file with two sends that wait and one that is given up."""
    path = tmp_path / "kept"
    with closing(KeptFile(path)) as file:
        for body in ("one", "two", "three"):
            kept = Message("T", body.encode(), "tag", properties={"UNIQ_KEY": f"KEY-{body}"})
            send = NewSend("T", None, kept.message_id, 1, encode([kept]), "no broker")
            file.add([[send]], KeptSendsConfig(), KEPT_TIME)
        file.failed(1, 16, "BrokerRefused: 16", 2_000, is_given_up=True)
    return path


def test_what_is_kept_is_listed_with_its_age_and_count(path):
    result = CliRunner().invoke(message, ("kept", "list", str(path), "--output", "json"))
    assert json.loads(result.stdout)[0] == {
        "id": 1, "topic": "T", "unique_key": "KEY-one", "messages": 1, "bytes": 51, "kept": KEPT_TIME, "attempts": 16,
        "given_up": True, "error": "BrokerRefused: 16"}
    assert [send["id"] for send in json.loads(result.stdout)] == [1, 2, 3]
    assert re.fullmatch(r"2 sends wait, the oldest since \S+ \S+; 1 given up; 157 bytes of messages\n",
                        result.stderr)
    given_up = CliRunner().invoke(message, ("kept", "list", str(path), "--given-up", "--limit", "5"))
    assert "KEY-one" in given_up.stdout
    assert "KEY-two" not in given_up.stdout


def test_all_is_sent_again_in_order(run, path):
    run(topic, "create", "T", "-q", "1")
    assert run(message, "kept", "resend", str(path)) == "3 sends sent\n"
    for offset, key in enumerate(("KEY-one", "KEY-two", "KEY-three")):
        assert key in run(message, "query", "T", "--offset", str(offset), "--queue", "broker-a/0")
    with closing(KeptFile(path)) as file:
        assert file.sends(9) == []


def test_what_cannot_be_sent_stays_and_is_told(path):
    result = CliRunner().invoke(message, ("kept", "resend", str(path), "-n", "127.0.0.1:1"))
    assert re.match(r"not all could be sent: 3 sends wait, the oldest since .*; 0 given up; .*the oldest: NoNameServer",
                    str(result.exception))
    with closing(KeptFile(path)) as file:
        assert [send.is_given_up for send in file.sends(9)] == [False] * 3


def test_where_a_process_has_the_file_it_sends(path):
    claim = FileClaim(path)
    assert claim.take()
    result = CliRunner().invoke(message, ("kept", "resend", str(path), "1", "-n", "127.0.0.1:1"))
    assert result.output.startswith(f"the process that has {path} sends what waits: 3 sends wait")
    claim.release()


def test_ids_that_are_none_are_told(run, path):
    assert "not all of these ids are given-up sends" in run(message, "kept", "resend", str(path), "2", fails=True)
    assert "the other ids are none of" in run(message, "kept", "drop", str(path), "1", "9", fails=True)
    assert run(message, "kept", "drop", str(path), "2", "3") == "2 sends dropped\n"
    with closing(KeptFile(path)) as file:
        assert file.sends(9) == []
    assert "does not exist" in run(message, "kept", "list", str(path.with_name("other")), fails=True)
