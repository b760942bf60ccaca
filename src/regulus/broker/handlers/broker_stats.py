"""VIEW_BROKER_STATS_DATA: one counted thing over a minute, an hour and a day."""

from regulus.broker.handlers.answer import succeed
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.broker.statistics import StatisticsSnapshot
from regulus.model.peer import Peer
from regulus.wire.bodies import BrokerStatsData, BrokerStatsItem
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import ViewBrokerStatsDataRequest
from regulus.wire.remoting_command import RemotingCommand


def handle_view_broker_stats_data(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = ViewBrokerStatsDataRequest.decode(request)
    item = broker.statistics.item(header.stats_name, header.stats_key)
    if item is None:
        return refuse(request, ResponseCode.SYSTEM_ERROR,
                      f"The stats <{header.stats_name}> <{header.stats_key}> not exist")
    body = BrokerStatsData(stats_minute=_item(item.minute()), stats_hour=_item(item.hour()),
                           stats_day=_item(item.day()))
    return succeed(request, body.encode())


def _item(snapshot: StatisticsSnapshot) -> BrokerStatsItem:
    return BrokerStatsItem(sum=snapshot.sum, tps=snapshot.tps, avgpt=snapshot.avgpt)
