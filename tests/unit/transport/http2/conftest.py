"""A server of the methods of `peers`, on both event loops."""

from collections.abc import AsyncIterator

import pytest

from regulus.transport.http2.grpc_server import GrpcServer
from tests.unit.transport.http2.peers import Methods, served


@pytest.fixture
async def methods() -> Methods:
    return Methods()


@pytest.fixture
async def server(methods: Methods) -> AsyncIterator[GrpcServer]:
    async with served(methods) as server:
        yield server
