"""Load balancing on the server and batch acks: 400, 401, 402, 200151.

Source: QueryAssignmentRequestBody, QueryAssignmentResponseBody, MessageQueueAssignment,
SetMessageRequestModeRequestBody, MessageRequestModeSerializeWrapper, BatchAckMessageRequestBody, BatchAck.
"""

from dataclasses import dataclass, field

from regulus.model.message_queue import MessageQueue
from regulus.wire.json_fields import JsonBody, named


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAssignmentRequestBody(JsonBody):
    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str | None = None
    message_model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQueueAssignment(JsonBody):
    """`mode` is PULL or POP; with POP the queue id is -1."""

    message_queue: MessageQueue
    mode: str = "PULL"
    attachments: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAssignmentResponseBody(JsonBody):
    message_queue_assignments: list[MessageQueueAssignment] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMessageRequestModeRequestBody(JsonBody):
    topic: str
    consumer_group: str
    mode: str = "PULL"
    pop_share_queue_num: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRequestModeSerializeWrapper(JsonBody):
    """topic -> group -> mode."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAck(JsonBody):
    """`bit_set` is base64 of little-endian bits: bit i acks offset start_offset + i. Times in ms."""

    consumer_group: str = named("c")
    topic: str = named("t")
    retry: str = named("r")
    start_offset: int = named("so")
    queue_id: int = named("q")
    revive_queue_id: int = named("rq")
    pop_time: int = named("pt")
    invisible_time: int = named("it")
    bit_set: str = named("b")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAckMessageRequestBody(JsonBody):
    broker_name: str | None = None
    acks: list[BatchAck] = field(default_factory=list)
