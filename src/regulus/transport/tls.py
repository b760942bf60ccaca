"""The only module that makes TLS contexts, and that adds TLS to an existing connection.

A port accepts plain text and TLS at once: the first byte of a client shows which (`connection`), because a TLS
handshake begins with 0x16 and no frame does. A server's certificate is read again when its files change; existing
connections stay.

Unlike RocketMQ's, a client with TLS verifies the server unless it is configured not to, and the name in the
certificate, too.

Source: TlsSystemConfig, TlsHelper, TlsMode, NettyRemotingServer.HandshakeHandler.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import cast

from regulus.errors import ConfigError
from regulus.model.happenings import FirstNames
from regulus.wire.config_text import config_key

_log = logging.getLogger(__name__)

HANDSHAKE_S_MAX = 10.0
"""The longest time of a handshake from its first byte on; a slower client is closed."""
SHUTDOWN_S_MAX = 2.0
"""How long the end of a connection waits for the peer's end."""
LOOK_S = 5.0
"""The time between two checks of the files of a server's certificate."""
TOLD_S = 10.0
"""The time between two log lines about connections closed because they used TLS, or did not: a scanner makes any number
of them."""


class TlsMode(StrEnum):
    """Source: TlsMode."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientAuth(StrEnum):
    """Whether a server asks its clients for certificates. Source: TlsHelper.parseClientAuthMode."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """RocketMQ's keys with underscores for their dots. Files are PEM."""

    # As a server
    tls_server_mode: TlsMode = TlsMode.PERMISSIVE
    """`permissive`: ports accept TLS and plain text. `enforcing`: TLS only. `disabled`: plain text only."""
    tls_test_mode_enable: bool = False
    """Whether a start makes up a certificate if none is set. Only clients that check no certificate accept it."""
    tls_server_cert_path: str = ""
    """Certificate chain of this server. A changed file is read again while the server runs."""
    tls_server_key_path: str = ""
    """Private key of that certificate."""
    tls_server_key_password: str = field(default="", repr=False)
    """Password of that key. Empty: the key has none."""
    tls_server_trust_cert_path: str = ""
    """Authorities whose client certificates count."""
    tls_server_need_client_auth: ClientAuth = ClientAuth.NONE
    """`require`: clients must show a certificate. `optional`: one that is shown must be valid. `none`: none is asked
    for."""
    tls_server_auth_client: bool = False
    """The older name of `tls_server_need_client_auth` `require`."""

    # As a client
    tls_enable: bool = False
    """Whether connections that are made from here use TLS."""
    tls_client_cert_path: str = ""
    """Certificate chain that is shown to servers that ask for one."""
    tls_client_key_path: str = ""
    """Private key of that certificate."""
    tls_client_key_password: str = field(default="", repr=False)
    """Password of that key. Empty: the key has none."""
    tls_client_trust_cert_path: str = ""
    """Authorities whose server certificates count. Empty: those of the system."""
    tls_client_auth_server: bool = True
    """Off: any server is believed, so that anybody on the way can read and change everything."""
    tls_client_check_host: bool = True
    """Off: a trusted certificate counts for any address, not only for those that it names."""

    # Replication
    tls_ha_enable: bool = False
    """Whether the link from master to slave uses TLS. Set it at both ends, or the slave gets nothing."""

    def __post_init__(self) -> None:
        for cert, key in (("tls_server_cert_path", "tls_server_key_path"),
                          ("tls_client_cert_path", "tls_client_key_path")):
            if bool(getattr(self, cert)) != bool(getattr(self, key)):
                raise ConfigError(f"{config_key(cert)} and {config_key(key)} belong together: set both or none")
        asks = self.client_auth is not ClientAuth.NONE
        if asks and not self.tls_server_trust_cert_path:
            raise ConfigError("clients are asked for certificates, and tls.server.trustCertPath, which says whose "
                              "count, is not set")
        if (asks or self.tls_server_mode is TlsMode.ENFORCING or self.tls_ha_enable) and not self.has_certificate:
            raise ConfigError("TLS is asked for, and this server has no certificate: set tls.server.certPath and "
                              "tls.server.keyPath, or tls.test.mode.enable=true for one that is made up")
        if self.tls_ha_enable and self.tls_server_mode is TlsMode.DISABLED:
            raise ConfigError("tls.ha.enable asks for TLS, and tls.server.mode is disabled: change one of them")

    @property
    def client_auth(self) -> ClientAuth:
        return ClientAuth.REQUIRE if self.tls_server_auth_client else self.tls_server_need_client_auth

    @property
    def has_certificate(self) -> bool:
        """Whether a server has one that is set or made up."""
        return bool(self.tls_server_cert_path) or self.tls_test_mode_enable


PLAIN = TlsConfig()


def client_context(config: TlsConfig) -> ssl.SSLContext:
    """The context for connections made from here. Raises ConfigError that names the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_limits(context)
    if not config.tls_client_auth_server:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.check_hostname = config.tls_client_check_host
        if config.tls_client_trust_cert_path:
            _load_trusted(context, config.tls_client_trust_cert_path, "tls_client_trust_cert_path")
        else:
            context.load_default_certs()
    if config.tls_client_cert_path:
        _load_pair(context, config.tls_client_cert_path, config.tls_client_key_path, config.tls_client_key_password,
                   "tls_client_cert_path")
    return context


class ServerTls:
    """The TLS of a port: `context` for clients that begin a handshake, None if it accepts none. It also logs which
    clients it closed. Raises ConfigError that names the file."""

    def __init__(self, config: TlsConfig) -> None:
        self.is_enforced = config.tls_server_mode is TlsMode.ENFORCING
        self.context: ssl.SSLContext | None = None
        self._config = config
        self._timer: asyncio.TimerHandle | None = None
        self._told = ""
        self._refused = FirstNames()
        self._telling: asyncio.TimerHandle | None = None        # while some were logged less than TOLD_S ago
        if config.tls_server_mode is TlsMode.DISABLED:
            self.missing = "tls.server.mode is disabled here"
            return
        self.missing = "this server has no certificate: set tls.server.certPath and tls.server.keyPath"
        if config.has_certificate:
            self._seen = self._stamps()
            self.context = self._load()

    def start(self) -> None:
        """From now on, read the files again when they change."""
        if self.context is not None and self._config.tls_server_cert_path:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look_again)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._telling is not None:
            self._telling.cancel()
            self._tell()

    def refused(self, peer: str, cause: str) -> None:
        """Log that a connection is closed for that cause. The first is logged at once, of later ones a few and their
        number."""
        self._refused.add(f"{peer}: {cause}")
        if self._telling is None:
            self._tell_now_and_then()

    def _tell_now_and_then(self) -> None:
        self._telling = asyncio.get_running_loop().call_later(TOLD_S, self._tell_now_and_then) if self._tell() else None

    def _tell(self) -> bool:
        """Log what was collected; returns whether there was anything."""
        refused, self._refused = self._refused, FirstNames()
        if refused.count:
            _log.warning("connections closed: %s", refused)
        return refused.count > 0

    def look(self) -> None:
        """If the files changed, use their new content. A fault in them is logged, and the old certificate stays in
        use."""
        stamps = self._stamps()
        if stamps == self._seen:
            return
        try:
            self.context = self._load()
        except ConfigError as error:
            # Perhaps one of them is still being written: the next check tries again.
            if str(error) != self._told:
                _log.warning("the certificate changed and cannot be used, and the old one stays: %s", error)
            self._told = str(error)
            return
        self._seen, self._told = stamps, ""
        _log.info("the certificate %s was read again", self._config.tls_server_cert_path)

    def _look_again(self) -> None:
        self.look()
        self.start()

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        config = self._config
        return [_stamp(path) for path in (config.tls_server_cert_path, config.tls_server_key_path,
                                          config.tls_server_trust_cert_path) if path]

    def _load(self) -> ssl.SSLContext:
        config = self._config
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _set_limits(context)
        if config.tls_server_cert_path:
            _load_pair(context, config.tls_server_cert_path, config.tls_server_key_path,
                       config.tls_server_key_password, "tls_server_cert_path")
        else:
            _load_made_up(context)
        if config.client_auth is not ClientAuth.NONE:
            _load_trusted(context, config.tls_server_trust_cert_path, "tls_server_trust_cert_path")
            context.verify_mode = (ssl.CERT_REQUIRED if config.client_auth is ClientAuth.REQUIRE
                                   else ssl.CERT_OPTIONAL)
        return context


class _EarlyData(asyncio.Protocol):
    """Takes bytes that arrive right after a handshake, at most one read, before its owner can answer in TLS."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_lost = False
        self.owner: asyncio.BaseProtocol | None = None

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self.owner is not None:      # the loop had begun to report it before there was an owner
            self.owner.connection_lost(exc)


async def take_over(transport: asyncio.Transport, protocol: asyncio.BaseProtocol, context: ssl.SSLContext,
                    received: bytes | bytearray, on_encrypted: Callable[[asyncio.Transport], None]) -> None:
    """Continue as the server of a TLS connection, of which `received` was already read.

    Its reading is paused, or its protocol adds to `received` what still arrives until TLS has taken its place.

    `on_encrypted` gets the transport that `protocol` writes to from then on, before the protocol gets any more data.
    Raises OSError, including ssl.SSLError, when the handshake fails: then the protocol's `connection_lost` is not
    called.
    """
    loop, early, before = asyncio.get_running_loop(), _EarlyData(), transport.get_protocol()
    shaking_hands = loop.create_task(loop.start_tls(
        transport, early, context, server_side=True, ssl_handshake_timeout=HANDSHAKE_S_MAX,
        ssl_shutdown_timeout=SHUTDOWN_S_MAX))
    # In the first turn the loop inserts its layer, in the second that layer begins, and only then anything is read.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if transport.is_closing():      # otherwise asyncio's own loop would wait forever, and uvloop's raises RuntimeError
        shaking_hands.cancel()
        await asyncio.gather(shaking_hands, return_exceptions=True)
        raise ConnectionError("the connection was closed before its handshake")
    layer = transport.get_protocol()
    if layer is not before:     # else the connection was lost before
        _feed(layer, bytes(received))
    try:
        encrypted = await shaking_hands
    except RuntimeError as error:       # of a transport that was closed before the first turn
        raise ConnectionError(str(error)) from error
    # If we closed it in the middle, the loop reports success without an agreed protocol.
    if encrypted is None or encrypted.get_extra_info("cipher") is None or early.is_lost:
        raise ConnectionError("the connection was closed during the handshake")
    early.owner = protocol
    on_encrypted(encrypted)
    encrypted.set_protocol(protocol)
    _feed(protocol, bytes(early.data))


def handshake_failure(error: OSError) -> str:
    """Why a handshake failed. A peer that closes during one gives no reason, as many clients do that do not trust a
    certificate."""
    return str(error) or "the client closed it; perhaps it does not believe the certificate"


class TlsDoor(asyncio.Protocol):
    """The protocol of a port for TLS alone: once the connection is encrypted, `behind` becomes its protocol."""

    def __init__(self, tls: ServerTls, behind: asyncio.Protocol, is_welcome: Callable[[str], bool],
                 on_ended: Callable[["TlsDoor"], None]) -> None:
        """`tls` has a context. `is_welcome` is called with the peer's address before the handshake costs anything.
        `on_ended` is called when the handshake is over, successful or not."""
        self._tls = tls
        self._behind = behind
        self._is_welcome = is_welcome
        self._on_ended = on_ended
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        # A few reads at most: uvloop begins to read right after `connection_made`, even if that paused reading.
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)       # uvloop's does not have this type
        host = str((transport.get_extra_info("peername") or ("",))[0])
        if not self._is_welcome(host):
            self._tls.refused(host, "its address may not enter here")
            self._transport.abort()
            self._on_ended(self)
            return
        self._task = asyncio.get_running_loop().create_task(self._open(self._transport))

    def data_received(self, data: bytes) -> None:
        self._received += data

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _open(self, transport: asyncio.Transport) -> None:
        peer, context = transport.get_extra_info("peername"), self._tls.context
        assert context is not None
        try:
            await take_over(transport, self._behind, context, self._received, self._behind.connection_made)
        except OSError as error:
            self._tls.refused(str(peer), f"its TLS handshake failed: {handshake_failure(error)}")
            transport.abort()
        finally:
            self._on_ended(self)


def _feed(protocol: asyncio.BaseProtocol, data: bytes) -> None:
    if isinstance(protocol, asyncio.Protocol):
        if data:
            protocol.data_received(data)
        return
    buffered = cast(asyncio.BufferedProtocol, protocol)     # uvloop's layer does not have this type
    rest = memoryview(data)
    while rest:
        room = cast(memoryview, buffered.get_buffer(len(rest)))
        size = min(len(room), len(rest))
        room[:size] = rest[:size]
        buffered.buffer_updated(size)
        rest = rest[size:]


def _set_limits(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION


def _load_pair(context: ssl.SSLContext, cert: str, key: str, password: str, name: str) -> None:
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(cert, key, lambda: password)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{config_key(name)}: {cert} and {key} are not a certificate and its key in PEM that can be "
                          f"read with the password that is set: {_reason(error)}") from error


def _load_trusted(context: ssl.SSLContext, path: str, name: str) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{config_key(name)}: {path} has no certificates in PEM: {_reason(error)}") from error


def _load_made_up(context: ssl.SSLContext) -> None:
    try:
        from regulus.transport.made_up_certificate import load_made_up
    except ImportError as error:
        raise ConfigError("tls.test.mode.enable makes up a certificate with the package cryptography, which is not "
                          "here: pip install cryptography") from error
    load_made_up(context)


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
