"""What a slave asks of its master, and which answers it takes for known."""

import pytest

from regulus.broker.state import OFFSET_SET_BACKS_DOCUMENT, OWN_DOCUMENTS, TOPIC_EPOCHS_DOCUMENT
from regulus.server.master_documents import MasterDocuments
from regulus.transport.config import TransportConfig
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import GetDocumentRequest
from tests.unit.client.scripted_servers import ScriptedServer


def a_master(is_ours=True):
    """Its documents have version 1, whichever master it is; it does not tell again what whoever asks has."""
    def script(command):
        if command.code != RequestCode.GET_DOCUMENT:
            return command.response(ResponseCode.SUCCESS, body=b"{}")
        if not is_ours:
            return command.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        is_known = GetDocumentRequest.decode(command).version == "1"
        return command.response(ResponseCode.SUCCESS, ext={"version": "1"}, body=b"" if is_known else b"{}")
    return ScriptedServer(script)


def a_slave():
    def unexpected(*arguments):
        raise AssertionError(arguments)
    return MasterDocuments(lambda: 0, unexpected, unexpected, unexpected, TransportConfig(close_wait_max_ms=10))


@pytest.fixture
async def masters():
    servers = a_master(), a_master(), a_master(is_ours=False)
    for server in servers:
        await server.start()
    yield servers
    for server in servers:
        await server.stop()


async def test_what_one_master_told_is_not_known_of_the_next(masters):
    slave = a_slave()
    try:
        for master in masters[:2]:
            assert TOPIC_EPOCHS_DOCUMENT in await slave._ask(master.address)
            assert TOPIC_EPOCHS_DOCUMENT not in await slave._ask(master.address)
    finally:
        await slave.stop()


async def test_what_belongs_to_documents_without_a_version_is_told_with_each_round(masters):
    slave = a_slave()
    try:
        for _ in range(3):
            assert OFFSET_SET_BACKS_DOCUMENT in await slave._ask(masters[0].address)
    finally:
        await slave.stop()


async def test_a_master_of_ours_behind_one_of_rocketmq_is_asked_for_our_documents_again(masters):
    slave = a_slave()
    try:
        assert not set(OWN_DOCUMENTS[2:]) & set(await slave._ask(masters[2].address))
        assert set(OWN_DOCUMENTS) <= set(await slave._ask(masters[0].address))
    finally:
        await slave.stop()
