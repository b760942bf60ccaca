"""What a name server is told, against one that answers as the tests want."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.state import BrokerState
from regulus.errors import BrokerRefused
from regulus.model.peer import Peer
from regulus.model.topics import TopicConfig
from regulus.nameserver import handlers
from regulus.nameserver.config import NamesrvConfig
from regulus.nameserver.state import NameServerState
from regulus.server.registration import TOPICS_PER_REQUEST, Told, talk
from regulus.testing.memory_store import MemoryStore
from regulus.wire.bodies import RegisterBrokerBody
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

ADDRESS, HA_ADDRESS = "10.0.0.1:10911", "10.0.0.1:10912"
REGISTER, VERSION, CONFIG = (int(code) for code in (
    RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION, RequestCode.GET_NAMESRV_CONFIG))

Answer = Callable[[RemotingCommand], RemotingCommand]


class Talks:
    """The requests that a broker made, and a name server of ours that answers unless a test answers itself."""

    def __init__(self, **settings: object) -> None:
        self.broker = BrokerState(BrokerConfig(), MemoryStore(), now_ms=1, seed=1)
        self.name_server = NameServerState(replace(NamesrvConfig(), **settings), 1)
        self.told: Told | None = None
        self.requests: list[RemotingCommand] = []
        self.pauses = 0

    def talk(self, answer: Answer | None = None) -> list[int]:
        """The codes of the requests."""
        self.requests.clear()
        talking = talk(self.broker, ADDRESS, HA_ADDRESS, self.told)
        self.told = None
        self.pauses = 0
        request = next(talking)
        while True:
            if request is not None:
                self.requests.append(request)
            self.pauses += request is None
            try:
                request = talking.send(None if request is None else (answer or self.answer)(request))
            except StopIteration as end:
                self.told = end.value
                return [each.code for each in self.requests]

    def answer(self, request: RemotingCommand) -> RemotingCommand:
        answer = handlers.handle(request, Peer(1, b"", b"", "broker", "10.0.0.9"), self.name_server, 1)
        assert answer is not None
        return answer

    def topics_sent(self) -> list[list[str]]:
        return [sorted(RegisterBrokerBody.decode(each.body).topic_config_serialize_wrapper.topic_config_table)
                for each in self.requests if each.code == REGISTER]

    def put(self, *names: str) -> None:
        for name in names:
            self.broker.topics.put(TopicConfig(topic_name=name), 2)

    @property
    def is_known(self) -> bool:
        """Whether the name server has each topic, and the version."""
        routes = self.name_server.routes
        version = routes.data_version(self.broker.config.broker_cluster_name, ADDRESS)
        return version == self.broker.topics.data_version and set(self.broker.topics.names()) <= set(routes.topics)


@pytest.fixture
def talks() -> Talks:
    return Talks()


def test_the_first_registration_brings_everything_in_one_request(talks: Talks) -> None:
    assert talks.talk() == [REGISTER]
    assert talks.topics_sent() == [sorted(talks.broker.topics.names())]
    assert talks.is_known


def test_an_idle_broker_only_asks(talks: Talks) -> None:
    talks.talk()
    assert talks.talk() == [VERSION]
    assert talks.talk() == [VERSION]
    assert talks.is_known


def test_what_changed_is_told_alone(talks: Talks) -> None:
    talks.talk()
    talks.put("A")
    assert talks.talk() == [VERSION, CONFIG, REGISTER]
    assert talks.topics_sent() == [["A"]]
    assert talks.is_known
    talks.put("B", "A")
    talks.broker.topics.delete("B", 3)
    talks.talk()
    assert talks.topics_sent() == [["A"]]
    assert talks.talk() == [VERSION]


def test_the_route_of_a_retry_topic_that_the_broker_deleted_goes(talks: Talks) -> None:
    """Nobody else knows its name. That of a topic stays until an operator deletes it there, too."""
    talks.put("%RETRY%G_T", "%RETRY%G_U", "%RETRY%G_V", "T")
    talks.talk()
    for name in ("%RETRY%G_T", "%RETRY%G_U", "T"):
        talks.broker.topics.delete(name, 3)
    talks.put("%RETRY%G_U")
    talks.talk()
    routes = talks.name_server.routes
    assert "%RETRY%G_T" not in routes.topics
    assert {"%RETRY%G_U", "%RETRY%G_V", "T"} <= routes.topics.keys()
    assert routes.happenings.take()["routes deleted"].names == [f"%RETRY%G_T on {talks.broker.config.broker_name}"]


def test_a_whole_registration_lists_the_deleted_retry_topics_too(talks: Talks) -> None:
    talks.put("%RETRY%G_T", *[f"T{number:04d}" for number in range(2 * TOPICS_PER_REQUEST)])
    talks.talk()
    talks.told = None
    talks.broker.topics.delete("%RETRY%G_T", 3)
    talks.talk()
    assert "%RETRY%G_T" not in talks.name_server.routes.topics
    listed = [RegisterBrokerBody.decode(each.body).regulus_gone_topics for each in talks.requests
              if each.code == REGISTER]
    assert listed == [None] * (len(listed) - 1) + [["%RETRY%G_T"]]


def test_a_slave_lists_no_deleted_topics(talks: Talks) -> None:
    """Its master does, and its registrations are whole ones each time."""
    talks.put("%RETRY%G_T")
    talks.broker.topics.delete("%RETRY%G_T", 3)
    talks.broker.config = replace(talks.broker.config, broker_role="SLAVE", broker_id=1,
                                  namesrv_addr="10.0.0.9:9876")
    talks.talk()
    assert [RegisterBrokerBody.decode(each.body).regulus_gone_topics for each in talks.requests
            if each.code == REGISTER] == [None]


def test_many_topics_travel_in_parts_of_which_the_last_has_the_version(talks: Talks) -> None:
    talks.put(*[f"T{number:04d}" for number in range(3 * TOPICS_PER_REQUEST)])
    refused = iter([False, False, True])

    def refusing(request: RemotingCommand) -> RemotingCommand:
        if request.code == REGISTER and next(refused):
            return request.response(ResponseCode.SYSTEM_ERROR, "not now")
        return talks.answer(request)

    with pytest.raises(BrokerRefused, match="not now"):
        talks.talk(refusing)
    assert not talks.is_known
    assert talks.talk() == [CONFIG, *[REGISTER] * 4]
    versions = [RegisterBrokerBody.decode(each.body).topic_config_serialize_wrapper.data_version
                for each in talks.requests[1:]]
    assert versions[-1] == talks.broker.topics.data_version
    assert len(set(versions)) == 4, "one that stores topics only with a new version takes each part"
    assert max(map(len, talks.topics_sent())) == TOPICS_PER_REQUEST
    assert talks.is_known
    assert talks.talk() == [VERSION]


@pytest.mark.parametrize("count", [1, 1500])
def test_a_name_server_that_does_not_have_what_it_was_told_gets_everything(talks: Talks, count: int) -> None:
    """It forgot, another broker took the address, or more changed than is remembered."""
    talks.talk()
    if count == 1:
        talks.name_server.routes.unregister(talks.broker.config.broker_cluster_name, talks.broker.config.broker_name,
                                            ADDRESS, 0)
    talks.put(*[f"T{number:04d}" for number in range(count)])
    talks.talk()
    assert sorted(chain.from_iterable(talks.topics_sent())) == sorted(talks.broker.topics.names())
    assert talks.is_known


@pytest.mark.parametrize("code", [ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.SUCCESS])
def test_a_name_server_that_does_not_know_the_question_gets_everything(talks: Talks, code: ResponseCode) -> None:
    """Whether it says so or gives an answer that says nothing."""
    talks.talk()

    def refusing(request: RemotingCommand) -> RemotingCommand:
        return talks.answer(request) if request.code == REGISTER else request.response(code)

    assert talks.talk(refusing) == [VERSION, REGISTER]
    assert talks.topics_sent() == [sorted(talks.broker.topics.names())]


def test_a_name_server_that_drops_what_is_missing_gets_everything_in_one_request() -> None:
    talks = Talks(delete_topic_with_broker_registration=True)
    talks.put(*[f"T{number:04d}" for number in range(TOPICS_PER_REQUEST)])
    assert talks.talk() == [CONFIG, REGISTER]
    assert talks.is_known
    talks.put("A")
    assert talks.talk() == [VERSION, CONFIG, REGISTER]
    assert talks.is_known
    talks.broker.topics.delete("A", 3)
    talks.talk()
    assert "A" not in talks.name_server.routes.topics


def test_a_request_for_everything_is_made_in_parts_and_says_the_same() -> None:
    talks = Talks(delete_topic_with_broker_registration=True)
    talks.put(*[f"T{number:04d}" for number in range(5 * TOPICS_PER_REQUEST)])
    assert talks.talk() == [CONFIG, REGISTER]
    assert talks.pauses == len(talks.broker.topics.names()) // TOPICS_PER_REQUEST > 4
    names, version = talks.broker.topics.names(), talks.broker.topics.data_version
    assert RegisterBrokerBody.decode(talks.requests[-1].body) == talks.broker.register_body(names, version)


def test_a_permission_of_the_broker_concerns_all_topics(talks: Talks) -> None:
    talks.talk()
    talks.broker.topics.put_all((), 2)
    talks.talk()
    assert talks.topics_sent() == [sorted(talks.broker.topics.names())]
