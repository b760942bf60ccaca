"""Maps request codes to handlers: the broker's table of contents.

The rows are in `rows`, grouped by family. The tables below are made from them once, so that a request costs one
look-up.
"""

from collections.abc import Callable
from itertools import chain

from regulus.access.decision import Need
from regulus.access.needs import Read, reading
from regulus.broker.outcome import NO_REPLY, Hold, Outcome, refuse, when_saved
from regulus.broker.request_row import Answered, Handler, Refused, Row, SavedFirst, Where
from regulus.broker.rows import consuming, groups, log, operating, popping, refused, sending, topics, users
from regulus.broker.state import BrokerState
from regulus.errors import HeaderError
from regulus.model.peer import Peer
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import ONEWAY_FLAG, RemotingCommand


def joined(*families: tuple[Row, ...]) -> dict[int, Row]:
    """The rows by code. Raises ValueError when two rows have the same code."""
    rows: dict[int, Row] = {}
    for row in chain(*families):
        if row.code in rows:
            raise ValueError(f"{row.code.name} has two rows: a request has one")
        rows[int(row.code)] = row
    return rows


def _answered_when_saved(handler: Handler, is_setting: bool) -> Handler:
    """The handler, except that its answer waits until the topics and groups that it changed or used are saved."""
    def handle(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
        settings = broker.settings
        settings.awaited = 0
        outcome = handler(request, peer, broker, now_ms)
        if is_setting:
            settings.use_all()
        return when_saved(outcome, settings.awaited) if settings.awaited else outcome
    return handle


def _handler(row: Answered) -> Handler:
    if row.saved_first is SavedFirst.BY_ITSELF:
        return row.handler
    return _answered_when_saved(row.handler, row.saved_first is SavedFirst.EVERY_CHANGE)


def _read(row: Row) -> Read:
    return reading(row.needs, row.header) if isinstance(row, Answered) else row.needs


ROWS = joined(sending.ROWS, log.ROWS, popping.ROWS, consuming.ROWS, topics.ROWS, groups.ROWS, operating.ROWS,
              users.ROWS, refused.ROWS)
HANDLERS: dict[int, Handler] = {code: _handler(row) for code, row in ROWS.items() if isinstance(row, Answered)}

_ONEWAY = ONEWAY_FLAG
_TABLE = HANDLERS
_READS: dict[int, Read] = {code: _read(row) for code, row in ROWS.items()}
_WHERE: dict[int, Where | Callable[[RemotingCommand], Where]] = {
    code: row.where for code, row in ROWS.items() if isinstance(row, Answered)}


def needs_of(request: RemotingCommand) -> tuple[Need, ...]:
    """Permissions that the sender needs. Raises KeyError for an unknown code, HeaderError for a malformed request."""
    try:
        return _READS[request.code](request)
    except (AttributeError, TypeError, ValueError) as error:
        raise HeaderError(f"request {request.code} cannot be read: {error}") from error


def refusal_remark(code: int) -> str:
    """The remark for a request without a handler."""
    row = ROWS.get(code)
    return f" request type {code} not supported" + (f": {row.reason}" if isinstance(row, Refused) else "")


def handle_as_slave(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Handle a request as a slave: requests for a master are refused, and if the log differs, requests that need it."""
    where = _WHERE.get(request.code, Where.ANYWHERE)
    if where is not Where.ANYWHERE:
        refusal = _refusal_as_slave(request, where, broker)
        if refusal is not None:
            return NO_REPLY if request.is_oneway else refusal
    return handle(request, peer, broker, now_ms)


def _refusal_as_slave(request: RemotingCommand, where: Where | Callable[[RemotingCommand], Where],
                      broker: BrokerState) -> Outcome | None:
    if not isinstance(where, Where):
        where = where(request)
    if where is Where.MASTER:
        return refuse(request, ResponseCode.SERVICE_NOT_AVAILABLE,
                      f"this is a slave of {broker.config.broker_name}, which takes no messages and settings: ask its "
                      "master")
    if broker.parted and where is not Where.ANYWHERE:
        return refuse(request, ResponseCode.SERVICE_NOT_AVAILABLE,
                      f"this slave of {broker.config.broker_name} must not be read from: {broker.parted}")
    return None


def handle(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Decide what to do with one request. A one-way request gets no answer, not even a refusal."""
    handler = _TABLE.get(request.code)
    if handler is None:
        outcome: Outcome = refuse(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, refusal_remark(request.code))
    else:
        try:
            outcome = handler(request, peer, broker, now_ms)
        except HeaderError as error:
            outcome = refuse(request, ResponseCode.SYSTEM_ERROR, str(error))
    return NO_REPLY if request.flag & _ONEWAY and not isinstance(outcome, Hold) else outcome
