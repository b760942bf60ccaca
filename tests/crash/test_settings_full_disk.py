"""On a disk that is really full no topic and no group is said to be made; with room it is, and is saved."""

from pathlib import Path

from tests.crash.small_disk import on_small_disk

SCRIPT = """
import asyncio, sys
from pathlib import Path

from regulus.broker.config import BrokerConfig
from regulus.model.topics import SubscriptionGroupConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.server.assembly import Regulus
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig
from regulus.transport.connector import connect, ignore_requests
from regulus.wire.bodies import encode_subscription_group_config
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

HOST = "127.0.0.1"
root = Path(sys.argv[1])
group = encode_subscription_group_config(SubscriptionGroupConfig(group_name="Wanted"))
topic = {"topic": "Wanted", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
         "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}


def fill():
    with (root / "filler").open("wb", buffering=0) as filler:
        for size in (65536, 4096):
            try:
                while True:
                    filler.write(bytes(size))
            except OSError:
                pass


async def main():
    server = Regulus(BrokerConfig(listen_port=0), MessageStoreConfig(
        store_path_root_dir=str(root / "store"), mapped_file_size_commit_log=1 << 20,
        mapped_file_size_consume_queue=20_000, max_hash_slot_num=500, max_index_num=2000),
        NamesrvConfig(listen_port=0, bind_address=HOST), transport_config=TransportConfig(bind_address=HOST))
    await server.start()
    connection = await connect(HOST, server.broker_server.port, ignore_requests)

    async def ask(code, ext=None, body=b""):
        return await connection.request(RemotingCommand.request(code, ext, body), 10_000)

    fill()
    for answer in (await ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, group),
                   await ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic),
                   await ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic)):
        assert answer.code == 1 and "is full" in answer.remark, (answer.code, answer.remark)
    assert (await ask(RequestCode.GET_MAX_OFFSET, {"topic": "BenchmarkTest", "queueId": "0"})).code == 0
    documents = root / "store" / "config"
    assert "Wanted" not in (documents / "topics.json").read_text()
    (root / "filler").unlink()
    while (await ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic)).code:
        await asyncio.sleep(0.05)
    assert (await ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, group)).code == 0
    assert '"Wanted":{' in (documents / "topics.json").read_text()
    assert '"Wanted":{' in (documents / "subscriptionGroup.json").read_text()
    connection.close()
    await server.stop()
    print("well")


asyncio.run(main())
"""


def test_a_full_disk_refuses_topics_and_groups_until_there_is_room(tmp_path: Path) -> None:
    on_small_disk(tmp_path, "8m", SCRIPT)
