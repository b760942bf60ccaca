"""CONSUMER_SEND_MSG_BACK (36). Source: ConsumerSendMsgBackRequestHeader.

Ours are `regulusCause` and `regulusStack`, why the message failed, and in the answer `regulusDeadLetter`, whether it is
a dead letter now. Servers and clients of RocketMQ ignore fields that they do not know: they look for their own by name.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, Long, spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSendMsgBackRequest(Header):
    """`offset` is physical; `delay_level` -1 is the dead-letter queue, 0 lets the broker choose."""

    offset: Long
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: int | None = None
    broker_name: str | None = spelled("bname", default=None)
    regulus_cause: str | None = None
    regulus_stack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSendMsgBackResponse(Header):
    """None from a broker that does not say it."""

    regulus_dead_letter: bool | None = None
