"""Everything that can go wrong, on one page.

Each class says who is at fault; the text of an error names the cause, the position where there is one, and the remedy.
"""

from collections.abc import Sequence


class RegulusError(Exception):
    """The base of all errors that this package raises on purpose."""


# --- bytes -----------------------------------------------------------------------------------------------------------


class FrameError(RegulusError):
    """A peer sent bytes that are not a frame; its connection must be closed."""


class Http2Error(RegulusError):
    """A peer broke the rules of HTTP/2. `code` is the error code sent to it, which ends the stream `stream_id`, or the
    whole connection for stream 0."""

    def __init__(self, code: int, text: str, stream_id: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.stream_id = stream_id


class HeaderError(RegulusError):
    """A well-formed frame carries a request header or body with a missing or unparsable field."""


class AccessDenied(RegulusError):
    """The access rules deny a request, which was found while it was read. `code` and the text are the answer."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code


class RecordError(RegulusError):
    """Stored bytes are not a record. `position` is the offset at which decoding began."""

    def __init__(self, text: str, position: int = 0) -> None:
        super().__init__(f"{text} at {position}")
        self.position = position


class TruncatedRecord(RecordError):
    """The bytes end before the record does."""


class CorruptRecord(RecordError):
    """A length, magic number or checksum is wrong."""


class MessageIllegal(RegulusError):
    """A message breaks a limit (topic, body or properties size); response code 13."""

    code = 13


# --- store -----------------------------------------------------------------------------------------------------------


class StoreError(RegulusError):
    """The store directory cannot be used; nothing was changed in it."""


class StoreLocked(StoreError):
    """Another process has the store open."""


class StoreDamaged(StoreError):
    """A file has the wrong size or content at a place that recovery must not repair by itself."""


class LogsDiffer(StoreDamaged):
    """Two logs that should be copies of one another are not."""


class StoreNewer(StoreError):
    """The store was written in a format that this version does not know."""


class StoreNotWritable(StoreError):
    """The directory or disk refuses writes; reads continue."""


# --- configuration ---------------------------------------------------------------------------------------------------


class ConfigError(RegulusError):
    """A configuration key or value is wrong; the text names the key, the value and what is allowed."""


# --- client ----------------------------------------------------------------------------------------------------------


class ClientError(RegulusError):
    """A call of the client failed. `code` is RocketMQ's code, or one of the client's own (10001 ...)."""

    code = 10003

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        if code is not None:
            self.code = code


class BrokerRefused(ClientError):
    """A broker or name server answered with an error code."""

    def __init__(self, code: int, remark: str | None, address: str = "") -> None:
        super().__init__(f"{address or 'server'} answered {code}: {remark or 'no remark'}", code)
        self.remark = remark or ""
        self.address = address


class ConnectFailed(ClientError):
    """A connection to the address could not be made."""

    code = 10001


class ConnectRefused(ConnectFailed):
    """The address was reached and refuses connections, or cannot be reached. This is known at once, and nothing was
    sent."""


class HostUnknown(ConnectRefused):
    """No host of this name is known."""


class ConnectionLost(ClientError):
    """The connection closed before the answer arrived; whether the request was carried out is unknown."""

    code = 10001


class RequestTimeout(ClientError):
    """No answer arrived in time; whether the request was carried out is unknown."""

    code = 10002


class RequestTooLarge(ClientError):
    """The request does not fit into a frame; nothing was sent."""

    code = 13


class NoNameServer(ClientError):
    """No name server address is known or none answers."""

    code = 10004


class WrongNameServer(NoNameServer):
    """Each address names an unknown host, or a server that is not a name server: waiting does not help."""


class NoRoute(ClientError):
    """No broker serves the topic."""

    code = 10005


class NoBroker(NoRoute):
    """The name servers know no broker: none is running, or none has registered yet."""


class TooManyRequests(ClientError):
    """The call's time budget, or the brokers' flow control, leaves no room for another attempt."""


class Throttled(TooManyRequests):
    """A broker asks for fewer requests, and the pause that it asks for is longer than the call may take."""

    code = 2


class SendFailed(ClientError):
    """All attempts of a send failed; the text names attempts, elapsed time, topic and brokers tried.

    `code` is that of the last failure. Whether one of the attempts stored the message is unknown when it timed out.
    """

    def __init__(self, *, topic: str, attempts: int, elapsed_ms: int, brokers: tuple[str, ...],
                 cause: ClientError | None) -> None:
        super().__init__(f"send to {topic} failed after {attempts} attempts in {elapsed_ms} ms (brokers "
                         f"{', '.join(brokers)}): {cause}", None if cause is None else cause.code)
        self.topic = topic
        self.attempts = attempts
        self.elapsed_ms = elapsed_ms
        self.brokers = brokers
        self.cause = cause


class AnswerUnreadable(ClientError):
    """The broker answered that the send succeeded, but the rest of its answer cannot be read. If the message were sent
    again, it would be stored twice."""


class NoMaster(ClientError):
    """The route names no master for the broker of the chosen queue."""


class SendKept(ClientError):
    """The send failed, and the file of kept sends has its messages and sends them again: do not send them yourself.

    `code` and `__cause__` are those of the failure.
    """


class SendNotKept(ClientError):
    """The send failed, and its messages could not be kept either: the application must decide what to do with them.

    `code` and `__cause__` are those of the failure.
    """


class KeptFileUnusable(ClientError):
    """A file of kept sends cannot be opened, read or written; the text names file, cause and remedy."""


class PartlySent(ClientError):
    """A list of messages was sent in several batches, and one of them failed: those before it are stored.

    `results`: the SendResult of each stored batch; `stored`: the number of stored messages, counted from the first.
    `code` and `__cause__` are those of the failure.
    """

    def __init__(self, *, results: Sequence[object], stored: int, count: int,
                 cause: ClientError | MessageIllegal) -> None:
        super().__init__(f"the first {stored} of {count} messages are stored; what follows failed: {cause}", cause.code)
        self.results = results
        self.stored = stored


class ReceiptInvalid(ClientError):
    """A received message no longer belongs to this consumer: its invisible time is over, it is done, or this consumer
    never received it."""


class ClientClosed(ClientError):
    """The producer, consumer or admin client is not running."""


class SendCutOff(ClientClosed):
    """The producer was shut down, and this send had not ended within the time allowed. It is not stored if it had not
    begun, and may be stored if it had.

    `code` and `__cause__` are those of its last attempt, if one had failed.
    """


# --- Spark -----------------------------------------------------------------------------------------------------------


class MissingExtra(RegulusError):
    """An optional package is not installed; the text names it and what to type."""


class MissingJava(RegulusError):
    """No Java 17 or newer was found for Spark; the text names the places searched and how to get one."""


class OptionError(RegulusError):
    """An option of the Spark source is unknown, missing or wrong; the text names the nearest known option."""


class TopicUnknown(OptionError):
    """An option names a topic that does not exist; the text names the nearest."""


class SparkFailed(RegulusError):
    """Spark ended because of a fault outside this package; the text is the most informative sentence of Spark's own."""


class DataLoss(RegulusError):
    """Messages that the reader should have read were removed; the text names queue, range and cause."""


class TaskOutOfMemory(RegulusError):
    """A Spark task cannot get the memory that its work needs; the text says what limits it."""


class RowRefused(RegulusError):
    """A row to be sent cannot become a message; the text names task, row and cause."""


class SinkRefused(RegulusError):
    """The sink cannot keep its guarantee; the text says what it found and what works instead."""


# --- reliability -----------------------------------------------------------------------------------------------------


class ReliabilityRefused(RegulusError):
    """An outbox or inbox cannot keep its promise here and did nothing; the text names cause and remedy."""


class DatabaseUnanswered(RegulusError):
    """No database answers at the address; the text names the address without its password, the cause and the remedy."""


class DatabaseRefused(RegulusError):
    """A database refuses a connection or statement; the text names its address without the password, and quotes its
    message."""


class StubMissing(ReliabilityRefused):
    """The outbox has no stub of this id."""


class ClaimUnavailable(RegulusError):
    """The store of claims does not answer; until it does, the database alone decides."""


class CrashPointMissed(RegulusError):
    """A process that was to be killed or held at a crash point never reached it, or failed; the text names the points
    it passed."""


class AlarmUndelivered(RegulusError):
    """A channel did not accept an alarm, which is kept and sent again later; the text names channel, cause and
    remedy."""


# --- jobs ------------------------------------------------------------------------------------------------------------


class ArchiveFailed(RegulusError):
    """An archive or index job cannot continue; the text says which part of its work is visible and which is not."""


class ArchiveLocked(ArchiveFailed):
    """Another job writes the same archive; the text names it."""


class JobRefused(RegulusError):
    """A job was asked for something that cannot be done; the text names it and what works instead."""


class TopicMissing(JobRefused):
    """The source of a job has no such topic."""


class QualityBroken(RegulusError):
    """A rule of quality that stops a run is broken; the text names the rule, the number of rows and where they are."""


class PipelineError(RegulusError):
    """A pipeline cannot be run, or a flow of it failed; the text names file or flow, cause and remedy."""


# --- proxy -----------------------------------------------------------------------------------------------------------


class GrpcRefused(RegulusError):
    """A call ends without a response of its method; `status` is the gRPC status, and the text says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class CallRefused(RegulusError):
    """A call of a RocketMQ 5 client is refused; `code` is the status code that the client gets, and the text says
    why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
