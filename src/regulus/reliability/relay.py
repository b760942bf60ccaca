"""Chooses what a relay sends next, and writes down what became of it: the part that speaks to the database, blocking.

Any number of relays may work on one table: each stub that is due is claimed by one of them, for the interval after
which it would be due again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Engine

from regulus.client.core import batching
from regulus.errors import ConfigError
from regulus.model import message_properties as names
from regulus.model.message import Message
from regulus.reliability import outbox_table, tables
from regulus.reliability.outbox_table import Failure, Position
from regulus.reliability.retry_policy import ResendPolicy

BATCH_SIZE_MAX = 1 << 20
"""Bytes of one request to a broker."""


class Claimed(NamedTuple):
    """A stub that is ours to send, once."""

    message_id: str
    send_count: int
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayConfig:
    policy: ResendPolicy = field(default_factory=ResendPolicy)
    batch_max: int = 1_000          # stubs claimed at once
    poll_interval_ms: int = 1_000   # between two looks at a table where nothing was due

    def __post_init__(self) -> None:
        for key, high in (("batch_max", 10_000), ("poll_interval_ms", 3_600_000)):
            if not 1 <= getattr(self, key) <= high:
                raise ConfigError(f"{key} is {getattr(self, key)}; it must be 1 to {high}")


class DueStubs:
    """The stubs of one database, seen by one relay."""

    def __init__(self, engine: Engine, config: RelayConfig) -> None:
        self._engine = engine
        self._config = config

    def check(self) -> None:
        """Raises ReliabilityRefused when the table is missing or older."""
        with self._engine.connect() as connection:
            tables.check(connection)

    def claim(self) -> list[Claimed]:
        """At most `batch_max` stubs that are due. Their sends count from now on, whatever becomes of them."""
        with self._engine.begin() as connection:
            rows = outbox_table.claim(connection, self._config.policy, self._config.batch_max)
        return [Claimed(row.message_id, row.send_count,
                        Message(row.topic, row.body, row.tags, properties=names.parse(row.properties), flag=row.flag))
                for row in rows]

    def store(self, outcomes: Iterable[Position | Failure]) -> None:
        """Where the messages are, and why others failed."""
        positions, failures = [], []
        for outcome in outcomes:
            if isinstance(outcome, Position):
                positions.append(outcome)
            else:
                failures.append(outcome)
        with self._engine.begin() as connection:
            outbox_table.store_positions(connection, positions)
            outbox_table.store_failures(connection, failures)

    def give_up(self) -> list[str]:
        """The ids of stubs that were sent as often as may be and are unconfirmed still; each is given once."""
        with self._engine.begin() as connection:
            return outbox_table.give_up(connection, self._config.policy, self._config.batch_max)


def batches(claimed: Sequence[Claimed]) -> Iterator[list[Claimed]]:
    """What may travel in one request: messages of one topic, without delays, that together are not too large."""
    together: dict[tuple[str, bool], list[Claimed]] = defaultdict(list)
    for stub in claimed:
        if batching.may_gather(stub.message):
            together[stub.message.topic, batching.waits(stub.message)].append(stub)
        else:
            yield [stub]
    for stubs in together.values():
        start = 0
        for batch in batching.split([stub.message for stub in stubs], BATCH_SIZE_MAX):
            yield stubs[start:start + len(batch)]
            start += len(batch)
