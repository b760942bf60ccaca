"""A broker in a process whose address space has no room for a file of its log: prints what it answers.

    python -m tests.unit.server.little_memory STORE

The limit is set once the broker runs, for a file of 256 MiB and with 32 MiB to spare for all else.
"""

import asyncio
import json
import logging
import os
import resource
import sys
from pathlib import Path

from regulus.broker.config import BrokerConfig
from regulus.model.message import Message
from regulus.nameserver.config import NamesrvConfig
from regulus.server.assembly import Regulus
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig
from regulus.transport.connector import connect
from regulus.wire import message_batch
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

SEND = {"a": "producers", "b": "Orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0",
        "i": "", "j": "0", "k": "false", "m": "false"}
PULL = {"consumerGroup": "readers", "topic": "Orders", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
        "expressionType": "TAG"}
BATCH = message_batch.encode([Message("Orders", b"x"), Message("Orders", b"y")])
ASKED = [("single", RequestCode.SEND_MESSAGE_V2, SEND, b"x"),
         ("batch", RequestCode.SEND_BATCH_MESSAGE, {**SEND, "m": "true"}, BATCH),
         ("tagged batch", RequestCode.SEND_BATCH_MESSAGE, {**SEND, "m": "true", "i": "TAGS\x01t"}, BATCH),
         ("pull", RequestCode.PULL_MESSAGE, PULL, b""),
         ("view", RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0"}, b"")]
FILE_SIZE, SPARE = 256 << 20, 32 << 20


def limit_address_space() -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    size = pages * resource.getpagesize() + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


async def answer_all(root: str) -> None:
    server = Regulus(BrokerConfig(listen_port=0), MessageStoreConfig(
        store_path_root_dir=root, mapped_file_size_commit_log=FILE_SIZE, mapped_file_size_consume_queue=2000,
        max_hash_slot_num=500, max_index_num=2000), NamesrvConfig(listen_port=0, bind_address="127.0.0.1"),
        transport_config=TransportConfig(bind_address="127.0.0.1"))
    await server.start()
    connection = await connect("127.0.0.1", server.broker_server.port)
    kind, code, ext, body = ASKED[0]
    first = await connection.request(RemotingCommand.request(code, dict(ext), body), 60_000)
    assert first.code == 0, (kind, first.remark)
    (file,) = server.broker_server.store._log.files.files
    file.unmap()        # as where the table of mapped files is full
    limit_address_space()
    found = {}
    for kind, code, ext, body in ASKED:
        answer = await connection.request(RemotingCommand.request(code, dict(ext), body), 60_000)
        found[kind] = answer.code, answer.remark
    print(json.dumps(found), flush=True)
    os._exit(0)         # there is no memory to stop it cleanly


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(answer_all(sys.argv[1]))
