"""The recorded requests to a real broker with accounts, asked of ours in their order, with the same accounts.

Code, names of fields and kind of body are the recorded ones, but where ours denies what 4.9 forgets to check: a batch
to a topic that its user may not send to.
"""

import base64
import json
from pathlib import Path

import pytest

from regulus.access.plain_acl import parse
from regulus.access.plain_rules import PlainRules
from regulus.access.white_addresses import WhiteAddresses
from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.outcome import Hold, Reply
from regulus.broker.state import BrokerState
from regulus.model.message_id import host_bytes
from regulus.model.peer import Peer
from regulus.model.topics import DataVersion
from regulus.nameserver import access as name_server_access
from regulus.nameserver import handlers as name_server_table
from regulus.nameserver.config import NamesrvConfig
from regulus.nameserver.state import NameServerState
from regulus.server.door import Door
from regulus.testing.memory_store import MemoryStore
from regulus.wire.codes import RequestCode as Code
from regulus.wire.frame_reader import FrameReader
from regulus.wire.remoting_command import RemotingCommand

HERE = Path(__file__).parent
SCENARIOS = ("acl-mqadmin-updateTopic-signed", "acl-mqadmin-updateTopic-signed-a", "acl-admin", "acl-user",
             "acl-bad-signature", "acl-unsigned", "acl-consumer", "acl-mqadmin-clusterAclConfigVersion",
             "acl-mqadmin-clusterAclConfigVersion-cluster",
             "acl-mqadmin-updateAclConfig", "acl-mqadmin-updateGlobalWhiteAddr", "acl-mqadmin-deleteAclConfig")
BATCH_THAT_4_9_FORGETS = ("acl-user", int(Code.SEND_BATCH_MESSAGE), "topicA")
FIELDS_OF_5 = {"transactionId", "IS_SUB_CHANGE", "IS_SUPPORT_HEART_BEAT_V2"}
"""Which 4.9 does not answer."""
NOW_MS = 1_795_219_700_000
LOCAL = host_bytes("127.0.0.1", 10911)


class RecordedDocuments:
    """Says yes to each change: what it brings about is the concern of others' tests."""

    def update_account(self, entry, now_ms):
        self.entry = entry

    def delete_account(self, access_key, now_ms):
        self.deleted = access_key

    def update_white_addresses(self, patterns, path, now_ms):
        self.patterns = patterns, path

    def versions(self):
        version = DataVersion(counter=0, timestamp=1795219667605)
        return version, {"/opt/rocketmq/conf/plain_acl.yml": version}


class GuardedBroker:
    def __init__(self) -> None:
        acl = parse((HERE / "acl" / "plain_acl.before.yml").read_text(), "plain_acl.yml")
        rules = PlainRules(WhiteAddresses(acl.white_addresses), {each.access_key: each.account()
                                                                 for each in acl.accounts})
        self.store = MemoryStore()
        self.broker = BrokerState(BrokerConfig(), self.store, now_ms=NOW_MS, steady_ms=5_000_000)
        self.documents = self.broker.access_documents = RecordedDocuments()
        self.handle = Door(lambda: rules, request_table.needs_of).guard(request_table.handle)

    def answer(self, frame: bytes, channel: int) -> RemotingCommand | None:
        reader = FrameReader()
        reader.feed(frame)
        (request,) = reader.frames()
        peer = Peer(channel, host_bytes("127.0.0.1", 40000), LOCAL, "127.0.0.1:40000", "127.0.0.1")
        outcome = self.handle(request, peer, self.broker, NOW_MS)
        self.store.dispatch(1000)
        if isinstance(outcome, Hold):
            return self._late(request.opaque)
        if not isinstance(outcome, Reply):      # to a one-way request
            return None
        reader.feed(b"".join(outcome.encode_parts()))
        (answer,) = reader.frames()
        return answer

    def _late(self, opaque: int) -> RemotingCommand | None:
        """Of a request that takes steps; None of a pull that is held."""
        while self.broker.tick(NOW_MS) == 0:
            pass
        answers = [notice.reply.answer for notice in self.broker.notices if notice.reply.answer.opaque == opaque]
        self.broker.notices.clear()
        return answers[0] if answers else None


def exchanges(scenario: str) -> list[tuple[dict, dict | None]]:
    lines = [json.loads(line) for line in (HERE / "frames" / f"{scenario}.jsonl").read_text().splitlines()]
    broker_lines = [line for line in lines if line["server"] == "broker"]
    answers = {(line["conn"], line["opaque"]): line for line in broker_lines if line["dir"] == "s2c"}
    return [(line, answers.get((line["conn"], line["opaque"]))) for line in broker_lines if line["dir"] == "c2s"]


@pytest.fixture(scope="module")
def answered():
    """All scenarios, one after the other, as they were recorded."""
    broker = GuardedBroker()
    found = []
    for scenario in SCENARIOS:
        for asked, then in exchanges(scenario):
            now = broker.answer(base64.b64decode(asked["frame_base64"]), asked["conn"])
            found.append((scenario, asked, then, now))
    return broker, found


def topic_of(asked: dict) -> str | None:
    return asked["header"]["extFields"].get("b")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_request_is_answered_as_it_was(answered, scenario):
    compared = 0
    for name, asked, then, now in answered[1]:
        if name != scenario or then is None or now is None:
            continue
        compared += 1
        if (name, asked["code"], topic_of(asked)) == BATCH_THAT_4_9_FORGETS:
            assert (then["code"], now.code) == (0, 1)
            continue
        assert now.code == then["code"], now.remark
        recorded = set(then["header"].get("extFields") or {})
        assert set(now.ext) - FIELDS_OF_5 == recorded - FIELDS_OF_5, asked["code"]
        assert bool(now.body) == bool(then["body_length"]), asked["code"]
    assert compared


def test_all_but_held_pulls_are_answered(answered):
    unanswered = [asked["code"] for _, asked, then, now in answered[1] if then is not None and now is None]
    assert set(unanswered) <= {Code.PULL_MESSAGE}


def test_refusals_say_what_the_real_broker_said(answered):
    """But for the place in its Java code."""
    found = [(then["header"]["remark"].partition(", org.apache")[0], now.remark)
             for _, asked, then, now in answered[1] if then is not None and then["code"] == 1]
    assert len(found) == 8
    assert [now for _, now in found] == [then for then, _ in found]


def test_what_mqadmin_changes_arrives_as_it_was_typed(answered):
    documents = answered[0].documents
    assert documents.deleted == "newuser"
    assert documents.patterns == (["10.10.103.*", "192.168.0.*"], None)
    entry = documents.entry
    assert (entry.access_key, entry.secret_key, entry.white_remote_address, entry.admin) == (
        "newuser", "87654321", "10.0.0.*", False)
    assert (entry.topic_perms, entry.group_perms) == (("topicA=DENY", "topicB=PUB|SUB"), ("groupB=SUB",))


def test_the_version_is_told_as_the_real_broker_tells_it(answered):
    told = [(then, now) for name, asked, then, now in answered[1] if asked["code"] == 52]
    assert len(told) == 2
    for then, now in told:
        recorded = then["header"]["extFields"]
        assert {name: now.ext[name] for name in ("clusterName", "brokerName")} == {
            name: recorded[name] for name in ("clusterName", "brokerName")}
        for name in ("version", "allAclFileVersion"):
            assert without_state(json.loads(now.ext[name])) == json.loads(recorded[name])


def without_state(value):
    """5.x has one field more in a version."""
    if isinstance(value, dict):
        return {key: without_state(each) for key, each in value.items() if key != "stateVersion"}
    return value


def registrations() -> list[tuple[dict, dict | None]]:
    """What the real broker with accounts asked its name server, unsigned as 4.9 does it."""
    lines = [json.loads(line) for line in (HERE / "frames" / "acl-broker-register.jsonl").read_text().splitlines()]
    answers = {line["opaque"]: line for line in lines if line["dir"] == "s2c"}
    return [(line, answers.get(line["opaque"])) for line in lines if line["dir"] == "c2s"]


def answers_of_a_name_server(handle) -> list[tuple[int, int | None]]:
    """(recorded, ours) of each request that was answered."""
    state, found = NameServerState(NamesrvConfig(), 0), []
    peer = Peer(1, host_bytes("127.0.0.1", 40000), LOCAL, "127.0.0.1:40000", "127.0.0.1")
    for asked, then in registrations():
        reader = FrameReader()
        reader.feed(base64.b64decode(asked["frame_base64"]))
        (request,) = reader.frames()
        outcome = handle(request, peer, state, NOW_MS)
        if then is not None:
            reader.feed(b"".join(outcome.encode_parts()))
            (answer,) = reader.frames()
            found.append((then["code"], answer.code))
    return found


def test_a_name_server_without_accounts_takes_the_registrations():
    found = answers_of_a_name_server(lambda *asked: Reply(name_server_table.handle(*asked)))
    assert found == [(0, 0)] * 5


def test_a_name_server_with_accounts_takes_none_of_an_unsigned_broker():
    """RocketMQ's looks at no signature."""
    door = Door(lambda: PlainRules(WhiteAddresses(), {}), name_server_access.needs_of, name_server_access.OPEN)
    assert answers_of_a_name_server(door.guard(lambda *asked: Reply(name_server_table.handle(*asked)))) == [(0, 1)] * 5
