"""A grpc.aio server whose handler is empty, on the event loop of Regulus's servers. Each call gets the same few bytes.

Its cost is the least that any proxy written with grpc.aio has.

    python bench/grpc_empty.py PORT
"""

import sys
from typing import Any

import grpc

from regulus.transport import event_loop
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import Code


class _Empty(grpc.GenericRpcHandler):
    def __init__(self) -> None:
        response = messages.SendMessageResponse(status=messages.Status(code=Code.OK, message="OK"))
        self._answer = bytes(response.SerializeToString())

    def service(self, details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._call)

    async def _call(self, data: bytes, context: Any) -> bytes:
        return self._answer


async def _serve(port: int) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Empty(),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    event_loop.run(_serve(int(sys.argv[1])))
