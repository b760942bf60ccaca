"""The state of a name server, and the notices for brokers."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from regulus.nameserver.config import NamesrvConfig
from regulus.nameserver.kv_config import KvConfig
from regulus.nameserver.route_table import MinBrokerIdChange, RouteTable
from regulus.wire.codes import RequestCode
from regulus.wire.headers import NotifyMinBrokerIdChangeRequest
from regulus.wire.remoting_command import RemotingCommand


class BrokerNotice(NamedTuple):
    """A one-way request that the server sends to the broker on `channel`."""

    channel: int
    command: RemotingCommand


class NameServerState:
    """The state of a name server. `steady_ms` is a time that never jumps; the server sets it before each call, and all
    durations here use it.

    `started_ms`: when the name server began; counts only with needWaitForService.
    """

    def __init__(self, config: NamesrvConfig, steady_ms: int = 0) -> None:
        self.config = config
        self.steady_ms = self.started_ms = steady_ms
        self.routes = RouteTable()
        self.kv_config = KvConfig()
        self.notices: deque[BrokerNotice] = deque()

    def tick(self, now_ms: int) -> int:
        """Drop brokers whose registration lapsed; returns the ms until the next call is due."""
        self.tell(self.routes.expire(self.steady_ms))
        return self.config.scan_not_active_broker_interval

    def channel_closed(self, channel: int, now_ms: int) -> None:
        """Drop the brokers that registered over this connection."""
        self.tell(self.routes.channel_closed(channel))

    def tell(self, changes: Iterable[MinBrokerIdChange | None]) -> None:
        """Queue notices about changed lowest broker ids, if the configuration wants them."""
        if self.config.notify_min_broker_id_changed:
            self.notices.extend(notice for change in changes if change is not None for notice in _notices(change))


def _notices(change: MinBrokerIdChange) -> Iterable[BrokerNotice]:
    header = NotifyMinBrokerIdChangeRequest(
        min_broker_id=change.min_broker_id, broker_name=change.broker_name, min_broker_addr=change.min_broker_addr,
        offline_broker_addr=change.offline_broker_addr, ha_broker_addr=change.ha_broker_addr)
    for channel in change.channels:
        yield BrokerNotice(channel, RemotingCommand.request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header.ext(),
                                                            oneway=True))
