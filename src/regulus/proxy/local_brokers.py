"""The broker in the proxy's own process, which is called directly, without a socket."""

from regulus.access.credentials import parse_credentials, sign_as
from regulus.errors import CallRefused, ConnectionLost, RequestTimeout
from regulus.model.peer import Origin
from regulus.proxy.brokers import NAME_SERVER, OnRequest
from regulus.server.assembly import Regulus
from regulus.server.in_process import InProcessConnection
from regulus.wire.grpc.codes import Code
from regulus.wire.remoting_command import RemotingCommand


class LocalBrokers:
    """Asks the broker and the name server of `regulus`, which must be started before it and stopped after it."""

    def __init__(self, regulus: Regulus) -> None:
        self._regulus = regulus
        self._connection: InProcessConnection | None = None
        self.on_request: OnRequest | None = None

    async def start(self) -> None:
        config = self._regulus.broker_server.broker.config
        self._name = config.broker_name
        self._credentials = parse_credentials(config.inner_client_authentication_credentials)
        self._connection = self._regulus.broker_server.connect(self._hear)

    async def stop(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def ask(self, broker: str, command: RemotingCommand, timeout_ms: int,
                  origin: Origin | None = None) -> RemotingCommand:
        sign_as(command, self._credentials)
        if broker == NAME_SERVER:
            answer = self._regulus.name_server.ask(command)
            if answer is None:
                raise CallRefused(Code.INTERNAL_SERVER_ERROR, "the name server does not answer this request")
            return answer
        if broker != self._name or self._connection is None:
            raise CallRefused(Code.BAD_REQUEST, f"broker {broker[:80]!r} is not in this process")
        try:
            return await self._connection.ask(command, timeout_ms, origin)
        except RequestTimeout as error:
            raise CallRefused(Code.PROXY_TIMEOUT, str(error)) from error
        except ConnectionLost as error:
            raise CallRefused(Code.INTERNAL_SERVER_ERROR, str(error)) from error

    def withdraw(self, broker: str, command: RemotingCommand) -> None:
        if self._connection is not None:
            self._connection.withdraw(command)

    def is_ready(self) -> bool:
        return self._connection is not None and self._connection.is_open

    async def _hear(self, command: RemotingCommand) -> RemotingCommand | None:
        return None if self.on_request is None else await self.on_request(self._name, command)
