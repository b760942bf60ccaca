"""How far the writers of a sink have come, as its brokers remember it."""

from dataclasses import dataclass

from regulus.client.administration.admin_base import AdminBase
from regulus.errors import HeaderError
from regulus.wire import fastjson
from regulus.wire.codes import RequestCode
from regulus.wire.headers import GetSinkMarksRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkMark:
    """The last message of a writer that a broker stored. `batch` and `row` are its SEQ."""

    batch: int
    row: int
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int


class SinkAdmin(AdminBase):
    """All methods raise BrokerRefused when a server refuses, and ClientError when it cannot be asked."""

    async def sink_marks(self, broker_address: str, sink_id: str) -> dict[str, SinkMark]:
        """The marks of a sink on one broker, by `<sinkId>/<partition>`; each broker keeps those of its own messages.

        A broker that keeps no marks, as RocketMQ's, refuses with REQUEST_CODE_NOT_SUPPORTED (3). Raises HeaderError
        when the answer has none.
        """
        answer = await self._request(broker_address, RequestCode.GET_SINK_MARKS, GetSinkMarksRequest(sink_id).ext())
        return sink_marks_of(answer.body)


def sink_marks_of(body: bytes) -> dict[str, SinkMark]:
    """Raises HeaderError."""
    try:
        return {sink: _mark(value) for sink, value in fastjson.loads(body).items()}
    except (AttributeError, KeyError, TypeError, ValueError) as cause:
        raise HeaderError(f"the answer has no sink marks: {cause}") from cause


def _mark(value: dict[str, object]) -> SinkMark:
    batch, _, row = str(value["seq"]).partition("/")
    return SinkMark(batch=int(batch), row=int(row), topic=str(value["topic"]), queue_id=int(str(value["queueId"])),
                    queue_offset=int(str(value["queueOffset"])), physical_offset=int(str(value["physicalOffset"])))
