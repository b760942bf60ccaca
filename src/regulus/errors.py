"""Everything that can go wrong, on one page.

Each class says who is at fault; the text of an error names the cause, the position where there is one, and the remedy.
"""

from collections.abc import Sequence


class RegulusError(Exception):
    """The base of all errors that this package raises on purpose."""


# --- bytes -----------------------------------------------------------------------------------------------------------


class FrameError(RegulusError):
    """A peer sent bytes that are not a frame; its connection cannot go on."""


class Http2Error(RegulusError):
    """A peer broke the rules of HTTP/2. `code` is what it is told; the stream `stream_id` ends with it, or for 0 the
    whole connection."""

    def __init__(self, code: int, text: str, stream_id: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.stream_id = stream_id


class HeaderError(RegulusError):
    """A well-formed frame carries a request header or body with a missing or unparsable field."""


class AccessDenied(RegulusError):
    """The rules deny a request what it needs, which was seen while it was read. `code` and the text are answered."""

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
    """The directory or disk refuses writes; reads go on."""


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
    """No connection to the address."""

    code = 10001


class ConnectRefused(ConnectFailed):
    """The address was reached and takes no connection, or cannot be reached: known at once, and nothing was sent."""


class HostUnknown(ConnectRefused):
    """No host of that name is known."""


class ConnectionLost(ClientError):
    """The connection closed before the answer came; whether the request was done is unknown."""

    code = 10001


class RequestTimeout(ClientError):
    """No answer within the time; whether the request was done is unknown."""

    code = 10002


class RequestTooLarge(ClientError):
    """The request does not fit into a frame; nothing was sent."""

    code = 13


class NoNameServer(ClientError):
    """No name server address is known or none answers."""

    code = 10004


class WrongNameServer(NoNameServer):
    """Each address is one that no host has, or of a server that is no name server: to wait does not help."""


class NoRoute(ClientError):
    """No broker serves the topic."""

    code = 10005


class NoBroker(NoRoute):
    """The name servers know no broker at all: none is up, or none has told them yet."""


class TooManyRequests(ClientError):
    """The call's time budget, or the brokers' flow control, leaves no room for another attempt."""


class Throttled(TooManyRequests):
    """A broker asks for fewer requests, and it rests for longer than the call may take."""

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
    """The broker's answer tells success, and what it tells besides cannot be read. A message whose send was answered so
    would be stored twice if it were sent again."""


class NoMaster(ClientError):
    """The route names no master for the chosen queue's broker."""


class SendKept(ClientError):
    """The send failed, and whoever was asked to keeps its messages and sends them again: do not send them again too.

    `code` and `__cause__` are those of the failure.
    """


class SendNotKept(ClientError):
    """The send failed, and its messages could not be kept either: they are the application's again.

    `code` and `__cause__` are those of the failure.
    """


class KeptFileUnusable(ClientError):
    """A file of kept sends cannot be opened, read or written; the text names file, cause and remedy."""


class PartlySent(ClientError):
    """A list of messages that goes out in several batches: those before the failed one are stored.

    `results`: the SendResult of each stored batch; `stored`: how many messages they are, from the first on. `code` and
    `__cause__` are those of the failure.
    """

    def __init__(self, *, results: Sequence[object], stored: int, count: int,
                 cause: ClientError | MessageIllegal) -> None:
        super().__init__(f"the first {stored} of {count} messages are stored; what follows failed: {cause}", cause.code)
        self.results = results
        self.stored = stored


class ReceiptInvalid(ClientError):
    """A received message is not this consumer's any more: its time is over, it is done, or it was never received so."""


class ClientClosed(ClientError):
    """The producer, consumer or admin client is not running."""


class SendCutOff(ClientClosed):
    """The producer was shut down, and this send had not ended within the time that it gave: it is not stored if it had
    not begun, and may be if it had. `code` and `__cause__` are those of its last attempt, if one had failed."""


# --- Spark -----------------------------------------------------------------------------------------------------------


class MissingExtra(RegulusError):
    """An optional package is not installed; the text names it and what to type."""


class MissingJava(RegulusError):
    """No Java 17 or newer was found for Spark; the text says where it was looked for and how to get one."""


class OptionError(RegulusError):
    """An option of the Spark source is unknown, missing or wrong; the text names the nearest known option."""


class TopicUnknown(OptionError):
    """An option names a topic that is not there; the text names the nearest."""


class SparkFailed(RegulusError):
    """Spark ended for a reason that is not ours; the text is the sentence of its own that tells most."""


class DataLoss(RegulusError):
    """Messages that the reader was to read are gone; the text names queue, range and cause."""


class TaskOutOfMemory(RegulusError):
    """A task of Spark's may not have the memory that its work needs; the text says what limits it."""


class RowRefused(RegulusError):
    """A row that was to be sent cannot be a message; the text names task, row and cause."""


class SinkRefused(RegulusError):
    """The sink cannot keep its guarantee; the text says what it met and which way works."""


# --- reliability -----------------------------------------------------------------------------------------------------


class ReliabilityRefused(RegulusError):
    """Outbox or inbox cannot keep their promise here, and did nothing; the text names cause and remedy."""


class DatabaseUnanswered(RegulusError):
    """No database answers at the address; the text names it without its password, cause and remedy."""


class DatabaseRefused(RegulusError):
    """A database says no; the text names its address, without the password, and gives its words."""


class StubMissing(ReliabilityRefused):
    """The outbox has no stub of this id."""


class ClaimUnavailable(RegulusError):
    """The store of claims does not answer; the database alone decides meanwhile."""


class CrashPointMissed(RegulusError):
    """A process that was to be killed or held at a point never came there, or failed; the text says what it passed."""


class AlarmUndelivered(RegulusError):
    """A channel did not take an alarm, which is kept and tried again; the text names channel, cause and remedy."""


# --- jobs ------------------------------------------------------------------------------------------------------------


class ArchiveFailed(RegulusError):
    """An archive or index job cannot go on; the text says what is and what is not visible of its work."""


class ArchiveLocked(ArchiveFailed):
    """Another job writes the same archive; the text names it."""


class JobRefused(RegulusError):
    """A job was asked for something that cannot be done; the text names what and the way that works."""


class TopicMissing(JobRefused):
    """The source of a job has no such topic."""


class QualityBroken(RegulusError):
    """A rule of quality that stops a run is broken; the text names it, the count and where the rows are."""


class PipelineError(RegulusError):
    """A pipeline cannot be run, or a flow of it failed; the text names file or flow, cause and remedy."""


# --- proxy -----------------------------------------------------------------------------------------------------------


class GrpcRefused(RegulusError):
    """A call ends without an answer of its method; `status` is what gRPC calls that, the text says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class CallRefused(RegulusError):
    """A call of a RocketMQ 5 client is not done; `code` is the status code that it gets, the text says why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
