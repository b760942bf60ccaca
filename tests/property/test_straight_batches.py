"""A batch that goes the straight way leaves the same records, answers, counts and marks as by the ordinary way.

Whether it may go there is the reader's own decision; so each request is given to two brokers, one of which has a reader
that takes nothing.
"""

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.property.test_straight_sends import counted

from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.outcome import Outcome, Reply
from regulus.broker.sink_marks import SinkMarks
from regulus.broker.state import BrokerState
from regulus.model.message_id import host_bytes
from regulus.model.peer import Peer
from regulus.model.topics import TopicConfig
from regulus.testing.memory_store import MemoryStore
from regulus.wire.codes import RequestCode
from regulus.wire.frame_reader import FrameReader
from regulus.wire.headers import SendMessageRequest
from regulus.wire.remoting_command import RemotingCommand
from regulus.wire.row_digest import row_on
from regulus.wire.straight_batch import StraightBatchReader

NOW = 1_700_000_000_000
PEER = Peer(1, host_bytes("10.0.0.5", 40000), host_bytes("10.0.0.1", 10911), "10.0.0.5:40000", "10.0.0.1")
USUAL = "UNIQ_KEY\x01K1\x02KEYS\x01k l\x02TAGS\x01T\x02own\x01x\x02"

NAMES = st.sampled_from(["WAIT", "TAGS", "KEYS", "UNIQ_KEY", "DELAY", "MSG_REGION", "CLUSTER", "SINK", "SEQ",
                         "SINK_DIGEST", "REAL_QID", "ORIGIN_MESSAGE_ID", "TIMER_DELAY_MS", "a", "b", "\u4e2d"])
VALUES = st.sampled_from(["true", "false", "1", ""]) | st.text(alphabet="aB1 \"\\\u4e2d\x7f", max_size=9)
ENDS = st.sampled_from(["\x02", "\x02", "\x02", "", "\x01", "\x02\x02"])
ODD = st.lists(st.tuples(NAMES, VALUES, ENDS), max_size=5).map(
    lambda entries: "UNIQ_KEY\x01K\x02" + "".join(f"{name}\x01{value}{end}" for name, value, end in entries))
# Most are usual: a single odd one sends the whole batch the ordinary way.
PROPERTIES = st.one_of([st.just(USUAL)] * 6 + [ODD])
TRUE = "that of the rows that are stored before"
MESSAGES = st.tuples(st.binary(max_size=20), st.integers(-3, 3), PROPERTIES.map(str.encode))
RUNS = st.fixed_dictionaries({"SINK": st.sampled_from(["s/0", "s/0", "s/0", "s/1", "no sink", "\u4e2d/0"]),
                              "SEQ": st.builds("{}/{}".format, st.integers(0, 1), st.integers(0, 6)) | st.just("x"),
                              "SINK_DIGEST": st.sampled_from([TRUE, TRUE, TRUE, TRUE, "0", "7", "x"])})
COMMON = st.one_of(st.just({}), RUNS, RUNS, RUNS.map(lambda run: dict(reversed(run.items()))),
                   st.sampled_from([{"WAIT": "false"}, {"TAGS": "T"}, {"SINK": "s/0"},
                                    {"SINK": "s/0", "SEQ": "2/0", "ORIGIN_MESSAGE_ID": "M"}]))
BATCHES = st.tuples(COMMON, st.lists(MESSAGES, max_size=4), st.sampled_from([b""] * 5 + [b"\0", b"\0" * 30]))


def run(row: int) -> dict[str, str]:
    return {"SINK": "s/0", "SEQ": f"0/{row}", "SINK_DIGEST": TRUE}


class NeverPlain(StraightBatchReader):
    def read(self, *arguments: object) -> bool:
        return False


class Watched(StraightBatchReader):
    def __init__(self, unusual: frozenset[bytes]) -> None:
        super().__init__(unusual)
        self.taken: list[bool] = []

    def read(self, *arguments: object) -> bool:
        self.taken.append(super().read(*arguments))
        return self.taken[-1]


def broker(sync: bool) -> BrokerState:
    config = BrokerConfig(listen_port=10911, max_message_size=400,
                          flush_disk_type="SYNC_FLUSH" if sync else "ASYNC_FLUSH")
    made = BrokerState(config, MemoryStore(), now_ms=NOW, seed=1)
    made.topics.put(TopicConfig(topic_name="TopicA", read_queue_nums=4, write_queue_nums=4), NOW)
    return made


def record(body: bytes, flag: int, properties: bytes) -> bytes:
    front = struct.pack(">iiiii", 22 + len(body) + len(properties), 0, 0, flag, len(body))
    return front + body + struct.pack(">h", len(properties)) + properties


def request(common: dict[str, str], body: bytes) -> RemotingCommand:
    """As it comes out of a frame, with its body where it was read."""
    header = SendMessageRequest("PG", "TopicA", queue_id=1, born_timestamp=NOW - 5, properties=common, batch=True)
    reader = FrameReader()
    reader.feed(RemotingCommand.request(int(RequestCode.SEND_BATCH_MESSAGE), header.ext(), body).encode())
    return reader.frames()[0]


def said(common: dict[str, str], store: MemoryStore) -> dict[str, str]:
    """The properties of a request, with the digest that its writer would have there if all its rows are stored."""
    if common.get("SINK_DIGEST") != TRUE:
        return common
    batch, _, row = common["SEQ"].partition("/")
    digest = 0
    for message in store.messages_holding(b"SINK\x01", 0):     # in a value, too
        its_batch, _, its_row = message.properties.get("SEQ", "").partition("/")
        is_before = row.isdecimal() and its_row.isdecimal() and int(its_row) < int(row)
        if message.properties.get("SINK") == common["SINK"] and its_batch == batch and is_before:
            digest = row_on(digest, message, message.body_crc)
    return {**common, "SINK_DIGEST": str(digest)}


def shown(outcome: Outcome) -> tuple[int, bytes]:
    assert isinstance(outcome, Reply)
    return outcome.durable_at, b"".join(outcome.encode_parts())


@given(st.lists(BATCHES, max_size=6), st.booleans())
@example([(run(0), [(b"a", 0, USUAL.encode())] * 2, b""), (run(1), [(b"a", 0, USUAL.encode())] * 3, b""),
          (run(4), [(b"c", 1, USUAL.encode())], b""), (run(3), [(b"other", 1, USUAL.encode())], b"")], True)
@example([(run(0), [(b"a", 5, USUAL.encode())] * 2, b""), (run(2), [(b"", -3, b"own\x01x\x02UNIQ_KEY\x01K")], b""),
          (run(3), [(b"b", 0, b"WAIT\x01true\x02UNIQ_KEY\x01K\x02a\x01b\x02")], b"")], False)
@example([({"SEQ": "0/0", "SINK": "s/0", "SINK_DIGEST": "0"}, [(b"a", 0, USUAL.encode())], b"")], False)
@example([(run(0), [(b"a", 0, b"UNIQ_KEY\x01K\x02SEQ\x01own\x02")], b"")], False)
@example([({}, [(b"", 0, b"UNIQ_KEY\x01K\x02WAIT\x01trueSINK\x01true\x02")], b""),
          ({"SINK": "s/0", "SEQ": "x", "SINK_DIGEST": TRUE}, [], b"")], False)
@example([(run(0), [(b"a", 0, b"UNIQ_KEY\x01K\x02REAL_QID\x01own\x02")], b"")], False)
@example([(run(0), [(b"a", 0, b"UNIQ_KEY\x01K\x02ORIGIN_MESSAGE_ID\x01M\x02")], b"")], False)
def test_both_ways_store_and_answer_the_same(batches, sync):
    brokers = broker(sync), broker(sync)
    brokers[0].send_facts.straight_batches = NeverPlain(frozenset())
    for common, messages, rest in batches:
        body = b"".join(record(*message) for message in messages) + rest
        common = said(common, brokers[0].store)
        answers = [shown(request_table.handle(request(common, body), PEER, each, NOW)) for each in brokers]
        assert answers[0] == answers[1]
        assert brokers[0].store._log == brokers[1].store._log
        assert brokers[0].sink_marks.document() == brokers[1].sink_marks.document()
    # What is walked at a start tells the same marks as what was noted on the way.
    walked = SinkMarks(brokers[0].store, 9)
    walked.load('{"logOffset":0,"marks":{}}')
    assert walked.of_sink("s") == brokers[0].sink_marks.of_sink("s")
    facts = [each.send_facts.topics["TopicA"] for each in brokers]
    assert counted(facts[0]) == counted(facts[1])


@pytest.mark.parametrize("common", [{}, run(2), {**run(0), "SEQ": "1/0"}])
def test_a_usual_batch_and_the_next_run_go_the_straight_way(common):
    made = broker(False)
    body = record(b"one", 0, USUAL.encode()) + record(b"", 7, b"UNIQ_KEY\x01K2")
    request_table.handle(request(said(run(0), made.store), body), PEER, made, NOW)
    reader = made.send_facts.straight_batches = Watched(frozenset())
    request_table.handle(request(said(common, made.store), body), PEER, made, NOW)
    assert reader.taken == [True]
