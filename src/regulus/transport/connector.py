"""Opens connections to servers."""

import asyncio
import re
import socket
import ssl

from regulus.errors import ConnectFailed, ConnectRefused, HostUnknown
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection, OnConnection, OnRequests
from regulus.transport.read_buffer import ReadBuffer
from regulus.transport.tls import client_context
from regulus.wire.remoting_command import RemotingCommand

CONNECT_TIMEOUT_MS = 3_000
_DEFAULT_CONFIG = TransportConfig()
_PORT = re.compile("[0-9]{1,5}")
_DOUBT = "does that port speak TLS, and want a certificate of its clients?"


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`. Raises ValueError that names the address."""
    host, separator, port = address.strip().rpartition(":")
    if not separator or not _PORT.fullmatch(port) or not 0 < int(port) < 65536 or not _can_be_host(host):
        raise ValueError(f"{address!r} is not an address; write host:port, an IPv6 host in brackets")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _can_be_host(host: str) -> bool:
    """Whether a resolver may be asked for it: a host that cannot even be encoded is not a failed connection."""
    try:
        return bool(host.encode("idna")) and "\0" not in host
    except UnicodeError:
        return False


def ignore_requests(connection: Connection, requests: list[RemotingCommand]) -> None:
    """The handler for connections whose peer sends no requests."""


def ignore_connection(connection: Connection) -> None:
    """For owners that need no notice of opening or closing."""


async def connect(host: str, port: int, on_requests: OnRequests = ignore_requests,
                  on_opened: OnConnection = ignore_connection, on_closed: OnConnection = ignore_connection,
                  config: TransportConfig = _DEFAULT_CONFIG, timeout_ms: int = CONNECT_TIMEOUT_MS,
                  tls: ssl.SSLContext | None = None) -> Connection:
    """Open a connection. `tls` is a context shared by many connections; without one it is made from `config`.

    Raises ConnectFailed that names the address and the cause; ConnectRefused when that is known at once, HostUnknown
    when there is no such host; ConfigError when the files of `config` cannot be used.
    """
    loop = asyncio.get_running_loop()
    context = tls or (client_context(config) if config.tls_enable else None)

    def make_connection() -> Connection:
        return Connection(on_requests, on_opened, on_closed, config, loop, ReadBuffer(), reads_always=True)

    try:
        async with asyncio.timeout(timeout_ms / 1000):
            _, connection = await loop.create_connection(make_connection, host, port, ssl=context)
    except TimeoutError:
        raise ConnectFailed(f"no connection to {host}:{port} within {timeout_ms} ms") from None
    except ssl.SSLError as error:
        raise ConnectFailed(f"no TLS with {host}:{port}: {_tls_fault(error)}") from error
    except ConnectionError as error:
        # Without a text: the peer existed, and closed during the handshake.
        cause = error.strerror or str(error)
        raise ConnectRefused(f"no connection to {host}:{port}: {cause}" if cause else
                             f"no TLS with {host}:{port}: it closed the connection; {_DOUBT}") from error
    except OSError as error:
        is_unknown = isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME
        refusal = HostUnknown if is_unknown else ConnectRefused
        raise refusal(f"no connection to {host}:{port}: {error.strerror or error}") from error
    return connection


def _tls_fault(error: ssl.SSLError) -> str:
    """What went wrong, and the remedy."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (f"its certificate is not believed ({error.verify_message}); tls.client.trustCertPath says whose are, "
                "and tls.client.checkHost=false passes over the address in it")
    return f"{error.reason or error}; {_DOUBT}"
