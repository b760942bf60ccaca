"""What a broker tells a name server so that it knows the topics, request by request.

A name server that was told before is asked for the version it has. When that is the one it was told, it gets what
changed since; else everything. Both travel a part at a time: a part brings the topics in it and takes none away, so it
stands for all of them only with the last version. A name server that drops the topics that a registration does not have
(`deleteTopicWithBrokerRegistration`) gets everything in one request instead, which is made a part at a time.

Source: BrokerController.registerIncrementBrokerData, RouteInfoManager.registerBroker.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from regulus.broker.state import BrokerState
from regulus.errors import BrokerRefused, HeaderError
from regulus.model.topics import DataVersion
from regulus.wire import config_text
from regulus.wire.bodies import encode_data_version
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import (
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from regulus.wire.remoting_command import RemotingCommand

TOPICS_PER_REQUEST = 50
"""So that neither end works on one request for more than a few ms."""

_DROPS_MISSING = "deleteTopicWithBrokerRegistration"

Talk = Generator[RemotingCommand | None, RemotingCommand | None, "Told"]
"""Yields requests, takes their answers. Yields None, and takes it, where it has made a part of a long request."""


@dataclass(frozen=True, slots=True)
class Told:
    """The state of the topics that a name server was told."""

    changes: int
    data_version: DataVersion
    master: RegisterBrokerResponse
    """What it said of the master of a slave: its address, and the one for slaves."""


def talk(broker: BrokerState, address: str, ha_address: str, told: Told | None) -> Talk:
    """Tell a name server what it does not know; `told` is what it was told over this connection.

    Raises BrokerRefused when it refuses.
    """
    if broker.config.is_slave:
        told = None     # only a whole registration is answered with the master's address
    if told is not None and not (yield from _knows(broker, address, told)):
        told = None
    changes, data_version = broker.topics.changes, broker.topics.data_version
    if told is not None and told.changes == changes:
        return told
    names = broker.topics.changed_since(told.changes) if told is not None else None
    parts = _parts(broker.topics.names() if names is None else sorted(names))
    if (told is not None or len(parts) > 1) and (yield from _drops_missing()):
        parts = [broker.topics.names()]
    master = RegisterBrokerResponse()
    for left, part in reversed(list(enumerate(reversed(parts)))):
        # Older than the version that counts, by its time, and unlike any other: a later one would have a later time.
        version = replace(data_version, timestamp=data_version.timestamp - left)
        answer = yield (yield from _register_request(broker, address, ha_address, part, version))
        assert answer is not None
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark)
        master = RegisterBrokerResponse.decode(answer)
    return Told(changes, data_version, master)


def _register_request(broker: BrokerState, address: str, ha_address: str, names: Sequence[str],
                      version: DataVersion) -> Generator[None, RemotingCommand | None, RemotingCommand]:
    config = broker.config
    header = RegisterBrokerRequest(broker_name=config.broker_name, broker_addr=address,
                                   cluster_name=config.broker_cluster_name, ha_server_addr=ha_address,
                                   broker_id=config.broker_id)
    topics: list[bytes] = []
    for part in _parts(names):
        if topics:
            yield None
        topics.append(broker.register_body(part, version).encode_topics())
    body = broker.register_body((), version).encode_with(topics)
    return RemotingCommand.request(RequestCode.REGISTER_BROKER, header.ext(), body)


def _knows(broker: BrokerState, address: str,
           told: Told) -> Generator[RemotingCommand, RemotingCommand | None, bool]:
    """Whether the name server has the version that it was told; the question alone keeps the registration alive."""
    config = broker.config
    header = QueryDataVersionRequest(broker_name=config.broker_name, broker_addr=address,
                                     cluster_name=config.broker_cluster_name, broker_id=config.broker_id)
    answer = yield RemotingCommand.request(RequestCode.QUERY_DATA_VERSION, header.ext(),
                                           encode_data_version(told.data_version))
    assert answer is not None
    if answer.code != ResponseCode.SUCCESS:
        return False
    try:
        return not QueryDataVersionResponse.decode(answer).changed
    except HeaderError:
        return False


def _drops_missing() -> Generator[RemotingCommand, RemotingCommand | None, bool]:
    answer = yield RemotingCommand.request(RequestCode.GET_NAMESRV_CONFIG)
    assert answer is not None
    if answer.code != ResponseCode.SUCCESS:
        return False
    return config_text.parse_lines(answer.body.decode("utf-8", "replace")).get(_DROPS_MISSING) == "true"


def _parts(names: Sequence[str]) -> list[Sequence[str]]:
    """One at least, for the version."""
    return [names[first:first + TOPICS_PER_REQUEST] for first in range(0, max(1, len(names)), TOPICS_PER_REQUEST)]
