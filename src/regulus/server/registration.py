"""Registers a broker's topics with a name server, request by request.

A name server that has a registration is asked for its version. When that is the version that was sent to it, it gets
what changed since; otherwise everything. Both are sent a part at a time: a part adds the topics in it and removes none,
so only the last part carries the version that confirms all of them. A name server that drops the topics that a
registration lacks (`deleteTopicWithBrokerRegistration`) gets everything in one request instead, which is made a part at
a time.

A broker deletes retry topics itself, with the group or topic whose messages they had. No operator knows their names, so
the last request lists them (`regulusGoneTopics`), and a name server of ours drops their routes; one of RocketMQ keeps
them until the broker's connection closes. A whole registration lists those that the broker remembers,
`topic_epochs.DELETED_MAX`; routes of others stay until the connection closes.

Source: BrokerController.registerIncrementBrokerData, RouteInfoManager.registerBroker.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from regulus.broker.state import BrokerState
from regulus.errors import BrokerRefused, HeaderError
from regulus.model.topics import DataVersion, is_retry_topic
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
"""The number of topics in a request, chosen so that neither end works on one request for more than a few ms."""

_DROPS_MISSING = "deleteTopicWithBrokerRegistration"

Talk = Generator[RemotingCommand | None, RemotingCommand | None, "Told"]
"""Yields requests and is sent their answers. Yields None, and is sent None, after making a part of a long request."""


@dataclass(frozen=True, slots=True)
class Told:
    """The state of the topics that was sent to a name server."""

    changes: int
    data_version: DataVersion
    master: RegisterBrokerResponse
    """Its answer about the master of a slave: the master's address, and the one for slaves."""


def talk(broker: BrokerState, address: str, ha_address: str, told: Told | None) -> Talk:
    """Send a name server what it does not know; `told` is what was sent to it over this connection.

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
    deleted = broker.topics.epochs.deleted_names() if names is None else sorted(names)
    parts = _parts(broker.topics.names() if names is None else sorted(names))
    if (told is not None or len(parts) > 1) and (yield from _drops_missing()):
        parts = [broker.topics.names()]
    master = RegisterBrokerResponse()
    for left, part in reversed(list(enumerate(reversed(parts)))):
        # By its time it is older than the version that counts, and it equals no other: a later one would have a later
        # time.
        version = replace(data_version, timestamp=data_version.timestamp - left)
        answer = yield (yield from _register_request(broker, address, ha_address, part, version,
                                               deleted if not left else ()))
        assert answer is not None
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark)
        master = RegisterBrokerResponse.decode(answer)
    return Told(changes, data_version, master)


def _register_request(broker: BrokerState, address: str, ha_address: str, names: Sequence[str],
                      version: DataVersion,
                      deleted: Sequence[str]) -> Generator[None, RemotingCommand | None, RemotingCommand]:
    config = broker.config
    header = RegisterBrokerRequest(broker_name=config.broker_name, broker_addr=address,
                                   cluster_name=config.broker_cluster_name, ha_server_addr=ha_address,
                                   broker_id=config.broker_id)
    topics: list[bytes] = []
    for part in _parts(names):
        if topics:
            yield None
        topics.append(broker.register_body(part, version).encode_topics())
    gone = [] if config.is_slave else [name for name in deleted if is_retry_topic(name) and name not in broker.topics]
    body = broker.register_body((), version, gone or None).encode_with(topics)
    return RemotingCommand.request(RequestCode.REGISTER_BROKER, header.ext(), body)


def _knows(broker: BrokerState, address: str,
           told: Told) -> Generator[RemotingCommand, RemotingCommand | None, bool]:
    """Whether the name server has the version that was sent to it; the request alone keeps the registration alive."""
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
    """The parts; at least one, for the version."""
    return [names[first:first + TOPICS_PER_REQUEST] for first in range(0, max(1, len(names)), TOPICS_PER_REQUEST)]
