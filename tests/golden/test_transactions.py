"""Transactions that RocketMQ 4.9.8 left open: which those are, and that they can be ended here."""

import shutil
from pathlib import Path

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.request_table import handle
from regulus.broker.state import BrokerState
from regulus.model.message_id import host_bytes
from regulus.model.peer import Peer
from regulus.record import message_record
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.wire.bodies import HeartbeatData, ProducerData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import CheckTransactionStateRequest, EndTransactionRequest
from regulus.wire.remoting_command import RemotingCommand

GOLDEN = Path(__file__).parent
HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
HOST = host_bytes("127.0.0.1", 10911)
PEER = Peer(1, HOST, HOST, "127.0.0.1:1", "127.0.0.1")


@pytest.mark.parametrize("with_offsets", [True, False])
def test_what_rocketmq_left_open_is_asked_for_once_and_ended(tmp_path: Path, with_offsets: bool) -> None:
    """With the saved offsets of its checks, and without: then the whole queue tells the same."""
    shutil.copytree(GOLDEN / "store-4.9.8", tmp_path / "store")
    store = FileMessageStore(MessageStoreConfig(
        store_path_root_dir=str(tmp_path / "store"), mapped_file_size_commit_log=131_072,
        mapped_file_size_consume_queue=1280, max_hash_slot_num=256, max_index_num=1024))
    store.open()
    now_ms = 1_795_300_000_000
    broker = BrokerState(BrokerConfig(), store, now_ms=now_ms)
    documents = {each: store.load_config(each) or "" for each in broker.documents()} if with_offsets else {}
    broker.load_documents(documents)
    left_open = [message for message in halves(store)
                 if message.queue_offset not in done(store) and is_newest(message, store)]
    assert {message.properties["KEYS"] for message in left_open} == {"t-unknown"}

    heartbeat = HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name="PG_trans")])
    ask(broker, RequestCode.HEART_BEAT, {}, now_ms, heartbeat.encode())
    broker.steady_ms = 40_000
    broker.tick(now_ms + 40_000)
    (notice,) = broker.notices
    header = CheckTransactionStateRequest.decode(notice.reply.answer)
    message = message_record.decode(notice.reply.answer.body)
    assert (message.topic, message.properties["KEYS"]) == ("STrans", "t-unknown")
    before = store.max_offset("STrans", message.queue_id)
    answer = ask(broker, RequestCode.END_TRANSACTION, EndTransactionRequest(
        producer_group="PG_trans", tran_state_table_offset=header.tran_state_table_offset,
        commit_log_offset=header.commit_log_offset, commit_or_rollback=8, from_transaction_check=True,
        msg_id=header.msg_id or "").ext(), now_ms + 41_000)
    assert answer.code == ResponseCode.SUCCESS
    store.dispatch(1000)
    assert store.max_offset("STrans", message.queue_id) == before + 1
    broker.notices.clear()
    broker.steady_ms = 80_000
    broker.tick(now_ms + 80_000)
    assert not broker.notices
    store.close()


def ask(broker: BrokerState, code: int, ext: dict[str, str], now_ms: int, body: bytes = b"") -> RemotingCommand:
    outcome = handle(RemotingCommand.request(int(code), ext, body), PEER, broker, now_ms)
    broker.store.dispatch(1000)
    return outcome.answer


def halves(store: FileMessageStore) -> list:
    return [store.look_message(unit.physical_offset) for unit in store.queue_units(HALF, 0, 0, 1000)]


def done(store: FileMessageStore) -> set[int]:
    return {int(store.look_message(unit.physical_offset).body) for unit in store.queue_units(OP, 0, 0, 1000)}


def is_newest(message, store: FileMessageStore) -> bool:
    return all(other.queue_offset <= message.queue_offset for other in halves(store)
               if other.message_id == message.message_id)
