"""A send that goes the straight way leaves the same record, the same answer and the same counts as by the ordinary way.

Whether it may go there is the reader's own decision; so each request is given to two brokers, one of which gets its
header as a map, which the straight way does not take.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.outcome import Outcome, Reply
from regulus.broker.send_facts import TopicFacts
from regulus.broker.state import BrokerState
from regulus.model.message_id import host_bytes
from regulus.model.peer import Peer
from regulus.model.topics import TopicConfig
from regulus.testing.memory_store import MemoryStore
from regulus.wire import header_json, header_rocketmq
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import JSON, ONEWAY_FLAG, ROCKETMQ, RemotingCommand

NOW = 1_700_000_000_000
PEER = Peer(1, host_bytes("10.0.0.5", 40000), host_bytes("10.0.0.1", 10911), "10.0.0.5:40000", "10.0.0.1")

NAMES = st.sampled_from(["WAIT", "TAGS", "KEYS", "UNIQ_KEY", "DELAY", "MSG_REGION", "CLUSTER", "POP_CK", "TRAN_MSG",
                         "TIMER_DELAY_MS", "__SHARDINGKEY", "a", "b", "\u4e2d", "KEYS2"]) | st.text(
                             alphabet="abKTW_", max_size=4)
VALUES = (st.sampled_from(["true", "false", "1", "0", ""])
          | st.text(alphabet="aB1 \"\\/\n\u4e2d\U0001f600\x7f", max_size=9))
ENDS = st.sampled_from(["\x02", "\x02", "\x02", "", "\x01", "\x02\x02"])
PROPERTIES = st.lists(st.tuples(NAMES, VALUES, ENDS), max_size=6).map(
    lambda entries: "".join(f"{name}\x01{value}{end}" for name, value, end in entries))
KEYS = st.text(alphabet="0123456789ABCDEF", min_size=1, max_size=40)
USUAL = st.builds("UNIQ_KEY\x01{}\x02{}".format, KEYS, PROPERTIES)
NUMBERS = st.sampled_from(["0", "1", "-1", "3", "4", "007", "-0", "+1", "2147483648", "1" * 19, "1.5", ""])
BOOLS = st.sampled_from(["false", "false", "true", "FALSE", "no", ""])
USUAL_FIELDS = {"a": "PG", "b": "TopicA", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000001", "h": "0",
                "i": "", "j": "0", "k": "false", "m": "false", "n": "broker-a"}
FIELDS = {"a": st.sampled_from(["PG", "P\\G", "\u4e2d"]), "b": st.sampled_from(["TopicA", "TopicB", "Top\u4e2d", ""]),
          "d": NUMBERS, "e": NUMBERS, "f": st.sampled_from(["0", "1", "8", "4", "32"]), "g": NUMBERS, "h": NUMBERS,
          "j": NUMBERS, "k": BOOLS, "l": NUMBERS, "m": st.just("false"), "bname": st.just("x"),
          "Signature": st.sampled_from(["abc=", 'a"b', ""])}


def broker(sync: bool) -> BrokerState:
    config = BrokerConfig(listen_port=10911, flush_disk_type="SYNC_FLUSH" if sync else "ASYNC_FLUSH")
    made = BrokerState(config, MemoryStore(), now_ms=NOW, seed=1)
    made.topics.put(TopicConfig(topic_name="TopicA", read_queue_nums=4, write_queue_nums=4), NOW)
    return made


def request(fields: dict[str, str], body: bytes, flag: int, *, as_scanned: bool, kind: int = JSON) -> RemotingCommand:
    """What a frame with these fields becomes when it is read; in the interpreted form headers are not scanned."""
    command = RemotingCommand(int(RequestCode.SEND_MESSAGE_V2), dict(fields), body, flag, 7, version=479,
                              serialize_type=kind)
    if as_scanned and kind == ROCKETMQ:
        header = header_rocketmq.encode(command, command.ext)
        header_rocketmq.decode(command, header, 0, len(header))
    elif as_scanned:
        header = header_json.encode(command)
        assert header_json.scan(command, header, 0, len(header))
    return command


def told(outcome: Outcome) -> tuple[int, bytes]:
    """Until when the answer waits, and its frame."""
    if isinstance(outcome, Reply):
        return outcome.durable_at, b"".join(outcome.encode_parts())
    return -1, type(outcome).__name__.encode()


def counted(facts: TopicFacts) -> list[tuple[str, int, int, int, int, list[int]]]:
    """What metrics tell of the sends to a topic."""
    return [(kind, each.nums, each.size, each.batched, each.batched_size, each.larger)
            for kind, each in facts.sent.items()]


@given(st.fixed_dictionaries({}, optional=FIELDS), USUAL | PROPERTIES, st.binary(max_size=40), st.booleans(),
       st.sampled_from([0, 0, 0, ONEWAY_FLAG]), st.permutations(sorted(USUAL_FIELDS)),
       st.sampled_from([JSON, ROCKETMQ]))
def test_both_ways_store_and_answer_the_same(changes, properties, body, sync, flag, order, kind):
    usual = {name: USUAL_FIELDS[name] for name in order}
    fields = {**usual, "i": properties, **changes}
    if kind == ROCKETMQ:
        # An empty value cannot be sent in the binary form.
        fields = {name: value for name, value in fields.items() if value}
    brokers = broker(sync), broker(sync)
    # A usual one first and last: what the one leaves behind must not show in the next.
    first, last = "UNIQ_KEY\x01K\x02TAGS\x01T\x02KEYS\x01k l\x02", "UNIQ_KEY\x01L"
    for sent in (usual | {"i": first}, fields, usual | {"i": last}):
        answers = [told(request_table.handle(request(sent, body, flag, as_scanned=way, kind=kind), PEER, each, NOW))
                   for each, way in zip(brokers, (False, True), strict=True)]
        assert answers[0] == answers[1]
        assert brokers[0].store._log == brokers[1].store._log
    facts = [each.send_facts.topics["TopicA"] for each in brokers]
    assert counted(facts[0]) == counted(facts[1])


@pytest.mark.parametrize("kind", [JSON, ROCKETMQ])
@pytest.mark.parametrize("way", [False, True])
@pytest.mark.parametrize(("name", "counted_as"), [("__SHARDINGKEY", (0, 1)), ("__shardingkey", (1, 0)),
                                                  ("__SHARDINGKEX", (1, 0))])
def test_a_send_with_a_sharding_key_counts_as_ordered_whichever_way_it_goes(kind, way, name, counted_as):
    made = broker(sync=False)
    fields = USUAL_FIELDS | {"i": f"UNIQ_KEY\x01K\x02{name}\x01s\x02"}
    request_table.handle(request(fields, b"x", 0, as_scanned=way, kind=kind), PEER, made, NOW)
    facts = made.send_facts.topics["TopicA"]
    assert (facts.normal.nums, facts.fifo.nums) == counted_as


@pytest.mark.parametrize(("sync", "waits", "is_awaited"), [
    (False, "true", False), (True, "true", True), (True, "false", False)])
@pytest.mark.parametrize("kind", [JSON, ROCKETMQ])
def test_a_usual_send_goes_the_straight_way(kind, sync, waits, is_awaited):
    sent = USUAL_FIELDS | {"i": "UNIQ_KEY\x01K\x02WAIT\x01" + waits + "\x02own\x01x\x02TAGS\x01T\x02KEYS\x01k"}
    made = broker(sync)
    outcome = request_table.handle(request(sent, b"body", 0, as_scanned=True, kind=kind), PEER, made, NOW)
    assert type(outcome.answer) is bytes
    assert outcome.durable_at == (made.store.commit_log_max_offset() if is_awaited else 0)
