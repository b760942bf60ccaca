"""One store directory in the hands of one broker after the other, and what the real Java client reads of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clients import JAVA, Event
from conftest import NewRun, Server, make_server

TOPICS = "Plain,Keyed,Large,Batched,Delayed"
GROUP = "StoreGroup"

# Small files, so that every kind of file rolls over: a commit log file takes some of the large messages.
SMALL_FILES = {"mappedFileSizeCommitLog": str(256 << 10), "mappedFileSizeConsumeQueue": "200", "maxHashSlotNum": "64",
               "maxIndexNum": "40"}


@dataclass
class Handover:
    """One directory and one port, held by one broker after the other."""

    store: Path
    port: int
    new_run: NewRun
    settings: Mapping[str, str] = field(default_factory=dict)
    """Beside SMALL_FILES."""

    def open(self, name: str) -> Server:
        server = make_server(name, self.new_run(name), broker_port=self.port, store=self.store,
                             **{**SMALL_FILES, **self.settings})
        server.start()
        return server


class Reader:
    """The real Java client on one server."""

    def __init__(self, server: Server, home: Path) -> None:
        self._server = server
        self._home = home
        self._client = JAVA["5.3.3"]

    def _run(self, deed: str, **options: object) -> list[Event]:
        return self._client.run(self._home, deed, namesrv=self._server.name_server_address, **options)

    def write(self, prefix: str, delayed_before: int, count: int) -> None:
        """`count` messages of every kind; those of the delayed topic are in it when this returns."""
        self._run("fill", group="StoreProducer", prefix=prefix, count=count, delayed_before=delayed_before)

    def read(self) -> list[Event]:
        """Every message of every queue, all its fields; and the bounds of the queues."""
        return self._run("pull", topic=TOPICS)

    def survey(self) -> list[Event]:
        """The same, and every message once more by its id and by its keys."""
        return self._run("survey", topic=TOPICS)

    def consume(self, expected: list[str]) -> list[str]:
        """What the group takes of the plain topic, once the expected bodies have come."""
        with self._client.consume(self._home, namesrv=self._server.name_server_address, topic="Plain",
                                  group=GROUP) as running:
            running.wait_for_bodies(expected)
            running.finish()
            return sorted(running.bodies())


def messages_of(events: list[Event], event_name: str = "message") -> list[Event]:
    """In order of topic, queue and offset, without the bounds that the client adds to what it pulls."""
    told = []
    for event in events:
        if event["event"] == event_name:
            properties = {name: value for name, value in event["properties"].items() if not name.endswith("_OFFSET")}
            told.append({**event, "event": "", "properties": properties})
    return sorted(told, key=lambda event: (event["topic"], int(event["queueId"]), int(event["queueOffset"])))


def bounds_of(events: list[Event]) -> list[tuple[str, str, str, str]]:
    return sorted((event["topic"], event["queueId"], event["minOffset"], event["maxOffset"])
                  for event in events if event["event"] == "queue")
