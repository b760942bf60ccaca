"""CONSUMER_SEND_MSG_BACK (36). Source: ConsumerSendMsgBackRequestHeader."""

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
