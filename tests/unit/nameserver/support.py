"""Brokers that register, and a name server that is asked."""

import json
from typing import Any

from regulus.model.message_id import host_bytes
from regulus.model.peer import Peer
from regulus.model.topics import DataVersion, TopicConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.nameserver.handlers import handle
from regulus.nameserver.state import NameServerState
from regulus.wire.bodies import RegisterBrokerBody, TopicConfigSerializeWrapper
from regulus.wire.codes import RequestCode
from regulus.wire.headers import RegisterBrokerRequest
from regulus.wire.remoting_command import RemotingCommand

CLUSTER = "DefaultCluster"
TOPICS = {name: TopicConfig(topic_name=name) for name in ("TopicA", "TopicB")}


TIME_OF_DAY_MS = 1_700_000_000_000


def peer(channel: int = 1, local_address: str = "192.0.2.7") -> Peer:
    return Peer(channel, host_bytes("192.0.2.9", 40_000), host_bytes(local_address, 9876), "192.0.2.9:40000",
                local_address)


class NameServerUnderTest:
    """`steady_ms` is all the time that a name server goes by."""

    def __init__(self, **config: Any) -> None:
        self.state = NameServerState(NamesrvConfig(**config))
        self.steady_ms = self.state.steady_ms = 1_000_000

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", *, asker: Peer | None = None,
            version: int = 479, oneway: bool = False) -> RemotingCommand:
        request = RemotingCommand.request(code, ext, body, oneway=oneway)
        request.version = version
        self.state.steady_ms = self.steady_ms
        response = handle(request, asker or peer(), self.state, TIME_OF_DAY_MS)
        assert response is not None
        return response

    def tick(self) -> int:
        self.state.steady_ms = self.steady_ms
        return self.state.tick(TIME_OF_DAY_MS)

    def ask_json(self, code: int, ext: dict[str, str] | None = None, **more: Any) -> Any:
        """The parsed body, which must be strict JSON."""
        response = self.ask(code, ext, **more)
        assert response.code == 0, response.remark
        return json.loads(response.body)

    def register(self, broker_name: str = "broker-a", broker_id: int = 0, address: str = "10.0.0.1:10911",
                 topics: dict[str, TopicConfig] | None = None, counter: int = 1, state_version: int = 0,
                 channel: int = 1, cluster: str = CLUSTER, body: bytes | None = None, version: int = 479,
                 **more: Any) -> RemotingCommand:
        header = RegisterBrokerRequest(broker_name=broker_name, broker_addr=address, cluster_name=cluster,
                                       ha_server_addr=f"{address.rsplit(':', 1)[0]}:10912", broker_id=broker_id, **more)
        if body is None:
            wrapper = TopicConfigSerializeWrapper(
                topic_config_table=TOPICS if topics is None else topics,
                data_version=DataVersion(counter=counter, state_version=state_version, timestamp=5))
            body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode()
        return self.ask(RequestCode.REGISTER_BROKER, header.ext(), body, asker=peer(channel), version=version)

    def topics(self) -> list[str]:
        found = self.ask_json(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)["topicList"]
        return sorted(found)

    def route(self, topic: str, **more: Any) -> Any:
        return self.ask_json(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, **more)
