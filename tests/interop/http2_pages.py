"""A server of pages by HTTP/2 alone, on the connections that gRPC's server has: `h2spec` makes no calls of gRPC.

    python http2_pages.py

Says its port, and serves until its input ends.
"""

import asyncio
import sys

from regulus.model.peer import Origin
from regulus.transport import event_loop
from regulus.transport.http2.connection import Account, Http2Connection, Http2Limits
from regulus.transport.http2.stream import Stream
from regulus.wire.http2 import header_block


class Page(Stream):
    """The same few bytes, when the request is whole."""

    def data_came(self, data: bytes) -> None:
        self.took(len(data))

    def peer_ended(self) -> None:
        self.begin(header_block.RESPONSE)
        self.write(b"a page")
        self.end(header_block.trailers(0))

    def lost(self) -> None: ...


async def serve() -> None:
    loop = asyncio.get_running_loop()
    connections: dict[Http2Connection, None] = {}
    account = Account(1 << 20, connections)

    def connection() -> Http2Connection:
        made = Http2Connection(lambda of, stream_id, request: Page(of, stream_id), connections.pop, account,
                               Http2Limits(), "h2spec", loop, Origin(b"", b""))
        connections[made] = None
        return made

    server = await loop.create_server(connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


event_loop.run(serve())
