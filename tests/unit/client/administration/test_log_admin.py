"""The log of a real server, read and archived."""

import pytest

from regulus.client.administration.admin import Admin
from regulus.client.sending.producer import Producer
from regulus.client.sync import Admin as BlockingAdmin
from regulus.errors import BrokerRefused
from regulus.model.message import Message
from regulus.record import message_record
from regulus.wire.codes import ResponseCode


async def flushed_state(admin, address):
    """Once all that was sent is on disk."""
    while True:
        state = await admin.log_state(address)
        if state.flushed_physical_offset == state.max_physical_offset:
            return state


async def test_the_log_is_read_and_told_archived(regulus_server):
    address = regulus_server.address
    async with Producer(regulus_server.name_server_address, "PG") as producer:
        for number in range(20):
            await producer.send(Message("T", b"%d" % number))
    async with Admin(regulus_server.name_server_address) as admin:
        state = await flushed_state(admin, address)
        assert (state.broker_name, state.min_physical_offset, state.archived_physical_offset, state.archive_gate) == (
            "broker-a", 0, -1, "off")
        data, offset = b"", 0
        while True:
            read = await admin.read_commit_log(address, offset, 1000)
            if not read.data:
                break
            data, offset = data + read.data, read.next_offset
        assert offset == state.max_physical_offset
        assert sorted(int(message.body) for message in message_record.decode_all(data)) == list(range(20))
        await admin.update_archived_offset(address, offset)
        assert (await admin.log_state(address)).archived_physical_offset == offset
        with pytest.raises(BrokerRefused, match="is beyond") as refused:
            await admin.update_archived_offset(address, offset + 1)
        assert refused.value.code == ResponseCode.INVALID_PARAMETER
        with pytest.raises(BrokerRefused) as refused:
            await admin.read_commit_log(address, offset + 1)
        assert refused.value.code == ResponseCode.PULL_OFFSET_MOVED


def test_an_archived_offset_outlives_the_broker(broker_process):
    address = broker_process.address
    with BlockingAdmin(broker_process.name_server_address) as admin:
        admin.update_archived_offset(address, 0)
        broker_process.stop()
        broker_process.start()
        assert admin.log_state(address).archived_physical_offset == 0
