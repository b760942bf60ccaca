"""Requests that a broker relays to clients: 220 to 223, 307, 309.

Source: ResetOffsetRequestHeader, GetConsumerStatusRequestHeader, GetConsumerRunningInfoRequestHeader,
ConsumeMessageDirectlyResultRequestHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, Long


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeBrokerToResetOffsetRequest(Header):
    """Reset offsets. `timestamp` -1 is the end of the queue; `queue_id` -1 is every queue; `offset` goes with one
    queue."""

    topic: str
    group: str
    timestamp: Long
    is_force: bool = True
    queue_id: int | None = None
    offset: Long | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetConsumerClientOffsetRequest(Header):
    topic: str
    group: str
    timestamp: Long
    is_force: bool = False
    queue_id: int | None = None
    offset: Long | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeBrokerToGetConsumerStatusRequest(Header):
    """`client_addr` is a client id; empty or None is every client."""

    topic: str
    group: str
    client_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerStatusFromClientRequest(Header):
    topic: str
    group: str
    client_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerRunningInfoRequest(Header):
    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeMessageDirectlyRequest(Header):
    """`msg_id` is an offset id."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
