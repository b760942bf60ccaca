"""Whether a broker serves, for a probe: a sentence for each reason why not."""

from collections.abc import Callable

from regulus.broker.state import BrokerState
from regulus.server.nameserver_link import NameServerDoor
from regulus.server.replication import Replication
from regulus.store.file_message_store import FileMessageStore


class Readiness:
    """`is_running`: between the end of the start and the beginning of the stop. `needs_name_server`: whether one is
    configured."""

    def __init__(self, broker: BrokerState, store: FileMessageStore, door: NameServerDoor, replication: Replication,
                 needs_name_server: bool, is_running: Callable[[], bool]) -> None:
        self._broker = broker
        self._store = store
        self._door = door
        self._replication = replication
        self._needs_name_server = needs_name_server
        self._is_running = is_running

    def reasons(self) -> list[str]:
        """Empty when the broker serves what its role serves."""
        if not self._is_running():
            return ["the broker is starting or stopping"]
        return [reason for reason in (self._of_name_servers(), self._of_disk(), self._of_role()) if reason]

    def _of_name_servers(self) -> str:
        if self._needs_name_server and not self._door.is_registered:
            return "no name server knows this broker"
        return ""

    def _of_disk(self) -> str:
        is_slave = self._broker.config.is_slave
        fault = self._store.copy.fault if is_slave else self._store.fault
        return f"the store takes no messages: {fault}" if fault else ""

    def _of_role(self) -> str:
        """A master knows its role from the start; a slave must have found its master."""
        if not self._broker.config.is_slave:
            return ""
        if self._broker.parted:
            return f"this slave must not be read from: {self._broker.parted}"
        if not self._replication.is_linked:
            return "this slave is not linked to its master"
        return "" if self._replication.is_copy else "this slave has not compared its log with its master's yet"
