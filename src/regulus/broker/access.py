"""Permissions for requests that name topics and groups in their body, or in more than fields of their header.

The rows of the request table name these functions. A function takes what the handler takes: the decoded header, or the
request if the body has the names. A request without a row is denied.

RocketMQ 4.9 knows the permissions for ten requests, and accepts any other request with a correct signature: a batch, a
reply, the end of a transaction, an offset. Here each request names its topics and groups. The actions are those of
RocketMQ 5.3.3. `listed_needs` has the permissions for requests that can name thousands of things.

Source: PlainAccessValidator.parse, DefaultAuthorizationContextBuilder.build, the RocketMQAction of each request header.
"""

from regulus.access.decision import ANY_NAME, Need
from regulus.access.needs import GET, PUB, SUB, UPDATE, group_need, topic_need
from regulus.broker.handlers.named_body import decode_named, named_body
from regulus.model import receipt_handle
from regulus.wire import bodies, headers
from regulus.wire.remoting_command import RemotingCommand


def send(header: headers.SendMessageRequest) -> tuple[Need, ...]:
    return (topic_need(header.topic, PUB),)


def pull(header: headers.PullMessageRequest) -> tuple[Need, ...]:
    return group_need(header.consumer_group, SUB), topic_need(header.topic, SUB)


def send_back(header: headers.ConsumerSendMsgBackRequest) -> tuple[Need, ...]:
    """Position in the log may belong to any message. The handler checks that the message is of the named topic."""
    return group_need(header.group, SUB), topic_need(header.origin_topic or ANY_NAME, SUB)


def check_client_config(request: RemotingCommand) -> tuple[Need, ...]:
    if not request.body:
        return ()
    body = decode_named(bodies.CheckClientConfigBody, request)
    found = [group_need(body.group, SUB)] if body.group else []
    if body.subscription_data is not None and body.subscription_data.topic:
        found.append(topic_need(body.subscription_data.topic, SUB))
    return tuple(found)


def group_of_body(request: RemotingCommand) -> tuple[Need, ...]:
    return (group_need(bodies.decode_subscription_group_config(named_body(request)).group_name, UPDATE),)


def query_correction(header: headers.QueryCorrectionOffsetRequest) -> tuple[Need, ...]:
    return topic_need(header.topic, GET), group_need(header.compare_group, GET)


def batch_ack(request: RemotingCommand) -> tuple[Need, ...]:
    body = decode_named(bodies.BatchAckMessageRequestBody, request)
    topics = dict.fromkeys(ack.topic for ack in body.acks)
    groups = dict.fromkeys(ack.consumer_group for ack in body.acks)
    return *(group_need(group, SUB) for group in groups), *(topic_need(topic, SUB) for topic in topics)


def by_receipt(header: headers.AckMessageRequest | headers.ChangeMessageInvisibletimeRequest) -> tuple[Need, ...]:
    """For a popped retry message, clients name the retry topic. The receipt says which message it is, and is valid for
    this group only."""
    topic = receipt_handle.normal_topic(header.topic, header.consumer_group)
    return group_need(header.consumer_group, SUB), topic_need(topic, SUB)


def query_assignment(request: RemotingCommand) -> tuple[Need, ...]:
    body = decode_named(bodies.QueryAssignmentRequestBody, request)
    return group_need(body.consumer_group, SUB), topic_need(body.topic, SUB)


def message_request_mode(request: RemotingCommand) -> tuple[Need, ...]:
    body = decode_named(bodies.SetMessageRequestModeRequestBody, request)
    return group_need(body.consumer_group, UPDATE), topic_need(body.topic, UPDATE)


def consume_stats(header: headers.GetConsumeStatsRequest) -> tuple[Need, ...]:
    topics = [header.topic or "", *(header.topic_list or "").split(";")]
    return group_need(header.consumer_group, GET), *(topic_need(topic, GET) for topic in topics if topic)


def consume_directly(header: headers.ConsumeMessageDirectlyRequest) -> tuple[Need, ...]:
    """The request can name any message of the log by its id, and a client of the group gets it to consume."""
    return group_need(header.consumer_group, SUB), topic_need(ANY_NAME, SUB)
