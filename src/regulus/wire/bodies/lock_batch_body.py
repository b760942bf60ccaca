"""LOCK_BATCH_MQ (41), UNLOCK_BATCH_MQ (42).

Source: LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody.
"""

from dataclasses import dataclass, field

from regulus.model.message_queue import MessageQueue
from regulus.wire.json_fields import JsonBody


@dataclass(frozen=True, slots=True, kw_only=True)
class LockBatchRequestBody(JsonBody):
    consumer_group: str
    client_id: str
    mq_set: list[MessageQueue] = field(default_factory=list)
    only_this_broker: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockBatchResponseBody(JsonBody):
    """The queues that the client has locked now."""

    lock_ok_mq_set: list[MessageQueue] = field(default_factory=list, metadata={"named": "lockOKMQSet"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockBatchRequestBody(JsonBody):
    consumer_group: str
    client_id: str
    mq_set: list[MessageQueue] = field(default_factory=list)
    only_this_broker: bool | None = None
