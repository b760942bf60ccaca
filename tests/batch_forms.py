"""Batches as clients send them, and what RocketMQ 5.3.3 stores of each: property strings, byte for byte.

`own` is the property string of each message, `of_batch` that of the request; `stored` is what RocketMQ 5.3.3 wrote for
each message, seen by a pull from a broker named `broker-a` in `DefaultCluster`. `tests/interop/test_batches.py` asks
the real one again.
"""

import asyncio
import struct
from typing import NamedTuple

from regulus.record.message_record import find_parts
from regulus.transport.connector import connect, split_address
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

STAMP = "MSG_REGION=DefaultRegion;CLUSTER=DefaultCluster;TRACE_ON=true;"


class Form(NamedTuple):
    """Property strings with `=` and `;` for their separators."""

    name: str
    own: list[str]
    of_batch: str
    stored: list[str]


FORMS = [
    Form("Java's client 5, whose batch has a key of its own",
         ["KEYS=k-0;UNIQ_KEY=A0;WAIT=true;", "KEYS=k-1;UNIQ_KEY=A1;WAIT=true;"], "UNIQ_KEY=B;WAIT=true;",
         [f"KEYS=k-{n};UNIQ_KEY=A{n};WAIT=true;MSG_REGION=DefaultRegion;UNIQ_KEY=B;CLUSTER=DefaultCluster;WAIT=true;"
          "TRACE_ON=true;" for n in (0, 1)]),
    Form("Java's client 4.9", ["UNIQ_KEY=A0;WAIT=true;"], "WAIT=true;",
         ["UNIQ_KEY=A0;WAIT=true;MSG_REGION=DefaultRegion;CLUSTER=DefaultCluster;WAIT=true;TRACE_ON=true;"]),
    Form("Go's client, without keys and without the last separator", ["TAGS=red", "TAGS=blue;KEYS=k"], "",
         [f"TAGS=red;{STAMP}", f"TAGS=blue;KEYS=k;{STAMP}"]),
    Form("our client", ["UNIQ_KEY=A0;TAGS=red;", "UNIQ_KEY=A1;"], "",
         [f"UNIQ_KEY=A0;TAGS=red;{STAMP}", f"UNIQ_KEY=A1;{STAMP}"]),
    Form("no properties at all", ["", ""], "", [STAMP, STAMP]),
    Form("names that come twice", ["a=1;a=2;TAGS=x;TAGS=y;", "MSG_REGION=here;CLUSTER=mine;TRACE_ON=false;"], "",
         [f"a=1;a=2;TAGS=x;TAGS=y;{STAMP}", f"MSG_REGION=here;CLUSTER=mine;TRACE_ON=false;{STAMP}"]),
    Form("what the batch says of all, in the order of Java's map", ["own=1;"],
         "zeta=1;alpha=2;TAGS=all;KEYS=k1 k2;beta=3;WAIT=false;gamma=4;AaAa=5;BBBB=6;AaBB=7;delta=;epsilon=é;"
         "MSG_REGION=x;",
         [("own=1;epsilon=é;MSG_REGION=DefaultRegion;CLUSTER=DefaultCluster;AaAa=5;BBBB=6;AaBB=7;TAGS=all;alpha=2;"
           "KEYS=k1 k2;WAIT=false;beta=3;zeta=1;TRACE_ON=true;gamma=4;")]),
]


INNER_FORMS = [
    Form("Java's client 5, in a topic of queue.type=BatchCQ", ["KEYS=k-0;UNIQ_KEY=A0;WAIT=true;", "UNIQ_KEY=A1;"],
         "UNIQ_KEY=B;WAIT=true;",
         [("INNER_BASE=0;MSG_REGION=DefaultRegion;UNIQ_KEY=B;CLUSTER=DefaultCluster;WAIT=true;TRACE_ON=true;"
           "INNER_NUM=2;")]),
    Form("what the batch says there, in the order of Java's map", ["own=1;"],
         "zeta=1;alpha=2;TAGS=all;KEYS=k1 k2;beta=3;WAIT=false;gamma=4;AaAa=5;BBBB=6;UNIQ_KEY=B;INNER_NUM=77;"
         "MSG_REGION=x;",
         [("INNER_BASE=0;MSG_REGION=DefaultRegion;UNIQ_KEY=B;CLUSTER=DefaultCluster;AaAa=5;BBBB=6;TAGS=all;alpha=2;"
           "KEYS=k1 k2;WAIT=false;beta=3;zeta=1;TRACE_ON=true;INNER_NUM=1;gamma=4;")]),
    Form("a batch without a key of its own there", ["UNIQ_KEY=A0;TAGS=red;", "UNIQ_KEY=A1;"], "",
         [f"UNIQ_KEY=A0;TAGS=red;{STAMP}", f"UNIQ_KEY=A1;{STAMP}"]),
]
"""The same in topics whose batches rest as one record each, where they have a key: its property string."""


def spelled_out(form: str) -> str:
    """As it travels and rests."""
    return form.replace("=", "\x01").replace(";", "\x02")


async def stored(address: str, form: Form, topic: str) -> list[str]:
    """Send the batch, and read the property strings of its messages where they rest."""
    connection = await connect(*split_address(address))
    ext = {"a": "P", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0",
           "i": spelled_out(form.of_batch), "j": "0", "k": "false", "m": "true"}
    body = b"".join([_message(f"body-{number}".encode(), spelled_out(own).encode())
                     for number, own in enumerate(form.own)])
    answer = await connection.request(RemotingCommand.request(RequestCode.SEND_BATCH_MESSAGE, ext, body), 60_000)
    assert answer.code == 0, answer.remark
    ask = {"consumerGroup": "G", "topic": topic, "queueId": "0", "queueOffset": answer.ext["queueOffset"],
           "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
           "subVersion": "0", "expressionType": "TAG"}
    texts: list[str] = []
    while len(texts) < len(form.stored):       # what was sent is visible a moment later
        pulled = await connection.request(RemotingCommand.request(RequestCode.PULL_MESSAGE, ask), 60_000)
        texts = [] if pulled.code else _property_texts(pulled.body)
        await asyncio.sleep(0.01)
    connection.close()
    return texts


def _message(body: bytes, properties: bytes) -> bytes:
    """As `MessageDecoder.encodeMessage` makes it."""
    size = 22 + len(body) + len(properties)
    return struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body + struct.pack(">h", len(properties)) + properties


def _property_texts(records: bytes) -> list[str]:
    texts = []
    position = 0
    while position < len(records):
        size, *_, topic_end = find_parts(records, position, len(records))
        position += size
        texts.append(records[topic_end + 2:position].decode().replace("\x01", "=").replace("\x02", ";"))
    return texts
