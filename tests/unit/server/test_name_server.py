"""A name server on its port: what it was told is kept, if not at once."""

import asyncio
from pathlib import Path

from regulus.nameserver.config import NamesrvConfig
from regulus.server.assembly import NameServer
from regulus.transport.connector import connect
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

HOST = "127.0.0.1"


async def test_a_configuration_that_could_not_be_saved_is_saved_later(tmp_path: Path) -> None:
    saved = tmp_path / "config" / "kvConfig.json"
    server = NameServer(NamesrvConfig(bind_address=HOST, listen_port=0, kv_config_path=str(saved)))
    await server.start()
    saved.parent.touch()        # a file stands where the directory must be
    connection = await connect(HOST, server.port)
    put = RemotingCommand.request(RequestCode.PUT_KV_CONFIG, {"namespace": "N", "key": "k", "value": "kept"})
    assert (await connection.request(put, 5000)).code == ResponseCode.SUCCESS
    assert saved.parent.is_file()
    saved.parent.unlink()
    async with asyncio.timeout(20):
        while not saved.exists():
            await asyncio.sleep(0.05)
    assert "kept" in saved.read_text()
    connection.close()
    await server.stop()
