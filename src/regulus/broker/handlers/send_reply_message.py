"""SEND_REPLY_MESSAGE, SEND_REPLY_MESSAGE_V2: a consumer answers a producer's request.

The reply is stored like any message, and sent at once, as PUSH_REPLY_MESSAGE_TO_CLIENT, to the client that the request
named. The consumer learns whether it was delivered.

Source: ReplyMessageProcessor.
"""

from regulus.broker.handlers.send_refusals import refuse_send, refuse_size, send_refusal
from regulus.broker.outcome import NO_REPLY, Notice, Outcome, Relay, Reply
from regulus.broker.state import BrokerState
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.message_id import host_text, offset_message_id
from regulus.model.peer import Peer
from regulus.model.store_result import PutStatus
from regulus.model.topics import reply_topic
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import PushReplyMessageToClientRequest, SendMessageRequest
from regulus.wire.headers.send_message import send_message_response
from regulus.wire.remoting_command import RemotingCommand

PUSH_TIMEOUT_MS = 10_000    # Source: Broker2Client.callClient
NOT_STORED_ID = "0"


def handle_send_reply_message(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = SendMessageRequest.decode(request)
    facts = broker.send_facts
    topic = facts.topics.get(header.topic)
    if topic is None:
        return refuse_send(request, facts, ResponseCode.TOPIC_NOT_EXIST,
                           f"topic[{header.topic}] not exist, apply first please!")
    if topic.refusal_code:
        return refuse_send(request, facts, topic.refusal_code, topic.refusal_remark)
    # A sender with access to any topic could otherwise send any client a forged answer. RocketMQ accepts all.
    if header.topic != reply_topic(broker.config.broker_cluster_name):
        return refuse_send(request, facts, ResponseCode.NO_PERMISSION,
                           f"topic[{header.topic}] accepts no replies: send them to "
                           f"{reply_topic(broker.config.broker_cluster_name)}")
    if header.queue_id >= topic.queue_nums_max:
        return refuse_send(request, facts, ResponseCode.INVALID_PARAMETER,
                           f"request queueId[{header.queue_id}] is illegal, topic [{header.topic}] has "
                           f"{topic.queue_nums_max} queues")
    if request.body_size > facts.max_message_size:
        return refuse_size(request, facts, request.body_size)
    message = _message(request, header, peer, broker, now_ms)
    appended = broker.storing.append(message, now_ms)
    is_stored = appended.status == PutStatus.PUT_OK
    client_id = message.properties.get(names.REPLY_TO_CLIENT, "")
    client = broker.clients.find_client(client_id)
    if client is None:
        return refuse_send(request, facts, ResponseCode.SYSTEM_ERROR,
                           f"push reply message fail, channel of <{client_id}> not found.")
    push = _push(header, message, now_ms)
    if request.is_oneway:
        broker.notices.append(Notice(client.channel, Reply(push)))
        return NO_REPLY

    def answer(pushed: RemotingCommand | None) -> RemotingCommand:
        if pushed is None or pushed.code != ResponseCode.SUCCESS:
            return send_refusal(request, facts, ResponseCode.SYSTEM_ERROR,
                                f"push reply message to {client_id}fail.")
        message_id = offset_message_id(message.store_host, appended.start) if is_stored else NOT_STORED_ID
        return send_message_response(request, ResponseCode.SUCCESS, message_id, message.queue_id,
                                     appended.queue_offset, None, facts.region_id, facts.trace_on)

    return Relay(channel=client.channel, request=push, answer=answer, timeout_ms=PUSH_TIMEOUT_MS)


def _message(request: RemotingCommand, header: SendMessageRequest, peer: Peer, broker: BrokerState,
             now_ms: int) -> MessageExt:
    facts = broker.send_facts
    queue_id = header.queue_id
    if queue_id < 0:
        queue_id = broker.chance.below(facts.topics[header.topic].write_queue_nums)
    properties = {**header.properties, names.PUSH_REPLY_TIME: str(now_ms), **facts.stamp}
    return MessageExt(header.topic, request.body, properties, queue_id, header.flag, header.sys_flag,
                      header.born_timestamp, peer.remote, facts.store_host or peer.local, header.reconsume_times)


def _push(header: SendMessageRequest, message: MessageExt, now_ms: int) -> RemotingCommand:
    ext = PushReplyMessageToClientRequest(
        producer_group=header.producer_group, topic=header.topic, default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums, queue_id=message.queue_id, sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp, flag=header.flag, properties=names.format(message.properties),
        reconsume_times=header.reconsume_times, unit_mode=header.unit_mode, born_host=host_text(message.born_host),
        store_host=host_text(message.store_host), store_timestamp=now_ms).ext()
    return RemotingCommand.request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext, message.body)
