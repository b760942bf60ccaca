"""Topics for operators.

UPDATE_AND_CREATE_TOPIC, UPDATE_AND_CREATE_TOPIC_LIST, DELETE_TOPIC_IN_BROKER, GET_ALL_TOPIC_CONFIG, GET_TOPIC_CONFIG,
GET_SYSTEM_TOPIC_LIST_FROM_BROKER, CLEAN_UNUSED_TOPIC.
"""

from dataclasses import replace

from regulus.broker.attributes import TOPIC_ATTRIBUTES, altered, parse_changes
from regulus.broker.handlers.answer import succeed
from regulus.broker.handlers.named_body import decode_listed
from regulus.broker.handlers.stepped import MEMBERS_A_STEP, document_in_steps
from regulus.broker.long_answers import SETTINGS_LINE, Steps
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.model import receipt_handle
from regulus.model.peer import Peer
from regulus.model.topics import QUEUE_NUMS_MAX, RETRY_PREFIX, SYSTEM_TOPICS, TopicConfig, name_fault
from regulus.wire.bodies import CreateTopicListRequestBody, TopicList, encode_topic_config
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import (
    DeleteTopicInBrokerRequest,
    GetTopicConfigRequest,
    UpdateAndCreateTopicRequest,
)
from regulus.wire.remoting_command import RemotingCommand

TOPIC_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


def handle_update_and_create_topic(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """An identical configuration changes nothing, and is not registered again."""
    header = UpdateAndCreateTopicRequest.decode(request)
    return broker.long_answers.begin(request, peer, _put(request, header, broker, now_ms), line=SETTINGS_LINE)


def _put(request: RemotingCommand, header: UpdateAndCreateTopicRequest, broker: BrokerState, now_ms: int) -> Steps:
    yield from ()       # one step, after the earlier requests of its line
    current = broker.topics.get(header.topic)
    config = TopicConfig(
        topic_name=header.topic, read_queue_nums=header.read_queue_nums, write_queue_nums=header.write_queue_nums,
        perm=header.perm, topic_filter_type=header.topic_filter_type, topic_sys_flag=header.topic_sys_flag or 0,
        order=header.order,
        attributes=altered(TOPIC_ATTRIBUTES, current.attributes if current else None,
                           parse_changes(header.attributes or "")))
    fault = _fault(config, broker)
    if fault is not None:
        return request.response(ResponseCode.INVALID_PARAMETER, fault)
    if config != current:
        broker.topics.put(config, now_ms)
    broker.settings.use_all()
    return request.response(ResponseCode.SUCCESS)


def handle_update_and_create_topic_list(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                        now_ms: int) -> Outcome:
    """Sets all topics or none: one invalid topic refuses the list. Each step sets some of them, to the end of the
    list."""
    return broker.long_answers.begin(request, peer, _created(request, peer, broker, now_ms), is_deed=True,
                                     line=SETTINGS_LINE)


def _created(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Steps:
    """Set all topics or none. Other requests that set topics wait in the same line. A topic that a send creates in the
    meantime gets the list's settings."""
    listed = (yield from decode_listed(CreateTopicListRequestBody, request, peer, broker)).topic_config_list
    configs = []
    for given in listed:
        config = _with_altered_attributes(given, broker)
        fault = _fault(config, broker)
        if fault is not None:
            return request.response(ResponseCode.INVALID_PARAMETER, fault)
        configs.append(config)
        if len(configs) % MEMBERS_A_STEP == 0:
            yield
    for first in range(0, len(configs), MEMBERS_A_STEP):
        changed = [config for config in configs[first:first + MEMBERS_A_STEP]
                   if config != broker.topics.get(config.topic_name)]
        if changed:
            broker.topics.put_all(changed, now_ms)
        if first + MEMBERS_A_STEP < len(configs):
            yield
    broker.settings.use_all()
    return request.response(ResponseCode.SUCCESS)


def handle_delete_topic_in_broker(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Delete the topic's queues and offsets; its records stay in the log until retention deletes them. Deleting an
    unknown topic succeeds."""
    topic = DeleteTopicInBrokerRequest.decode(request).topic
    if not topic or topic.isspace():
        return refuse(request, ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    if broker.topics.is_system(topic):
        return refuse(request, ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic.")
    fault = name_fault(topic)
    if fault is not None and topic not in broker.topics:
        return refuse(request, ResponseCode.INVALID_PARAMETER, fault)
    return broker.long_answers.begin(request, peer, _deleted(request, topic, broker, now_ms), is_deed=True,
                                     line=SETTINGS_LINE)


def _deleted(request: RemotingCommand, topic: str, broker: BrokerState, now_ms: int) -> Steps:
    """Delete the topic in one step, and then its retry topics. If a send creates the topic again in the meantime, the
    new one keeps its retry topics."""
    groups = broker.consumer_offsets.groups_of(topic)
    delete_topic(broker, topic, now_ms)
    for number, group in enumerate(groups, 1):
        for retry in (receipt_handle.retry_topic_v1(topic, group), receipt_handle.retry_topic_v2(topic, group)):
            if retry in broker.topics or broker.store.queue_ids(retry):
                yield       # deleting files takes time
                if topic not in broker.topics and not is_retry_of_others(broker, retry, group):
                    delete_topic(broker, retry, now_ms)
        if number % MEMBERS_A_STEP == 0:
            yield
    broker.settings.use_all()
    return request.response(ResponseCode.SUCCESS)


def handle_get_all_topic_config(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """All topics in one page. RocketMQ's clients that ask for pages stop when the answer has no total."""
    def steps() -> Steps:
        body = yield from document_in_steps((broker.topics.encoded,), broker.topics.document)
        return request.response(ResponseCode.SUCCESS, body=body)
    return broker.long_answers.begin(request, peer, steps())


def handle_get_topic_config(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    topic = GetTopicConfigRequest.decode(request).topic
    config = broker.topics.get(topic)
    if config is None:
        return refuse(request, ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic}")
    return succeed(request, body=encode_topic_config(config))


def handle_get_system_topic_list_from_broker(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                             now_ms: int) -> Outcome:
    return succeed(request, body=TopicList(topic_list=sorted(broker.topics.system | SYSTEM_TOPICS)).encode())


def handle_clean_unused_topic(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Delete the queues of topics that no longer have a configuration."""
    return broker.long_answers.begin(request, peer, _cleaned(request, broker), is_deed=True)


def _cleaned(request: RemotingCommand, broker: BrokerState) -> Steps:
    """Delete one topic in each step, because deleting files takes time. A topic that is created in the meantime is
    kept."""
    unused = {topic for topic, _ in broker.store.queues() if topic not in broker.topics}
    for topic in [topic for topic in unused if not broker.topics.is_system(topic)]:
        yield
        if topic not in broker.topics:
            broker.store.delete_topic(topic)
    return request.response(ResponseCode.SUCCESS)


def is_retry_of_others(broker: BrokerState, retry: str, group: str) -> bool:
    """Whether a retry topic for the group's pops may also be that of another group. `%RETRY%a_b_c` can be of group a
    and topic b_c, of group a_b and topic c, and of the push group a_b_c."""
    return (retry.removeprefix(RETRY_PREFIX) in broker.subscription_groups
            or any(other != group for other in broker.consumer_offsets.groups_of(retry)))


def delete_topic(broker: BrokerState, topic: str, now_ms: int) -> None:
    """Delete a topic with everything that would affect a new topic of the same name."""
    facts = broker.topics.facts.get(topic)
    if broker.topics.delete(topic, now_ms) and facts is not None:
        broker.statistics.topic_deleted(topic, facts.put_nums, facts.put_size)
    queues = broker.store.queue_ids(topic)
    broker.sink_marks.forget_topic(topic)       # looks at all marks, at most sinkMarksMax
    broker.store.delete_topic(topic)
    for queue_id in queues:
        # A request that waits there for the next offset would skip the first messages of a new topic of the same name.
        broker.queue_changed(topic, queue_id)
    broker.forget_topic(topic)
    broker.timers.counts.remove_topic(topic, now_ms)
    broker.statistics.drop_pairs_of_topic(topic)


def _with_altered_attributes(config: TopicConfig, broker: BrokerState) -> TopicConfig:
    current = broker.topics.get(config.topic_name)
    signed = {key if key[:1] in "+-" else f"+{key}": value for key, value in config.attributes.items()}
    return replace(config, attributes=altered(TOPIC_ATTRIBUTES, current.attributes if current else None, signed))


def _fault(config: TopicConfig, broker: BrokerState) -> str | None:
    """What is wrong with a topic that an operator wants to set; None when it is valid."""
    name = config.topic_name
    fault = name_fault(name)
    if fault is not None:
        return fault
    if broker.topics.is_system(name):
        return f"The topic[{name}] is conflict with system topic."
    for key, count in (("readQueueNums", config.read_queue_nums), ("writeQueueNums", config.write_queue_nums)):
        if not 0 <= count <= QUEUE_NUMS_MAX:
            return f"{key} is {count}: it must be between 0 and {QUEUE_NUMS_MAX}."
    if not 0 <= config.perm <= 15:
        return f"perm is {config.perm}: it is the sum of 8 (priority), 4 (read), 2 (write) and 1 (inherit)."
    if config.topic_filter_type not in TOPIC_FILTER_TYPES:
        return f"topicFilterType is {config.topic_filter_type}: it must be {' or '.join(TOPIC_FILTER_TYPES)}."
    return None
